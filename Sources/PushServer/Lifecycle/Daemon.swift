package import Carillon
internal import Hummingbird
internal import HummingbirdCore
package import Logging
internal import NIOCore
internal import PushStore
internal import ServiceLifecycle
internal import Synchronization
internal import UnixSignals

/// `carillon serve`: a deployment that lives long, fed by others.
package final class Daemon: Sendable {
  /// Where it listens.
  package struct Ports: Hashable, Sendable {
    package var api: Int
    package var admin: Int
    package var bridge: Int?
    package var bridgeFeedback: Int?
  }

  private let configuration: ServerConfiguration
  /// The configuration that counts at present, of apps: it changes when it is read again.
  private let settings: Mutex<[String: AppSettings]>
  private let read: @Sendable () throws -> ServerConfiguration
  private let logger: Logger
  private let store: SQLiteStore
  private let deployment: Deployment
  private let book: OutcomeBook
  private let keys: KeyRing
  private let metrics = ServiceMetrics()
  /// Nil: nobody is served over the binary protocol.
  package let bridge: Bridge?
  private let isReady = Atomic<Bool>(false)
  private let ports = Mutex(OpenPorts())

  /// Opens the store and the journal, and reads every credential. Nothing listens yet.
  ///
  /// - Parameter read: reads the configuration again, when SIGHUP asks for it.
  /// - Throws: ``CarillonError``.
  package init(
    _ configuration: ServerConfiguration, storePath: String, logger: Logger,
    read: @escaping @Sendable () throws -> ServerConfiguration
  ) throws(CarillonError) {
    self.configuration = configuration
    self.read = read
    settings = Mutex(Self.byID(configuration))
    self.logger = logger
    var apps: [AppConfiguration] = []
    for settings in configuration.deployment.apps { apps.append(try AppConfiguration(settings)) }
    guard let journal = JournalSettings(configuration.deployment.journal) else {
      throw CarillonError(.configuration, "The service needs a journal.")
    }
    do throws(StoreError) { store = try SQLiteStore(path: storePath) } catch {
      throw CarillonError(.journal, error.description)
    }
    deployment = try Deployment(
      apps: apps, journal: journal, shutdownTimeout: configuration.shutdown.drain, logger: logger)
    book = OutcomeBook(store: store)
    keys = KeyRing(store: store)
    try deployment.recordIntake(with: book)
    bridge = try Bridge.make(configuration, deployment: deployment, book: book, store: store, logger: logger)
    metrics.observe(deployment)
  }

  /// Serves until SIGTERM or SIGINT, or until its task is cancelled.
  ///
  /// - Parameter ready: called once, when everything listens.
  package func run(ready: @escaping @Sendable (Ports) -> Void) async throws {
    let api = ControlRoutes(
      access: ControlAccess(deployment: deployment, keys: keys, settings: configuration.api), store: store,
      book: book,
      intake: IntakeLimit(
        queueByteCount: { [self] app in settings.withLock { $0[app]?.queueByteCountOrDefault ?? 0 } },
        isOpen: { [self] in isReady.load(ordering: .relaxed) }),
      metrics: metrics.requests,
      bridge: bridge)
    let admin = AdminRoutes(
      isReady: { [self] in isReady.load(ordering: .relaxed) },
      metrics: { [self] in
        metrics.text(deployment, store: store, bridge: bridge, isReady: isReady.load(ordering: .relaxed))
      }, requests: metrics.requests)
    var apiListener = listener(api.responder, configuration.api.listen) { [self] port in
      isReady.store(true, ordering: .relaxed)
      listens(ready) { $0.api = port }
    }
    let (opening, opened) = AsyncStream.makeStream(of: Void.self)
    // Nobody asks before everything that the last process acknowledged is known.
    apiListener.beforeServerStarts { [self] in
      await pauseApps()
      try await bridge?.restore()
      for left in await deployment.resumeIntake() {
        logger.warning(
          "notifications stay in the journal", metadata: ["app": "\(left.app)", "why": "\(left.reason)"])
      }
      opened.finish()
    }
    let bridges: (any Service)? = bridge.map { bridge in
      BridgeService(bridge: bridge, isReady: opening, drain: configuration.shutdown.drain) { [self] gateway, feedback in
        listens(ready) { ($0.bridge, $0.bridgeFeedback) = (gateway, feedback) }
      }
    }
    // They are stopped in the reverse order.
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: [
          .init(
            service: Upkeep(
              store: store, book: book, keys: keys, retention: configuration.retention, logger: logger)),
          .init(
            service: listener(admin.responder, configuration.admin.listen) { [self] port in
              listens(ready) { $0.admin = port }
            }),
          .init(service: deployment),
          .init(service: Reloading { [self] in await reload() }),
          .init(service: bridges ?? IdleService()),
          .init(service: apiListener),
          .init(
            service: Announcement(duration: configuration.shutdown.announce) { [self] in
              isReady.store(false, ordering: .relaxed)
            }),
        ], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
    try await group.run()
    // A journal that never syncs has not asked for it.
    try book.makeDurable()
    try store.close()
  }

  /// Pauses the apps that were paused before the last process ended.
  private func pauseApps() async {
    do throws(StoreError) {
      let paused = try await store.pausedApps()
      for app in deployment.apps where paused[app.id] != nil { app.pause() }
    } catch {
      logger.error("paused apps send", metadata: ["why": "\(error)"])
    }
  }

  private static func byID(_ configuration: ServerConfiguration) -> [String: AppSettings] {
    Dictionary(configuration.deployment.apps.map { ($0.id, $0) }) { first, _ in first }
  }

  /// Reads the configuration again: adds and removes apps, and reads every credential anew. What
  /// cannot be read or used changes nothing.
  private func reload() async {
    let new: [String: AppSettings]
    do { new = Self.byID(try read()) } catch {
      return logger.error("the configuration stays as it was", metadata: ["why": "\(error)"])
    }
    let old = settings.withLock { $0 }
    for id in old.keys where new[id] == nil {
      settings.withLock { $0[id] = nil }
      try? await deployment.remove(id)
      logger.notice("app removed", metadata: ["app": "\(id)"])
      if let count = deployment.leftByRemovedApps[id] {
        logger.warning(
          "notifications stay in the journal until the app is added again",
          metadata: ["app": "\(id)", "count": "\(count)"])
      }
    }
    for (id, app) in new {
      do throws(CarillonError) {
        let configuration = try AppConfiguration(app)
        if var known = old[id] {
          try await deployment.app(id).replaceCredential(configuration.credential)
          known.credential = app.credential
          known.queueByteCount = app.queueByteCount
          if known != app { logger.warning("other settings count after the next start", metadata: ["app": "\(id)"]) }
          settings.withLock { $0[id] = known }
        } else {
          let paused = (try? await store.pausedApps()) ?? [:]
          let added = try deployment.add(configuration)
          if paused[id] != nil { added.pause() }
          settings.withLock { $0[id] = app }
          logger.notice("app added", metadata: ["app": "\(id)"])
        }
      } catch {
        logger.error("the app stays as it was", metadata: ["app": "\(id)", "why": "\(error.message)"])
      }
    }
    // Apps that are new may have left something in an earlier process.
    _ = await deployment.resumeIntake()
    do throws(CarillonError) { try bridge?.replace(Array(new.values)) } catch {
      logger.error("the bridge knows its clients as before", metadata: ["why": "\(error.message)"])
    }
    logger.notice("configuration read again", metadata: ["apps": "\(new.count)"])
  }

  private func listener(
    _ responder: ControlResponder<RouterResponder<ControlContext>>, _ listen: Listen,
    _ listens: @escaping @Sendable (Int) -> Void
  ) -> Application<ControlResponder<RouterResponder<ControlContext>>> {
    Application(
      responder: responder,
      server: .http1(
        configuration: .init(idleTimeout: .nanoseconds(configuration.api.idleTimeout.nanoseconds))),
      configuration: ApplicationConfiguration(
        address: .hostname(listen.host, port: listen.port), serverName: nil,
        availableConnectionsDelegate: MaximumAvailableConnections(configuration.api.maxConnections)),
      onServerRunning: { listens($0.localAddress?.port ?? 0) },
      logger: logger)
  }

  private struct OpenPorts {
    var api: Int?
    var admin: Int?
    var bridge: Int?
    var bridgeFeedback: Int?
  }

  private func listens(_ ready: (Ports) -> Void, _ note: (inout OpenPorts) -> Void) {
    let all: Ports? = ports.withLock { ports in
      note(&ports)
      guard let api = ports.api, let admin = ports.admin, bridge == nil || ports.bridge != nil else { return nil }
      return Ports(api: api, admin: admin, bridge: ports.bridge, bridgeFeedback: ports.bridgeFeedback)
    }
    if let all { ready(all) }
  }
}

extension Duration {
  fileprivate var nanoseconds: Int64 { components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000 }
}
