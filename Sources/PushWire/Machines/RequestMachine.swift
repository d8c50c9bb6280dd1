/// The whole conduct of one lane over HTTP/2: when to connect, what to request, and what an answer, its absence, or the end of a stream or connection means.
///
/// A value without IO, beside ``LaneMachine``: the lane tells it what happened, asks ``next(_:)`` what to do, and takes the results with ``takeEffects()``. The rules are
/// those of HTTP2ProviderAPI.md, "What our sender makes of it". Every notification has its own answer here, so outcomes come in any order; *settled* follows over
/// what is complete. *Sent* never goes back: what must be sent again is remembered one by one, and its place in the ring stays.
package struct RequestMachine: ~Copyable {
  /// What the lane must do next.
  package enum Step: Hashable, Sendable {
    /// Open a connection, then say ``RequestMachine/dialled()``; or ``RequestMachine/postponed(until:)``.
    case dial
    /// Take this one up again: ``RequestMachine/submitted(_:streamID:now:)`` or ``RequestMachine/passed(_:as:)``.
    case again(RequestEntry)
    /// Take up what starts in `from..<to`, of which at most `count` may become requests, in order: as for `again`, and ``RequestMachine/passedPadding(to:)``.
    case take(from: UInt64, to: UInt64, count: Int)
    /// Give this stream up.
    case cancel(streamID: Int32)
    case ping(UInt64)
    /// Close the connection.
    case leave
    /// Nothing to do before something happens, or before this moment.
    case wait(until: Instant?)
  }

  /// What the lane sees when it asks.
  package struct Input {
    package var now: Instant
    package var published: UInt64
    package var isWritable: Bool
    /// Requests that the connection takes now: as many as the peer allows at present, less those under way.
    package var availableStreamCount: Int
    /// False once the connection can carry no further request.
    package var acceptsRequests: Bool
    /// All that the ring holds was cancelled: it needs no connection to leave.
    package var isCancelled: Bool

    package init(now: Instant, published: UInt64, isWritable: Bool, availableStreamCount: Int, acceptsRequests: Bool, isCancelled: Bool) {
      self.now = now
      self.published = published
      self.isWritable = isWritable
      self.availableStreamCount = availableStreamCount
      self.acceptsRequests = acceptsRequests
      self.isCancelled = isCancelled
    }
  }

  /// What events have led to, for the lane to carry out.
  package struct Effects {
    /// In the order of the ring; neighbours with one outcome are one.
    package var settlements: [Settlement] = []
    /// Notifications that may have arrived although they will be sent again: each time that one is put
    /// into doubt.
    package var mayHaveArrived: [Range<UInt64>] = []
    /// Notifications have got their outcome by an answer.
    package var madeProgress = false
    /// The service refuses the credential or the topic, in this answer to a notification.
    package var pausedBy: Outcome?
    /// Final answers, and how many of them said that the token was bad: for the app's breaker.
    package var answerCount = 0
    package var badTokenCount = 0
    /// What kept the lane from progress last.
    package var trouble: Trouble?
    var isInOrder = true

    fileprivate var hasAny: Bool {
      answerCount > 0 || madeProgress || pausedBy != nil || trouble != nil || !settlements.isEmpty
        || !mayHaveArrived.isEmpty
    }
  }

  enum Phase {
    /// No connection; none may be tried before `retryAt`.
    case disconnected(retryAt: Instant)
    case dialling
    /// Handshake complete.
    case open
    /// The lane closes the link, which has still to report its closure.
    case leaving
  }

  /// What belongs to the present connection, or the last one, and begins anew with each.
  struct Connection {
    /// The peer's bytes came last at this time.
    var heardAt = Instant.start
    /// When the first request went out since then; nil: none has.
    var unheardSince: Instant?
    /// Something was submitted or answered.
    var activeAt = Instant.start
    /// No more requests than this, until there is an answer.
    var trialCount: Int?
    var sentCount = 0
    var refusedCount = 0
    var ping: (number: UInt64, sentAt: Instant)?
    /// A PING whose answer shows that the service is well, and whether it has come.
    var controlPing: UInt64?
    var isControlled = false
    /// The peer has sent bytes.
    var hasHeard = false
    /// Since when there is something to send, nothing under way, and no stream allowed.
    var shutOutSince: Instant?
    /// It gets no new requests; when the last one under way has ended, it is left.
    var isFinishing = false
    var hasMadeProgress = false
    /// We left because there was nothing to do.
    var endedIdle = false
  }

  package let policy: LanePolicy
  package let requests: RequestPolicy
  /// An idle connection is kept, instead of left.
  let isKept: Bool
  var phase = Phase.disconnected(retryAt: .start)
  var connection = Connection()
  var map = SettledBitmap()
  var inFlight = RequestsInFlight()
  var retries = RetryQueue()
  var backoff: Backoff
  var jitter: Jitter
  /// The last connection was given requests, and answered none of them: the next one gets a single one at first.
  var isOnTrial = false
  /// The service has given a notification of this lane a final answer: it accepts the credential.
  var isProven = false
  /// The number of the latest request that got a final answer.
  var lastGoodSerial: UInt64 = 0
  /// Answers since the last final one that were none, and requests without an answer.
  var troubleCount = 0
  var outage: Outage?
  /// Connections were cut with requests in flight, and the cause is being looked for.
  var search: RequestSearch?
  var pingCount: UInt64 = 0
  /// The app is about to stop: nothing is sent until all is cancelled.
  var isPaused = false
  /// Device tokens that have had too many requests (429), by a hash, and until when they wait.
  var paced: [Int: Instant] = [:]
  var effects = Effects()

  /// - Parameters:
  ///   - isKept: an idle connection stays open.
  ///   - seed: of the jitter.
  package init(policy: LanePolicy, requests: RequestPolicy, isKept: Bool, seed: UInt64) {
    self.policy = policy
    self.requests = requests
    self.isKept = isKept
    backoff = Backoff(base: policy.backoffBase, limit: policy.backoffLimit, seed: seed)
    jitter = Jitter(seed: ~seed)
  }

  /// Everything before it has had its turn.
  package var sent: UInt64 { map.sent }
  /// Everything before it has its outcome: moves with ``takeEffects()``.
  package var settled: UInt64 { map.settled }
  package var inFlightCount: Int { inFlight.count }
  /// Connections in a row that got nothing done.
  package var failures: Int { backoff.failures }
  package var isOpen: Bool { if case .open = phase { true } else { false } }
  /// The last connection was left because there was nothing to do.
  package var endedIdle: Bool { connection.endedIdle }
  /// True when no connection is open, opening or closing.
  package var isDisconnected: Bool { if case .disconnected = phase { true } else { false } }
  /// When it may connect again, while it is disconnected.
  package var retryAt: Instant? { if case .disconnected(let instant) = phase { instant } else { nil } }
  /// The peer of this connection, or of the last one, has sent bytes.
  package var hasHeard: Bool { connection.hasHeard }
  /// It looks for a request on which the service cuts the connection.
  package var isSearching: Bool { search != nil }
  /// Notifications that wait for their next turn.
  package var waitingCount: Int { retries.count + (search?.count ?? 0) }
  /// Whether any device token waits: then each is to be looked up with ``pacedUntil(_:now:)``.
  package var pacesTokens: Bool { !paced.isEmpty }
  /// The tag for the request that is submitted next.
  package var nextTag: UInt64 { inFlight.nextTag }

  /// What has come of the events since the last call; nil when nothing has.
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

  /// Gives memory back that an idle lane does not need.
  package mutating func becameIdle() {
    map.release()
    inFlight.release()
    retries.release()
  }

  // MARK: What to do

  /// What to do now. To be asked again after every event, and at the moment that `wait` names.
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
      // The next trial need not wait for the time of a notification.
      let isTrial = outage != nil || connection.trialCount == 1
      if isTrial, retries.next == nil, !isTakingNew(input) { retries.hastenFirst { !$0.isPaced } }
      if let entry = retries.next { return .again(entry) }
      if isTakingNew(input) { return .take(from: map.sent, to: input.published, count: room) }
    }
    return stepIfShutOut(input) ?? stepWithNothingToSend(input)
  }

  /// A peer that allows no stream at all is left after as long as an answer may take: the next connection may have a better one.
  private mutating func stepIfShutOut(_ input: Input) -> Step? {
    let hasWork = retries.next != nil || search != nil || isTakingNew(input)
    guard hasWork, !isPaused, inFlight.count == 0, input.availableStreamCount == 0 else {
      connection.shutOutSince = nil
      return nil
    }
    let since = connection.shutOutSince ?? input.now
    connection.shutOutSince = since
    let end = since + requests.timeout
    guard end <= input.now else { return .wait(until: Self.earliest(end, deadline)) }
    phase = .leaving
    return .leave
  }

  /// A service in trouble is not given more of it.
  func isTakingNew(_ input: Input) -> Bool {
    input.published > map.sent && retries.count < requests.waitingLimit
  }

  private mutating func stepThroughCancelled(_ input: Input) -> Step? {
    endSearch()
    retries.hasten { _ in true }
    if let entry = retries.next { return .again(entry) }
    return input.published > map.sent ? .take(from: map.sent, to: input.published, count: .max) : nil
  }

  /// Takes back one request that has had no answer in time; returns its stream.
  private mutating func giveUpOverdue(now: Instant) -> Int32? {
    guard let oldest = inFlight.oldest, oldest.submittedAt + requests.timeout <= now, let entry = inFlight.remove(oldest.tag) else { return nil }
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

  /// When the peer is to be asked whether it lives.
  private var pingAt: Instant? {
    if inFlight.count > 0 || connection.unheardSince != nil { return (connection.unheardSince ?? connection.heardAt) + requests.silence }
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

  /// When something will be due that no event announces.
  package var deadline: Instant? {
    Self.earliest(connectionDeadline, outage == nil ? retries.nextAt : Self.earliest(outage?.retryAt, retries.nextAt))
  }

  private var connectionDeadline: Instant? {
    let pingEnd = connection.ping.map { max($0.sentAt, connection.heardAt) + requests.pingTimeout } ?? pingAt
    return Self.earliest(inFlight.oldest.map { $0.submittedAt + requests.timeout }, pingEnd)
  }

  private static func earliest(_ left: Instant?, _ right: Instant?) -> Instant? {
    guard let left, let right else { return left ?? right }
    return min(left, right)
  }
}

extension Settlement {
  /// Takes in `next`, if that is its neighbour with the same outcome.
  mutating func join(_ next: Settlement) -> Bool {
    guard next.from == to, next.campaign == campaign, next.outcome == outcome else { return false }
    to = next.to
    count += next.count
    return true
  }
}
