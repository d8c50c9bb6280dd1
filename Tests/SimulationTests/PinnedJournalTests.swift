internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// A notification that stays long in a lane's ring must not keep all later segments of the journal.
@Suite struct PinnedJournalTests {
  @Test("two waiting notifications keep only their share of the journal while later campaigns end")
  func forgottenCampaigns() throws {
    let tokens = Scenario.distinctTokens(3_000, seed: 8)
    var faults = ProviderFaults()
    let waiting = [tokens[0], tokens[100]]
    for token in waiting { faults.refused[token] = (503, .serviceUnavailable) }
    let loop = SimulatedLoop(seed: 8)
    let driver = JournalDriver(loop: loop)
    let disk = SimulatedDisk()
    var options = EngineJournalOptions()
    options.checkpointByteCount = 4_000
    let (journal, _) = try EngineJournal.open(disk, options: options, runByHand: { driver.poke() })
    driver.drive(journal)
    let dialer = SimulatedDialer(
      loop: loop, service: SimulatedProvider(faults: faults, seed: 9), faults: NetworkFaults(), seed: 10)
    let app = App(configuration: Self.configuration, dialer: dialer, loops: [loop], seed: 11, journal: journal)
    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    let ended = Mutex(0)
    let send: @Sendable ([TokenBytes]) async -> Void = { tokens in
      let campaign = Campaign(payload: Simulation.commonPayload)
      let numbers = try? await journal.begin([
        EngineJournal.Beginning(app: "simulated", campaign: campaign, context: [])
      ])
      guard let run = try? CampaignRun(campaign, through: app, journalled: numbers?.first) else { return }
      try? await run.run(TokenList(tokens), chunk: AudienceChunk(entryLimit: 64))
      ended.withLock { $0 += 1 }
    }
    // One after the other, as far as they end. The first and the third do not end.
    _ = Task(executorPreference: loop) {
      for part in [tokens[0..<1], tokens[1..<100], tokens[100..<101], tokens[101..<3_000]] {
        let task = Task(executorPreference: loop) { await send(Array(part)) }
        if part.count > 1 { await task.value } else { await Self.pause(loop) }
      }
    }
    #expect(loop.run(limit: .seconds(600), stepLimit: 3_000_000) { ended.withLock { $0 } == 2 } == .done)
    let open = journal.campaigns.filter { $0.phase == .open }
    #expect(open.map(\.account.inFlight) == [1, 1])
    // The campaigns have taken in 100,000 bytes.
    let byteCount = disk.fileNames.map { disk.contents($0)?.count ?? 0 }.reduce(0, +)
    #expect(byteCount < 70_000, "\(byteCount) bytes in \(disk.fileNames.count) segments")
  }

  /// Waits one second, in which everything submitted before reaches the ring.
  private static func pause(_ loop: SimulatedLoop) async {
    await withCheckedContinuation { continuation in
      _ = loop.schedule(at: loop.now + .seconds(1)) { continuation.resume() }
    }
  }

  private static var configuration: AppRules {
    var settings = HTTP2Settings.simulated()
    settings.policy.backoff = .seconds(5) ... .seconds(5)
    settings.breaker = nil
    var configuration = AppRules(id: "simulated")
    configuration.transport = .http2(settings)
    configuration.connections = 1...1
    // The audience is taken in gradually, with checkpoints in between.
    configuration.rateLimit = 1_000
    configuration.policy.attempts = 250
    configuration.policy.ringBlockCount = 16_384
    return configuration
  }
}
