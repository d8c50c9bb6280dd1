internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// One fault that stays for good. Everything that it does not concern has its outcome within a
/// bound: a stall is no wrong account, so that the other simulations would not see it.
@Suite struct LivenessTests {
  enum Fault: String, CaseIterable, Sendable {
    /// Of four machines behind a balancer, one answers nothing but 503.
    case sickMachine
    /// Of four machines, one takes requests and never answers.
    case deafMachine
    /// Some notifications never get an answer.
    case unansweredTokens
    /// Some notifications are put off again and again.
    case putOffTokens
    /// Of four machines, what one sends gets lost. A binary gateway's silence means acceptance.
    case muteMachine, muteBinaryMachine
    /// One of four machines reads nothing.
    case unreadMachine, unreadBinaryMachine

    /// In simulated time. The campaign takes less than a second without a fault. A request waits
    /// for its answer for 30 s, and a connection is found deaf by two of them.
    var bound: Duration {
      switch self {
      case .sickMachine, .putOffTokens: .seconds(60)
      case .deafMachine, .unansweredTokens, .muteMachine, .unreadMachine: .seconds(180)
      case .muteBinaryMachine: .seconds(60)
      // What was written to a receiver that does not read is given up after two minutes, and may
      // meet the same machine again.
      case .unreadBinaryMachine: .seconds(300)
      }
    }

    var isBinary: Bool { self == .muteBinaryMachine || self == .unreadBinaryMachine }

    var network: NetworkFaults {
      var faults = NetworkFaults()
      switch self {
      case .muteMachine, .muteBinaryMachine: faults.muteOf = 4
      case .unreadMachine, .unreadBinaryMachine: (faults.unreadOf, faults.highWater) = (4, 16_384)
      case .sickMachine, .deafMachine, .unansweredTokens, .putOffTokens: break
      }
      return faults
    }

    func provider(_ tokens: some Sequence<TokenBytes>) -> ProviderFaults {
      var faults = ProviderFaults()
      switch self {
      case .sickMachine: faults.sickOf = 4
      case .deafMachine: faults.deafOf = 4
      case .unansweredTokens: faults.unanswered = Set(tokens)
      case .putOffTokens: faults.alwaysPutOff = Set(tokens)
      case .muteMachine, .muteBinaryMachine, .unreadMachine, .unreadBinaryMachine: break
      }
      return faults
    }
  }

  private static let tokenCount = 2_000

  private final class Current: Sendable {
    let run = Mutex<CampaignRun?>(nil)
  }

  /// The problem found; nil: everybody else has an outcome in time.
  private static func problem(
    _ fault: Fault, seed: UInt64, plantedMistake: RequestPolicy.PlantedMistake? = nil
  ) -> String? {
    let loop = SimulatedLoop(seed: seed)
    let tokens = Scenario.distinctTokens(tokenCount, seed: seed)
    let concerned = fault == .unansweredTokens || fault == .putOffTokens ? tokens.prefix(3) : []
    let service: any SimulatedEndpoint =
      fault.isBinary
      ? BinaryService(gateway: SimulatedGateway(rules: FaultRules(), memory: RecordedFrames()), topic: Scenario.topic)
      : SimulatedProvider(faults: fault.provider(concerned), seed: seed &+ 3)
    let dialer = SimulatedDialer(loop: loop, service: service, faults: fault.network, seed: seed &+ 1)
    var settings = HTTP2Settings.simulated()
    settings.policy.plantedMistake = plantedMistake
    var rules = AppRules(id: "liveness")
    rules.connections = 1...4
    if !fault.isBinary { rules.transport = .http2(settings) }
    let app = App(configuration: rules, dialer: dialer, loops: [loop], seed: seed &+ 2)
    let current = Current()
    _ = Task(executorPreference: loop) { await app.run() }
    _ = Task(executorPreference: loop) { [app] in
      let campaign = Campaign(
        payload: Simulation.commonPayload, headers: ProviderHeaders(topic: Scenario.topic),
        seed: IdentifierSeed(high: seed, low: 1))
      guard let made = try? CampaignRun(campaign, through: app, listener: OutcomeCollector()) else { return }
      current.run.withLock { $0 = made }
      try? await made.run(TokenList(tokens), chunk: AudienceChunk(entryLimit: 64))
    }
    func isThrough() -> Bool {
      guard let account = current.run.withLock({ $0 })?.ledger.account else { return false }
      return account.submitted == tokenCount && account.inFlight <= concerned.count
    }
    _ = loop.run(limit: fault.bound, stepLimit: 3_000_000, until: isThrough)
    defer {
      app.shared.cancelAll(failure: "the simulation has ended")
      Simulation.end(app, on: loop)
    }
    guard !isThrough() else { return nil }
    return
      "\(current.run.withLock { $0 }?.ledger.account ?? Account()) after \(fault.bound), \(dialer.dials) connections"
  }

  @Test("one lasting fault delays nobody else for longer than its bound", arguments: Fault.allCases)
  func everybodyElse(fault: Fault) {
    for seed in Seeds.liveness {
      let problem = Self.problem(fault, seed: seed)
      #expect(problem == nil, "\(fault), seed \(seed)")
    }
  }

  enum Slow: String, CaseIterable, Sendable {
    /// The journal's disk takes a second for each write, a hundred times as long as usual.
    case disk
    /// The store takes up to ten seconds before and after each call has its effect.
    case store
  }

  @Test(
    "a slow disk and a store that answers late delay a campaign for no longer than a bound", arguments: Slow.allCases)
  func slow(_ slow: Slow) {
    for seed in Seeds.liveness {
      var plan = ServedCampaignSimulation.Plan(seed: seed)
      plan.calm()
      switch slow {
      case .disk: (plan.writing, plan.bound) = (.seconds(1), .seconds(300))
      case .store: (plan.store.latency, plan.bound) = (0...10_000, .seconds(900))
      }
      let problems = ServedCampaignSimulation(plan).run()
      #expect(problems.isEmpty, "\(slow), seed \(seed): \(problems.prefix(3))")
    }
  }

  @Test("a sender that keeps a sick machine's connection is found")
  func plantedMistake() {
    let found = (1...200).contains {
      Self.problem(.sickMachine, seed: $0, plantedMistake: .keepsSickConnection) != nil
    }
    #expect(found)
  }
}
