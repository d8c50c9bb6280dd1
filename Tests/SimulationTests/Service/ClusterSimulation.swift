internal import Foundation
internal import PushGateway
internal import PushSend
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import Carillon
@testable internal import PushEngine
@testable internal import PushService

/// Several nodes that send one campaign to stored devices at the same time: the real code of each,
/// on a loop, a disk and clocks of its own, before one store and one gateway. Nodes are killed,
/// stopped and cut off from the store, clocks run at different speeds, answers are late and lost.
/// The seed determines all of it.
final class ClusterSimulation: CustomStringConvertible, @unchecked Sendable {
  // Sync: all loops are run by the one thread that runs the simulation.
  enum Event: Hashable {
    /// `kill -9`, and a start so many seconds later; perhaps without what the disk had.
    case kill(restart: Int, losesDisk: Bool)
    /// SIGTERM, and a start so many seconds after the end.
    case leave(restart: Int)
    /// SIGSTOP and SIGCONT.
    case stop(seconds: Int)
    /// Only this node cannot reach the store.
    case cutOff(seconds: Int)
    case storeAway(seconds: Int)
    /// The store's clock jumps: a standby is promoted.
    case storeClock(seconds: Int)
    /// It is drained, and killed when it carries nothing any more.
    case drain
    case pause, resume, cancel
  }

  struct Plan {
    var seed: UInt64
    var isHTTP2: Bool
    /// The audience is rows of an upload, not stored devices.
    var isUpload: Bool
    var onUnknown = AppConfiguration.UnknownPolicy.resend
    var deviceCount: Int
    var badPerMille: Int
    var perSecond: Int?
    /// Seconds of each node's clocks in a second.
    var speeds: [Double]
    /// By how much the nodes' times of day differ, in milliseconds.
    var differences: [Int64]
    /// In milliseconds from the beginning.
    var events: [(at: Int, node: Int, Event)]
    var segments = SegmentSizes()
    var store = SimulatedStore.Faults()
    var settlementDelay: Duration
    /// In which the campaign ends.
    var bound = Duration.seconds(6_000)

    init(seed: UInt64) {
      self.seed = seed
      var random = SeededGenerator(seed: seed ^ 0xC1057E2)
      isHTTP2 = Bool.random(using: &random)
      // Of its own, so that nothing else of the plan changes.
      var other = SeededGenerator(seed: seed ^ 0xF11E)
      isUpload = Int.random(in: 0..<3, using: &other) == 0
      onUnknown = [.resend, .resend, .resend, .hold, .drop].randomElement(using: &other) ?? .resend
      deviceCount = [40, 300, 1_000, 2_000].randomElement(using: &random) ?? 40
      badPerMille = [0, 30].randomElement(using: &random) ?? 0
      perSecond = [nil, 20, 100, 1_000].randomElement(using: &random) ?? nil
      let count = Int.random(in: 2...4, using: &random)
      speeds = (0..<count).map { _ in 1 + Double.random(in: -0.02...0.02, using: &random) }
      differences = (0..<count).map { _ in Int64.random(in: -60_000...60_000, using: &random) }
      settlementDelay = [.zero, .milliseconds(10), .seconds(1)].randomElement(using: &random) ?? .zero
      segments.small = [20, 100, 200].randomElement(using: &random) ?? 20
      segments.large = segments.small
      let least = [1, 10, 100].randomElement(using: &random) ?? 10
      segments.grants = least...(least * 8)
      store.latency = [0...0, 0...5, 1...40, 10...300].randomElement(using: &random) ?? 0...0
      store.failuresPerMille = [0, 0, 20].randomElement(using: &random) ?? 0
      store.lostAnswersPerMille = [0, 0, 100].randomElement(using: &random) ?? 0
      events = []
      // Most of it happens while something is sent.
      let span = [2_000, 20_000, 90_000].randomElement(using: &random) ?? 2_000
      for _ in 0..<Int.random(in: 0...6, using: &random) {
        let at = Int.random(in: 500...(500 + span), using: &random)
        let node = Int.random(in: 0..<count, using: &random)
        let seconds = [1, 8, 30, 90].randomElement(using: &random) ?? 1
        switch Int.random(in: 0..<10, using: &random) {
        case ..<3:
          let losesDisk = Int.random(in: 0..<4, using: &random) == 0
          events.append((at, node, .kill(restart: seconds, losesDisk: losesDisk)))
        case ..<5: events.append((at, node, .leave(restart: seconds)))
        case ..<7: events.append((at, node, .stop(seconds: seconds)))
        case ..<8: events.append((at, node, .cutOff(seconds: seconds)))
        case ..<9: events.append((at, node, .storeAway(seconds: seconds)))
        default:
          events.append((at, node, .pause))
          events.append((at + seconds * 1_000, Int.random(in: 0..<count, using: &random), .resume))
        }
      }
      if Int.random(in: 0..<12, using: &random) == 0 {
        events.append((Int.random(in: 500...(500 + span), using: &random), 0, .cancel))
      }
      if Int.random(in: 0..<4, using: &other) == 0 {
        let jump = [5, 30, 60].randomElement(using: &other) ?? 30
        events.append((Int.random(in: 500...(500 + span), using: &other), 0, .storeClock(seconds: jump)))
      }
      // Whoever was asked may have been killed.
      for node in 0..<count { events.append((400_000 + node, node, .resume)) }
      events.sort { ($0.at, $0.node) < ($1.at, $1.node) }
    }

