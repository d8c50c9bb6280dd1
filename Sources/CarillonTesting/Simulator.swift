public import Carillon
internal import Foundation
internal import PushGateway
internal import PushTransport
internal import PushWire

/// A gateway for tests: it listens on free ports of the loopback interface, speaks TLS with
/// throw-away certificates, and remembers everything that it was sent.
///
/// ``withSimulator(apps:transport:faults:journal:isolation:_:)`` makes one, with a deployment that
/// sends to it.
public final class Simulator: Sendable {
  /// What the simulated apps speak.
  public enum Transport: Hashable, Sendable, CaseIterable {
    /// The HTTP/2 provider API, with a token key.
    case http2
    /// The binary provider protocol, with a certificate for each app.
    case binary
  }

  /// What the apps of ``deployment`` speak.
  public let transport: Transport
  /// Sends to the simulator. It has one app for each topic, with the topic as its id, and runs.
  public let deployment: Deployment

  private let gateway: GatewaySimulator
  private let frames: RecordedFrames
  private let requests: RecordedRequests
  private let directory: URL

  private init(
    transport: Transport, deployment: Deployment, gateway: GatewaySimulator, frames: RecordedFrames,
    requests: RecordedRequests, directory: URL
  ) {
    (self.transport, self.deployment, self.gateway, self.frames) = (transport, deployment, gateway, frames)
    (self.requests, self.directory) = (requests, directory)
  }

  static func start(
    apps topics: [String], transport: Transport, faults: SimulatedFaults, journal: JournalSettings
  ) async throws -> Simulator {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("carillon-\(UUID().uuidString)")
    do {
      let (frames, requests) = (RecordedFrames(), RecordedRequests())
      var configuration = GatewaySimulator.Configuration(
        identity: .throwAway(directory: directory.path, topics: topics))
      configuration.http2Port = 0
      configuration.rules = faults.rules
      configuration.mayRefuseCertificates = true
      configuration.memory = frames
      configuration.recordedRequests = requests
      configuration.threads = 1
      let gateway = try await GatewaySimulator.start(configuration)
      do {
        let apps = try topics.map { try makeConfiguration(for: $0, transport: transport, gateway: gateway) }
        let deployment = try Deployment(apps: apps, journal: journal, threads: 1)
        return Simulator(
          transport: transport, deployment: deployment, gateway: gateway, frames: frames, requests: requests,
          directory: directory)
      } catch {
        _ = await gateway.stop(grace: .zero)
        throw error
      }
    } catch {
      try? FileManager.default.removeItem(at: directory)
      throw (error as? CarillonError) ?? CarillonError(.configuration, "The simulator cannot start: \(error)")
    }
  }

  func stop() async {
    _ = await gateway.stop(grace: .zero)
    try? FileManager.default.removeItem(at: directory)
  }

  /// An app that sends to this simulator: for a deployment of your own.
  ///
  /// - Parameters:
  ///   - topic: one of those that the simulator was started with. It is also the app's id.
  ///   - transport: Default nil: ``transport``.
  /// - Throws: `CarillonError` with the code `configuration` for any other topic.
  public func configuration(for topic: String, transport: Transport? = nil) throws(CarillonError) -> AppConfiguration {
    try Self.makeConfiguration(for: topic, transport: transport ?? self.transport, gateway: gateway)
  }

  private static func makeConfiguration(
    for topic: String, transport: Transport, gateway: GatewaySimulator
  ) throws(CarillonError) -> AppConfiguration {
    guard let files = gateway.certificates, let certificate = files.apps[topic], let key = gateway.throwAwayKey else {
      throw CarillonError(.configuration, "The simulator was started without an app \"\(topic)\".")
    }
    var configuration: AppConfiguration
    switch transport {
    case .http2:
      configuration = AppConfiguration(
        id: topic, topic: topic, transport: .http2(),
        credential: .tokenKey(file: key.file, keyID: key.keyIdentifier, teamID: key.teamIdentifier))
      configuration.gateway = AppConfiguration.Gateway(host: "127.0.0.1", port: gateway.http2Port ?? 0)
    case .binary:
      configuration = AppConfiguration(
        id: topic, topic: topic, transport: .binary(),
        credential: .certificate(file: certificate.certificate, key: certificate.key))
      configuration.gateway = AppConfiguration.Gateway(host: "127.0.0.1", port: gateway.gatewayPort)
    }
    configuration.trustedAuthorities = files.authority
    return configuration
  }

