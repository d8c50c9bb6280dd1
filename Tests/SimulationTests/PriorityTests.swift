internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import Carillon
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
    let process = try IntakeProcess(engine, isHTTP2: true)
    let normal = Scenario.distinctTokens(4_000, seed: 45)
    let high = Scenario.distinctTokens(1_500, seed: 46)
    func accepted(_ tokens: [TokenBytes]) -> Int { tokens.count { provider.accepted[$0] != nil } }
    func runUntil(_ isDone: () -> Bool) -> Bool {
      engine.loop.run(limit: .seconds(3_600), stepLimit: 5_000_000, until: isDone) == .done
    }
    try process.submit(normal, priority: .consideringDevicePower)
    #expect(runUntil { provider.accepted.count > 100 })
    let before = accepted(normal)
    try process.submit(high, priority: .immediate)
    #expect(runUntil { provider.accepted.count >= 1_500 && accepted(high) == 1_500 })
    let meanwhile = accepted(normal) - before
    #expect(meanwhile > 50, "starved: \(meanwhile)")
    #expect(meanwhile < 700, "no priority: \(meanwhile)")
    process.finish()
    #expect(runUntil { process.hasEnded })
    #expect(accepted(normal) == 4_000)
    process.close()
    #expect(engine.close() == nil)
  }
}