    /// All nodes end and start again, one after the other, while they send.
    mutating func roll() {
      var random = SeededGenerator(seed: seed ^ 0x2011)
      (deviceCount, perSecond) = (1_000, [100, 200, 1_000].randomElement(using: &random) ?? 100)
      store = SimulatedStore.Faults()
      store.latency = [0...0, 0...5, 10...50].randomElement(using: &random) ?? 0...0
      var at = 500
      events = speeds.indices.map { node in
        at += Int.random(in: 300...4_000, using: &random)
        return (at, node, .leave(restart: 1))
      }
    }

    /// Nodes are stopped for about as long as their lease is, so that they go on while others take
    /// their place, and claim one of many segments all the time.
    mutating func stopForTheLease() {
      var random = SeededGenerator(seed: seed ^ 0x5709)
      (deviceCount, perSecond) = (1_000, 20)
      store = SimulatedStore.Faults()
      (segments.small, segments.large, store.latency) = (20, 20, 10...300)
      events = (0..<6).map { stop in
        (
          2_000 + stop * 6_000, Int.random(in: speeds.indices, using: &random),
          .stop(seconds: Int.random(in: 9...13, using: &random))
        )
      }
    }

    /// Nodes are killed again and again, and lose their disks.
    mutating func killOften() {
      var random = SeededGenerator(seed: seed ^ 0x1C11)
      (deviceCount, perSecond, onUnknown) = (1_000, 20, .resend)
      events = (0..<8).map { kill in
        let node = Int.random(in: speeds.indices, using: &random)
        return (1_000 + kill * 5_000, node, .kill(restart: Int.random(in: 1...20, using: &random), losesDisk: true))
      }
    }

    /// Nodes are killed and come back at once to what is left of many segments. Now and then an
    /// answer of the store is older than what has happened since.
    mutating func comeBack() {
      var random = SeededGenerator(seed: seed ^ 0xBAC4)
      (deviceCount, perSecond) = (2_000, [nil, nil, 200].randomElement(using: &random) ?? nil)
      (segments.small, segments.large, segments.grants) = (20, 20, 1...8)
      (store.latency, store.failuresPerMille, store.latePerMille) = (1...40, 0, 60)
      settlementDelay = .milliseconds(100)
      events = (0..<16).map { kill in
        let node = Int.random(in: speeds.indices, using: &random)
        return (1_000 + kill * 1_700, node, .kill(restart: Int.random(in: 0...1, using: &random), losesDisk: false))
      }
    }

    /// Nodes are drained and killed, one after the other, while they send.
    mutating func drain() {
      roll()
      events = events.map { ($0.at, $0.node, .drain) }
    }

    var isCancelled: Bool { events.contains { $0.2 == .cancel } }
  }

  /// One node: its disk, and its process while it runs.
  final class Node {
    let number: Int
    var disk = SimulatedDisk()
    let spool: CampaignSpool
    /// Of the last process, as its journal's folder has it.
    var incarnation: Int64?
    var engine: SimulatedProcess?
    var process: ServedCampaignProcess?
    var watch = LeaseWatch()
    /// When its process began, in the world's time, and by its own clock.
    var began = (world: Instant.start, own: Instant.start)
    /// It runs no earlier than this.
    var waitsUntil = Instant.start
    var lifeCount = 0
    var isDraining = false
    /// After how many seconds it starts again, when it has left.
    var restart = 1

    init(_ number: Int, spool: CampaignSpool) { (self.number, self.spool) = (number, spool) }
  }

