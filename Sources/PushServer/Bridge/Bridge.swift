internal import Carillon
internal import Logging
internal import NIOCore
package import PushService
internal import PushStore
internal import PushTransport
internal import PushWire
internal import ServiceLifecycle
internal import Synchronization

/// The bridge: to its clients it is Apple's binary gateway and feedback service; what they send
/// goes into the app's ordinary intake.
package final class Bridge: Sendable {
  private struct State {
    var directory: BridgeDirectory
    /// Grows with each change of who is a client.
    var generation = 0
    /// By app: bytes of payloads that may wait for its connections.
    var queueByteCounts: [String: Int]
    var limit: HandshakeLimit
    var episodes = HandshakeEpisodes()
    var connectionCount = 0
    var refusedCount = 0
    var isEnding = false
    /// Clients can connect, or have not left yet.
    var isServing = false
  }

  let configuration: BridgeConfiguration
  let logger: Logger
  let store: any Store
  private let deployment: Deployment
  let apps: BridgeApps
  var clock: any ServiceClock { apps.clock }
  private let state: Mutex<State>
  /// Its own, for new connections.
  private let certificate = Mutex<(context: TLSContext, inspection: CertificateInspection)?>(nil)

  /// - Throws: a certificate cannot be used.
  init(
    _ configuration: BridgeConfiguration, tenants: [Tenant], deployment: Deployment, outcomes: OutcomeRecorder,
    store: any Store, clock: any ServiceClock, logger: Logger
  ) throws(CarillonError) {
    (self.configuration, self.deployment, self.store, self.logger) = (configuration, deployment, store, logger)
    apps = BridgeApps(
      memory: configuration.connection.memory, deployment: deployment, outcomes: outcomes, store: store, clock: clock,
      logger: logger)
    // One app's file is no reason not to serve the others.
    let directory = try BridgeDirectory(tenants, at: clock.now.seconds) { app, error in
      logger.error("a client of the bridge stays unknown", metadata: ["app": "\(app)", "why": "\(error.message)"])
    }
    state = Mutex(
      State(
        directory: directory, queueByteCounts: Self.queueByteCounts(tenants),
        limit: HandshakeLimit(rate: configuration.handshakeRate)))
    apps.share(Self.sharedApps(tenants))
    _ = try replaceCertificate(configuration)
  }

  private static func sharedApps(_ tenants: [Tenant]) -> Set<String> {
    Set(tenants.lazy.filter(\.isShared).map(\.id))
  }

  private static func queueByteCounts(_ tenants: [Tenant]) -> [String: Int] {
    Dictionary(tenants.map { ($0.id, $0.queueByteCount) }) { first, _ in first }
  }

  package var counts: [String: BridgeCounts] { apps.counts }
  package var refusedCount: Int { state.withLock { $0.refusedCount } }
  var isEnding: Bool { state.withLock { $0.isEnding } }
  var connectionCount: Int { state.withLock { $0.connectionCount } }

  /// Other apps, or other certificates.
  func replace(_ tenants: [Tenant]) throws(CarillonError) {
    let directory = try BridgeDirectory(tenants, at: clock.now.seconds)
    state.withLock { state in
      state.directory = directory
      state.queueByteCounts = Self.queueByteCounts(tenants)
    }
    apps.share(Self.sharedApps(tenants))
  }

  func hasRoom(_ app: PushApp) -> Bool {
    app.queuedByteCount < state.withLock { $0.queueByteCounts[app.id] ?? 0 } && apps.takesIn(app.id)
  }

  /// Reads its certificate and the authorities of clients again, for new connections.
  ///
  /// - Returns: whether the certificate is another one.
  func replaceCertificate(_ configuration: BridgeConfiguration) throws(CarillonError) -> Bool {
    let (context, inspection) = try Self.context(configuration, validAt: clock.now.seconds) {
      [weak self] identity, distrust in
      self?.refusal(of: identity, distrust: distrust)
    }
    return certificate.withLock { certificate in
      defer { certificate = (context, inspection) }
      return certificate?.inspection != inspection
    }
  }

  /// For the next connection. Nil: never, once there is a bridge.
  var tlsContext: TLSContext? { certificate.withLock { $0?.context } }

  // MARK: Clients

  /// Connections that were delayed, and such that were closed, because of `handshakes-per-second`.
  var handshakeEpisodes: HandshakeEpisodes { state.withLock { $0.episodes } }

  /// When a new connection may begin its handshake.
  func admits(_ address: String, now: Instant) -> HandshakeLimit.Turn {
    let (turn, isDue) = state.withLock { state -> (HandshakeLimit.Turn, Bool) in
      guard !state.isEnding, state.connectionCount < configuration.connectionLimit else { return (.never, false) }
      let turn = state.limit.turn(address, now: now)
      if turn != .never { state.connectionCount += 1 }
      return (turn, state.episodes.add(turn, now: now))
    }
    if isDue {
      logger.warning(
        "a client of the bridge opens too many connections: each waits for its turn, and is closed after 30 s",
        metadata: ["address": "\(address)", "handshakes-per-second": "\(configuration.handshakeRate)"])
    }
    return turn
  }

  func closed() { state.withLock { $0.connectionCount -= 1 } }

  /// Decides during the handshake.
  func refusal(of identity: PeerIdentity, distrust: String?) -> ClientCertificatePolicy.Refusal? {
    guard case .refused(let reason) = answer(for: identity, distrust: distrust) else { return nil }
    state.withLock { $0.refusedCount += 1 }
    logger.warning("client refused", metadata: ["certificate": "\(identity.subject)", "why": "\(reason)"])
    return distrust == nil ? .unknown : .unknownAuthority
  }

  func handshakeFailed(_ address: String, _ reason: String) {
    logger.info("a client's handshake failed", metadata: ["address": "\(address)", "why": "\(reason)"])
  }

  /// Which app a client is at present. The directory may have changed since its handshake.
  func answer(for identity: PeerIdentity, distrust: String?) -> BridgeDirectory.Answer {
    state.withLock { state in
      state.directory.answer(
        fingerprint: identity.fingerprint, topics: identity.topics, environments: identity.environments,
        distrust: distrust)
    }
  }

  /// The app of a client that was not refused.
  func client(_ identity: PeerIdentity) -> (app: BridgeApp, push: PushApp)? {
    guard case .app(let id, _) = answer(for: identity, distrust: identity.distrust), let push = try? deployment.app(id)
    else { return nil }
    return (apps.app(id), push)
  }

  /// Grows with each change of who is a client. To be read before the identity of a client is
  /// known, and again when its link is among those of its app: see ``clientsChanged()``.
  var generation: Int { state.withLock { $0.generation } }

  /// Lets the connections of clients that are no longer the same app's end.
  func clientsChanged() {
    state.withLock { $0.generation += 1 }
    apps.tell(.clientsChanged)
  }

  /// Whether clients can connect, or have not left yet.
  var isServing: Bool { state.withLock { $0.isServing } }

  /// Lets clients in.
  func begin() { state.withLock { ($0.isServing, $0.isEnding) = (true, false) } }

  /// All clients have left. If this service goes on, another node may let them in now, otherwise
  /// when it has ended.
  func leave() async {
    if !Task.isShuttingDownGracefully { await apps.handOver() }
    apps.leave()
    state.withLock { $0.isServing = false }
  }

  /// Asks all clients to leave.
  ///
  /// - Parameter latest: when they must have been told how far their frames came.
  func end(by latest: Instant) {
    state.withLock { $0.isEnding = true }
    apps.tell(.end(by: latest))
  }
}
