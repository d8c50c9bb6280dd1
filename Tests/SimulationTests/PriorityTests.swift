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
    let loop = SimulatedLoop(seed: 41)
    let driver = JournalDriver(loop: loop)
    let disk = SimulatedDisk()
    let journal = try EngineJournal.open(disk, options: EngineJournalOptions(), runByHand: { driver.poke() }).journal
    driver.drive(journal)
    var rules = AppRules(id: "priorities")
    rules.connections = 1...1
    rules.batchByteCount = 300
    rules.rateLimit = rateLimit
    var settings = HTTP2Settings(
      authority: "api.example.com", tokens: nil, credential: .certificate(userIdentifier: Scenario.topic, topics: []))
    settings.streamLimit = 8
    rules.transport = .http2(settings)
    let provider = SimulatedProvider(faults: ProviderFaults(), seed: 42)
    let dialer = SimulatedDialer(loop: loop, service: provider, faults: NetworkFaults(), seed: 43)
    let app = App(configuration: rules, dialer: dialer, loops: [loop], seed: 44, journal: journal)
    _ = Task(executorPreference: loop) { await app.run() }
    let normal = IntakeProcess(app: app, journal: journal, loop: loop, priority: 5)
    let high = IntakeProcess(app: app, journal: journal, loop: loop, priority: 10)
    normal.begin()
    high.begin()
    func accepted(_ process: IntakeProcess) -> Int { process.accounts.values.reduce(0) { $0 + $1.accepted } }
    func runUntil(_ isDone: () -> Bool) -> Bool {
      loop.run(limit: .seconds(3_600), stepLimit: 5_000_000, until: isDone) == .done
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
    let closed = Mutex(false)
    _ = Task(executorPreference: loop) {
      await app.shutDown()
      try? await journal.close()
      closed.withLock { $0 = true }
    }
    #expect(runUntil { closed.withLock { $0 } })
    driver.stop()
  }
}
