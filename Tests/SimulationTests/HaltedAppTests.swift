internal import Glibc
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import Carillon
@testable internal import PushEngine

/// An app that is paused or suspended: nothing is dialled, nothing is lost, nothing is sent twice.
@Suite struct HaltedAppTests {
  @Test("a paused app closes its connections and sends nothing; resumed, it goes on", arguments: [false, true])
  func pause(isHTTP2: Bool) throws {
    let site = try HaltedSite(isHTTP2: isHTTP2)
    try site.add(5)
    #expect(site.runUntil { site.acceptedCount == 5 })
    site.app.pause()
    #expect(site.runUntil { site.app.activity.openCount == 0 })
    let dials = site.dialer.dials
    try site.add(500)
    #expect(site.runUntil { site.acknowledgedCount == 505 })
    site.pass(.seconds(3_000))
    #expect(site.acceptedCount == 5)
    #expect(site.dialer.dials == dials)
    #expect(site.app.activity.inFlightCount == 500)
    site.app.resume()
    #expect(site.runUntil { site.acceptedCount == 505 })
    site.finish()
    #expect(site.runUntil { site.hasEnded })
    #expect(site.account.accepted == 505)
    #expect(site.account.resent == 0)
    site.close()
  }

  @Test(
    "without progress the app is suspended, takes in on, tries now and then, and goes on", arguments: [false, true])
  func patience(isHTTP2: Bool) throws {
    let site = try HaltedSite(
      isHTTP2: isHTTP2, outage: NetworkFaults.Outage(kind: .unreachable, after: .zero, duration: .seconds(5_000)))
    try site.add(300)
    #expect(site.runUntil { site.app.halt.suspension != nil })
    #expect(site.app.halt.suspension?.contains("no progress") == true)
    #expect(site.app.retryIn.map { $0 > .zero && $0 <= .seconds(20) } == true)
    #expect(site.app.failure == nil)
    let dials = site.dialer.dials
    try site.add(300)
    #expect(site.runUntil { site.acknowledgedCount == 600 })
    // Pauses of 20, 40 … 320 s, and 20 s of trying between them.
    site.pass(.seconds(4_000))
    #expect(site.acceptedCount == 0)
    #expect(site.dialer.dials > dials)
    #expect(site.dialer.dials < dials + 600, "\(site.dialer.dials - dials) dials in 4,000 s")
    #expect(site.runUntil { site.acceptedCount == 600 })
    #expect(site.loop.now < Instant.start + .seconds(6_200))
    #expect(site.app.retryIn == nil)
    site.finish()
    #expect(site.runUntil { site.hasEnded })
    #expect(site.account.accepted == 600)
    site.close()
  }

  @Test(
    "what has waited longer than the app allows has expired, and nothing else has; a restart counts anew",
    arguments: [false, true])
  func maxAge(isHTTP2: Bool) throws {
    let site = try HaltedSite(isHTTP2: isHTTP2, maxAge: .seconds(100))
    site.app.pause()
    try site.add(300)
    site.pass(.seconds(60))
    try site.add(200)
    site.pass(.seconds(60))
    site.app.resume()
    #expect(site.runUntil { site.app.activity.inFlightCount == 0 })
    #expect(site.account.expired == 300)
    #expect(site.account.accepted == 200)
    site.app.pause()
    try site.add(100)
    #expect(site.runUntil { site.acknowledgedCount == 600 })
    site.pass(.seconds(99))
    site.cancel()
    #expect(site.runUntil { site.hasEnded })
    site.close()
    let reopened = try HaltedSite(isHTTP2: isHTTP2, disk: site.disk, maxAge: .seconds(100))
    reopened.pass(.seconds(50))
    reopened.finish()
    #expect(reopened.runUntil { reopened.hasEnded })
    #expect(reopened.account.accepted == 100)
    reopened.close()
  }

