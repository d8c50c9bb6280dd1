internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// What an app takes in with priority 10 goes before what has priority 5.
@Suite struct PriorityTests {
  @Test("priority 10 overtakes what waits with priority 5, which still goes on", arguments: [nil, 400])
  func overtaking(rateLimit: Double?) throws {
    var rules = AppRules.served("priorities", isHTTP2: true)
    rules.connections = 1...1
    rules.rateLimit = rateLimit
    var settings = HTTP2Settings.simulated()
    settings.streamLimit = 8
    rules.transport = .http2(settings)
    let provider = SimulatedProvider(faults: ProviderFaults(), seed: 42)
    let engine = try SimulatedProcess(rules, SimulatedDisk(), provider, seed: 41)
    let normal = IntakeProcess(engine, priority: 5)
    let high = IntakeProcess(engine, priority: 10)
    normal.begin()
    high.begin()
    func accepted(_ process: IntakeProcess) -> Int { process.accounts.values.reduce(0) { $0 + $1.accepted } }
    func runUntil(_ isDone: () -> Bool) -> Bool {
      engine.loop.run(limit: .seconds(3_600), stepLimit: 5_000_000, until: isDone) == .done
    }
    normal.source.add(Scenario.distinctTokens(4_000, seed: 45))
    #expect(runUntil { accepted(normal) > 100 })
    let before = accepted(normal)
    high.source.add(Scenario.distinctTokens(1_500, seed: 46))
    #expect(runUntil { accepted(high) == 1_500 })
    let meanwhile = accepted(normal) - before
    #expect(meanwhile > 50, "starved: \(meanwhile)")
    #expect(meanwhile < 700, "no priority: \(meanwhile)")
    for process in [normal, high] { process.source.finish() }
    #expect(runUntil { normal.hasEnded && high.hasEnded })
    #expect(accepted(normal) == 4_000)
    #expect(engine.close() == nil)
  }
}
