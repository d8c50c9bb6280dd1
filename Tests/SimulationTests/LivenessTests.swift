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

    /// In simulated time. The campaign takes less than a second without a fault. A request waits
    /// for its answer for 30 s, and a connection is found deaf by two of them.
    var bound: Duration {
      switch self {
      case .sickMachine, .putOffTokens: .seconds(60)
      case .deafMachine, .unansweredTokens: .seconds(180)
      }
    }

    func provider(_ tokens: some Sequence<TokenBytes>) -> ProviderFaults {
      var faults = ProviderFaults()
      switch self {
      case .sickMachine: faults.sickOf = 4
      case .deafMachine: faults.deafOf = 4
      case .unansweredTokens: faults.unanswered = Set(tokens)
      case .putOffTokens: faults.alwaysPutOff = Set(tokens)
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
    let provider = SimulatedProvider(faults: fault.provider(concerned), seed: seed &+ 3)
    let dialer = SimulatedDialer(loop: loop, service: provider, faults: NetworkFaults(), seed: seed &+ 1)
    var settings = HTTP2Settings.simulated()
    settings.policy.plantedMistake = plantedMistake
    var rules = AppRules(id: "liveness")
    rules.connections = 1...4
    rules.transport = .http2(settings)
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

  @Test("a sender that keeps a sick machine's connection is found")
  func plantedMistake() {
    let found = (1...200).contains {
      Self.problem(.sickMachine, seed: $0, plantedMistake: .keepsSickConnection) != nil
    }
    #expect(found)
  }
}
