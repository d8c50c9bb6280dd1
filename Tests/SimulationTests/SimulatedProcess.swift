internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// One process of an app with a journal, on a simulated loop.
final class SimulatedProcess: Sendable {
  let loop: SimulatedLoop
  let seed: UInt64
  let journal: EngineJournal
  let app: App
  let dialer: SimulatedDialer
  let tally = AppTally()
  private let disk: SimulatedDisk
  private let driver: JournalDriver
  let report: JournalReport

  /// - Parameters:
  ///   - writing: how long the disk takes for each of the journal's writes.
  ///   - prepare: called before the journal writes anything.
  init(
    _ rules: AppRules, _ disk: SimulatedDisk, _ service: any SimulatedEndpoint, seed: UInt64,
    network: NetworkFaults = NetworkFaults(), options: EngineJournalOptions = EngineJournalOptions(),
    writing: Duration = .zero,
    prepare: (EngineJournal, SimulatedLoop) -> Void = { _, _ in }
  ) throws {
    self.disk = disk
    self.seed = seed
    let loop = SimulatedLoop(seed: seed)
    let driver = JournalDriver(loop: loop, writing: writing)
    (self.loop, self.driver) = (loop, driver)
    (journal, report) = try EngineJournal.open(disk, options: options, runByHand: { driver.poke() })
    prepare(journal, loop)
    driver.drive(journal)
    dialer = SimulatedDialer(loop: loop, service: service, faults: network, seed: seed &+ 1)
    let app = App(configuration: rules, dialer: dialer, loops: [loop], seed: seed &+ 2, journal: journal, tally: tally)
    self.app = app
    _ = Task(executorPreference: loop) { await app.run() }
  }

  /// Notifications that the journal should have and does not.
  var lostCount: Int { Int(report.campaigns.reduce(0) { $0 + $1.lost }) }

  /// `kill -9`: nothing more reaches disk or network, but what was handed to the network may
  /// arrive.
  ///
  /// - Parameter lose: what the disk loses by it.
  func kill(losing lose: (SimulatedDisk) -> Void) {
    dialer.die()
    lose(disk)
    journal.abandon()
    _ = loop.run(limit: .seconds(30), stepLimit: 1_000_000) { false }
    app.shared.cancelAll(failure: "the process has ended")
    dialer.bury()
  }

  /// Closes the journal, also of a process that was killed, so that its memory is released.
  ///
  /// - Parameter hasEnded: whether nothing uses the app any more.
  /// - Returns: what went wrong.
  func close(_ hasEnded: () -> Bool = { true }) -> String? {
    let last = loop.run(limit: .seconds(3_600), stepLimit: 1_000_000, until: hasEnded)
    guard last == .done else { return "what is left of a process did not end: \(last)" }
    let closed = Mutex(false)
    _ = Task(executorPreference: loop) { [app, journal] in
      await app.shutDown()
      try? await journal.close()
      closed.withLock { $0 = true }
    }
    let ending = loop.run(limit: .seconds(3_600), stepLimit: 1_000_000) { closed.withLock { $0 } }
    disk.restart()
    // Deliveries in flight still arrive.
    _ = loop.run(limit: .seconds(3_600), stepLimit: 1_000_000) { false }
    driver.stop()
    return ending == .done ? nil : "closing did not end"
  }
}

extension AppRules {
  /// For an app of a service. Its bounds are so small that they are reached.
  static func served(_ id: String, isHTTP2: Bool) -> AppRules {
    var rules = AppRules(id: id)
    rules.connections = 1...2
    rules.batchByteCount = 300
    rules.policy.ringBlockCount = 256
    rules.connectionsPerMinute = 60_000
    rules.isSuspendable = true
    if isHTTP2 { rules.transport = .http2(.simulated()) }
    return rules
  }
}

extension HTTP2Settings {
  static func simulated(topic: String = Scenario.topic) -> HTTP2Settings {
    HTTP2Settings(
      authority: "api.example.com", tokens: nil, credential: .certificate(userIdentifier: topic, topics: []))
  }
}
