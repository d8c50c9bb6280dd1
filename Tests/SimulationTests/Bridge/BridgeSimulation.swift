internal import PushGateway
internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

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
      case forgetsAtRestart
      /// What is written about frames and outcomes may come after they are in the journal.
      case writesLate
    }

    var seed: UInt64
    var isHTTP2: Bool
    var customers: [BridgeCustomer.Behaviour]
    var itemCount: Int
    var badPerMille: Int
    var settings = BridgeSession.Settings()
    var queueLimit: Int
    var ends: [(end: End, after: Int)]
    var outage: NetworkFaults.Outage?
    var provider = ProviderFaults()
    var gateway = Faults()
    var sync: JournalSync
    var mistake: Mistake?

    init(seed: UInt64, mistake: Mistake? = nil) {
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
      settings.window.frameCount = [3, 100, 16_384].randomElement(using: &random) ?? 100
      settings.window.conclusionTime = .seconds(Int.random(in: 1...30, using: &random))
      queueLimit = [10, 300, 10_000].randomElement(using: &random) ?? 300
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
      // After a restart, the age of what was answered begins anew: repeats wait for too long then.
      if !ends.isEmpty { for place in customers.indices { customers[place].roundCount = 1 } }
    }

    var modelMistake: BridgeModel.Mistake? {
      switch mistake {
      case .forgetsAlways: .forgets
      case .remembersAllAfterBreaks: .remembersAllAfterBreaks
      case .forgetsAtRestart, .writesLate, nil: nil
      }
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
  private let disk = SimulatedDisk()
  private let recorder = BridgeRecorder()
  private let frames = RecordedFrames()
  private let provider: SimulatedProvider?
  private let service: any SimulatedEndpoint
  private var random: SeededGenerator
  private let items: [[ResendingClient.Item]]
  private let bad: Set<TokenBytes>
  private let customers: [BridgeCustomer]
  /// The last known account of each campaign.
  private var accounts: [UInt64: Account] = [:]
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
    let sum = accounts.values.reduce(Account(), +)
    if sum.inFlight != 0 { problems.append("\(sum.inFlight) are still in flight") }
    let missing = wanted.filter { arrivals[$0.key, default: 0] < $0.value }
    if !missing.isEmpty { problems.append("\(missing.count) have not arrived") }
    let copies = arrivals.reduce(0) { $0 + $1.value - wanted[$1.key, default: 0] }
    if copies > sum.possibleCopies { problems.append("\(copies) copies, counted \(sum.possibleCopies)") }
    let goodCount = wanted.values.reduce(0, +)
    if sum.accepted != goodCount { problems.append("\(sum.accepted) accepted by the account of \(goodCount)") }
    if sum.rejectedTotal != all.count - goodCount {
      problems.append("\(sum.rejectedTotal) refused by the account of \(all.count - goodCount)")
    }
    for customer in customers {
      let refused = customer.sentItems.map(\.token).filter(bad.contains)
      problems += customer.problems(Dictionary(refused.map { ($0, 1) }, uniquingKeysWith: +))
      if !customer.reportedStatuses.isSubset(of: [.invalidToken]) { problems.append("a wrong status") }
    }
    return problems + (provider.map { $0.violations + changedIdentifiers($0, wanted) } ?? [])
  }

  /// A resend keeps its identifier; a copy on purpose has its own.
  private func changedIdentifiers(_ provider: SimulatedProvider, _ wanted: [TokenBytes: Int]) -> [String] {
    provider.changedIdentifiers.isEmpty || plan.customers.contains { $0.roundCount > 1 }
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

  private func live(_ life: Int, _ end: Plan.End, stepLimit: Int) -> String? {
    let isLast = stepLimit == .max
    let seed = plan.seed &+ UInt64(life) &* 7_919
    var options = EngineJournalOptions()
    options.sync = plan.sync
    var network = NetworkFaults()
    network.outage = plan.outage
    let engine: SimulatedProcess
    do {
      engine = try SimulatedProcess(rules, disk, service, seed: seed, network: network, options: options) {
        journal, _ in
        guard plan.mistake != .writesLate else { return }
        journal.beforeCommits { [recorder] () throws(UnsyncedList) in recorder.makeDurable() }
      }
    } catch {
      return "the journal cannot be opened: \(error)"
    }
    if engine.lostCount > 0 { return "\(engine.lostCount) were lost" }
    let process = BridgeProcess(plan, engine, number: UInt64(life + 1), recorder: recorder)
    process.begin()
    for customer in customers { customer.run(process) }
    let ending = engine.loop.run(limit: .seconds(50_000), stepLimit: isLast ? 5_000_000 : stepLimit) {
      customers.allSatisfy(\.isDone)
    }
    defer { recognisedCount += process.recognisedCount }
    if end == .restart || ending == .done {
      guard ending == .done || !isLast else {
        return "the clients did not end: \(ending), \(engine.app.hold), \(process.accounts)"
      }
      if let problem = finish(process, engine.loop) { return problem }
    } else {
      process.kill()
      recorder.loseWaiting()
      for customer in customers { customer.lost(process) }
      engine.kill { if end == .powerLoss { $0.loseUnsynced(using: &random) } else { $0.restart() } }
    }
    let problem = engine.close { process.hasEnded }
    for (number, account) in process.accounts { accounts[number] = account }
    return problem
  }

  /// Ends a process in good order.
  private func finish(_ process: BridgeProcess, _ loop: SimulatedLoop) -> String? {
    process.close()
    _ = loop.run(limit: .seconds(40), stepLimit: 2_000_000) { customers.allSatisfy { !$0.isConnected } }
    for customer in customers { customer.lost(process) }
    process.finish()
    let ending = loop.run(limit: .seconds(8_000), stepLimit: 5_000_000) { process.hasEnded }
    return ending == .done ? nil : "its campaigns did not end: \(ending), \(process.accounts)"
  }
}
