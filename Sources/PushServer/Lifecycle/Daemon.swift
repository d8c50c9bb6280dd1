package import Carillon
internal import Hummingbird
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
  }

  private let configuration: ServerConfiguration
  private let logger: Logger
  private let store: SQLiteStore
  private let deployment: Deployment
  private let book: OutcomeBook
  private let keys: KeyRing
  private let isReady = Atomic<Bool>(false)
  private let ports = Mutex<(api: Int?, admin: Int?)>((nil, nil))

  /// Opens the store and the journal, and reads every credential. Nothing listens yet.
  ///
  /// - Throws: ``CarillonError``.
  package init(_ configuration: ServerConfiguration, storePath: String, logger: Logger) throws(CarillonError) {
    self.configuration = configuration
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
  }

  /// Serves until SIGTERM or SIGINT, or until its task is cancelled.
  ///
  /// - Parameter ready: called once, when everything listens.
  package func run(ready: @escaping @Sendable (Ports) -> Void) async throws {
    let api = ControlRoutes(
      deployment: deployment, store: store, book: book, keys: keys, settings: configuration.api,
      isOpen: { [self] in isReady.load(ordering: .relaxed) })
    let admin = AdminRoutes(
      isReady: { [self] in isReady.load(ordering: .relaxed) }, metrics: { [self] in metrics })
    var apiListener = listener(api.responder, configuration.api.listen) { [self] port in
      isReady.store(true, ordering: .relaxed)
      listens(ready) { $0.api = port }
    }
    // Nobody asks before everything that the last process acknowledged is known.
    apiListener.beforeServerStarts { [self] in
      for left in await deployment.resumeIntake() {
        logger.warning(
          "notifications stay in the journal", metadata: ["app": "\(left.app)", "why": "\(left.reason)"])
      }
    }
    // They are stopped in the reverse order.
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: [
          .init(service: Upkeep(store: store, keys: keys, retention: configuration.retention, logger: logger)),
          .init(
            service: listener(admin.responder, configuration.admin.listen) { [self] port in
              listens(ready) { $0.admin = port }
            }),
          .init(service: deployment),
          .init(service: apiListener),
          .init(
            service: Announcement(duration: configuration.shutdown.announce) { [self] in
              isReady.store(false, ordering: .relaxed)
            }),
        ], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
    try await group.run()
    try store.close()
  }

  private func listener(
    _ responder: ControlResponder<RouterResponder<ControlContext>>, _ listen: Listen,
    _ listens: @escaping @Sendable (Int) -> Void
  ) -> Application<ControlResponder<RouterResponder<ControlContext>>> {
    Application(
      responder: responder,
      server: .http1(
        configuration: .init(idleTimeout: .nanoseconds(configuration.api.idleTimeout.nanoseconds))),
      configuration: ApplicationConfiguration(address: .hostname(listen.host, port: listen.port), serverName: nil),
      onServerRunning: { listens($0.localAddress?.port ?? 0) },
      logger: logger)
  }

  private func listens(_ ready: (Ports) -> Void, _ note: (inout (api: Int?, admin: Int?)) -> Void) {
    let both: Ports? = ports.withLock { ports in
      note(&ports)
      guard let api = ports.api, let admin = ports.admin else { return nil }
      return Ports(api: api, admin: admin)
    }
    if let both { ready(both) }
  }

  private var metrics: String {
    var text = "# TYPE carillon_ready gauge\ncarillon_ready \(isReady.load(ordering: .relaxed) ? 1 : 0)\n"
    text += "# TYPE carillon_app_paused gauge\n"
    for app in deployment.apps {
      text += "carillon_app_paused{app=\"\(app.id)\"} \(app.stopReason == nil ? 0 : 1)\n"
    }
    return text
  }
}

extension Duration {
  fileprivate var nanoseconds: Int64 { components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000 }
}
