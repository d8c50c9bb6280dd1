internal import PushGateway
internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// What was acknowledged is sent, whether or not the gateway is there, and however often the
/// process is killed.
@Suite struct IntakeSimulationTests {
  @Test("acknowledged = accounted: the gateway goes away, the app is paused, the process is killed")
  func acknowledged() {
    var storedCount = 0
    for seed in Seeds.intakes {
      let simulation = IntakeSimulation(seed: seed)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      storedCount += simulation.storedCount
    }
    #expect(storedCount > 0, "no run has used its reservoir")
  }

  @Test("a journal that forgets what is not settled is found")
  func plantedMistake() {
    let found = (1...100).contains { !IntakeSimulation(seed: $0, plantedMistake: .unsettledIsReleased).run().isEmpty }
    #expect(found)
  }

  @Test("with a gateway that never answers, everything is acknowledged, and memory returns afterwards")
  func absentGateway() {
    var plan = IntakeSimulation.Plan(seed: 3)
    plan.outage = NetworkFaults.Outage(kind: .unreachable, after: .zero, duration: .seconds(3600))
    plan.lives = []
    plan.tokenCount = 5_000
    let simulation = IntakeSimulation(plan)
    #expect(simulation.run() == [])
    #expect(simulation.storedCount > 4_000)
  }
}

/// One random history of an app that takes notifications in. The seed determines all of it.
final class IntakeSimulation: CustomStringConvertible {
  struct Plan {
    var seed: UInt64
    var isHTTP2: Bool
    var tokenCount: Int
    var outage: NetworkFaults.Outage?
    /// After how many steps each process is killed, before the last one.
    var lives: [Int]
    var powerIsLost: Bool
    var sync: JournalSync
    var checkpointByteCount: Int
    var hasPauses: Bool
    var rateLimit: Double?
    /// See ``EngineJournal/delaySettlements(by:on:)``.
    var settlementDelay: Duration?

    init(seed: UInt64) {
      self.seed = seed
      var random = SeededGenerator(seed: seed ^ 0x1A7A)
      isHTTP2 = Bool.random(using: &random)
      tokenCount = [3, 50, 400, 2_000].randomElement(using: &random) ?? 50
      if Int.random(in: 0..<4, using: &random) > 0 {
        outage = NetworkFaults.Outage(
          kind: Bool.random(using: &random) ? .unreachable : .closes,
          after: .milliseconds(Int.random(in: 0...200, using: &random)),
          duration: .milliseconds(Int.random(in: 100...20_000, using: &random)))
      }
      lives = (0..<Int.random(in: 0...3, using: &random)).map { _ in
        let limit = [100, 1_000, 10_000].randomElement(using: &random) ?? 100
        return Int.random(in: 0..<limit, using: &random)
      }
      powerIsLost = Bool.random(using: &random)
      sync = [.always, .interval(.milliseconds(10))].randomElement(using: &random) ?? .always
      checkpointByteCount = [2_000, 50_000, 16 << 20].randomElement(using: &random) ?? 2_000
      hasPauses = Bool.random(using: &random)
      rateLimit = Int.random(in: 0..<4, using: &random) == 0 ? 300 : nil
      settlementDelay = [nil, .zero, .milliseconds(10), .seconds(1)].randomElement(using: &random) ?? nil
    }
  }

  let plan: Plan
  private let plantedMistake: EngineJournalOptions.PlantedMistake?
  private let disk = SimulatedDisk()
  private let service: any SimulatedEndpoint
  private let frames = RecordedFrames()
  private var random: SeededGenerator
  private let tokens: [DeviceToken]
  private var nextToken = 0
  private var acknowledged: [DeviceToken] = []
  /// The last known account of each campaign.
  private var accounts: [UInt64: Account] = [:]
  /// The tokens of each campaign's lines, and those that may have arrived twice.
  private var lines: [UInt64: [DeviceToken]] = [:]
  private var doubted: Set<DeviceToken> = []
  /// The most that lay in a reservoir.
  private(set) var storedCount = 0

  var description: String { "\(plan)" }

  convenience init(seed: UInt64, plantedMistake: EngineJournalOptions.PlantedMistake? = nil) {
    self.init(Plan(seed: seed), plantedMistake: plantedMistake)
  }

  init(_ plan: Plan, plantedMistake: EngineJournalOptions.PlantedMistake? = nil) {
    self.plan = plan
    self.plantedMistake = plantedMistake
    random = SeededGenerator(seed: plan.seed)
    tokens = Scenario.distinctTokens(plan.tokenCount, seed: plan.seed)
    service =
      plan.isHTTP2
      ? SimulatedProvider(faults: ProviderFaults(), seed: plan.seed)
      : BinaryService(gateway: SimulatedGateway(memory: frames), topic: Scenario.topic)
  }

  /// The problems found, in sentences.
  func run() -> [String] {
    for (index, stepLimit) in (plan.lives + [Int.max]).enumerated() {
      if let problem = live(index, stepLimit: stepLimit, isLast: index == plan.lives.count) { return [problem] }
    }
    return check()
  }

  private func check() -> [String] {
    var problems: [String] = []
    let arrivals = (service as? SimulatedProvider)?.accepted ?? frames.accepted(topic: Scenario.topic)
    for token in acknowledged where arrivals[token, default: 0] == 0 {
      problems.append("\(token) was acknowledged and has not arrived")
    }
    let sum = accounts.values.reduce(Account(), +)
    if sum.inFlight != 0 { problems.append("\(sum.inFlight) are still in flight") }
    if sum.accepted != sum.submitted { problems.append("\(sum)") }
    for (token, count) in arrivals where count > 1 && !doubted.contains(token) {
      problems.append("\(token) has arrived \(count) times, and is no possible duplicate")
    }
    if doubted.count > sum.possibleDuplicates {
      problems.append("\(doubted.count) possible duplicates, counted \(sum.possibleDuplicates)")
    }
    let copies = arrivals.values.reduce(0) { $0 + $1 - 1 }
    if copies > sum.possibleCopies { problems.append("\(copies) copies, counted \(sum.possibleCopies)") }
    return problems
  }