  @Test("a suspended app can be ended: what it holds stays in the journal, unsent")
  func cancelling() throws {
    let site = try HaltedSite(isHTTP2: true)
    site.app.pause()
    try site.add(400)
    #expect(site.runUntil { site.acknowledgedCount == 400 })
    site.cancel()
    #expect(site.runUntil { site.hasEnded })
    #expect(site.account.cancelled == 400)
    #expect(site.storedCount == 0)
    site.close()
    let reopened = try HaltedSite(isHTTP2: true, disk: site.disk)
    reopened.finish()
    #expect(reopened.runUntil { reopened.hasEnded })
    #expect(reopened.account.accepted == 400)
    #expect(reopened.account.possibleCopies == 0)
    reopened.close()
  }
}

extension HaltedAppTests {
  @Test("a full disk ends the intake with the reason, nothing hangs, and what was acknowledged stays")
  func fullDisk() throws {
    let outage = NetworkFaults.Outage(kind: .unreachable, after: .zero, duration: .seconds(50_000))
    let site = try HaltedSite(isHTTP2: true, outage: outage)
    try site.add(100)
    #expect(site.runUntil { site.acknowledgedCount == 100 })
    site.disk.failWrite(after: 0, .shortWrite(10, code: ENOSPC))
    try site.add(5_000)
    #expect(site.runUntil { site.problem != nil })
    site.finish()
    #expect(site.runUntil { site.hasEnded })
    #expect(site.acknowledgedCount == 100)
    #expect(site.app.failure != nil)
    site.close()
    let reopened = try HaltedSite(isHTTP2: true, disk: site.disk)
    reopened.finish()
    #expect(reopened.runUntil { reopened.hasEnded })
    #expect(reopened.acceptedCount >= 100)
    reopened.close()
  }
}

/// One app with a journal on a simulated loop, fed by a test.
private final class HaltedSite: Sendable {
  let disk: SimulatedDisk
  private let engine: SimulatedProcess
  private let frames = RecordedFrames()
  private let provider: SimulatedProvider?
  private let process: IntakeProcess

  init(
    isHTTP2: Bool, outage: NetworkFaults.Outage? = nil, disk: SimulatedDisk = SimulatedDisk(), maxAge: Duration? = nil
  )
    throws
  {
    self.disk = disk
    var rules = AppRules.served("held", isHTTP2: isHTTP2)
    rules.patience = .seconds(20)
    rules.dialAttempts = .max
    if let maxAge { rules.maxAge = maxAge }
    provider = isHTTP2 ? SimulatedProvider(faults: ProviderFaults(), seed: 22) : nil
    var network = NetworkFaults()
    network.outage = outage
    let service: any SimulatedEndpoint =
      provider ?? BinaryService(gateway: SimulatedGateway(memory: frames), topic: Scenario.topic)
    engine = try SimulatedProcess(rules, disk, service, seed: 21, network: network)
    process = try IntakeProcess(engine, isHTTP2: isHTTP2)
    process.resume()
  }

  var app: App { engine.app }
  var loop: SimulatedLoop { engine.loop }
  var dialer: SimulatedDialer { engine.dialer }
  var acceptedCount: Int { (provider?.accepted ?? frames.accepted(topic: Scenario.topic)).count }
  var acknowledgedCount: Int { process.acknowledged.count }
  var storedCount: Int { process.nowStoredCount }
  var hasEnded: Bool { process.hasEnded }
  var problem: CarillonError? { process.problem }
  var account: Account { engine.tally.account }

  func add(_ count: Int) throws {
    try process.submit(Scenario.distinctTokens(count, seed: UInt64(process.taken.count + 1)))
  }

  func finish() { process.finish() }

  func cancel() { process.cancel() }

  func runUntil(_ isDone: () -> Bool) -> Bool {
    loop.run(limit: .seconds(20_000), stepLimit: 3_000_000, until: isDone) == .done
  }

  func pass(_ duration: Duration) {
    let end = loop.now + duration
    _ = loop.schedule(at: end) {}
    _ = runUntil { loop.now >= end }
  }

  func close() {
    process.close()
    #expect(engine.close { process.hasEnded } == nil)
  }
}
