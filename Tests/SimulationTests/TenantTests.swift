internal import PushEngine
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

/// Several apps in one process do not affect each other.
@Suite struct TenantTests {
  enum Neighbour: String, CaseIterable, Sendable {
    case none, refusedCertificate, deadGateway, slowReader, closesEverything, refusesHalf
  }

  @Test("a neighbour with problems does not reduce an app's throughput", arguments: Neighbour.allCases)
  func neighbours(neighbour: Neighbour) throws {
    let alone = try #require(Self.run(beside: .none))
    let together = try #require(Self.run(beside: neighbour))
    #expect(together.account.confirmed == Self.count)
    #expect(together.account.inFlight == 0)
    // Simulated time: the same work at the same times, except for random latencies.
    #expect(
      together.finishedAt.since(.start) <= alone.finishedAt.since(.start) * 1.2,
      "\(neighbour): \(together.finishedAt) against \(alone.finishedAt)")
  }

  @Test(
    "an app whose gateway cannot be used ends with an account and a reason",
    arguments: [Neighbour.refusedCertificate, .deadGateway, .closesEverything])
  func troubledAppsGiveUp(neighbour: Neighbour) throws {
    let result = try #require(Self.run(beside: neighbour))
    let troubled = try #require(result.neighbour)
    #expect(troubled.failure != nil)
    #expect(troubled.account.inFlight == 0)
    #expect(troubled.account.accepted == 0)
    #expect(troubled.account.cancelled + troubled.account.unknown == troubled.account.submitted)
    // At most the one notification that was tried alone can have arrived.
    #expect(troubled.account.unknown <= troubled.account.possibleDuplicates)
  }

  private static let count = 20_000

  struct Result: Sendable {
    var account = Account()
    var finishedAt = Instant.start
    var neighbour: (account: Account, failure: String?)?
  }

  private final class Results: Sendable {
    struct State: Sendable {
      var good: Result?
      var bad: (account: Account, failure: String?)?
    }

    let state = Mutex(State())
  }

  private static func run(beside neighbour: Neighbour) -> Result? {
    let loop = SimulatedLoop(seed: 7)
    var rules = FaultRules()
    rules.apps["neighbour"] = faults(of: neighbour)
    let gateway = SimulatedGateway(rules: rules)
    var network = NetworkFaults()
    network.bytesPerMillisecond = 100_000
    var badNetwork = network
    if neighbour == .deadGateway { badNetwork.unreachablePerMille = 1000 }
    let good = app("good", loop: loop, gateway: gateway, network: network)
    let bad = app("neighbour", loop: loop, gateway: gateway, network: badNetwork)
    let result = Results()
    let tasks = [good, bad].map { app in Task(executorPreference: loop) { await app.run() } }
    defer { for task in tasks { task.cancel() } }
    _ = Task(executorPreference: loop) {
      let account = await send(through: good)
      result.state.withLock { $0.good = Result(account: account, finishedAt: loop.now) }
    }
    if neighbour != .none {
      _ = Task(executorPreference: loop) {
        let account = await send(through: bad)
        result.state.withLock { $0.bad = (account, bad.failure) }
      }
    }
    let ending = loop.run(limit: .seconds(3600), stepLimit: 20_000_000) {
      result.state.withLock { $0.good != nil && ($0.bad != nil || neighbour == .none) }
    }
    guard ending == .done else { return nil }
    return result.state.withLock { results in
      var good = results.good
      good?.neighbour = results.bad
      return good
    }
  }

  private static func faults(of neighbour: Neighbour) -> Faults {
    var faults = Faults()
    switch neighbour {
    case .none, .deadGateway: break
    case .refusedCertificate: faults.refuseCertificate = Faults.CertificateRefusal()
    case .slowReader: faults.stopReading = Faults.Pause(Faults.Breakpoint(after: 10), duration: .seconds(60))
    case .closesEverything: faults.close = Faults.Breakpoint(after: 0)
    case .refusesHalf: faults.refuse = [Faults.Refuse(Faults.Selection(every: 50))]
    }
    return faults
  }

  private static func app(_ id: String, loop: SimulatedLoop, gateway: SimulatedGateway, network: NetworkFaults) -> App {
    var configuration = AppRules(id: id)
    configuration.connections = 2...2
    configuration.policy.ringBlockCount = 32_768
    let dialer = SimulatedDialer(loop: loop, gateway: gateway, topic: id, faults: network, seed: 11)
    return App(configuration: configuration, dialer: dialer, loops: [loop], seed: 13)
  }

  private static func send(through app: App) async -> Account {
    var random = SeededGenerator(seed: 3)
    let tokens = (0..<count).compactMap { _ in TokenBytes(bytes: random.bytes(32)) }
    guard let run = try? CampaignRun(Campaign(payload: Array(#"{"aps":{}}"#.utf8)), through: app) else {
      return Account()
    }
    try? await run.run(TokenList(tokens), chunk: AudienceChunk())
    return run.ledger.account
  }
}
