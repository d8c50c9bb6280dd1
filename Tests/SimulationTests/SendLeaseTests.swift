internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// What a process sends while others may send it in its place.
@Suite struct SendLeaseTests {
  @Test(
    "nothing that others may send is written after the lease, also again, until it is extended",
    arguments: WaitingSourceTests.Transport.allCases, 1...20 as ClosedRange<UInt64>)
  func held(transport: WaitingSourceTests.Transport, seed: UInt64) {
    let loop = SimulatedLoop(seed: seed)
    // It ends in the middle.
    let lease = SendLease(until: loop.now + .seconds(2))
    let writes = LeaseWatch()
    writes.lease = lease
    var rules = AppRules(id: "shared")
    rules.connections = 1...2
    rules.rateLimit = 500
    rules.observer = writes
    let service: any SimulatedEndpoint
    switch transport {
    case .binary: service = BinaryService(gateway: SimulatedGateway(), topic: "shared")
    case .http2:
      rules.transport = .http2(.simulated(topic: "shared"))
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
    var campaign = Campaign(payload: Simulation.commonPayload)
    campaign.lease = lease
    _ = Task(executorPreference: loop) { [campaign] in
      guard let run = try? CampaignRun(campaign, through: app) else { return }
      try? await run.run(TokenList(Scenario.distinctTokens(2_000, seed: seed)), chunk: AudienceChunk(entryLimit: 64))
      account.withLock { $0 = run.ledger.account }
    }
    _ = loop.run(limit: .seconds(20), stepLimit: 50_000_000) { false }
    let before = writes.count
    #expect(before < 2_000, "seed \(seed)")
    #expect(before > 0, "seed \(seed)")
    #expect(account.withLock { $0 } == nil, "seed \(seed)")
    if lease.extend(until: loop.now + .seconds(3_600), now: loop.now) { app.leaseExtended() }
    let ending = loop.run(limit: .seconds(3_600), stepLimit: 50_000_000) { account.withLock { $0 } != nil }
    #expect(ending == .done, "seed \(seed)")
    #expect(account.withLock { $0?.settled } == 2_000, "seed \(seed)")
    #expect(writes.count >= 2_000, "seed \(seed)")
    #expect(writes.lateCount == 0, "seed \(seed)")
  }

  @Test("what nobody else may send goes on after the lease", arguments: WaitingSourceTests.Transport.allCases)
  func own(transport: WaitingSourceTests.Transport) {
    let seed: UInt64 = 7
    let loop = SimulatedLoop(seed: seed)
    var rules = AppRules(id: "own")
    rules.connections = 1...1
    rules.rateLimit = 100
    let service: any SimulatedEndpoint
    switch transport {
    case .binary: service = BinaryService(gateway: SimulatedGateway(), topic: "own")
    case .http2:
      rules.transport = .http2(.simulated(topic: "own"))
      service = SimulatedProvider(faults: ProviderFaults(), seed: seed)
    }
    let dialer = SimulatedDialer(loop: loop, service: service, faults: NetworkFaults(), seed: seed)
    let app = App(configuration: rules, dialer: dialer, loops: [loop], seed: seed)
    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    let begun = BegunCampaigns()
    for lease in [nil, SendLease(until: loop.now)] {
      var campaign = Campaign(payload: Simulation.commonPayload)
      campaign.lease = lease
      _ = Task(executorPreference: loop) { [campaign] in
        guard let run = try? CampaignRun(campaign, through: app) else { return }
        begun.ledgers.withLock { $0.append(run.ledger) }
        try? await run.run(TokenList(Scenario.distinctTokens(500, seed: seed)), chunk: AudienceChunk(entryLimit: 500))
      }
      // So that both are in the ring, one behind the other.
      _ = loop.run(limit: .milliseconds(500), stepLimit: 50_000_000) { false }
    }
    _ = loop.run(limit: .seconds(20), stepLimit: 50_000_000) { false }
    let accounts = begun.ledgers.withLock { $0.map(\.account) }
    #expect(accounts.map(\.submitted) == [500, 500])
    // Over the binary protocol the last one is confirmed by what comes behind it.
    #expect(accounts.first?.accepted ?? 0 >= 499)
    #expect(accounts.last?.accepted == 0)
  }
}

private final class BegunCampaigns: Sendable {
  let ledgers = Mutex<[CampaignLedger]>([])
}

/// Looks whether anything is written after a lease.
final class LeaseWatch: LaneObserver {
  private struct State {
    var lease: SendLease?
    var count = 0
    var lateCount = 0
  }

  private let state = Mutex(State())

  /// Of everything that is written; nil: none yet.
  var lease: SendLease? {
    get { state.withLock { $0.lease } }
    set { state.withLock { $0.lease = newValue } }
  }
  /// Notifications that were written.
  var count: Int { state.withLock { $0.count } }
  /// Of these, after the lease.
  var lateCount: Int { state.withLock { $0.lateCount } }

  func wrote(_ batch: LaneBatch) {
    state.withLock { state in
      state.count += batch.count
      if state.lease?.isOver(at: batch.now) ?? false { state.lateCount += batch.count }
    }
  }

  func settled(_ settlement: Settlement, ring: NotificationRing, now: Instant) {}
}