  private var rules: AppRules {
    var rules = AppRules(id: "intake")
    rules.connections = 1...2
    rules.batchByteCount = 300
    rules.policy.ringBlockCount = 256
    rules.policy.attempts = 250
    rules.dialAttempts = .max
    rules.connectionsPerMinute = 60_000
    rules.patience = .seconds(30)
    rules.isSuspendable = true
    rules.rateLimit = plan.rateLimit
    if plan.isHTTP2 {
      rules.transport = .http2(
        HTTP2Settings(
          authority: "api.example.com", tokens: nil,
          credential: .certificate(userIdentifier: Scenario.topic, topics: [])))
    }
    return rules
  }

  // MARK: One process

  private func live(_ life: Int, stepLimit: Int, isLast: Bool) -> String? {
    let seed = plan.seed &+ UInt64(life) &* 7_919
    let loop = SimulatedLoop(seed: seed)
    let driver = JournalDriver(loop: loop)
    var options = EngineJournalOptions()
    options.sync = plan.sync
    options.checkpointByteCount = plan.checkpointByteCount
    options.plantedMistake = plantedMistake
    let journal: EngineJournal
    do {
      let opened = try EngineJournal.open(disk, options: options, runByHand: { driver.poke() })
      journal = opened.journal
      if let lost = opened.report.campaigns.first(where: { $0.lost > 0 }) { return "\(lost.lost) were lost" }
    } catch {
      return "the journal cannot be opened: \(error)"
    }
    driver.drive(journal)
    journal.delaySettlements(by: plan.settlementDelay, on: loop)
    var faults = NetworkFaults()
    faults.outage = plan.outage
    let dialer = SimulatedDialer(loop: loop, service: service, faults: faults, seed: seed &+ 1)
    let app = App(configuration: rules, dialer: dialer, loops: [loop], seed: seed &+ 2, journal: journal)
    _ = Task(executorPreference: loop) { await app.run() }
    let process = IntakeProcess(app: app, journal: journal, loop: loop)
    process.resume()
    feed(process, isLast: isLast)
    if plan.hasPauses { pauseNowAndThen(app, loop) }
    // A suspended app is looked after at last.
    for second in stride(from: 60, through: 7_200, by: 60) {
      _ = loop.schedule(at: loop.now + .seconds(second)) { app.resume() }
    }
    let ending = loop.run(limit: .seconds(8_000), stepLimit: stepLimit) { process.hasEnded }
    acknowledged += process.acknowledged
    storedCount += process.storedCount
    for (number, account) in process.accounts { accounts[number] = account }
    if let (number, tokens) = process.source.campaign { lines[number] = tokens }
    for (number, doubtedLines) in process.doubtedLines {
      doubted.formUnion(doubtedLines.compactMap { lines[number]?[Int($0) - 1] })
    }
    if !process.hasEnded {
      guard ending == .outOfSteps, !isLast else {
        return "it did not end: \(ending), \(app.hold), \(process.accounts)"
      }
      dialer.die()
      if plan.powerIsLost { disk.loseUnsynced(using: &random) } else { disk.restart() }
      journal.abandon()
      _ = loop.run(limit: .seconds(30), stepLimit: 1_000_000) { false }
      app.shared.cancelAll(failure: "the process has ended")
      dialer.bury()
    }
    return close(process, app, journal, driver, loop)
  }

  private func close(
    _ process: IntakeProcess, _ app: App, _ journal: EngineJournal, _ driver: JournalDriver, _ loop: SimulatedLoop
  ) -> String? {
    guard loop.run(limit: .seconds(3600), stepLimit: 1_000_000, until: { process.hasEnded }) == .done else {
      return "what is left of a process did not end"
    }
    let closed = Mutex(false)
    _ = Task(executorPreference: loop) {
      await app.shutDown()
      try? await journal.close()
      closed.withLock { $0 = true }
    }
    let ending = loop.run(limit: .seconds(3600), stepLimit: 1_000_000) { closed.withLock { $0 } }
    disk.restart()
    // Deliveries in flight still arrive.
    _ = loop.run(limit: .seconds(3600), stepLimit: 1_000_000) { false }
    driver.stop()
    return ending == .done ? nil : "closing did not end"
  }

  /// Plans what clients hand over. Only the last process gets all that is left.
  private func feed(_ process: IntakeProcess, isLast: Bool) {
    var at = process.loop.now
    while nextToken < tokens.count {
      let count = min([1, 1, 7, 500].randomElement(using: &random) ?? 1, tokens.count - nextToken)
      let batch = Array(tokens[nextToken..<(nextToken + count)])
      nextToken += count
      at = at + .microseconds(Int.random(in: 0...20_000, using: &random))
      _ = process.loop.schedule(at: at) { process.source.add(batch) }
      if !isLast, Int.random(in: 0..<20, using: &random) == 0 { break }
    }
    _ = process.loop.schedule(at: at + .milliseconds(1)) { process.source.finish() }
  }

  private func pauseNowAndThen(_ app: App, _ loop: SimulatedLoop) {
    var at = loop.now
    for _ in 0..<5 {
      at = at + .milliseconds(Int.random(in: 0...3_000, using: &random))
      _ = loop.schedule(at: at) { app.pause() }
      at = at + .milliseconds(Int.random(in: 0...3_000, using: &random))
      _ = loop.schedule(at: at) { app.resume() }
    }
  }
}
