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

/// Plays the shell of a lane: carries out what the machine says and remembers what became of every notification.
final class LaneDriver {
  private var machine: LaneMachine
  var walk = DenseWalk()
  var input: LaneMachine.Input
  private var streamEnd: UInt64 = 0
  /// Whether the peer's system acknowledges what is sent, at once.
  var peerReads = true {
    didSet { acknowledge() }
  }
  /// By position, in the order in which they were settled.
  private(set) var outcomes: [UInt64: Outcome] = [:]
  private(set) var settledTwice = false
  /// What the last look at the effects brought.
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

  /// Dials when the machine says so, however long it wants to wait before, and opens the connection.
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

  /// A connection that the machine has just asked for.
  func beginConnection() {
    machine.dialled()
    open()
  }

  /// A probe that the machine has just asked for.
  func beginProbe() { machine.probed(now: now) }

  func open() {
    streamEnd = 0
    input.acknowledged = 0
    machine.opened(now: now)
  }

  /// The peer's system has everything; nothing happens while the peer does not read.
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
    // The lane asks again after each batch, and so the machine sees that the socket has taken it. The answer stands until something happens.
    _ = machine.next(input, walk: walk)
  }

  func packPadding(to end: UInt64) {
    machine.packed(to: end, lastStart: machine.sent, count: 0, campaign: 0, fate: .cancelled, now: now)
    look()
  }

  /// Sends as long as the machine says to send, and returns what it says then.
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

  /// Sends the probe that the machine must ask for now; returns its identifier.
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

  /// The outcome that all of `range` have in common; nil when they have several, or none.
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
      // Large stretches of padding that tests use to get far are not worth remembering.
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
