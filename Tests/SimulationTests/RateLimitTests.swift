internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// What an app with a limit per second gives to its connections.
@Suite struct RateLimitTests {
  /// What was written.
  private final class Writes: LaneObserver {
    let seconds = Mutex(BusiestSecond())

    func wrote(_ batch: LaneBatch) { seconds.withLock { $0.add(batch.count, at: batch.now) } }
    func settled(_ settlement: Settlement, ring: NotificationRing, now: Instant) {}
  }

  @Test(
    "what a lost connection carried is sent again within the limit, too",
    arguments: WaitingSourceTests.Transport.allCases, 1...10 as ClosedRange<UInt64>)
  func resends(transport: WaitingSourceTests.Transport, seed: UInt64) {
    let loop = SimulatedLoop(seed: seed)
    let writes = Writes()
    var rules = AppRules(id: "limited")
    rules.connections = 1...2
    rules.rateLimit = 500
    rules.observer = writes
    let service: any SimulatedEndpoint
    switch transport {
    case .binary: service = BinaryService(gateway: SimulatedGateway(), topic: "limited")
    case .http2:
      rules.transport = .http2(.simulated(topic: "limited"))
      service = SimulatedProvider(faults: ProviderFaults(), seed: seed)
    }
    var network = NetworkFaults()
    network.latency = 200_000...400_000
    // Of the writes, and a lane with a limit makes many small ones.
    network.resetPerMille = 3
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
    let seconds = writes.seconds.withLock { $0 }
    #expect(seconds.total == 20_000 + (found?.resent ?? 0), "seed \(seed)")
    #expect(seconds.most <= 510, "seed \(seed)")
  }
}