  let plan: Plan
  private let segmentMistake: SegmentMachine.PlantedMistake?
  private let ledgerMistake: LedgerContents.PlantedMistake?
  private let membershipMistake: NodeMembership.PlantedMistake?
  let storeDisk = StoreDisk()
  let frames = RecordedFrames()
  let provider: SimulatedProvider?
  private let service: any SimulatedEndpoint
  private let folder: URL
  var nodes: [Node] = []
  var world = Instant(nanoseconds: 1_000_000_000)
  private var random: SeededGenerator
  let tokens: [TokenBytes]
  var keys: [TokenBytes: Int64] = [:]
  let bad: Set<TokenBytes>
  var suppressed: Set<TokenBytes> = []
  let id: StoredUUID
  private let epoch: Int64 = 1_700_000_000_000
  var problems: [String] = []
  var checkedCount = 0
  var lastBegin = Instant.start
  /// When notifications arrived lately.
  var arrivals: [Instant] = []

  var description: String { "\(plan)" }

  init(
    _ plan: Plan, segmentMistake: SegmentMachine.PlantedMistake? = nil,
    ledgerMistake: LedgerContents.PlantedMistake? = nil, membershipMistake: NodeMembership.PlantedMistake? = nil
  ) {
    (self.plan, self.segmentMistake, self.ledgerMistake) = (plan, segmentMistake, ledgerMistake)
    self.membershipMistake = membershipMistake
    let seed = plan.seed
    random = SeededGenerator(seed: seed)
    tokens = Scenario.distinctTokens(plan.deviceCount, seed: seed)
    var bad: Set<TokenBytes> = []
    for token in tokens where Int.random(in: 0..<1_000, using: &random) < plan.badPerMille { bad.insert(token) }
    self.bad = bad
    var faults = ProviderFaults()
    for token in bad { faults.refused[token] = (400, .badDeviceToken) }
    provider = plan.isHTTP2 ? SimulatedProvider(faults: faults, seed: seed) : nil
    var rules = FaultRules()
    rules.common.refuse = [Faults.Refuse(Faults.Selection(tokens: bad), status: .invalidToken)]
    service =
      provider ?? BinaryService(gateway: SimulatedGateway(rules: rules, memory: frames), topic: Scenario.topic)
    folder = URL.temporaryDirectory.appending(
      path: "carillon-simulation-\(getpid())-\(seed)-\(UInt32.random(in: 0 ... .max))")
    id = StoredUUID(high: 0x018b_cfe5_6800_7000 | seed & 0xFFF, low: 0x8000_0000_0000_0000 | seed)
    nodes = plan.speeds.indices.map { [folder] number in
      Node(number, spool: CampaignSpool(besides: folder.appending(path: "store-\(number).db").path))
    }
    if !plan.isUpload { addDevices() }
  }

  /// A row is two lines, sometimes.
  private func upload() -> StoredUpload {
    var (text, upload) = ("name,token\n", StoredUpload())
    upload.lineCount = 1
    for token in tokens {
      keys[token] = upload.lineCount + 1
      let isLong = Int.random(in: 0..<5, using: &random) == 0
      text += isLong ? "\"a\nb\",\(token)\n" : "a,\(token)\n"
      upload.lineCount += isLong ? 2 : 1
    }
    let bytes = Array(text.utf8)
    (upload.byteCount, upload.isComplete, upload.format) = (Int64(bytes.count), true, "csv")
    let size = Int.random(in: 1_000...100_000, using: &random)
    let pieces = stride(from: 0, to: bytes.count, by: size).map { start in
      AudiencePiece(start: Int64(start), id: Int64(start), bytes: Array(bytes[start..<min(start + size, bytes.count)]))
    }
    storeDisk.change { [id] in $0.uploads[id] = pieces }
    return upload
  }

  private func addDevices() {
    let now = StoreInstant(milliseconds: epoch)
    var key: Int64 = 0
    for token in tokens {
      key += Int64.random(in: 1...3, using: &random)
      keys[token] = key
      let isSuppressed = Int.random(in: 0..<10, using: &random) == 0
      if isSuppressed { suppressed.insert(token) }
      let device = StoredDevice(
        key: key, id: StoredUUID(high: 0, low: UInt64(key)), token: token.bytes, language: nil, timeZone: nil,
        tags: [], createdAt: now, registeredAt: now, goneAt: isSuppressed ? now : nil)
      storeDisk.change { $0.insert(device, app: "served") }
    }
  }

  // MARK: The world

