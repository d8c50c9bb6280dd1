/// The logic of one lane over the binary protocol: when to connect, how far to send, and what an
/// answer, a quiet period or a closure means.
///
/// A value without IO. The lane reports events to it, asks ``next(_:walk:)`` what to do, and takes
/// the results with ``takeEffects()``. The rules are those of BinaryProtocol.md, "What the sender
/// concludes", and of ProtocolRulings.md.
package struct LaneMachine: ~Copyable {
  /// What the lane must do next.
  package enum Step: Hashable, Sendable {
    /// Open a connection, then call ``LaneMachine/dialled()``.
    case dial
    /// Send the notifications that start in `from..<to`, or the first of them, and record each run
    /// with ``LaneMachine/packed(to:lastStart:count:campaign:fate:now:)``.
    case pack(from: UInt64, to: UInt64)
    /// Send a known-bad probe, then call ``LaneMachine/probed(now:)``.
    case probe(identifier: UInt32)
    /// Close the connection.
    case leave
    /// There is nothing to do until an event, or until this time.
    case wait(until: Instant?)
  }

  /// What the machine must know of the lane and its ring for a step.
  package struct Input {
    package var now: Instant
    package var published: UInt64
    /// Blocks of the ring that are not claimed.
    package var freeBlockCount: Int
    /// Blocks that the ring may hold now, at most ``LanePolicy/ringBlockCount``.
    package var blockCountLimit: Int
    package var isWritable: Bool
    /// How many bytes of the connection's stream the peer's system has acknowledged.
    package var acknowledged: UInt64
    /// Nothing more will come for now, so what was sent is confirmed without waiting for more.
    package var isDraining: Bool
    /// More will come. If connections end in refusals, the next one is dialled before it is needed.
    package var mayDialAhead: Bool
    /// Everything in the ring was cancelled. It can be settled without a connection, and the rest
    /// is not waited for long.
    package var isCancelled: Bool

    package init(
      now: Instant, published: UInt64, freeBlockCount: Int, blockCountLimit: Int, isWritable: Bool,
      acknowledged: UInt64, isDraining: Bool, mayDialAhead: Bool = false, isCancelled: Bool
    ) {
      self.now = now
      self.published = published
      self.freeBlockCount = freeBlockCount
      self.blockCountLimit = blockCountLimit
      self.isWritable = isWritable
      self.acknowledged = acknowledged
      self.isDraining = isDraining
      self.mayDialAhead = mayDialAhead
      self.isCancelled = isCancelled
    }
  }

  /// The results of events, which the lane must carry out.
  package struct Effects {
    package var settlements: [Settlement] = []
    /// Notifications that will be resent although they may have arrived. Each one is listed each
    /// time that it is put into doubt.
    package var mayHaveArrived: [Range<UInt64>] = []
    /// *Sent* was set back.
    package var hasRewound = false
    /// What an answer has proved: nothing from this position on was accepted on the connection that
    /// has just ended. The gateway discards everything behind a refused frame or a shutdown.
    ///
    /// Everything before the position has its outcome, and everything from it on has its turn
    /// again. It says nothing about earlier connections: what was in ``mayHaveArrived`` before
    /// stays in doubt. Nil if a connection ended without such an answer.
    package var discardedFrom: UInt64?
    /// A connection settled a notification or answered a probe. A notification that was settled
    /// because the connection closed on it does not count.
    package var madeProgress = false
    /// The gateway closes every connection silently, even one that carries nothing. Sending more
    /// would only cost notifications.
    package var isUnresponsive = false

    fileprivate var hasAny: Bool {
      hasRewound || madeProgress || isUnresponsive || discardedFrom != nil || !mayHaveArrived.isEmpty
        || !settlements.isEmpty
    }
  }

  enum Phase {
    /// There is no connection, and none may be opened before `retryAt`.
    case disconnected(retryAt: Instant)
    case dialling
    /// Handshake complete.
    case open
    /// The connection has done its work. The link has still to report its closure.
    case leaving
  }

  /// The state of the present connection, or of the last one. It is reset for each connection.
  struct Connection {
    var openedAt = Instant.start
    /// How many bytes of the stream the peer's system has acknowledged, and when that last grew.
    var acknowledged: UInt64 = 0
    var progressAt = Instant.start
    /// When the peer last continued to read after a stop of more than a moment.
    var drainedAt = Instant.start
    var lastActivity = Instant.start
    var sentCount = 0
    var settledCount = 0
    var hasMadeProgress = false
    /// The peer has sent at least one byte.
    var hasHeard = false
    /// The lane closed the connection because there was nothing to do.
    var endedIdle = false
    /// The gateway has refused a notification and named it.
    var endedInRefusal = false
    /// It takes nothing new. The lane leaves it when everything sent has its outcome.
    var isFinishing = false
    /// It closed silently during the poison search, with suspects in flight.
    var failedInSearch = false
    var probe: Probe?
    var slowStart: SlowStart?
  }

  /// A known-bad probe that has been sent (BinaryProtocol.md, "Known-bad probe"). It is the last
  /// frame of its connection.
  struct Probe {
    var identifier: UInt32
    var sentAt: Instant
  }

  package let policy: LanePolicy
  var phase = Phase.disconnected(retryAt: .start)
  var window = ResendWindow()
  var connection = Connection()
  package internal(set) var refusalStatistics = RefusalStatistics()
  var poisonSearch: PoisonSearch?
  var backoff: Backoff
  /// The pauses between connections of a search. Their closing is expected, so it is no failure,
  /// but there must not be too many.
  var searchBackoff: Backoff
  var probeCount: UInt32 = 0
  /// False after the gateway has answered a probe without its identifier, or has closed on one
  /// silently.
  var probesWork: Bool
  var probesAreProven = false
  /// Set if a probe got no answer in time. Everything before it is settled as quiet when the
  /// connection has closed.
  var quietUntil: UInt64?
  var effects = Effects()
  /// The lane has had a connection.
  package internal(set) var hasBeenOpen = false

  package init(policy: LanePolicy, seed: UInt64) {
    self.policy = policy
    backoff = Backoff(base: policy.backoffBase, limit: policy.backoffLimit, seed: seed)
    searchBackoff = Backoff(base: .milliseconds(20), limit: .milliseconds(50), seed: ~seed)
    probesWork = policy.confirm == .probe && policy.hasIdentifiers
  }

  package var sent: UInt64 { window.sent }
  package var settled: UInt64 { window.settled }
  package var highWater: UInt64 { window.highWater }
  /// Everything before this position will probably not be resent. If connections end in refusals,
  /// what was sent recently may have to be.
  package func progress(now: Instant) -> UInt64 {
    guard let age = refusalStatistics.answerLimit else { return window.sent }
    return window.end(sentFor: age, now: now).position
  }

  /// When ``progress(now:)`` moves without an event.
  private func progressAt(now: Instant) -> Instant? {
    refusalStatistics.answerLimit.flatMap { window.end(sentFor: $0, now: now).nextAt }
  }

  /// Connections in a row that settled nothing.
  package var failures: Int { backoff.failures }
  package var isOpen: Bool { if case .open = phase { true } else { false } }
  /// The last connection was closed because there was nothing to do.
  package var endedIdle: Bool { connection.endedIdle }
  /// A poison search is under way.
  package var isSearching: Bool { poisonSearch != nil }
  /// Nothing is in flight and no poison search is under way, so the lane's notifications may go to
  /// other lanes.
  package var canHandOver: Bool { isDisconnected && window.isEmpty && !isSearching && refusalStatistics.hasRefusals }
  /// True if no connection is open, opening or closing.
  package var isDisconnected: Bool { if case .disconnected = phase { true } else { false } }

  /// When the lane may connect again; nil unless it is disconnected.
  package var retryAt: Instant? { if case .disconnected(let instant) = phase { instant } else { nil } }

  /// Returns the results of events since the last call; nil if there are none.
  package mutating func takeEffects() -> Effects? {
    guard effects.hasAny else { return nil }
    defer { effects = Effects() }
    return effects
  }

  // MARK: The next step

  /// What to do now. Must be asked again after every event, and at the time of `wait`.
  package mutating func next(_ input: Input, walk: any RecordWalk) -> Step {
    switch phase {
    case .dialling, .leaving: return .wait(until: nil)
    case .disconnected(let retryAt):
      guard input.published > window.sent else {
        return input.mayDialAhead && dialsAhead ? dial(from: retryAt, now: input.now) : .wait(until: nil)
      }
      if input.isCancelled { return .pack(from: window.sent, to: input.published) }
      return dial(from: retryAt, now: input.now)
    case .open:
      observePeer(input)
      if let step = stepIfStalled(input, walk: walk) { return step }
      if let probe = connection.probe { return stepWhileProbing(probe, now: input.now) }
      if let poisonSearch, let suspect = poisonSearch.suspect, !suspect.controlSucceeded {
        return stepOfControl(now: input.now)
      }
      if poisonSearch?.isProbeOnTrial == true, probesWork { return .probe(identifier: nextProbeIdentifier) }
      return stepWhileOpen(input, walk: walk)
    }
  }

  private func dial(from retryAt: Instant, now: Instant) -> Step { retryAt <= now ? .dial : .wait(until: retryAt) }

  /// Whether to dial before there is work: refusals ended the last connection, or those of other
  /// lanes while this one has had none. After any other end, nothing is dialled without need.
  private var dialsAhead: Bool { refusalStatistics.hasRefusals && (connection.endedInRefusal || !hasBeenOpen) }

  /// The quiet period of a notification begins when the peer's system has acknowledged its bytes.
  /// It begins again when the peer has not read for longer than a moment, because a peer that does
  /// not read cannot answer.
  private mutating func observePeer(_ input: Input) {
    if input.acknowledged > connection.acknowledged || window.isDelivered {
      if isDeaf(now: input.now) { connection.drainedAt = input.now }
      connection.progressAt = input.now
    }
    connection.acknowledged = max(connection.acknowledged, input.acknowledged)
    window.acknowledged(through: input.acknowledged, now: input.now)
  }

  /// Whether the peer has not acknowledged anything for longer than a moment.
  private func isDeaf(now: Instant) -> Bool { !window.isDelivered && connection.progressAt + Self.moment <= now }

  /// Longer than a round trip with a lost packet.
  static let moment = Duration.seconds(1)

  private mutating func stepIfStalled(_ input: Input, walk: any RecordWalk) -> Step? {
    let limit = input.isCancelled ? min(policy.stall, policy.quiet * 4) : policy.stall
    guard !window.isDelivered, max(connection.progressAt, connection.lastActivity) + limit <= input.now else {
      return nil
    }
    phase = .leaving
    closedSilently(walk: walk)
    return .leave
  }

  /// When to check the peer again while it has not acknowledged everything.
  private func recheck(now: Instant) -> Instant { now + min(policy.quiet / 4, .milliseconds(100)) }

  private mutating func stepWhileOpen(_ input: Input, walk: any RecordWalk) -> Step {
    if !isDeaf(now: input.now) { settleQuiet(now: input.now, walk: walk) }
    // A connection that was idle for this long may be dead unnoticed (NAT, the gateway's own
    // limit). It is replaced before its next use.
    let isOld = connection.lastActivity + policy.idle <= input.now
    if window.isEmpty, isOld || connection.isFinishing && poisonSearch == nil {
      phase = .leaving
      connection.endedIdle = true
      return .leave
    }
    var limit = connection.isFinishing ? window.sent : input.published
    var mustConfirm = input.isDraining || connection.isFinishing
    if let step = stepOfSearch(now: input.now, walk: walk) { return step }
    if let stageEnd = poisonSearch?.stageEnd {
      limit = min(limit, stageEnd)
      mustConfirm = true
    }
    // A probe before the ring is full lets the producers fill the rest while its answer is on the
    // way.
    let isNearlyFull =
      input.freeBlockCount < input.blockCountLimit / 4
      && window.sent - window.settled >= UInt64(input.blockCountLimit / 2)
    let room = isNearlyFull && probesWork ? 0 : max(0, policy.windowCount - window.sentCount)
    if room == 0 { mustConfirm = true }
    // A notification takes at least one block, so this many blocks are never too many
    // notifications.
    limit = min(limit, window.sent + UInt64(room))
    if window.sent < limit,
      let remaining = connection.slowStart?.remaining(sentCount: connection.sentCount, now: input.now)
    {
      guard remaining > 0 else { return .wait(until: Instant.earliest(connection.slowStart?.nextAt, quietDeadline)) }
      limit = min(limit, window.sent + UInt64(remaining))
    }
    if window.sent < limit {
      // A range below the high-water mark is a resend. It is kept apart from new notifications so
      // that it can be counted.
      let to = window.sent < window.highWater ? min(limit, window.highWater) : limit
      return input.isWritable ? .pack(from: window.sent, to: to) : .wait(until: recheck(now: input.now))
    }
    guard !window.isEmpty else { return .wait(until: connection.lastActivity + policy.idle) }
    if mustConfirm, probesWork, window.sentCount > 0 { return .probe(identifier: nextProbeIdentifier) }
    let settlesAt = isDeaf(now: input.now) ? recheck(now: input.now) : quietDeadline ?? recheck(now: input.now)
    return .wait(until: Instant.earliest(settlesAt, progressAt(now: input.now)))
  }

  private var quietDeadline: Instant? { window.quietDeadline(quiet: policy.quiet, drainedAt: connection.drainedAt) }

  /// If the gateway is known to answer probes, the wait is longer than the quiet period: its answer
  /// proves more.
  private mutating func stepWhileProbing(_ probe: Probe, now: Instant) -> Step {
    let limit = probesAreProven ? policy.quiet * 4 : policy.quiet
    if !window.isDelivered { return .wait(until: recheck(now: now)) }
    let deadline = max(probe.sentAt, connection.drainedAt) + limit
    guard deadline <= now else { return .wait(until: deadline) }
    // No answer, and the connection is open. What was sent is accepted/quiet, and this connection
    // cannot be used any more.
    if !probesAreProven { probesWork = false }
    controlSucceeded()
    quietUntil = window.sent
    phase = .leaving
    return .leave
  }

  var nextProbeIdentifier: UInt32 { 0x8000_0000 | (probeCount & 0x7FFF_FFFF) }
}
