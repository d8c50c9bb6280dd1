internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// The size of an app's pool over simulated hours.
@Suite struct PoolSizeTests {
  private final class Accounts: Sendable {
    let list = Mutex<[Account]>([])
  }

  /// A scenario for which one connection is too slow.
  private static var slowScenario: Scenario {
    var scenario = Scenario.http2(seed: 1)
    scenario.tokens = Scenario.distinctTokens(4_000, seed: 5)
    scenario.configuration = AppRules(id: "simulated")
    scenario.configuration.connections = 1...3
    scenario.configuration.policy.ringBlockCount = 256
    scenario.network = NetworkFaults()
    scenario.network.bytesPerMillisecond = 20
    scenario.network.highWater = 2_000
    var faults = ProviderFaults()
    faults.streamLimit = 10
    scenario.provider = faults
    scenario.configuration.transport = .http2(.simulated())
    return scenario
  }

  @Test("the pool grows while one connection is too slow, shrinks when it is idle, and grows again")
  func growsAndShrinks() throws {
    let scenario = Self.slowScenario
    let loop = SimulatedLoop(seed: 2)
    let gateway = ScenarioGateway(scenario)
    let dialer = SimulatedDialer(loop: loop, service: gateway.service, faults: scenario.network, seed: 3)
    let app = App(configuration: scenario.configuration, dialer: dialer, loops: [loop], seed: 4, budget: RingBudget())
    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    let done = Accounts()
    for round in 1...2 {
      _ = Task(executorPreference: loop) { [tokens = scenario.tokens] in
        guard let run = try? CampaignRun(Campaign(payload: Simulation.commonPayload), through: app) else { return }
        try? await run.run(TokenList(tokens), chunk: AudienceChunk(entryLimit: 64))
        done.list.withLock { $0.append(run.ledger.account) }
      }
      var largest = 0
      let ending = loop.run(limit: .seconds(7_200), stepLimit: 5_000_000) {
        largest = max(largest, app.shared.scheduler.lanes.count)
        return done.list.withLock { $0.count } == round
      }
      #expect(ending == .done)
      #expect(done.list.withLock { $0.last?.accepted } == scenario.tokens.count)
      #expect(largest == 3, "round \(round)")
      _ = loop.run(limit: .seconds(1_200), stepLimit: 5_000_000) { app.shared.scheduler.lanes.count == 1 }
      #expect(app.shared.scheduler.lanes.count == 1, "round \(round)")
    }
  }

  @Test("the journal drops lanes that have left the pool")
  func retiredLanesLeaveTheJournal() throws {
    let scenario = Self.slowScenario
    let loop = SimulatedLoop(seed: 2)
    let driver = JournalDriver(loop: loop)
    var options = EngineJournalOptions()
    options.checkpointByteCount = 4_000
    let (journal, _) = try EngineJournal.open(SimulatedDisk(), options: options, runByHand: { driver.poke() })
    driver.drive(journal)
    let dialer = SimulatedDialer(
      loop: loop, service: ScenarioGateway(scenario).service, faults: scenario.network, seed: 3)
    let app = App(configuration: scenario.configuration, dialer: dialer, loops: [loop], seed: 4, journal: journal)
    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    let done = Accounts()
    for round in 1...3 {
      _ = Task(executorPreference: loop) { [tokens = scenario.tokens] in
        let campaign = Campaign(payload: Simulation.commonPayload)
        let numbers = try? await journal.begin([
          EngineJournal.Beginning(app: "simulated", campaign: campaign, context: [])
        ])
        guard let run = try? CampaignRun(campaign, through: app, journalled: numbers?.first) else { return }
        try? await run.run(TokenList(tokens), chunk: AudienceChunk(entryLimit: 64))
        done.list.withLock { $0.append(run.ledger.account) }
      }
      var largest = 0
      let ending = loop.run(limit: .seconds(7_200), stepLimit: 5_000_000) {
        largest = max(largest, app.shared.scheduler.lanes.count)
        return done.list.withLock { $0.count } == round
      }
      #expect(ending == .done, "round \(round)")
      #expect(largest == 3, "round \(round)")
      _ = loop.run(limit: .seconds(1_200), stepLimit: 5_000_000) { app.shared.scheduler.lanes.count == 1 }
      let (lanes, compactors) = journal.state.withLock { ($0.contents.lanes.count, $0.compactors.count) }
      // The checkpoints of a round drop the lanes of the one before.
      #expect(lanes <= 3, "round \(round): \(lanes) lanes, \(compactors) compactors")
      #expect(compactors == 1, "round \(round): \(lanes) lanes, \(compactors) compactors")
    }
  }