  /// What the account says of copies, when it has run.
  var possibleDuplicateCount = 0

  /// The problems found, in sentences.
  func run() -> [String] {
    defer { try? FileManager.default.removeItem(at: folder) }
    do {
      try prepare()
      for node in nodes { try begin(node) }
    } catch { return ["the campaign cannot be made: \(error)"] }
    if let problem = runNodes() { return [problem] + problems }
    for node in nodes { if let problem = end(node) { return ["node \(node.number): \(problem)"] } }
    return problems + check()
  }

  private func runNodes() -> String? {
    var events = plan.events[...]
    let start = world
    var endsAt: Instant?
    while true {
      if let endsAt, world >= endsAt { return nil }
      if endsAt == nil, hasEnded { endsAt = world + .seconds(5) }
      guard world.since(start) < plan.bound else { return "it did not end: \(state)" }
      var next: (at: Instant, node: Node)?
      for node in nodes { if let at = due(node), next.map({ at < $0.at }) ?? true { next = (at, node) } }
      if let event = events.first {
        let at = start + .milliseconds(event.at)
        if next.map({ at <= $0.at }) ?? true {
          events = events.dropFirst()
          world = max(world, at)
          if let problem = happen(event.2, nodes[event.node]) { return problem }
          continue
        }
      }
      guard let next else { return "nothing happens any more: \(state)" }
      world = max(world, next.at)
      if let problem = step(next.node) { return problem }
      if !problems.isEmpty { return "at \(world.since(start)): \(state)" }
    }
  }

  /// When a node does something next, in the world's time; nil: never.
  private func due(_ node: Node) -> Instant? {
    guard let engine = node.engine else { return node.waitsUntil }
    guard let next = engine.loop.nextEvent else { return nil }
    let own = next.since(node.began.own).inSeconds / plan.speeds[node.number]
    return max(node.began.world + .nanoseconds(Int64(own * 1e9)), node.waitsUntil)
  }

  /// What a node's clock shows now.
  private func ownTime(_ node: Node) -> Instant {
    let passed = world.since(node.began.world).inSeconds * plan.speeds[node.number]
    return node.began.own + .nanoseconds(Int64(passed * 1e9))
  }

  private func step(_ node: Node) -> String? {
    guard let engine = node.engine, let process = node.process else {
      do { try begin(node) } catch { return "node \(node.number) cannot begin: \(error)" }
      return nil
    }
    storeDisk.change { $0.ledger.time = world }
    // Time went on while it was stopped.
    if node.waitsUntil == world { engine.loop.skip(to: ownTime(node)) }
    _ = engine.loop.run(limit: .seconds(1_000_000), stepLimit: 1) { false }
    look()
    if node.watch.lateCount > 0 { problems.append("node \(node.number) sent after its lease") }
    if let failure = engine.journal.failure { return "the journal of node \(node.number) has failed: \(failure)" }
    if node.isDraining, !storeDisk.change({ $0.ledger.carries(node.incarnation) }) {
      return kill(node, restart: 1, losesDisk: false)
    }
    if process.hasLeft { return kill(node, restart: node.restart, losesDisk: false) }
    return process.isFenced ? kill(node, restart: 1, losesDisk: false) : nil
  }

  private func happen(_ event: Event, _ node: Node) -> String? {
    switch event {
    case .kill(let seconds, let losesDisk): return kill(node, restart: seconds, losesDisk: losesDisk)
    case .leave(let seconds):
      node.restart = seconds
      node.process?.leave()
    case .drain:
      storeDisk.change { $0.ledger.drain("node-\(node.number)") }
      node.isDraining = true
    case .stop(let seconds): node.waitsUntil = max(node.waitsUntil, world + .seconds(seconds))
    case .cutOff(let seconds): node.process?.store.leave(until: ownTime(node) + .seconds(seconds))
    case .storeAway(let seconds):
      for node in nodes { node.process?.store.leave(until: ownTime(node) + .seconds(seconds)) }
    case .storeClock(let seconds): storeDisk.change { $0.ledger.clockStep += .seconds(seconds) }
    case .pause: perform(node) { [id] in try await $0.change(id, { _ in .paused }) }
    case .resume: if let process = node.process { perform(node) { [id] _ in try await process.resume(id) } }
    case .cancel: perform(node) { [id] in try await $0.change(id, { _ in .cancelled }) }
    }
    return nil
  }

  private func perform(_ node: Node, _ body: @escaping @Sendable (CampaignController) async throws -> Void) {
    node.process?.perform(at: ownTime(node), body)
  }

