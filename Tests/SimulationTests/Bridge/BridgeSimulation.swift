internal import PushGateway
internal import PushJournal
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import Carillon
@testable internal import PushEngine
@testable internal import PushService

/// One random history of an app with a bridge and old providers. The seed determines all of it.
final class BridgeSimulation: CustomStringConvertible {
  struct Plan {
    enum End: CaseIterable {
      case kill
      case powerLoss
      /// Clients are asked to leave, and everything gets its outcome.
      case restart
    }

    /// For tests of the tests.
    enum Mistake: CaseIterable {
      case forgetsAlways
      case remembersAllAfterBreaks
      /// An error response that was written counts as read.
      case trustsResponses
      case forgetsAtRestart
      /// What is written about frames and outcomes may come after they are in the journal.
      case writesLate
      /// What was deferred while the store was away does not get into it.
      case forgetsDeferred
      /// Of two nodes: answers that another one has found are not asked for.
      case neverLooks
      /// See ``LedgerContents/PlantedMistake``.
      case endsRunsOfOthers
    }

    var seed: UInt64
    /// There are two nodes with disks of their own: which of them each process is. Nil: one.
    var nodes: [Int]?
    var isHTTP2: Bool
    var customers: [BridgeCustomer.Behaviour]
    var itemCount: Int
    var badPerMille: Int
    var settings = BridgeConnection.Settings()
    /// Of what waits for the app's connections.
    var queueByteLimit: Int
    var ends: [(end: End, after: Int)]
    var outage: NetworkFaults.Outage?
    var provider = ProviderFaults()
    var gateway = Faults()
    var sync: JournalSync
    var store = SimulatedStore.Faults()
    var mistake: Mistake?

    init(seed: UInt64, mistake: Mistake? = nil, hasTwoNodes: Bool = false) {
      self.seed = seed
      self.mistake = mistake
      var random = SeededGenerator(seed: seed ^ 0xB81D)
      isHTTP2 = Int.random(in: 0..<3, using: &random) > 0
      let cutPerMille = [0, 0, 20].randomElement(using: &random) ?? 0
      customers = (0..<Int.random(in: 1...3, using: &random)).map { _ in
        BridgeCustomer.Behaviour(
          kind: ResendingClient.Kind.allCases.randomElement(using: &random) ?? .pushy, cutPerMille: cutPerMille,
          roundCount: [1, 1, 2, 3].randomElement(using: &random) ?? 1,
          retryTime: .milliseconds(Int.random(in: 0...9_000, using: &random)))
      }
      itemCount = [1, 20, 200, 1_000].randomElement(using: &random) ?? 20
      badPerMille = [0, 2, 30, 200].randomElement(using: &random) ?? 0
      settings.session.window.frameCount = [3, 100, 16_384].randomElement(using: &random) ?? 100
      settings.session.window.conclusionTime = .seconds(Int.random(in: 1...30, using: &random))
      queueByteLimit = [1_000, 30_000, 1_000_000].randomElement(using: &random) ?? 30_000
      ends = (0..<[0, 0, 1, 2, 3][Int.random(in: 0..<5, using: &random)]).map { _ in
        let limit = [300, 3_000, 30_000].randomElement(using: &random) ?? 300
        return (End.allCases.randomElement(using: &random) ?? .kill, Int.random(in: 0..<limit, using: &random))
      }
      sync = [.always, .interval(.milliseconds(10))].randomElement(using: &random) ?? .always
      if random.chance(25) {
        outage = NetworkFaults.Outage(
          kind: Bool.random(using: &random) ? .unreachable : .closes,
          after: .milliseconds(Int.random(in: 0...500, using: &random)),
          duration: .milliseconds(Int.random(in: 100...60_000, using: &random)))
      }
      addFaults(&random)
      store.latency = [0...0, 0...50].randomElement(using: &random) ?? 0...0
      store.failuresPerMille = [0, 50].randomElement(using: &random) ?? 0
      store.awayPerMille = SimulatedStore.Faults.awayPerMille(seed: seed)
      switch mistake {
      case .forgetsAlways: settings.plantedMistake = .forgets
      case .remembersAllAfterBreaks: settings.plantedMistake = .remembersAllAfterBreaks
      case .trustsResponses: settings.plantedMistake = .trustsResponses
      case .forgetsAtRestart, .writesLate, .forgetsDeferred, .neverLooks, .endsRunsOfOthers, nil: break
      }
      // After a restart, the age of what was answered begins anew: repeats wait for too long then.
      if !ends.isEmpty { for place in customers.indices { customers[place].roundCount = 1 } }
      guard hasTwoNodes else { return }
      let nodes = (0...ends.count).map { _ in Int.random(in: 0...1, using: &random) }
      self.nodes = nodes
      // What came while the store was away is on the disk of its node, and unknown to another one.
      if Set(nodes).count > 1 { store.awayPerMille = 0 }
    }

