internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// What an app with a limit per second gives to its connections.
@Suite struct RateLimitTests {
  enum Transport: CaseIterable, Sendable { case binary, http2 }

  /// Counts what is written within any second.
  private final class Seconds: LaneObserver {
    private struct State {
      var writes: [(at: Instant, count: Int)] = []
      var total = 0
    }

    private let state = Mutex(State())

    func wrote(_ batch: LaneBatch) {
      state.withLock { state in
        state.writes.append((batch.now, batch.count))
        state.total += batch.count
      }
    }

    func settled(_ settlement: Settlement, ring: NotificationRing, now: Instant) {}

    var total: Int { state.withLock { $0.total } }

    /// The most in one second.
    var most: Int {
      let writes = state.withLock { $0.writes }.sorted { $0.at < $1.at }
      var (most, count, first) = (0, 0, 0)
      for write in writes {
        count += write.count
        while write.at.since(writes[first].at) >= .seconds(1) {
          count -= writes[first].count
          first += 1
        }
        most = max(most, count)
      }
      return most
    }
  }

  @Test(
    "what a lost connection carried is sent again within the limit, too",
    arguments: Transport.allCases, 1...10 as ClosedRange<UInt64>)
  func resends(transport: Transport, seed: UInt64) {
    let loop = SimulatedLoop(seed: seed)
    let seconds = Seconds()
    var rules = AppRules(id: "limited")
    rules.connections = 1...2
    rules.rateLimit = 500
    rules.observer = seconds
    let service: any SimulatedEndpoint
    switch transport {
    case .binary: service = BinaryService(gateway: SimulatedGateway(), topic: "limited")
    case .http2:
      rules.transport = .http2(.simulated(topic: "limited"))
      service = SimulatedProvider(faults: ProviderFaults(), seed: seed)
    }
    var network = NetworkFaults()
    network.latency = 200_000...400_000
    network.resetPerMille = 10
    let dialer = SimulatedDialer(loop: loop, service: service, faults: network, seed: seed)
    let app = App(configuration: rules, dialer: dialer, loops: [loop], seed: seed)
    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    let account = Mutex<Account?>(nil)
    _ = Task(executorPreference: loop) {
      guard let run = try? CampaignRun(Campaign(payload: Simulation.commonPayload), through: app) else { return }
      try? await run.run(TokenList(Scenario.distinctTokens(20_000, seed: seed)), chunk: AudienceChunk(entryLimit: 64))
      account.withLock { $0 = run.ledger.account }
    }
    let ending = loop.run(limit: .seconds(3_600), stepLimit: 50_000_000) { account.withLock { $0 } != nil }
    #expect(ending == .done, "seed \(seed)")
    let found = account.withLock { $0 }
    // One that several lost connections carried may be given up.
    #expect(found?.settled == 20_000, "seed \(seed)")
    #expect(found?.accepted ?? 0 >= 19_990, "seed \(seed)")
    #expect(found?.resent ?? 0 > 0, "seed \(seed): nothing was sent again")
    #expect(seconds.total == 20_000 + (found?.resent ?? 0), "seed \(seed)")
    #expect(seconds.most <= 510, "seed \(seed)")
  }
}
