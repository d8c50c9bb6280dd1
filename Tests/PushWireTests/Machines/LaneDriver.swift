internal import PushWire
internal import Testing

/// A ring in which every block is one notification, except those that are padding.
struct DenseWalk: RecordWalk {
  var padding: Set<UInt64> = []

  func notificationCount(from: UInt64, to: UInt64) -> Int {
    Int(to - from) - padding.count { $0 >= from && $0 < to }
  }

  func position(after count: Int, from: UInt64, limit: UInt64) -> UInt64 {
    var position = from
    var passed = 0
    while position < limit, passed < count {
      if !padding.contains(position) { passed += 1 }
      position += 1
    }
    return position
  }

  func end(ofNotificationAt position: UInt64, from: UInt64) -> UInt64? {
    position >= from && !padding.contains(position) ? position + 1 : nil
  }
}

/// A test's lane: carries out the machine's steps and records the outcome of every notification.
final class LaneDriver {
  private var machine: LaneMachine
  var walk = DenseWalk()
  var input: LaneMachine.Input
  private var streamEnd: UInt64 = 0
  /// Whether the peer's system acknowledges sent bytes at once.
  var peerReads = true {
    didSet { acknowledge() }
  }
  /// By position, in the order in which they were settled.
  private(set) var outcomes: [UInt64: Outcome] = [:]
  private(set) var settledTwice = false
  /// The results of the last call of `takeEffects`.
  private(set) var inDoubt: [Range<UInt64>] = []
  private(set) var hasRewound = false
  private(set) var discardedFrom: UInt64?
  private(set) var madeProgress = false
  private(set) var isUnresponsive = false

  init(seed: UInt64 = 1, _ change: (inout LanePolicy) -> Void = { _ in }) {
    var policy = LanePolicy()
    change(&policy)
    machine = LaneMachine(policy: policy, seed: seed)
    input = LaneMachine.Input(
      now: Instant(nanoseconds: 1_000_000_000), published: 0, freeBlockCount: 1 << 20,
      blockCountLimit: policy.ringBlockCount, isWritable: true,
      acknowledged: 0,
      isDraining: false, isCancelled: false)
  }

  var sent: UInt64 { machine.sent }
  var settled: UInt64 { machine.settled }
  var progress: UInt64 { machine.progress(now: now) }
  var failures: Int { machine.failures }
  var now: Instant { input.now }
  var isDisconnected: Bool { machine.isDisconnected }

  func next() -> LaneMachine.Step {
    defer { look() }
    return machine.next(input, walk: walk)
  }

  func pass(_ duration: Duration) { input.now = input.now + duration }

  /// Dials when the machine requests it, after any wait, and opens the connection.
  func connect() {
    var step = next()
    if case .wait(let until?) = step, isDisconnected {
      input.now = until
      step = next()
    }
    #expect(step == .dial)
    machine.dialled()
    open()
  }

  func dial() {
    #expect(next() == .dial)
    machine.dialled()
  }

  /// As ``connect()``, but the gateway cannot be reached.
  func dialAndFail() {
    if case .wait(let until?) = next() { input.now = until }
    dial()
    close()
  }

  /// Opens a connection that the machine has just requested.
  func beginConnection() {
    machine.dialled()
    open()
  }

  /// Sends a probe that the machine has just requested.
  func beginProbe() { machine.probed(now: now) }

  func open() {
    streamEnd = 0
    input.acknowledged = 0
    machine.opened(now: now)
  }

  /// The peer's system acknowledges everything, unless the peer does not read.
  private func acknowledge() {
    if peerReads { input.acknowledged = streamEnd }
  }

  /// Records a run as having had its turn.
  func pack(to end: UInt64, _ fate: ResendWindow.Fate = .sent, campaign: UInt32 = 1) {
    let count = walk.notificationCount(from: machine.sent, to: end)
    machine.packed(to: end, lastStart: end - 1, count: count, campaign: campaign, fate: fate, now: now)
    streamEnd += UInt64(count) * 100
    machine.handedOver(through: streamEnd)
    acknowledge()
    look()
    // The lane asks the machine again after each batch, so the machine sees that the socket has
    // taken it. The result stays valid until the next event.
    _ = machine.next(input, walk: walk)
  }

  func packPadding(to end: UInt64) {
    machine.packed(to: end, lastStart: machine.sent, count: 0, campaign: 0, fate: .cancelled, now: now)
    look()
  }

  /// Sends until the machine returns another step, and returns that step.
  func sendAll() -> LaneMachine.Step {
    while true {
      let step = next()
      guard case .pack(_, let to) = step else { return step }
      pack(to: to)
    }
  }

  /// Connects and sends `published` notifications without asking for confirmation.
  func connectAndSend(_ published: UInt64) {
    input.published = published
    connect()
    #expect(next() == .pack(from: sent, to: published))
    pack(to: published)
  }

  /// Sends the probe that the machine must request now. Returns its identifier.
  @discardableResult
  func probe() -> UInt32 {
    guard case .probe(let identifier) = next() else {
      Issue.record("no probe")
      return 0
    }
    machine.probed(now: now)
    return identifier
  }

  func respond(_ status: GatewayStatus, _ identifier: UInt32) {
    machine.responded(ErrorResponse(status: status, identifier: identifier), now: now, walk: walk)
    look()
  }

  func hearPart() { machine.heardPart() }

  var hasWorked: Bool { machine.hasWorked }

  func respondGarbage() {
    machine.respondedMalformed(walk: walk)
    look()
  }

  func close(_ closure: LaneClosure = .silent) {
    machine.closed(closure, now: now, walk: walk)
    look()
  }

  func setWritable(_ isWritable: Bool) {
    input.isWritable = isWritable
  }

  /// The common outcome of all notifications in `range`; nil if there are several, or none.
  func outcome(_ range: Range<UInt64>) -> Outcome? {
    let all = Set(range.map { outcomes[$0] })
    return all.count == 1 ? all.first ?? nil : nil
  }

  private func look() {
    guard let effects = machine.takeEffects() else {
      (inDoubt, hasRewound, madeProgress, isUnresponsive) = ([], false, false, false)
      discardedFrom = nil
      return
    }
    for settlement in effects.settlements {
      // Tests skip long stretches of padding to reach high positions. These are not recorded.
      guard settlement.count > 0 else { continue }
      for position in settlement.from..<settlement.to where !walk.padding.contains(position) {
        if outcomes.updateValue(settlement.outcome, forKey: position) != nil { settledTwice = true }
      }
    }
    inDoubt = effects.mayHaveArrived
    discardedFrom = effects.discardedFrom
    (hasRewound, madeProgress, isUnresponsive) = (effects.hasRewound, effects.madeProgress, effects.isUnresponsive)
  }
}