  @Test("the pool grows during a single long wait for room")
  func growsDuringOneWait() throws {
    let loop = SimulatedLoop(seed: 3)
    var configuration = AppRules(id: "simulated")
    configuration.connections = 1...3
    configuration.policy.ringBlockCount = 256
    // Each notification takes a quiet period of six seconds, so room comes once in several minutes.
    configuration.policy.confirm = .quiet
    configuration.policy.quiet = .seconds(6)
    configuration.policy.windowCount = 1
    let dialer = SimulatedDialer(
      loop: loop, gateway: SimulatedGateway(rules: FaultRules()), topic: "simulated", faults: NetworkFaults(), seed: 4)
    let app = App(configuration: configuration, dialer: dialer, loops: [loop], seed: 5)
    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    _ = Task(executorPreference: loop) {
      guard let run = try? CampaignRun(Campaign(payload: Simulation.commonPayload), through: app) else { return }
      try? await run.run(TokenList(Scenario.distinctTokens(2_500, seed: 6)), chunk: AudienceChunk(entryLimit: 64))
    }
    #expect(loop.run(limit: .seconds(20), stepLimit: 1_000_000) { app.shared.scheduler.lanes.count == 3 } == .done)
  }

  @Test(
    "a producer that waits for outcomes makes the pool grow, though no lane's backlog is full",
    arguments: [false, true])
  func growsForProducers(isWaiting: Bool) throws {
    var scenario = Self.slowScenario
    scenario.configuration.policy.ringBlockCount = 4_096
    let loop = SimulatedLoop(seed: 2)
    let gateway = ScenarioGateway(scenario)
    let dialer = SimulatedDialer(loop: loop, service: gateway.service, faults: scenario.network, seed: 3)
    let app = App(configuration: scenario.configuration, dialer: dialer, loops: [loop], seed: 4, budget: RingBudget())
    var (largest, waits) = (0, false)
    try send(Array(scenario.tokens.prefix(300)), through: app, on: loop) { _ in
      let lanes = app.shared.scheduler.lanes
      largest = max(largest, lanes.count)
      guard isWaiting, !waits, lanes.contains(where: { $0.ring.published > 0 }) else { return }
      waits = true
      app.producerWaits()
    }
    #expect((largest > 1) == isWaiting)
  }

  @Test("the pool grows although the service puts some off, as long as it accepts others", arguments: [false, true])
  func growsDuringPutOffs(isTooMany: Bool) throws {
    var scenario = Self.slowScenario
    if isTooMany { scenario.provider?.tooManyPerMille = 5 } else { scenario.provider?.unavailablePerMille = 5 }
    #expect(try largestPool(scenario) == 3)
  }

  @Test("the pool does not grow while the service puts everything off")
  func staysDuringOutages() throws {
    var scenario = Self.slowScenario
    scenario.provider?.unavailablePerMille = 1_000
    let loop = SimulatedLoop(seed: 2)
    let gateway = ScenarioGateway(scenario)
    let dialer = SimulatedDialer(loop: loop, service: gateway.service, faults: scenario.network, seed: 3)
    let app = App(configuration: scenario.configuration, dialer: dialer, loops: [loop], seed: 4, budget: RingBudget())
    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    _ = Task(executorPreference: loop) { [tokens = scenario.tokens] in
      guard let run = try? CampaignRun(Campaign(payload: Simulation.commonPayload), through: app) else { return }
      try? await run.run(TokenList(tokens), chunk: AudienceChunk(entryLimit: 64))
    }
    var largest = 0
    _ = loop.run(limit: .seconds(600), stepLimit: 500_000) {
      largest = max(largest, app.shared.scheduler.lanes.count)
      return false
    }
    #expect(largest == 1)
  }

