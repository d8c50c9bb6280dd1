package import Carillon
internal import Logging
internal import NIOCore
internal import PushStore
internal import PushTransport
package import PushWire
internal import Synchronization

/// The bridge: to its clients it is Apple's binary gateway and feedback service; what they send
/// goes into the app's ordinary intake.
package final class Bridge: Sendable {
  private struct State {
    var apps: [String: BridgeApp] = [:]
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
    var nextSweep = Instant.start
  }

  let configuration: BridgeConfiguration
  let logger: Logger
  let store: any Store
  private let deployment: Deployment
  private let outcomes: OutcomeRecorder
  private let budget: MemoryBudget
  private let state: Mutex<State>
  /// Its own, for new connections.
  private let certificate = Mutex<(context: TLSContext, inspection: CertificateInspection)?>(nil)
  /// How often memories are looked through for what is too old.
  private let sweepInterval: Duration
  /// The apps of runs that the bridge has lines in.
  private let runs = Mutex<[IntakeRunID: BridgeApp]>([:])

  /// - Throws: a certificate cannot be used.
  init(
    _ configuration: BridgeConfiguration, tenants: [Tenant], deployment: Deployment, outcomes: OutcomeRecorder,
    store: any Store, logger: Logger
  ) throws(CarillonError) {
    self.configuration = configuration
    self.deployment = deployment
    self.outcomes = outcomes
    self.store = store
    self.logger = logger
    budget = MemoryBudget(byteCount: configuration.memory.byteCount)
    sweepInterval = min(.seconds(30), max(.milliseconds(500), configuration.memory.age / 16))
    // One app's file is no reason not to serve the others.
    let directory = try BridgeDirectory(tenants) { app, error in
      logger.error("a client of the bridge stays unknown", metadata: ["app": "\(app)", "why": "\(error.message)"])
    }
    state = Mutex(
      State(
        directory: directory, queueByteCounts: Self.queueByteCounts(tenants),
        limit: HandshakeLimit(rate: configuration.handshakeRate)))
    _ = try replaceCertificate(configuration)
  }

  private static func queueByteCounts(_ tenants: [Tenant]) -> [String: Int] {
    Dictionary(tenants.map { ($0.id, $0.queueByteCount) }) { first, _ in first }
  }

  /// The counts, by app.
  package var counts: [String: BridgeCounts] {
    state.withLock { $0.apps.values.map { ($0.id, $0.counts) } }.reduce(into: [:]) { $0[$1.0] = $1.1 }
  }
  /// Clients that were refused, of all apps.
  package var refusedCount: Int { state.withLock { $0.refusedCount } }
  var isEnding: Bool { state.withLock { $0.isEnding } }
  var connectionCount: Int { state.withLock { $0.connectionCount } }

  /// Other apps, or other certificates.
  func replace(_ tenants: [Tenant]) throws(CarillonError) {
    let directory = try BridgeDirectory(tenants)
    state.withLock { state in
      state.directory = directory
      state.queueByteCounts = Self.queueByteCounts(tenants)
    }
  }

  func hasRoom(_ app: PushApp) -> Bool {
    app.queuedByteCount < state.withLock { $0.queueByteCounts[app.id] ?? 0 }
  }

  func app(_ id: String) -> BridgeApp {
    state.withLock { state in
      if let app = state.apps[id] { return app }
      let app = BridgeApp(id, memory: configuration.memory, budget: budget, outcomes: outcomes) { [self] run, app in
        runs.withLock { $0[run] = app }
      }
      state.apps[id] = app
      return app
    }
  }

  /// Reads its certificate and the authorities of clients again, for new connections.
  ///
  /// - Returns: whether the certificate is another one.
  func replaceCertificate(_ configuration: BridgeConfiguration) throws(CarillonError) -> Bool {
    let (context, inspection) = try Self.context(configuration) { [weak self] identity, distrust in
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

  /// Connections that were held, and such that were closed, because of `handshakes-per-second`.
  var handshakeEpisodes: HandshakeEpisodes { state.withLock { $0.episodes } }

  /// When a new connection may begin its handshake.
  func admits(_ address: String, now: Instant) -> HandshakeLimit.Turn {
    let (turn, isDue) = state.withLock { state -> (HandshakeLimit.Turn, Bool) in
      guard !state.isEnding, state.connectionCount < configuration.connectionLimit else {
        return (.never, false)
      }
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
    let answer = state.withLock { $0.directory.answer(for: BridgeCertificate(identity), distrust: distrust) }
    guard case .refused(let reason) = answer else { return nil }
    state.withLock { $0.refusedCount += 1 }
    logger.warning("client refused", metadata: ["certificate": "\(identity.subject)", "why": "\(reason)"])
    return distrust == nil ? .unknown : .unknownAuthority
  }

  func handshakeFailed(_ address: String, _ reason: String) {
    logger.info("a client's handshake failed", metadata: ["address": "\(address)", "why": "\(reason)"])
  }

  /// Which app a client is at present. The directory may have changed since its handshake.
  func answer(for identity: PeerIdentity) -> BridgeDirectory.Answer {
    state.withLock { $0.directory.answer(for: BridgeCertificate(identity), distrust: identity.distrust) }
  }

  /// The app of a client that was not refused.
  func client(_ identity: PeerIdentity) -> (app: BridgeApp, push: PushApp)? {
    guard case .app(let id, _) = answer(for: identity), let push = try? deployment.app(id) else { return nil }
    return (app(id), push)
  }

  /// Grows with each change of who is a client. To be read before the identity of a client is
  /// known, and again when its link is among those of its app: see ``clientsChanged()``.
  var generation: Int { state.withLock { $0.generation } }

  /// Lets the connections of clients that are no longer the same app's end.
  func clientsChanged() {
    let apps = state.withLock { state in
      state.generation += 1
      return Array(state.apps.values)
    }
    for link in apps.flatMap(\.links) { link.put(.clientsChanged)?() }
  }

  // MARK: Life

  /// Loads what earlier processes forwarded for clients that got no answer. To be called before the
  /// intake of earlier processes is resumed.
  func restore() async throws(StoreError) {
    let lines = deployment.unfinishedIntakeLines
    // Until then at least, the last process lived.
    let lastSign = try await store.lastSignOfBridge() ?? .now
    let reach = lastSign.milliseconds - BridgeRecovery.reach.components.seconds * 1000
    var recovery = BridgeRecovery()
    for found in try await store.forwardedFrames(since: oldestStored) {
      let frames = found.frames
      app(frames.app).restore(position: frames.position + Int64(frames.count), client: frames.client)
      guard let run = IntakeRunID(high: frames.run.high, low: frames.run.low) else { continue }
      let end = found.end.map { BridgeRecovery.End(from: $0.from, recentFrom: $0.recentFrom) }
      for (offset, digest) in [FrameDigest](bytes: frames.digests).enumerated() {
        let line = frames.firstLine + UInt32(offset)
        let frame = BridgeRecovery.Frame(
          app: frames.app, client: frames.client, digest: digest, answer: found.answer(line: line),
          answeredAt: Self.instant(found.answeredBy), connection: frames.connection,
          number: frames.firstFrame + UInt64(offset), isRecognised: frames.isRecognised)
        recovery.read(
          frame, as: ForwardedLine(run, line: line), end, isRecent: frames.at.milliseconds >= reach,
          isInJournal: UInt64(line) <= lines[run] ?? 0)
      }
    }
    let now = Instant.now
    for (line, frame, isByResponse) in recovery.frames {
      let app = app(frame.app)
      if frame.answer == nil, let run = IntakeRunID(high: line.high, low: line.low) {
        runs.withLock { $0[run] = app }
      }
      app.restore(frame, as: line, isByResponse: isByResponse, now: now)
    }
  }

  /// The service listens now.
  func begins() {
    let now = Instant.now
    for app in state.withLock({ Array($0.apps.values) }) { app.begins(now: now) }
  }

  /// What was answered before this is not remembered.
  private var oldestStored: StoreInstant {
    StoreInstant(milliseconds: StoreInstant.now.milliseconds - configuration.memory.age.components.seconds * 1000)
  }

  /// An instant of an earlier process, on this one's clock; nil: now.
  private static func instant(_ stored: StoreInstant?) -> Instant {
    let now = Instant.now
    guard let stored else { return now }
    let past = UInt64(max(0, StoreInstant.now.milliseconds - stored.milliseconds)) * 1_000_000
    return Instant(nanoseconds: now.nanoseconds - min(past, now.nanoseconds))
  }

  /// Ends the connections of apps that send nothing more until an operator acts.
  func checkApps() {
    for app in state.withLock({ Array($0.apps.values) }) {
      let isGone = (try? deployment.app(app.id)).map { $0.lastingStopReason != nil } ?? true
      if isGone { end(app.links, by: nil) }
    }
  }

  /// Forgets what is too old, here and in the store, every ``sweepInterval``.
  func sweep() async {
    let now = Instant.now
    let apps: [BridgeApp]? = state.withLock { state in
      guard now >= state.nextSweep else { return nil }
      state.nextSweep = now + sweepInterval
      return Array(state.apps.values)
    }
    guard let apps else { return }
    for app in apps { for wake in app.sweep(now: now) { wake() } }
    do throws(StoreError) { try await store.forgetForwarded(before: oldestStored, now: .now) } catch {
      logger.warning("old frames of the bridge stay in the store", metadata: ["why": "\(error)"])
    }
  }

  /// Asks all clients to leave.
  ///
  /// - Parameter latest: when they must have been told how far their frames came.
  func end(by latest: Instant) {
    let apps = state.withLock { state in
      state.isEnding = true
      return Array(state.apps.values)
    }
    for app in apps { end(app.links, by: latest) }
  }

  private func end(_ links: [BridgeLink], by latest: Instant?) {
    for link in links { link.put(.end(by: latest))?() }
  }
}

// MARK: - Outcomes

extension Bridge: IntakeWatcher {
  package func accepted(_ run: IntakeRunID, lines: [UInt64]) {
    guard let app = runs.withLock({ $0[run] }) else { return }
    for wake in app.answered(lines, of: run, .accepted) { wake() }
  }

  package func notAccepted(_ run: IntakeRunID, line: UInt64, outcome: Outcome) {
    guard let app = runs.withLock({ $0[run] }) else { return }
    for wake in app.answered([line], of: run, FrameAnswer(outcome)) { wake() }
  }

  package func ended(_ run: IntakeRunID) { runs.withLock { $0[run] = nil } }
}

extension RememberedFrames {
  fileprivate func answer(line: UInt32) -> FrameAnswer? {
    if acceptedLines.contains(where: { $0.contains(line) }) { return .accepted }
    return notAccepted[line].map { FrameAnswer(state: $0.state, detail: $0.detail) }
  }
}
