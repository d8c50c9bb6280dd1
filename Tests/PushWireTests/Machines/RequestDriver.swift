internal import PushWire
internal import Testing

/// A test's lane over HTTP/2: carries out the machine's steps and records the outcome of every
/// notification. Every block is one notification, except for padding.
final class RequestDriver {
  private var machine: RequestMachine
  var input: RequestMachine.Input
  var padding: Set<UInt64> = []
  /// The peer's present limit.
  var streamLimit: Int
  /// By position: the campaign's number; 1 for positions that are not listed.
  var campaigns: [UInt64: UInt32] = [:]
  /// By position: device tokens, for tests in which several notifications have the same one.
  var tokens: [UInt64: Int] = [:]
  var cancelledCampaigns: Set<UInt32> = []
  /// Position and tag of every request in flight.
  private(set) var open: [UInt64: (tag: UInt64, streamID: Int32)] = [:]
  /// Every request, in order.
  private(set) var requested: [UInt64] = []
  private(set) var cancelledStreams: [Int32] = []
  private(set) var pings: [UInt64] = []
  private(set) var outcomes: [UInt64: Outcome] = [:]
  private(set) var settledTwice = false
  /// The results of the calls of `takeEffects` since the test last cleared them.
  var inDoubt: [Range<UInt64>] = []
  var settlements: [Settlement] = []
  private(set) var madeProgress = false
  private(set) var pausedBy: Outcome?
  private(set) var badTokens = 0
  private(set) var trouble: RequestMachine.Trouble?
  private(set) var largestOpenCount = 0
  private var nextStreamID: Int32 = 1
  private var takenPings = 0

  init(
    streamLimit: Int = 100, isKept: Bool = true, seed: UInt64 = 1,
    _ change: (inout LanePolicy, inout RequestPolicy) -> Void = { _, _ in }
  ) {
    var policy = LanePolicy()
    var requests = RequestPolicy()
    change(&policy, &requests)
    self.streamLimit = streamLimit
    machine = RequestMachine(policy: policy, requests: requests, isKept: isKept, seed: seed)
    input = RequestMachine.Input(
      now: Instant(nanoseconds: 1_000_000_000), published: 0, isWritable: true, availableStreamCount: 0,
      acceptsRequests: true, isCancelled: false)
  }

  var sent: UInt64 { machine.sent }
  var settled: UInt64 { machine.settled }
  var failures: Int { machine.failures }
  var waitingCount: Int { machine.waitingCount }
  var isDisconnected: Bool { machine.isDisconnected }
  var openPositions: [UInt64] { open.keys.sorted() }

  func pass(_ duration: Duration) { input.now = input.now + duration }

  /// Returns the next step without carrying it out.
  func next() -> RequestMachine.Step {
    input.availableStreamCount = max(0, streamLimit - open.count)
    return machine.next(input)
  }

  /// Carries out every step that needs no event. Returns the wait, the close or the dial that
  /// follows.
  @discardableResult
  func pump() -> RequestMachine.Step {
    for _ in 0..<1_000_000 {
      let step = next()
      switch step {
      case .again(let entry): take(entry)
      case .take(let from, let to, let count): take(from, to, count)
      case .cancel(let streamID): cancelledStreams.append(streamID)
      case .ping(let number): pings.append(number)
      case .dial, .leave, .wait:
        look()
        return step
      }
      look()
    }
    Issue.record("the machine never rests")
    return .leave
  }

  private func take(_ from: UInt64, _ to: UInt64, _ count: Int) {
    var position = from
    var left = count
    while position < to, left > 0 {
      if padding.contains(position) {
        machine.passedPadding(to: position + 1)
      } else {
        take(RequestEntry(position: position, end: position + 1, campaign: campaigns[position] ?? 1, isInDoubt: false))
        left -= 1
      }
      position += 1
    }
  }

