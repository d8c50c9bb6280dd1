internal import PushGateway
internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support

@testable internal import PushEngine

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
  private let tokens: [TokenBytes]
  private var nextToken = 0
  private var acknowledged: [TokenBytes] = []
  /// The last known account of each campaign.
  private var accounts: [UInt64: Account] = [:]
  /// The tokens of each campaign's lines, and how many copies of each may have arrived.
  private var lines: [UInt64: [TokenBytes]] = [:]
  private var copies: [TokenBytes: Int] = [:]
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
    for (token, count) in arrivals where count > 1 + copies[token, default: 0] {
      problems.append("\(token) has arrived \(count) times, \(copies[token, default: 0]) possible copies were heard of")
    }
    if copies.count > sum.possibleDuplicates {
      problems.append("\(copies.count) possible duplicates, counted \(sum.possibleDuplicates)")
    }
    let extraCount = arrivals.values.reduce(0) { $0 + $1 - 1 }
    if extraCount > sum.possibleCopies { problems.append("\(extraCount) copies, counted \(sum.possibleCopies)") }
    return problems
  }

  private var rules: AppRules {
    var rules = AppRules.served("intake", isHTTP2: plan.isHTTP2)
    rules.policy.attempts = 250
    rules.dialAttempts = .max
    rules.patience = .seconds(30)
    rules.rateLimit = plan.rateLimit
    return rules
  }

  // MARK: One process

  private func live(_ life: Int, stepLimit: Int, isLast: Bool) -> String? {
    let seed = plan.seed &+ UInt64(life) &* 7_919
    var options = EngineJournalOptions()
    options.sync = plan.sync
    options.checkpointByteCount = plan.checkpointByteCount
    options.plantedMistake = plantedMistake
    var network = NetworkFaults()
    network.outage = plan.outage
    let engine: SimulatedProcess
    do {
      engine = try SimulatedProcess(rules, disk, service, seed: seed, network: network, options: options) {
        $0.delaySettlements(by: plan.settlementDelay, on: $1)
      }
    } catch {
      return "the journal cannot be opened: \(error)"
    }
    if engine.lostCount > 0 { return "\(engine.lostCount) were lost" }
    let (app, loop) = (engine.app, engine.loop)
    let process = IntakeProcess(engine)
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
    for (number, heard) in process.copies {
      for (line, count) in heard { if let token = lines[number]?[Int(line) - 1] { copies[token, default: 0] += count } }
    }
    if !process.hasEnded {
      guard ending == .outOfSteps, !isLast else {
        return "it did not end: \(ending), \(app.hold), \(process.accounts)"
      }
      engine.kill { if plan.powerIsLost { $0.loseUnsynced(using: &random) } else { $0.restart() } }
    }
    return engine.close { process.hasEnded }
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