  /// Replaces the faults.
  ///
  /// Open connections are ended in good order first (status 10, or GOAWAY), so that all that is
  /// sent after this call meets the new faults, latency included. Faults that are limited to an
  /// app's first connections, or to a number of times, count from this call on.
  public func setFaults(_ faults: SimulatedFaults) async { await gateway.replaceRules(faults.rules) }

  // MARK: The feedback service

  /// The simulated feedback service of the binary protocol: for `feedback(from:)` of a `PushApp`.
  public var feedbackService: AppConfiguration.Gateway {
    AppConfiguration.Gateway(host: "127.0.0.1", port: gateway.feedbackPort)
  }

  /// Puts devices into the list of the feedback service, behind those that wait there.
  ///
  /// - Parameters:
  ///   - devices: with whole seconds, as the protocol has them. Those without a time get the
  ///     present.
  ///   - topic: of the app that they no longer have.
  public func addFeedback(_ devices: [PushApp.GoneDevice], for topic: String) {
    for device in devices {
      let since = (device.since ?? Date()).timeIntervalSince1970
      gateway.gateway.feedback.append(
        FeedbackTuple(timestamp: UInt32(clamping: Int64(since)), token: device.token.gatewayToken), topic: topic)
    }
  }

  /// The devices that the feedback service has not handed out yet, the oldest entry first.
  public func waitingFeedback(for topic: String) -> [PushApp.GoneDevice] {
    gateway.gateway.feedback.waiting(topic: topic).compactMap { tuple in
      guard let token = try? DeviceToken(bytes: tuple.token.bytes) else { return nil }
      return PushApp.GoneDevice(token: token, since: Date(timeIntervalSince1970: TimeInterval(tuple.timestamp)))
    }
  }

  // MARK: What has come

  /// What the gateway has accepted for a topic, in the order in which it decided about it. A
  /// notification that was sent twice stands there twice.
  public func accepted(_ topic: String) -> [ReceivedNotification] { received(topic).filter { $0.refusal == nil } }

  /// What the gateway has refused for a topic, in the order in which it decided about it.
  public func refused(_ topic: String) -> [ReceivedNotification] { received(topic).filter { $0.refusal != nil } }

  private func received(_ topic: String) -> [ReceivedNotification] {
    // Probes, which the binary protocol's sender sends to be refused, have no token.
    let binary = frames.frames.filter { $0.topic == topic && !($0.refusal != nil && $0.token == nil) }
    return binary.map { ReceivedNotification($0) }
      + requests.requests.filter { $0.app == topic }.map { ReceivedNotification($0) }
  }
}

/// Runs a test against a simulated gateway.
///
/// ```swift
/// @Test func badTokensAreForgotten() async throws {
///   let faults = SimulatedFaults.refuse(prefix: "dead", as: .unregistered)
///   try await withSimulator(apps: ["com.example.news"], faults: faults) { simulator in
///     let service = MyService(push: simulator.deployment)
///     try await service.notifyEveryone()
///     #expect(simulator.accepted("com.example.news").count == 9)
///   }
/// }
/// ```
///
/// - Parameters:
///   - apps: the topics of the apps. Each has a throw-away credential.
///   - transport: what ``Simulator/deployment`` speaks. Default: HTTP/2.
///   - faults: what goes wrong. Default: nothing.
///   - journal: of ``Simulator/deployment``. Default: none.
///   - isolation: what `body` is isolated to. Default: the caller's actor.
///   - body: the test. ``Simulator/deployment`` runs meanwhile.
/// - Returns: what `body` returns.
/// - Throws: what `body` throws, and `CarillonError` if the simulator cannot start.
public func withSimulator<Result: Sendable>(
  apps: [String], transport: Simulator.Transport = .http2, faults: SimulatedFaults = .none,
  journal: JournalSettings = .none, isolation: isolated (any Actor)? = #isolation,
  _ body: (Simulator) async throws -> Result
) async throws -> Result {
  let simulator = try await Simulator.start(apps: apps, transport: transport, faults: faults, journal: journal)
  let result: Result
  do {
    result = try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await simulator.deployment.run() }
      let result = try await body(simulator)
      tasks.cancelAll()
      try await tasks.waitForAll()
      return result
    }
  } catch {
    await simulator.stop()
    throw error
  }
  await simulator.stop()
  return result
}
