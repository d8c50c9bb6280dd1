/// The logic of one lane over HTTP/2: when to connect, what to request, and what an answer, its
/// absence, or the end of a stream or connection means.
///
/// A value without IO, like ``LaneMachine``. The lane reports events to it, asks ``next(_:)`` what
/// to do, and takes the results with ``takeEffects()``. The rules are those of HTTP2ProviderAPI.md,
/// "What our sender makes of it".
///
/// Every notification has its own answer, so outcomes come in any order, and *settled* moves over
/// what is complete. *Sent* never goes back: notifications to be resent are remembered one by one,
/// and keep their place in the ring.
package struct RequestMachine: ~Copyable {
  /// What the lane must do next.
  package enum Step: Hashable, Sendable {
    /// Open a connection, then call ``RequestMachine/dialled()`` or
    /// ``RequestMachine/postponed(until:)``.
    case dial
    /// Submit this one again, then call ``RequestMachine/submitted(_:streamID:now:)`` or
    /// ``RequestMachine/passed(_:as:)``.
    case again(RequestEntry)
    /// Submit the notifications that start in `from..<to` in order, at most `count` of them as
    /// requests. Calls as for `again`, and ``RequestMachine/passedPadding(to:)``.
    case take(from: UInt64, to: UInt64, count: Int)
    /// Cancel this stream.
    case cancel(streamID: Int32)
    case ping(UInt64)
    /// Close the connection.
    case leave
    /// There is nothing to do until an event, or until this time.
    case wait(until: Instant?)
  }

  /// What the machine must know of the lane for a step.
  package struct Input {
    package var now: Instant
    package var published: UInt64
    package var isWritable: Bool
    /// How many requests the connection accepts now: the peer's limit minus those in flight.
    package var availableStreamCount: Int
    /// False once the connection can carry no further request.
    package var acceptsRequests: Bool
    /// Everything in the ring was cancelled. It can be settled without a connection.
    package var isCancelled: Bool

    package init(
      now: Instant, published: UInt64, isWritable: Bool, availableStreamCount: Int, acceptsRequests: Bool,
      isCancelled: Bool
    ) {
      self.now = now
      self.published = published
      self.isWritable = isWritable
      self.availableStreamCount = availableStreamCount
      self.acceptsRequests = acceptsRequests
      self.isCancelled = isCancelled
    }
  }

  /// The results of events, which the lane must carry out.
  package struct Effects {
    /// In the order of the ring; neighbours with the same outcome are joined.
    package var settlements: [Settlement] = []
    /// Notifications that will be resent although they may have arrived. Each one is listed each
    /// time that it is put into doubt.
    package var mayHaveArrived: [Range<UInt64>] = []
    /// Answers have settled notifications.
    package var madeProgress = false
    /// The service refuses the credential or the topic, in this answer to a notification.
    package var pausedBy: Outcome?
    /// For the app's breaker: final answers, and how many of them called the token bad.
    package var answerCount = 0
    package var badTokenCount = 0
    /// The last cause that kept the lane from progress.
    package var trouble: Trouble?
    var isInOrder = true

    fileprivate var hasAny: Bool {
      answerCount > 0 || madeProgress || pausedBy != nil || trouble != nil || !settlements.isEmpty
        || !mayHaveArrived.isEmpty
    }
  }

  enum Phase {
    /// There is no connection, and none may be opened before `retryAt`.
    case disconnected(retryAt: Instant)
    case dialling
    /// Handshake complete.
    case open
    /// The lane has closed the link, which has still to report it.
    case leaving
  }

  /// The state of the present connection, or of the last one. It is reset for each connection.
  struct Connection {
    /// When bytes last arrived from the peer.
    var heardAt = Instant.start
    /// When the first request after those bytes was sent; nil if none was.
    var unheardSince: Instant?
    /// When a request was last submitted or answered.
    var activeAt = Instant.start
    /// The most requests until there is an answer.
    var trialCount: Int?
    /// How many single requests during an outage have failed on it.
    var failedTrialCount = 0
    var sentCount = 0
    var refusedCount = 0
    var ping: (number: UInt64, sentAt: Instant)?
    /// A PING whose answer shows that the service works, and whether it has arrived.
    var controlPing: UInt64?
    var isControlled = false
    /// The peer has sent bytes.
    var hasHeard = false
    /// Since when there is something to send, nothing in flight, and no stream allowed.
    var shutOutSince: Instant?
    /// It gets no new requests, and is closed when the last one in flight has ended.
    var isFinishing = false
    var hasMadeProgress = false
    /// The lane closed the connection because there was nothing to do.
    var endedIdle = false
  }

  package let policy: LanePolicy
  package let requests: RequestPolicy
  /// Whether an idle connection is kept open.
  let isKept: Bool
  var phase = Phase.disconnected(retryAt: .start)
  var connection = Connection()
  var map = SettledBitmap()
  var inFlight = RequestsInFlight()
  var retries = RetryQueue()
  var backoff: Backoff
  var jitter: Jitter
  /// The last connection had requests and answered none of them. The next one starts with a single
  /// request.
  var isOnTrial = false
  /// The service has given a notification of this lane a final answer, so it accepts the
  /// credential.
  var isProven = false
  /// The number of the latest request with a final answer.
  var lastGoodSerial: UInt64 = 0
  /// How many answers since the last final one were not final, including requests without an
  /// answer.
  var troubleCount = 0
  var outage: Outage?
  /// Connections were cut with requests in flight, and the cause is searched for.
  var search: RequestSearch?
  var pingCount: UInt64 = 0
  /// The app is about to stop, or is halted. Nothing is sent until everything is cancelled, or
  /// until ``resume()``.
  var isPaused = false
  /// Hashes of device tokens that have had too many requests (429), and until when they wait.
  var paced: [Int: Instant] = [:]
  var effects = Effects()

  /// - Parameters:
  ///   - isKept: whether an idle connection stays open.
  ///   - seed: for the jitter.
  package init(policy: LanePolicy, requests: RequestPolicy, isKept: Bool, seed: UInt64) {
    (self.policy, self.requests, self.isKept) = (policy, requests, isKept)
    backoff = Backoff(base: policy.backoffBase, limit: policy.backoffLimit, seed: seed)
    jitter = Jitter(seed: ~seed)
  }

  /// Everything before this position has had its turn.
  package var sent: UInt64 { map.sent }
  /// Everything before this position has its outcome. It moves with ``takeEffects()``.
  package var settled: UInt64 { map.settled }
  package var inFlightCount: Int { inFlight.count }

  /// When the oldest request in flight was sent; nil: there is none.
  package var oldestRequestAt: Instant? { inFlight.oldest?.submittedAt }
  /// Connections in a row that settled nothing.
  package var failures: Int { backoff.failures }
  package var isOpen: Bool { if case .open = phase { true } else { false } }
  /// The last connection was closed because there was nothing to do.
  package var endedIdle: Bool { connection.endedIdle }
  /// True if no connection is open, opening or closing.
  package var isDisconnected: Bool { if case .disconnected = phase { true } else { false } }
  /// When the lane may connect again; nil unless it is disconnected.
  package var retryAt: Instant? { if case .disconnected(let instant) = phase { instant } else { nil } }
  /// The peer of this connection, or of the last one, has sent bytes.
  package var hasHeard: Bool { connection.hasHeard }
  /// A search for a request on which the service cuts the connection is under way.
  package var isSearching: Bool { search != nil }
  /// Notifications that wait to be resent.
  package var waitingCount: Int { retries.count + (search?.count ?? 0) }
  /// Whether any device token waits. Then each one must be looked up with ``pacedUntil(_:now:)``.
  package var pacesTokens: Bool { !paced.isEmpty }
  /// The tag for the next request.
  package var nextTag: UInt64 { inFlight.nextTag }

  /// What a notification's turn needs to know.
  package struct Turn {
    /// As ``RequestMachine/nextTag``.
    package let tag: UInt64
    package let sent: UInt64
    /// As ``RequestMachine/pacesTokens``.
    package let pacesTokens: Bool
  }

  /// Mutating, because each call that only reads copies the whole machine: for a single request,
  /// three of them were a twentieth of the sender's time.
  package mutating func turn() -> Turn { Turn(tag: nextTag, sent: sent, pacesTokens: pacesTokens) }

  /// Returns the results of events since the last call; nil if there are none.
  package mutating func takeEffects() -> Effects? {
    map.advance()
    guard effects.hasAny else { return nil }
    defer { effects = Effects() }
    if !effects.isInOrder { joinNeighbours() }
    return effects
  }

  private mutating func joinNeighbours() {
    effects.settlements.sort { $0.from < $1.from }
    var count = 0
    for settlement in effects.settlements {
      if count > 0, effects.settlements[count - 1].join(settlement) { continue }
      effects.settlements[count] = settlement
      count += 1
    }
    effects.settlements.removeLast(effects.settlements.count - count)
  }

  /// Frees memory that an idle lane does not need.
  package mutating func becameIdle() {
    map.release()
    inFlight.release()
    retries.release()
  }

  // MARK: The next step

  /// What to do now. Must be asked again after every event, and at the time of `wait`.
  package mutating func next(_ input: Input) -> Step {
    switch phase {
    case .dialling, .leaving: return .wait(until: nil)
    case .disconnected(let retryAt): return stepWhileDisconnected(input, retryAt: retryAt)
    case .open: return stepWhileOpen(input)
    }
  }

  private mutating func stepWhileDisconnected(_ input: Input, retryAt: Instant) -> Step {
    if input.isCancelled { return stepThroughCancelled(input) ?? .wait(until: nil) }
    retries.move(now: input.now)
    guard !isPaused else { return .wait(until: nil) }
    guard retries.next != nil || search != nil || isTakingNew(input) else { return .wait(until: retries.nextAt) }
    return retryAt <= input.now ? .dial : .wait(until: retryAt)
  }

  private mutating func stepWhileOpen(_ input: Input) -> Step {
    if let streamID = giveUpOverdue(now: input.now) { return .cancel(streamID: streamID) }
    if let step = stepIfDead(now: input.now) { return step }
    if input.isCancelled, let step = stepThroughCancelled(input) { return step }
    if !input.acceptsRequests { connection.isFinishing = true }
    guard !connection.isFinishing else {
      guard inFlight.count == 0 else { return .wait(until: connectionDeadline) }
      phase = .leaving
      return .leave
    }
    retries.move(now: input.now)
    var room = input.isWritable && !isPaused ? input.availableStreamCount : 0
    if let trialCount = connection.trialCount { room = min(room, trialCount - inFlight.count) }
    room = roomDuringOutage(room, now: input.now)
    if let step = stepInSearch(input, room: &room) { return step }
    if room > 0 {
      // The next trial need not wait for a notification's own retry time.
      let isTrial = outage != nil || connection.trialCount == 1
      if isTrial, retries.next == nil, !isTakingNew(input) { retries.hastenFirst { !$0.isPaced } }
      if let entry = retries.next { return .again(entry) }
      if isTakingNew(input) { return .take(from: map.sent, to: input.published, count: room) }
    }
    return stepIfShutOut(input) ?? stepWithNothingToSend(input)
  }

  /// A connection whose peer allows no stream is replaced after an answer's time-out. The next peer
  /// may allow some.
  private mutating func stepIfShutOut(_ input: Input) -> Step? {
    let hasWork = retries.next != nil || search != nil || isTakingNew(input)
    guard hasWork, !isPaused, inFlight.count == 0, input.availableStreamCount == 0 else {
      connection.shutOutSince = nil
      return nil
    }
    let since = connection.shutOutSince ?? input.now
    connection.shutOutSince = since
    let end = since + requests.timeout
    guard end <= input.now else { return .wait(until: Instant.earliest(end, deadline)) }
    phase = .leaving
    return .leave
  }

  /// While many notifications wait to be resent, the service is in trouble and gets no new ones.
  func isTakingNew(_ input: Input) -> Bool {
    input.published > map.sent && retries.count < requests.waitingLimit
  }

  private mutating func stepThroughCancelled(_ input: Input) -> Step? {
    endSearch()
    retries.hasten { _ in true }
    if let entry = retries.next { return .again(entry) }
    return input.published > map.sent ? .take(from: map.sent, to: input.published, count: .max) : nil
  }

  /// Gives up one request without an answer in time. Returns its stream.
  private mutating func giveUpOverdue(now: Instant) -> Int32? {
    guard let oldest = inFlight.oldest, oldest.submittedAt + requests.timeout <= now,
      let entry = inFlight.remove(oldest.tag)
    else { return nil }
    if requests.plantedMistake == .timeoutIsHarmless {
      retries.append(entry)
    } else {
      endedWithoutAnswer(oldest.tag, entry, .noAnswer, now: now)
    }
    return oldest.streamID
  }

  private mutating func stepIfDead(now: Instant) -> Step? {
    if let ping = connection.ping {
      guard max(ping.sentAt, connection.heardAt) + requests.pingTimeout <= now else { return nil }
      phase = .leaving
      return .leave
    }
    guard let pingAt, pingAt <= now else { return nil }
    pingCount += 1
    connection.ping = (pingCount, now)
    return .ping(pingCount)
  }

  /// When to send a PING to find out whether the connection is alive.
  private var pingAt: Instant? {
    if inFlight.count > 0 || connection.unheardSince != nil {
      return (connection.unheardSince ?? connection.heardAt) + requests.silence
    }
    return isKept ? connection.heardAt + requests.pingInterval : nil
  }

  private mutating func stepWithNothingToSend(_ input: Input) -> Step {
    let isIdle = !isKept && inFlight.count == 0 && waitingCount == 0 && input.published == map.sent
    guard isIdle else { return .wait(until: deadline) }
    let end = connection.activeAt + requests.idle
    guard end <= input.now else { return .wait(until: min(end, deadline ?? end)) }
    phase = .leaving
    connection.endedIdle = true
    return .leave
  }

  /// When something is due that no event reports.
  package var deadline: Instant? {
    .earliest(connectionDeadline, outage == nil ? retries.nextAt : .earliest(outage?.retryAt, retries.nextAt))
  }

  private var connectionDeadline: Instant? {
    let pingEnd = connection.ping.map { max($0.sentAt, connection.heardAt) + requests.pingTimeout } ?? pingAt
    return Instant.earliest(inFlight.oldest.map { $0.submittedAt + requests.timeout }, pingEnd)
  }
}

extension Settlement {
  /// Joins `next` to this one if it is its neighbour with the same outcome.
  mutating func join(_ next: Settlement) -> Bool {
    guard next.from == to, next.campaign == campaign, next.outcome == outcome else { return false }
    to = next.to
    count += next.count
    return true
  }
}