    private mutating func addFaults(_ random: inout SeededGenerator) {
      provider.processing = 0...([0, 20, 100, 1_000].randomElement(using: &random) ?? 20)
      provider.streamLimit = [1, 10, 1_000].randomElement(using: &random) ?? 10
      if random.chance(25) { provider.unavailablePerMille = Int.random(in: 1...100, using: &random) }
      if random.chance(25) { provider.refusedStreamPerMille = Int.random(in: 1...100, using: &random) }
      if random.chance(25) { provider.shutdownPerMille = Int.random(in: 1...30, using: &random) }
      if random.chance(25) { provider.goAwayAfter = [1, 40].randomElement(using: &random) }
      if random.chance(50) { gateway.answerDelay = .milliseconds(Int.random(in: 1...300, using: &random)) }
      if random.chance(25) {
        gateway.shutDown = Faults.Breakpoint(after: Int.random(in: 5...200, using: &random), connections: 3)
      }
    }
  }

  let plan: Plan
  private let disks = [SimulatedDisk(), SimulatedDisk()]
  private var incarnations: [Int64?] = [nil, nil]
  private let storeDisk = StoreDisk()
  /// The time of day at which a process begins.
  private var beginsAt: Int64 = 1_700_000_000_000
  private let frames = RecordedFrames()
  private let provider: SimulatedProvider?
  private let service: any SimulatedEndpoint
  private var random: SeededGenerator
  private let items: [[ResendingClient.Item]]
  private let bad: Set<TokenBytes>
  private let customers: [BridgeCustomer]
  /// What came again and was recognised.
  private(set) var recognisedCount = 0
  var reportedCount: Int { customers.reduce(0) { $0 + $1.reportedCount } }

  var description: String { "\(plan)" }