  private func largestPool(_ scenario: Scenario) throws -> Int {
    let loop = SimulatedLoop(seed: 2)
    let gateway = ScenarioGateway(scenario)
    let dialer = SimulatedDialer(loop: loop, service: gateway.service, faults: scenario.network, seed: 3)
    let app = App(configuration: scenario.configuration, dialer: dialer, loops: [loop], seed: 4, budget: RingBudget())
    var largest = 0
    try send(scenario.tokens, through: app, on: loop) { _ in largest = max(largest, app.shared.scheduler.lanes.count) }
    return largest
  }

  @Test("the pool does not grow during a poison search")
  func staysDuringIsolation() throws {
    let loop = SimulatedLoop(seed: 3)
    var configuration = AppRules(id: "simulated")
    configuration.connections = 1...3
    configuration.connectionsPerMinute = 60_000
    configuration.policy.ringBlockCount = 256
    configuration.policy.confirm = .quiet
    configuration.policy.quiet = .seconds(6)
    let tokens = Scenario.distinctTokens(2_500, seed: 6)
    var rules = FaultRules()
    rules.common.poison = [Faults.Selection(tokens: [tokens[40]])]
    let dialer = SimulatedDialer(
      loop: loop, gateway: SimulatedGateway(rules: rules), topic: "simulated", faults: NetworkFaults(), seed: 4)
    let app = App(configuration: configuration, dialer: dialer, loops: [loop], seed: 5)
    var rejectedAtGrowth: Int?
    try send(tokens, through: app, on: loop) { account in
      if rejectedAtGrowth == nil, app.shared.scheduler.lanes.count > 1 { rejectedAtGrowth = account.rejectedTotal }
    }
    // Readers wait for room from the first connection to the last.
    #expect(rejectedAtGrowth == 1)
  }

  @Test("after refusals, a spare connection is open for the next refusal, also at a low rate")
  func warmSpare() throws {
    let loop = SimulatedLoop(seed: 3)
    var configuration = AppRules(id: "simulated")
    configuration.connections = 1...3
    configuration.connectionsPerMinute = 60_000
    configuration.rateLimit = 100
    let tokens = Scenario.distinctTokens(600, seed: 6)
    var rules = FaultRules()
    // One in 30 or every 300 ms, which is longer than a dial and an answer together.
    let bad = Set(stride(from: 30, to: tokens.count, by: 30).map { tokens[$0] })
    rules.common.refuse = [Faults.Refuse(Faults.Selection(tokens: bad), status: .invalidToken)]
    var network = NetworkFaults()
    network.latency = 50_000...50_000
    let dialer = SimulatedDialer(
      loop: loop, gateway: SimulatedGateway(rules: rules), topic: "simulated", faults: network, seed: 4)
    let app = App(configuration: configuration, dialer: dialer, loops: [loop], seed: 5)
    var settledWithoutConnection: [Int] = []
    try send(tokens, through: app, on: loop) { account in
      // From the second refusal to the end of the campaign.
      guard account.rejectedTotal >= 2, account.settled < 550 else { return }
      if !app.shared.scheduler.lanes.contains(where: { $0.backlog.isConnected }) {
        settledWithoutConnection.append(account.settled)
      }
    }
    #expect(settledWithoutConnection.isEmpty)
    #expect(app.shared.scheduler.lanes.count <= 3)
  }

  /// Sends one campaign to its end and passes its account to `look` after each step.
  private func send(
    _ tokens: [TokenBytes], through app: App, on loop: SimulatedLoop, _ look: (Account) -> Void
  ) throws {
    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    let run = try CampaignRun(Campaign(payload: Simulation.commonPayload), through: app)
    let done = Accounts()
    _ = Task(executorPreference: loop) {
      try? await run.run(TokenList(tokens), chunk: AudienceChunk(entryLimit: 64))
      done.list.withLock { $0.append(run.ledger.account) }
    }
    let ending = loop.run(limit: .seconds(7_200), stepLimit: 5_000_000) {
      look(run.ledger.account)
      return done.list.withLock { !$0.isEmpty }
    }
    #expect(ending == .done)
    #expect(run.ledger.account.settled == tokens.count)
  }
}
