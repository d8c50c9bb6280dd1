internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushGateway
internal import PushServer
internal import PushTransport
internal import PushWire
internal import Support

/// A campaign over real TLS on loopback. The simulator runs in the same process.
struct EndToEnd {
  var topic = "com.example.news"
  var configuration = AppRules(id: "news")
  var rules = FaultRules()
  var tokens: [TokenBytes] = []
  var payload = #"{"aps":{"alert":"Hello"}}"#

  struct Result {
    var account: Account
    var outcomes: [TokenBytes: Outcome]
    var arrivals: [TokenBytes: Int]
    var truth: AppTruth
    var failure: String?
  }

  init(tokenCount: Int, seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    tokens = (0..<tokenCount).compactMap { index in
      var bytes = random.bytes(32)
      for place in 0..<4 { bytes[place] = UInt8(truncatingIfNeeded: index >> (8 * place)) }
      return TokenBytes(bytes: bytes)
    }
  }

  func run() async throws -> Result {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("carillon-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let memory = RecordedFrames()
    var simulation = GatewaySimulator.Configuration(identity: .throwAway(directory: directory, topics: [topic]))
    simulation.rules = rules
    simulation.memory = memory
    simulation.threads = 1
    let simulator = try await GatewaySimulator.start(simulation)
    do {
      let dialer = try Self.dialer(for: topic, to: simulator)
      let sent = try await send(through: dialer)
      let truth = await simulator.stop()
      return Result(
        account: sent.account, outcomes: sent.outcomes, arrivals: memory.accepted(topic: topic),
        truth: truth.apps[topic] ?? AppTruth(), failure: sent.failure)
    } catch {
      _ = await simulator.stop(grace: .zero)
      throw error
    }
  }

  /// A campaign's results as the engine reports them.
  struct Sent {
    var account: Account
    var outcomes: [TokenBytes: Outcome]
    var failure: String?
  }

  /// Runs the campaign alone, to any gateway that the dialer connects to.
  func send(through dialer: SocketDialer) async throws -> Sent {
    let outcomes = OutcomeCollector()
    let plan = AppPlan(configuration: configuration, dialer: dialer)
    let (account, failure) = try await plan.serve { app async throws -> (Account, String?) in
      let run = try CampaignRun(
        Campaign(payload: Array(payload.utf8), expiration: nil, priority: 10), through: app, listener: outcomes)
      try await run.run(TokenList(tokens), chunk: AudienceChunk())
      return (run.ledger.account, app.failure)
    }
    return Sent(account: account, outcomes: outcomes.outcomes, failure: failure)
  }

  static func dialer(for topic: String, to simulator: GatewaySimulator) throws -> SocketDialer {
    guard let certificates = simulator.certificates, let files = certificates.apps[topic] else {
      throw MissingCertificate()
    }
    let credential = try Credential.load(files, validAt: nil)
    let context = try TLSContext(
      client: TLSClientConfiguration(credential: credential, trust: .file(certificates.authority)))
    return SocketDialer(host: "127.0.0.1", port: simulator.gatewayPort, context: context)
  }

  struct MissingCertificate: Error {}
}

extension AppPlan {
  /// Runs the app with an engine of its own while `body` runs.
  func serve<Result: Sendable>(_ body: @Sendable (App) async throws -> Result) async throws -> Result {
    let engine = RunningEngine(threads: 1, journal: nil)
    let app = engine.makeApp(self, seed: 1)
    async let running: Void = app.run()
    do {
      let result = try await body(app)
      await app.shutDown()
      await running
      await engine.shutDown()
      return result
    } catch {
      await app.shutDown()
      await running
      await engine.shutDown()
      throw error
    }
  }
}