  init(_ plan: Plan) {
    self.plan = plan
    random = SeededGenerator(seed: plan.seed)
    let tokens = Scenario.distinctTokens(plan.itemCount * plan.customers.count, seed: plan.seed)
    var bad: Set<TokenBytes> = []
    for token in tokens where Int.random(in: 0..<1000, using: &random) < plan.badPerMille { bad.insert(token) }
    self.bad = bad
    // A notification that is equal on purpose cannot be told from one that comes again after the
    // connection broke. So there are some only where no connection breaks.
    let isUnbroken = plan.customers.allSatisfy { $0.cutPerMille == 0 && $0.roundCount == 1 }
    let hasCopies = plan.ends.isEmpty && isUnbroken && Bool.random(using: &random)
    var items: [[ResendingClient.Item]] = []
    for place in plan.customers.indices {
      var list: [ResendingClient.Item] = []
      for (index, token) in tokens[place * plan.itemCount..<(place + 1) * plan.itemCount].enumerated() {
        let payload = Array(#"{"aps":{"badge":\#(index)}}"#.utf8)
        list.append(ResendingClient.Item(token: token, payload: payload, expiration: 0))
        if hasCopies, random.chance(5) { list.append(list[Int.random(in: 0..<list.count, using: &random)]) }
      }
      items.append(list)
    }
    self.items = items
    var faults = plan.provider
    for token in bad { faults.refused[token] = (400, .badDeviceToken) }
    provider = plan.isHTTP2 ? SimulatedProvider(faults: faults, seed: plan.seed &+ 3) : nil
    var rules = FaultRules()
    rules.common = plan.gateway
    rules.common.refuse = [Faults.Refuse(Faults.Selection(tokens: bad), status: .invalidToken)]
    service =
      provider ?? BinaryService(gateway: SimulatedGateway(rules: rules, memory: frames), topic: Scenario.topic)
    customers = plan.customers.enumerated().map { place, behaviour in
      BridgeCustomer("customer \(place)", behaviour, items[place], seed: plan.seed &+ UInt64(place) &* 77)
    }
  }

  /// The problems found, in sentences.
  func run() -> [String] {
    for (index, end) in (plan.ends + [(.restart, .max)]).enumerated() {
      if let problem = live(index, end.end, stepLimit: end.after) { return ["process \(index + 1): \(problem)"] }
    }
    return check()
  }

  // MARK: Truth

  private func check() -> [String] {
    var problems: [String] = []
    let all = customers.flatMap(\.sentItems).map(\.token)
    let arrivals = provider?.accepted ?? frames.accepted(topic: Scenario.topic)
    let wanted = Dictionary(all.filter { !bad.contains($0) }.map { ($0, 1) }, uniquingKeysWith: +)
    let contents = storeDisk.contents
    problems += contents.problems
    // One that is equal on purpose cannot be told from one that comes again after that.
    let ambiguous = Set(customers.filter(\.wasShutDown).flatMap(\.sentItems).map(\.token)).filter {
      wanted[$0, default: 0] > 1 && arrivals[$0, default: 0] > 0
    }
    let excused = ambiguous.reduce(0) { $0 + max(0, wanted[$1, default: 0] - arrivals[$1, default: 0]) }
    let missing = wanted.filter { arrivals[$0.key, default: 0] < $0.value && !ambiguous.contains($0.key) }
    if !missing.isEmpty { problems.append("\(missing.count) have not arrived") }
    let copies = arrivals.reduce(0) { $0 + $1.value - wanted[$1.key, default: 0] }
    let outcomes = contents.outcomes
    if copies > outcomes.copies { problems.append("\(copies) copies, counted \(outcomes.copies)") }
    let goodCount = wanted.values.reduce(0, +)
    let accepted = outcomes.accepted.values.reduce(0, +)
    let rejected = outcomes.others["rejected", default: [:]].values.reduce(0, +)
    for (state, known, count) in [
      ("accepted", accepted, goodCount), ("rejected", rejected, all.count - goodCount),
    ] {
      if known > count || known + excused < count { problems.append("\(known) of \(count) are \(state) in the store") }
    }
    let others = outcomes.total - accepted - rejected
    if others > 0 { problems.append("\(others) have another outcome") }
    for customer in customers {
      let refused = customer.sentItems.map(\.token).filter(bad.contains)
      problems += customer.problems(Dictionary(refused.map { ($0, 1) }, uniquingKeysWith: +))
      if !customer.reportedStatuses.isSubset(of: [.invalidToken]) { problems.append("a wrong status") }
    }
    return problems + (provider.map { $0.violations + changedIdentifiers($0, wanted) } ?? [])
  }

  /// A resend keeps its identifier, unless another node sends it; a copy on purpose has its own.
  private func changedIdentifiers(_ provider: SimulatedProvider, _ wanted: [TokenBytes: Int]) -> [String] {
    provider.changedIdentifiers.isEmpty || plan.nodes != nil || plan.customers.contains { $0.roundCount > 1 }
      || wanted.values.contains { $0 > 1 }
      || items.joined().count > Set(items.joined()).count
      ? [] : ["\(provider.changedIdentifiers.count) were sent under two identifiers"]
  }

  private var rules: AppRules {
    var rules = AppRules.served("bridge", isHTTP2: plan.isHTTP2)
    rules.policy.attempts = 250
    rules.dialAttempts = .max
    rules.patience = .seconds(600)
    return rules
  }

  // MARK: One process

  private var configuration: AppConfiguration {
    AppConfiguration(
      id: "bridge", topic: Scenario.topic, transport: plan.isHTTP2 ? .http2() : .binary(),
      credential: .certificate(file: "news.pem"))
  }

  private func live(_ life: Int, _ end: Plan.End, stepLimit: Int) -> String? {
    let isLast = stepLimit == .max
    let seed = plan.seed &+ UInt64(life) &* 7_919
    var options = EngineJournalOptions()
    options.sync = plan.sync
    var network = NetworkFaults()
    network.outage = plan.outage
    let engine: SimulatedProcess
    let process: BridgeProcess
    let node = plan.nodes?[life] ?? 0
    let disk = disks[node]
    do {
      var opened: (OutcomeRecorder, SimulatedStore, SimulatedClock)?
      engine = try SimulatedProcess(rules, disk, service, seed: seed, network: network, options: options) {
        journal, loop in
        let clock = SimulatedClock(loop: loop, beganAt: beginsAt)
        let store = SimulatedStore(
          storeDisk, loop, plan.store, seed: seed &+ 5, hasLedger: plan.nodes != nil,
          node: plan.nodes == nil ? "" : "\(node)",
          plantedMistake: plan.mistake == .endsRunsOfOthers ? .endsRunsOfOthers : nil)
        let outcomes = OutcomeRecorder(store: store, clock: clock, deferred: DeferredChanges(DeferredList(disk)))
        journal.writeSettlements(
          outcomes, after: .milliseconds(10), on: loop, writesIntakeFirst: plan.mistake != .writesLate)
        opened = (outcomes, store, clock)
      }
      guard let (outcomes, store, clock) = opened else { return "the journal was not prepared" }
      process = try BridgeProcess(
        plan, engine, configuration, number: UInt64(life + 1), outcomes, store, storeDisk, clock)
    } catch {
      return "the journal cannot be opened: \(error)"
    }
    if engine.lostCount > 0 { return "\(engine.lostCount) were lost" }
    process.begin(
      remembers: plan.mistake != .forgetsAtRestart, restores: plan.mistake != .forgetsDeferred,
      looks: plan.mistake != .neverLooks, replacing: incarnations[node])
    for customer in customers { customer.run(process) }
    // With a mistake it may never end. Otherwise it ends far sooner.
    let lastLimit = plan.mistake == nil ? 5_000_000 : 500_000
    let ending = engine.loop.run(limit: .seconds(50_000), stepLimit: isLast ? lastLimit : stepLimit) {
      customers.allSatisfy(\.isDone)
    }
    defer { recognisedCount += process.recognisedCount }
    if process.joined != 0 { incarnations[node] = process.joined }
    let pause = Int64.random(in: 0...2_000, using: &random)
    beginsAt = process.clock.milliseconds + pause
    if end == .restart || ending == .done {
      guard ending == .done || !isLast else { return "the clients did not end: \(ending), \(engine.app.halt)" }
      if let problem = finish(process, engine.loop) { return problem }
      beginsAt = process.clock.milliseconds + pause
    } else {
      process.kill()
      for customer in customers { customer.lost(process) }
      engine.kill { if end == .powerLoss { $0.loseUnsynced(using: &random) } else { $0.restart() } }
    }
    process.end()
    return engine.close { process.hasEnded }
  }

  /// Ends a process in good order.
  private func finish(_ process: BridgeProcess, _ loop: SimulatedLoop) -> String? {
    process.close()
    _ = loop.run(limit: .seconds(40), stepLimit: 2_000_000) { customers.allSatisfy { !$0.isConnected } }
    for customer in customers { customer.lost(process, isInOrder: true) }
    // One that ends before it has begun leaves them to the next.
    if plan.nodes != nil, process.carries {
      let ending = loop.run(limit: .seconds(8_000), stepLimit: 5_000_000) { storeDisk.contents.blockCount == 0 }
      guard ending == .done else { return "blocks are left: \(storeDisk.contents.blockDescription)" }
    }
    process.finish()
    let ending = loop.run(limit: .seconds(8_000), stepLimit: 5_000_000) { process.hasEnded }
    if ending == .done { process.finishWriting() }
    return ending == .done ? nil : "its notifications did not get their outcomes: \(ending)"
  }
}