  private func take(_ entry: RequestEntry) {
    if cancelledCampaigns.contains(entry.campaign) || input.isCancelled {
      return machine.passed(entry, as: entry.isInDoubt ? .unknown : .cancelled)
    }
    if machine.pacesTokens,
      let until = machine.pacedUntil(tokens[entry.position] ?? Int(entry.position), now: input.now)
    {
      return machine.passed(entry, until: until)
    }
    let tag = machine.nextTag
    machine.submitted(entry, streamID: nextStreamID, now: input.now)
    #expect(
      open.updateValue((tag, nextStreamID), forKey: entry.position) == nil, "\(entry.position) is under way twice")
    requested.append(entry.position)
    largestOpenCount = max(largestOpenCount, open.count)
    nextStreamID += 2
  }

  /// Dials when the machine requests it, after any wait, and opens the connection.
  func connect() {
    var step = pump()
    for _ in 0..<100 {
      guard case .wait(let until?) = step, isDisconnected else { break }
      input.now = until
      step = pump()
    }
    #expect(step == .dial)
    machine.dialled()
    machine.opened(now: input.now)
  }

  /// As ``connect()``, but the service cannot be reached.
  func dialAndFail() {
    var step = pump()
    while case .wait(let until?) = step, isDisconnected {
      input.now = until
      step = pump()
    }
    #expect(step == .dial)
    machine.dialled()
    close()
  }

  func publish(_ count: UInt64 = 1) { input.published += count }

  // MARK: Events

  func heard() { machine.heard(now: input.now) }
  func pong(_ number: UInt64) { machine.pong(number) }
  func postponed(until instant: Instant) { machine.postponed(until: instant) }

  func goAway() { machine.goingAway() }

  func answer(
    _ position: UInt64, _ verdict: ProviderVerdict = .accepted, outcome: Outcome = .accepted(.confirmed),
    retryAfter: UInt32? = nil,
    token: Int? = nil
  ) {
    guard let request = open.removeValue(forKey: position) else {
      Issue.record("no request for \(position)")
      return
    }
    heard()
    machine.answered(request.tag, verdict, outcome: outcome, retryAfter: retryAfter, token: token, now: input.now)
  }

  func answerAll(
    _ verdict: ProviderVerdict = .accepted, outcome: Outcome = .accepted(.confirmed), retryAfter: UInt32? = nil
  ) {
    for position in openPositions { answer(position, verdict, outcome: outcome, retryAfter: retryAfter) }
  }

  /// Advances the time until a request is in flight, and replaces connections that the machine
  /// leaves.
  func passToNextRequest() {
    for _ in 0..<1_000 {
      switch pump() {
      case .leave:
        close(.byUs)
        connect()
      case .wait(let until?) where openPositions.isEmpty: input.now = until
      default: return
      }
    }
    Issue.record("there is no next request")
  }

  func forgetAll() { open = [:] }

  /// Requests in flight in the order in which they were sent.
  var openInOrder: [UInt64] { open.sorted { $0.value.streamID < $1.value.streamID }.map(\.key) }

  /// Returns the last ping and clears it.
  func takePing() -> UInt64? {
    guard pings.count > takenPings else { return nil }
    takenPings = pings.count
    return pings.last
  }

  /// A late response to a request that the machine has given up.
  func lateAnswer(_ tag: UInt64) {
    machine.answered(tag, .accepted, outcome: .accepted(.confirmed), retryAfter: nil, now: input.now)
  }

  func end(_ position: UInt64, _ end: RequestMachine.StreamEnd) {
    guard let request = open.removeValue(forKey: position) else {
      Issue.record("no request for \(position)")
      return
    }
    machine.ended(request.tag, end, now: input.now)
  }

  func forget(_ position: UInt64) -> UInt64? { open.removeValue(forKey: position)?.tag }

  func close(_ closure: LaneClosure = .silent, unsent: Set<UInt64> = []) {
    for position in unsent.sorted() { end(position, .unprocessed) }
    open = [:]
    machine.closed(closure, now: input.now)
    look()
  }

  func cancel(_ campaign: UInt32) {
    cancelledCampaigns.insert(campaign)
    machine.cancelled { $0 == campaign }
  }

  func look() {
    guard let effects = machine.takeEffects() else { return }
    for settlement in effects.settlements {
      for position in settlement.from..<settlement.to
      where outcomes.updateValue(settlement.outcome, forKey: position) != nil { settledTwice = true }
    }
    settlements += effects.settlements
    inDoubt += effects.mayHaveArrived
    if effects.madeProgress { madeProgress = true }
    pausedBy = effects.pausedBy ?? pausedBy
    trouble = effects.trouble ?? trouble
    badTokens += effects.badTokenCount
  }

  /// Expects the policy's outcome for a notification without a response.
  func expect(unknown position: UInt64, under onUnknown: LanePolicy.OnUnknown) {
    switch onUnknown {
    case .resend:
      #expect(inDoubt == [position..<position + 1])
      #expect(openPositions.contains(position))
      #expect(outcomes[position] == nil)
    case .hold:
      #expect(outcomes[position] == .held)
      #expect(inDoubt.isEmpty)
    case .drop:
      #expect(outcomes[position] == .unknown)
      #expect(inDoubt.isEmpty)
    }
  }
}
