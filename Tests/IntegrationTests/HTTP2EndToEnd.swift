internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushGateway
internal import PushServer
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

/// A campaign over real TLS and HTTP/2 on loopback. The simulator's service runs in the same
/// process.
struct HTTP2EndToEnd {
  static let topic = "com.example.news"

  var configuration = AppRules(id: HTTP2EndToEnd.topic)
  /// Changes the settings of the lanes.
  var adjust: @Sendable (inout HTTP2Settings) -> Void = { _ in }
  var faults = ServiceFaults()
  var settings = ServiceSettings()
  /// Of a round trip.
  var latency = Duration.zero
  var tokens: [TokenBytes]
  /// True: with a provider token; false: with a certificate.
  var usesKey = false
  var payload = #"{"aps":{"alert":"Hello"}}"#

  struct Result {
    var account: Account
    var outcomes: [TokenBytes: Outcome]
    var arrivals: [TokenBytes: Int]
    /// The number of tokens that were sent with more than one identifier.
    var changedIdentifiers: Int
    var truth: ServiceTruth
    var failure: String?
    var mintedCount: Int
    var goneSince: [TokenBytes: UInt64]
  }

  init(tokenCount: Int, seed: UInt64) {
    tokens = EndToEnd(tokenCount: tokenCount, seed: seed).tokens
  }

  func run() async throws -> Result {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("carillon-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let memory = RecordedRequests()
    var simulation = GatewaySimulator.Configuration(identity: .throwAway(directory: directory, topics: [Self.topic]))
    simulation.http2Port = 0
    simulation.rules.common.http2 = faults
    simulation.rules.service = settings
    simulation.rules.latency = latency
    simulation.recordedRequests = memory
    simulation.threads = 1
    let simulator = try await GatewaySimulator.start(simulation)
    do {
      let source = try tokenSource(simulator)
      let listener = GoneBook()
      let sent = try await send(through: try dialer(to: simulator), source: source, listener: listener)
      let truth = await simulator.stop()
      return result(sent, listener, memory, truth.http2[Self.topic] ?? ServiceTruth(), source)
    } catch {
      _ = await simulator.stop(grace: .zero)
      throw error
    }
  }

  /// Runs the campaign alone, to any service that the dialer connects to.
  func send(
    through dialer: SocketDialer, source: ProviderTokenSource?, listener: any OutcomeListener
  ) async throws -> (account: Account, failure: String?) {
    var configuration = configuration
    let credential = source == nil ? ProviderCredentialKind.certificate(userIdentifier: Self.topic, topics: []) : .token
    var http2 = HTTP2Settings(authority: "localhost", tokens: source, credential: credential)
    adjust(&http2)
    configuration.transport = .http2(http2)
    let plan = AppPlan(configuration: configuration, dialer: dialer)
    return try await plan.serve { app async throws -> (account: Account, failure: String?) in
      let campaign = Campaign(payload: Array(payload.utf8), priority: 10, headers: ProviderHeaders(topic: Self.topic))
      let run = try CampaignRun(campaign, through: app, listener: listener)
      try await run.run(TokenList(tokens), chunk: AudienceChunk())
      return (run.ledger.account, app.failure)
    }
  }

  private func result(
    _ sent: (account: Account, failure: String?), _ listener: GoneBook, _ memory: RecordedRequests,
    _ truth: ServiceTruth, _ source: ProviderTokenSource?
  ) -> Result {
    var arrivals: [TokenBytes: Int] = [:]
    for (delivery, count) in memory.accepted(app: Self.topic) { arrivals[delivery.token, default: 0] += count }
    let identifiers = Dictionary(grouping: memory.requests.filter { $0.token != nil }, by: \.token).mapValues {
      Set($0.map(\.identifier)).count
    }
    return Result(
      account: sent.account, outcomes: listener.collector.outcomes, arrivals: arrivals,
      changedIdentifiers: identifiers.values.count { $0 > 1 }, truth: truth,
      failure: sent.failure, mintedCount: source?.mintedCount ?? 0, goneSince: listener.since)
  }

  private func tokenSource(_ simulator: GatewaySimulator) throws -> ProviderTokenSource? {
    guard usesKey, let file = simulator.throwAwayKey else { return nil }
    let key = try ProviderKey.load(
      file: file.file, keyIdentifier: file.keyIdentifier, teamIdentifier: file.teamIdentifier)
    return ProviderTokenSource(key: key, environment: "test")
  }

  private func dialer(to simulator: GatewaySimulator) throws -> SocketDialer {
    guard let certificates = simulator.certificates, let files = certificates.apps[Self.topic],
      let port = simulator.http2Port
    else {
      throw EndToEnd.MissingCertificate()
    }
    let credential = usesKey ? nil : try Credential.load(files, validAt: nil)
    var client = TLSClientConfiguration(credential: credential, trust: .file(certificates.authority))
    client.applicationProtocols = [ApplicationProtocol.http2]
    return SocketDialer(host: "127.0.0.1", port: port, context: try TLSContext(client: client))
  }
}

/// Collects outcomes by token, and when the service found devices gone.
final class GoneBook: OutcomeListener {
  let collector = OutcomeCollector()
  private let gone = Mutex<[TokenBytes: UInt64]>([:])

  var since: [TokenBytes: UInt64] { gone.withLock { $0 } }

  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {
    collector.notAccepted(line: line, token: token, outcome: outcome, goneSince: goneSince, isDoubted: isDoubted)
    guard let goneSince, let token = try? TokenBytes(parsing: token) else { return }
    gone.withLock { $0[token] = goneSince }
  }
}