  // MARK: Nodes

  private func begin(_ node: Node) throws {
    node.lifeCount += 1
    lastBegin = world
    let seed = plan.seed &+ UInt64(node.number) &* 104_729 &+ UInt64(node.lifeCount) &* 7_919
    let beganAt = epoch + Int64(world.nanoseconds / 1_000_000) + plan.differences[node.number]
    var opened: (OutcomeRecorder, SimulatedStore, SimulatedClock)?
    var rules = AppRules.served("served", isHTTP2: plan.isHTTP2)
    let watch = LeaseWatch()
    (rules.observer, rules.policy.onUnknown) = (watch, configuration.onUnknown.wire)
    let engine = try SimulatedProcess(rules, node.disk, service, seed: seed) { journal, loop in
      let clock = SimulatedClock(loop: loop, beganAt: beganAt)
      let store = SimulatedStore(
        storeDisk, loop, plan.store, seed: seed &+ 5, hasLedger: true, node: "\(node.number)",
        plantedMistake: ledgerMistake)
      let outcomes = OutcomeRecorder(store: store, clock: clock, deferred: DeferredChanges(DeferredList(node.disk)))
      journal.writeSettlements(outcomes, after: plan.settlementDelay, on: loop)
      opened = (outcomes, store, clock)
    }
    guard let (outcomes, store, clock) = opened else { throw SimulatedStore.failure }
    let process = try ServedCampaignProcess(
      engine, configuration, store, outcomes, clock, CampaignTimes.App(), spool: node.spool,
      controller: CampaignController(
        store: store, clock: clock, segmentMistake: segmentMistake, segmentSizes: plan.segments),
      former: node.incarnation, isOneOfSeveral: true, membershipMistake: membershipMistake
    ) { [self, number = node.number] in nodes[number].incarnation = $0 }
    watch.lease = process.lease
    (node.engine, node.process, node.watch) = (engine, process, watch)
    node.began = (world, engine.loop.now)
    process.begin()
    // Whoever asked for it asks each process until one has answered.
    process.perform(at: engine.loop.now + .milliseconds(200)) { [id] in _ = try await $0.start(id) }
  }

  private func kill(_ node: Node, restart seconds: Int, losesDisk: Bool) -> String? {
    guard let engine = node.engine, let process = node.process else { return nil }
    process.store.kill()
    engine.kill { $0.restart() }
    process.close()
    let problem = engine.close { process.hasEnded }
    (node.engine, node.process, node.isDraining) = (nil, nil, false)
    if losesDisk {
      node.disk = SimulatedDisk()
      node.incarnation = nil
    }
    node.waitsUntil = world + .seconds(seconds)
    lastBegin = world
    look()
    return problem.map { "node \(node.number): \($0) \(process.remainder)" }
  }

  private func end(_ node: Node) -> String? {
    guard let engine = node.engine, let process = node.process else { return nil }
    process.close()
    return engine.close { process.hasEnded }.map { $0 + " \(process.remainder) \(state)" }
  }

  // MARK: The campaign

  private func prepare() throws {
    var text = #"{"name":"sale","payload":{"aps":{"alert":"Hello"}}"#
    if !plan.isUpload { text += #","audience":{"source":"devices"}"# }
    if let perSecond = plan.perSecond { text += #","rateLimit":\#(perSecond)"# }
    var campaign = StoredCampaign(
      id: id, app: "served", state: CampaignState.draft.rawValue, content: [],
      createdAt: StoreInstant(milliseconds: epoch))
    campaign.set(try CampaignPlan(parsing: Array((text + "}").utf8)[...]))
    if plan.isUpload { campaign.upload = upload() }
    storeDisk.change { [campaign] in $0.campaigns[campaign.id] = campaign }
  }

  private var configuration: AppConfiguration {
    var configuration = AppConfiguration(
      id: "served", topic: Scenario.topic, transport: plan.isHTTP2 ? .http2() : .binary(),
      credential: .certificate(file: "news.pem"))
    configuration.onUnknown = plan.onUnknown
    return configuration
  }

  private var hasEnded: Bool { storeDisk.change { [id] in $0.campaigns[id]?.endedAt != nil } }

  private var state: String {
    let contents = storeDisk.contents
    let campaign = contents.campaigns[id].map { "\($0.state) \($0.reason)" } ?? ""
    return "\(campaign), \(contents.ledger), \(nodes.map { $0.process?.state(id) ?? "down" })"
  }
}
