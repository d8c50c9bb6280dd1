/// The whole conduct of one lane over the binary protocol: when to connect, how far to send, what an answer, a silence or a closure means.
///
/// A value without IO: the lane tells it what happened, asks ``next(_:)`` what to do, and takes the results with ``takeEffects()``.
/// The rules are those of the spec, "What the sender concludes"; where it is silent the decision is in ARCHITECTURE.md, "Settling".
package struct LaneMachine: ~Copyable {
  /// What the lane must do next.
  package enum Step: Hashable, Sendable {
    /// Open a connection, then say ``LaneMachine/dialled()``.
    case dial
    /// Send notifications of `from..<to`, or the first of them, and record each run with ``LaneMachine/packed(to:lastStart:count:campaign:fate:now:)``.
    case pack(from: UInt64, to: UInt64)
    /// Send a known-bad probe, then say ``LaneMachine/probed(now:)``.
    case probe(identifier: UInt32)
    /// Close the connection.
    case leave
    /// Nothing to do before something happens, or before this moment.
    case wait(until: Instant?)
  }

  /// What the lane sees of its ring when it asks.
  package struct Surroundings {
    package var now: Instant
    package var published: UInt64
    /// Blocks of the ring that nobody has claimed.
    package var freeBlockCount: Int
    package var isWritable: Bool
    /// Nothing more will come for now: confirm what was sent instead of waiting for company.
    package var isDraining: Bool
    /// All that the ring holds was cancelled: it needs no connection to leave.
    package var isCancelled: Bool

    package init(now: Instant, published: UInt64, freeBlockCount: Int, isWritable: Bool, isDraining: Bool, isCancelled: Bool) {
      self.now = now
      self.published = published
      self.freeBlockCount = freeBlockCount
      self.isWritable = isWritable
      self.isDraining = isDraining
      self.isCancelled = isCancelled
    }
  }

  /// What events have led to, for the lane to carry out.
  package struct Effects {
    package var settlements: [Settlement] = []
    /// Notifications that may have arrived although they will be sent again.
    package var mayHaveArrived: Range<UInt64>?
    /// *Sent* was set back.
    package var hasRewound = false
    /// A connection settled at least one notification, or answered a probe.
    package var madeProgress = false
    /// The gateway closes every connection without a word, even one that carries nothing: sending on would only burn notifications.
    package var isUnresponsive = false

    fileprivate var hasAny: Bool { hasRewound || madeProgress || isUnresponsive || mayHaveArrived != nil || !settlements.isEmpty }
  }

  private enum Phase {
    /// No connection; none may be tried before `retryAt`.
    case disconnected(retryAt: Instant)
    case dialling
    /// Handshake complete. `since` then.
    case open(since: Instant)
    /// The conversation is over; the link has still to report its closure.
    case leaving
  }

  /// A known-bad probe on its way (spec, "Known-bad probe"). It is the last frame of its connection.
  private struct Probe {
    var identifier: UInt32
    var sentAt: Instant
  }

  /// The search for the notification that makes the gateway close without a word (spec, "Poison isolation").
  private struct Isolation {
    /// How many notifications may be unconfirmed on a connection; halved by a silent closure, doubled by a confirmation.
    var budget: Int
    /// Where the present stage ends, once it is known.
    var stageEnd: UInt64?
    /// A single notification was alone on a connection that died: it is condemned only after a connection without it has lived.
    var suspect: Suspect?
  }

  private struct Suspect {
    var deaths: Int
    var controlHasLived: Bool
  }

  private let policy: LanePolicy
  private var phase = Phase.disconnected(retryAt: .start)
  private var window = ResendWindow()
  private var probe: Probe?
  private var isolation: Isolation?
  private var backoff: Backoff
  private var probeCount: UInt32 = 0
  /// False once the gateway has answered a probe without its identifier, or closed on one without a word.
  private var probesWork: Bool
  private var probesAreProven = false
  private var drainedAt = Instant.start
  private var isBlocked = false
  private var lastActivity = Instant.start
  private var connectionMadeProgress = false
  private var sentOnConnection = 0
  private var settledOnConnection = 0
  private var endedInRefusal = false
  private var openedAt = Instant.start
  /// What the last connection settled before it ended in a refusal, and how long it lived; nil when it ended otherwise.
  private var refusedConnection: (settledCount: Int, lifetime: Duration)?
  private var ramp: Ramp?
  private var effects = Effects()

  package init(policy: LanePolicy, seed: UInt64) {
    self.policy = policy
    backoff = Backoff(base: policy.backoffBase, limit: policy.backoffLimit, seed: seed)
    probesWork = policy.confirm == .probe && policy.hasIdentifiers
  }

  package var sent: UInt64 { window.sent }
  package var settled: UInt64 { window.settled }
  package var highWater: UInt64 { window.highWater }
  /// Connections in a row that settled nothing.
  package var failures: Int { backoff.failures }
  package var isOpen: Bool { if case .open = phase { true } else { false } }
  /// True when no connection is open, opening or closing.
  package var isDisconnected: Bool { if case .disconnected = phase { true } else { false } }

  /// What has come of the events since the last call; nil when nothing has.
  package mutating func takeEffects() -> Effects? {
    guard effects.hasAny else { return nil }
    defer { effects = Effects() }
    return effects
  }

  // MARK: What to do

  /// What to do now. To be asked again after every event, and at the moment that `wait` names.
  package mutating func next(_ around: Surroundings, walk: any RecordWalk) -> Step {
    switch phase {
    case .dialling, .leaving:
      return .wait(until: nil)
    case .disconnected(let retryAt):
      guard around.published > window.sent else { return .wait(until: nil) }
      if around.isCancelled { return .pack(from: window.sent, to: around.published) }
      return retryAt <= around.now ? .dial : .wait(until: retryAt)
    case .open(let since):
      if let probe { return stepWhileProbing(probe, now: around.now) }
      if let isolation, let suspect = isolation.suspect, !suspect.controlHasLived { return stepOfControl(openSince: since, now: around.now) }
      return stepWhileOpen(around, walk: walk)
    }
  }

  private mutating func stepWhileOpen(_ around: Surroundings, walk: any RecordWalk) -> Step {
    settleQuiet(now: around.now, walk: walk)
    if window.isEmpty, lastActivity + policy.idle <= around.now {
      // A connection that long idle may be dead without our knowing (NAT, the gateway's own limit): replaced before its next use.
      phase = .leaving
      return .leave
    }
    var limit = around.published
    var mustConfirm = around.isDraining
    if let stageEnd = stageEnd(published: around.published, walk: walk) {
      limit = min(limit, stageEnd)
      mustConfirm = true
    }
    // Probing before the ring is quite full lets the producers fill the rest while the answer is on its way.
    let isFull = window.sentCount >= policy.windowCount
    let isNearlyFull = around.freeBlockCount < policy.ringBlockCount / 4 && window.sent - window.settled >= UInt64(policy.ringBlockCount / 2)
    if isFull || isNearlyFull && probesWork {
      limit = window.sent
      mustConfirm = true
    }
    if window.sent < limit, let allowance = ramp?.allowance(now: around.now) {
      guard sentOnConnection < allowance else { return .wait(until: earliest(ramp?.nextAt(now: around.now), quietDeadline)) }
      limit = min(limit, window.sent + UInt64(allowance - sentOnConnection))
    }
    if window.sent < limit {
      // A range below the high-water mark is a resend and kept apart from what is new, so that it can be counted.
      let to = window.sent < window.highWater ? min(limit, window.highWater) : limit
      return around.isWritable ? .pack(from: window.sent, to: to) : .wait(until: nil)
    }
    guard !window.isEmpty else { return .wait(until: lastActivity + policy.idle) }
    if mustConfirm, probesWork, window.sentCount > 0 { return .probe(identifier: nextProbeIdentifier) }
    return .wait(until: quietDeadline)
  }

  private var quietDeadline: Instant? { isBlocked ? nil : window.quietDeadline(quiet: policy.quiet, drainedAt: drainedAt) }

  private func earliest(_ left: Instant?, _ right: Instant?) -> Instant? {
    guard let left, let right else { return left ?? right }
    return min(left, right)
  }

  /// A probe that the gateway is known to answer is given longer than the quiet period: its answer is worth more than a guess.
  private mutating func stepWhileProbing(_ probe: Probe, now: Instant) -> Step {
    let patience = probesAreProven ? policy.quiet * 4 : policy.quiet
    let deadline = max(probe.sentAt, drainedAt) + patience
    guard !isBlocked else { return .wait(until: nil) }
    guard deadline <= now else { return .wait(until: deadline) }
    // Not a word, and the connection lives: what was sent is accepted/quiet, and this connection cannot be used any more.
    if !probesAreProven { probesWork = false }
    quietUntil = window.sent
    phase = .leaving
    return .leave
  }

  /// The connection that carries nothing but a probe, to see whether the gateway is well at all.
  private mutating func stepOfControl(openSince: Instant, now: Instant) -> Step {
    if probesWork { return .probe(identifier: nextProbeIdentifier) }
    guard openSince + policy.quiet <= now else { return .wait(until: openSince + policy.quiet) }
    isolation?.suspect?.controlHasLived = true
    return .wait(until: now)
  }

  /// Set when a probe got no answer in time: settled as quiet by the next call that has a walk at hand.
  private var quietUntil: UInt64?

  private var nextProbeIdentifier: UInt32 { 0x8000_0000 | (probeCount & 0x7FFF_FFFF) }

  /// Where the present stage of an isolation ends.
  private mutating func stageEnd(published: UInt64, walk: any RecordWalk) -> UInt64? {
    guard var isolation else { return nil }
    if let end = isolation.stageEnd, end > window.settled { return end }
    let end = walk.position(after: isolation.budget, from: window.settled, limit: published)
    isolation.stageEnd = end
    self.isolation = isolation
    return end
  }

  // MARK: What happened

  package mutating func dialled() {
    phase = .dialling
    connectionMadeProgress = false
  }

  package mutating func opened(now: Instant) {
    phase = .open(since: now)
    probe = nil
    isBlocked = false
    drainedAt = now
    lastActivity = now
    openedAt = now
    sentOnConnection = 0
    settledOnConnection = 0
    endedInRefusal = false
    ramp = refusedConnection.map { Ramp(settledCount: $0.settledCount, lifetime: $0.lifetime, openedAt: now) }
    isolation?.stageEnd = nil
    window.connectionOpened()
  }

  /// `count` notifications of one campaign, the last of them at `lastStart`, have had their turn.
  package mutating func packed(to end: UInt64, lastStart: UInt64, count: Int, campaign: UInt32, fate: ResendWindow.Fate, now: Instant) {
    window.append(to: end, lastStart: lastStart, count: count, campaign: campaign, fate: fate, now: now)
    if fate == .sent {
      lastActivity = now
      sentOnConnection += count
    } else {
      window.settleUnsentFront(into: &effects.settlements)
    }
  }

  package mutating func probed(now: Instant) {
    probe = Probe(identifier: nextProbeIdentifier, sentAt: now)
    probeCount &+= 1
    lastActivity = now
  }

  package mutating func writabilityChanged(_ isWritable: Bool, now: Instant) {
    isBlocked = !isWritable
    drainedAt = now
  }

  /// An error response has come. The lane closes the link after it.
  package mutating func responded(_ response: ErrorResponse, walk: any RecordWalk) {
    guard isOpen else { return }
    phase = .leaving
    if let probe, response.identifier == probe.identifier, response.status != .shutdown {
      probesAreProven = true
      isolation?.suspect?.controlHasLived = true
      settleAll(as: .accepted(.confirmed), walk: walk)
      madeProgress()
      return
    }
    if probe != nil, response.identifier == 0, response.status == .missingDeviceToken {
      // None of our notifications lacks a token, so this is the probe's answer without its identifier, as the sandbox once gave. It is
      // believed as a quiet period is, and no more probes are sent.
      probesWork = false
      isolation?.suspect?.controlHasLived = true
      settleAll(as: .accepted(.quiet), walk: walk)
      madeProgress()
      return
    }
    switch response.status {
    case .shutdown where policy.plantedMistake == .shutdownIsRefusal: respondedWithRefusal(response, walk: walk)
    case .shutdown, .noErrors: respondedWithLastGood(response.identifier, walk: walk)
    default: respondedWithRefusal(response, walk: walk)
    }
  }

  /// Status 10 names the last notification that was sent successfully: not a failure.
  private mutating func respondedWithLastGood(_ identifier: UInt32, walk: any RecordWalk) {
    if let probe, identifier == probe.identifier {
      settleAll(as: .accepted(.confirmed), walk: walk)
    } else if let named = window.notification(named: identifier, walk: walk) {
      settle(through: named.end, as: .accepted(.confirmed), walk: walk)
    } else if let last = window.lastSettledStart, identifier == ResendWindow.identifier(at: last) {
      // The last one settled before the window: nothing in the window was taken.
    } else {
      return endedWithoutAWord(walk: walk)
    }
    rewind()
    confirmedStage()
    madeProgress()
  }

  private mutating func respondedWithRefusal(_ response: ErrorResponse, walk: any RecordWalk) {
    guard let named = window.notification(named: response.identifier, walk: walk) else { return endedWithoutAWord(walk: walk) }
    endedInRefusal = true
    settle(through: named.position, as: .accepted(.confirmed), walk: walk)
    settle(through: named.end, as: .rejected(.status(response.status)), walk: walk)
    if policy.plantedMistake == .followersAreForgotten { settleAll(as: .accepted(.confirmed), walk: walk) }
    rewind()
    confirmedStage()
    madeProgress()
  }

  /// Bytes came that are no error response: whatever speaks there, its word settles nothing.
  package mutating func respondedWithGarbage(walk: any RecordWalk) {
    guard isOpen else { return }
    phase = .leaving
    endedWithoutAWord(walk: walk)
  }

  /// The link has closed, or could not be opened.
  package mutating func closed(_ closure: LaneClosure, now: Instant, walk: any RecordWalk) {
    let wasOpen = isOpen
    if let end = quietUntil {
      settle(through: end, as: .accepted(.quiet), walk: walk)
      confirmedStage()
      quietUntil = nil
      madeProgress()
    }
    if wasOpen {
      switch closure {
      case .nothingWasRead: rewind()
      case .withoutAWord, .byUs: endedWithoutAWord(walk: walk)
      }
    }
    probe = nil
    isBlocked = false
    refusedConnection = endedInRefusal ? (settledOnConnection, now.since(openedAt)) : nil
    endedInRefusal = false
    var delay = Duration.zero
    if connectionMadeProgress {
      backoff.succeeded()
    } else if closure != .byUs {
      delay = backoff.failed()
    }
    phase = .disconnected(retryAt: now + delay)
  }

  // MARK: Settling

  /// The connection ended and nobody said what became of the window: the app's policy decides.
  private mutating func endedWithoutAWord(walk: any RecordWalk) {
    if isolation?.suspect?.controlHasLived == false, window.isEmpty { return controlDied() }
    guard window.sentCount > 0 else { return rewind() }
    switch policy.onUnknown {
    case .hold: settleAll(as: .held, walk: walk)
    case .drop: settleAll(as: .unknown, walk: walk)
    case .resend:
      if window.sentCount == 1 { return loneNotificationDied(walk: walk) }
      if policy.plantedMistake != .duplicatesAreNotCounted { effects.mayHaveArrived = window.settled..<window.sent }
      isolation = Isolation(budget: max(1, min(isolation?.budget ?? .max, window.sentCount) / 2))
      rewind()
    }
  }

  private mutating func loneNotificationDied(walk: any RecordWalk) {
    if let suspect = isolation?.suspect, suspect.controlHasLived {
      settleAll(as: .rejected(.closedWithoutReason), walk: walk)
      isolation = nil
      return
    }
    effects.mayHaveArrived = window.settled..<window.sent
    isolation = Isolation(budget: 1, stageEnd: nil, suspect: Suspect(deaths: 1, controlHasLived: false))
    rewind()
  }

  /// Even a connection that carried nothing was closed without a word.
  private mutating func controlDied() {
    guard var suspect = isolation?.suspect else { return }
    // Perhaps it is the probe that this gateway answers by closing: the next control carries nothing at all.
    if probe != nil { probesWork = false }
    suspect.deaths += 1
    isolation?.suspect = suspect
    if suspect.deaths >= policy.attempts { effects.isUnresponsive = true }
  }

  private mutating func settleQuiet(now: Instant, walk: any RecordWalk) {
    guard !isBlocked, let end = window.quietEnd(now: now, quiet: policy.quiet, drainedAt: drainedAt) else { return }
    settle(through: end, as: .accepted(.quiet), walk: walk)
    confirmedStage()
    madeProgress()
  }

  private mutating func settleAll(as outcome: Outcome, walk: any RecordWalk) {
    settle(through: window.sent, as: outcome, walk: walk)
    confirmedStage()
  }

  private mutating func settle(through position: UInt64, as outcome: Outcome, walk: any RecordWalk) {
    guard position > window.settled else { return }
    let before = window.sentCount
    window.settle(through: position, as: outcome, walk: walk, into: &effects.settlements)
    settledOnConnection += before - window.sentCount
  }

  private mutating func rewind() {
    guard !window.isEmpty else { return }
    window.rewind()
    effects.hasRewound = true
  }

  /// A stage that has been confirmed as a whole doubles what the next may risk, until the search is over.
  private mutating func confirmedStage() {
    guard var isolation, let end = isolation.stageEnd, window.settled >= end else { return }
    isolation.stageEnd = nil
    isolation.suspect = nil
    isolation.budget *= 2
    self.isolation = isolation.budget >= policy.windowCount ? nil : isolation
  }

  private mutating func madeProgress() {
    connectionMadeProgress = true
    effects.madeProgress = true
  }
}
