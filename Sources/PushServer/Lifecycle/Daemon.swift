package import Carillon
internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import PushStore
internal import PushTransport
internal import ServiceLifecycle
internal import Synchronization
internal import UnixSignals

/// The service (`carillon serve`): a long-running deployment with an HTTP API.
package final class Daemon: Sendable {
  /// Where it listens.
  package struct Ports: Hashable, Sendable {
    package var api: Int
    package var admin: Int
    package var bridge: Int?
    package var bridgeFeedback: Int?
  }

  /// Why ``run(ready:)`` has returned.
  package enum Ending: Hashable, Sendable {
    /// The process was asked to end.
    case asked
    /// The journal had failed, and its disk can be written again: another one is to be run, with
    /// these ports.
    case canBeginAnew(Ports)
  }

  private let configuration: ServerConfiguration
  /// The configuration that counts at present, of apps: it changes when it is read again.
  private let settings: Mutex<[String: AppSettings]>
  private let file: String
  /// The credential files that the configuration names at present.
  private let credentialFiles: Mutex<[String]>
  private let manager: ServiceManager?
  private let log: ServiceLog
  private let logger: Logger
  private let store: any Store
  private let deployment: Deployment
  private let book: OutcomeBook
  private let keys: KeyRing
  private let metrics = ServiceMetrics()
  private let certificate: ServerCertificate?
  /// Nil: no client is served over the binary protocol.
  package let bridge: Bridge?
  private let seeing: Seeing
  /// What `/readyz` says. Denied first when the service ends, so that others send elsewhere.
  private let isReady = Atomic<Bool>(false)
  /// Whether notifications are accepted and event streams continue.
  private let isOpen = Atomic<Bool>(false)
  private let beginsAnew = Atomic<Bool>(false)
  private let recoveryPause: Duration
  private let deadline: EndDeadline
  private let ports = Mutex(OpenPorts())

  /// Opens the store and the journal, and reads every credential. Nothing listens yet. An app whose
  /// credential cannot be used begins suspended.
  ///
  /// - Parameters:
  ///   - file: where the configuration was read, and is read again.
  ///   - manager: nil if no service manager has started the process.
  ///   - recoveryPause: between looks whether a journal that has failed can be written again.
  ///   - overdue: called with a sentence if the service was asked to end and has not. The process
  ///     must end then.
  /// - Throws: ``CarillonError``.
  package init(
    _ configuration: ServerConfiguration, file: String, log: ServiceLog, manager: ServiceManager? = nil,
    recoveryPause: Duration = .seconds(1), overdue: @escaping @Sendable (String) -> Void
  ) throws(CarillonError) {
    self.configuration = configuration
    self.file = file
    credentialFiles = Mutex(configuration.credentialFiles)
    settings = Mutex(Self.byID(configuration))
    self.manager = manager
    self.recoveryPause = recoveryPause
    deadline = EndDeadline(configuration.shutdown, passed: overdue)
    self.log = log
    logger = log.logger
    certificate = try configuration.api.certificate.map { files throws(CarillonError) in try ServerCertificate(files) }
    var apps: [AppConfiguration] = []
    for settings in configuration.deployment.apps { apps.append(try AppConfiguration(settings)) }
    guard let journal = JournalSettings(configuration.deployment.journal) else {
      throw CarillonError(.configuration, "The service needs a journal.")
    }
    do throws(StoreError) { store = try SQLiteStore(path: configuration.storePath(besides: file)) } catch {
      throw CarillonError(.journal, error.description)
    }
    deployment = try Deployment(
      serving: apps, journal: journal, shutdownTimeout: configuration.shutdown.drain, logger: logger)
    book = OutcomeBook(store: store)
    keys = KeyRing(store: store, rate: configuration.api.rateLimit)
    seeing = Seeing(
      journalDirectory: configuration.deployment.journal.directory ?? ".",
      storePath: configuration.storePath(besides: file))
    try deployment.recordIntake(with: book)
    bridge = try Bridge.make(configuration, deployment: deployment, book: book, store: store, logger: logger)
    metrics.observe(deployment)
  }

  /// Serves until SIGTERM or SIGINT, until its task is cancelled, or until it has to restart.
  ///
  /// - Parameter ready: called once, when everything listens.
  package func run(ready: @escaping @Sendable (Ports) -> Void) async throws -> Ending {
    let schedule = CampaignSchedule(deployment: deployment) { [self] app in
      CampaignTimes.App(settings.withLock { $0[app] })
    }
    let campaigns = CampaignRunner(
      desk: CampaignDesk(store: store), spool: CampaignSpool(besides: configuration.storePath(besides: file)),
      book: book.campaigns, outcomes: book, deployment: deployment, schedule: schedule,
      retention: configuration.retention, logger: logger)
    let reloading = Reloading(manager: manager) { [self] in await reload(campaigns) }
    let access = ControlAccess(deployment: deployment, keys: keys, settings: configuration.api)
    let intake = IntakeLimit(
      queueByteCount: { [self] app in settings.withLock { $0[app]?.queueByteCountOrDefault ?? 0 } },
      isOpen: { [self] in isOpen.load(ordering: .relaxed) },
      journalFailure: { [deployment] in deployment.journalFailure })
    let dashboard = Dashboard(
      access: access, store: store, book: book, intake: intake, seeing: seeing,
      standings: CampaignStandings(desk: campaigns.desk, deployment: deployment), bridge: bridge,
      check: BrowserCheck(names: configuration.api.hosts), isSecure: certificate != nil)
    let api = ControlRoutes(
      access: access, store: store, book: book, intake: intake, campaigns: campaigns,
      reload: { await reloading.reload() }, metrics: metrics.requests, bridge: bridge, dashboard: dashboard)
    let admin = AdminRoutes(
      isReady: { [self] in isReady.load(ordering: .relaxed) && deployment.journalFailure == nil },
      metrics: { [self] in
        metrics.text(deployment, store: store, bridge: bridge, isReady: isReady.load(ordering: .relaxed))
      }, requests: metrics.requests, access: configuration.admin.listen.isLoopback ? nil : access)
    let (opening, opened) = AsyncStream.makeStream(of: Void.self)
    let apiListener = listener(api.responder, configuration.api.listen, certificate) { [self] port in
      isReady.store(true, ordering: .relaxed)
      listens(ready) { $0.api = port }
    } prepare: { [self] in
      // Recover all acknowledged notifications before requests are served.
      await pauseApps()
      try await bridge?.restore()
      let open = Set(deployment.unfinishedIntakeLines.keys.map(StoredRunID.init))
      try await store.endRuns(except: open, at: .now)
      for left in await deployment.resumeIntake() {
        logger.warning(
          "notifications stay in the journal", metadata: ["app": "\(left.app)", "why": "\(left.reason)"])
      }
      try await campaigns.recover()
      isOpen.store(true, ordering: .relaxed)
      opened.finish()
    }
    // They are stopped in the reverse order.
    var services: [ServiceGroupConfiguration.ServiceConfiguration] = [
      .init(
        service: Supervision(manager: manager, deployment: deployment, store: store, book: book, logger: logger)),
      .init(service: Upkeep(store: store, book: book, keys: keys, retention: configuration.retention, logger: logger)),
      .init(
        service: listener(admin.responder, configuration.admin.listen, nil) { [self] port in
          listens(ready) { $0.admin = port }
        }),
      .init(service: campaigns),
      .init(service: Sending(deployment: deployment) { [self] in beginsAnew.load(ordering: .relaxed) }),
      .init(service: RateSampling(seeing: seeing, deployment: deployment, desk: campaigns.desk)),
      .init(
        service: ReloadTriggers(
          reloading: reloading, files: { [self] in [file] + credentialFiles.withLock { $0 } }, logger: logger)),
    ]
    if let bridge {
      let service = BridgeService(bridge: bridge, isReady: opening, drain: configuration.shutdown.drain) {
        [self] gateway, feedback in
        listens(ready) { ($0.bridge, $0.bridgeFeedback) = (gateway, feedback) }
      }
      services.append(.init(service: service))
    }
    services += [
      .init(
        service: FeedbackPolling(
          deployment: deployment, store: store,
          settings: { [self] in settings.withLock { Array($0.values) } }, logger: logger)),
      .init(service: apiListener),
      .init(
        service: DiskRecovery(
          deployment: deployment, folders: folders, pause: recoveryPause, logger: logger
        ) { [self] in beginsAnew.store(true, ordering: .relaxed) },
        successTerminationBehavior: .gracefullyShutdownGroup),
      .init(
        service: Announcement(
          duration: configuration.shutdown.announce,
          begin: { [self] in
            isReady.store(false, ordering: .relaxed)
            guard !beginsAnew.load(ordering: .relaxed) else { return false }
            manager?.notify(.stopping)
            return true
          },
          close: { [self] in isOpen.store(false, ordering: .relaxed) }, deadline: deadline)),
    ]
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
    defer { deadline.cancel() }
    try await group.run()
    if beginsAnew.load(ordering: .relaxed) {
      manager?.notify(.reloading, status: "Restarting, because the journal can be written again.")
      try store.close()
      return .canBeginAnew(openPorts)
    }
    // With `sync: never` the last outcomes may not be durable yet.
    try await book.makeDurableElsewhere()
    try store.close()
    return .asked
  }

  private var folders: [String] {
    [
      configuration.deployment.journal.directory ?? ".",
      URL(filePath: configuration.storePath(besides: file)).deletingLastPathComponent().path(percentEncoded: false),
    ]
  }

  private var openPorts: Ports {
    ports.withLock {
      Ports(api: $0.api ?? 0, admin: $0.admin ?? 0, bridge: $0.bridge, bridgeFeedback: $0.bridgeFeedback)
    }
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

  /// Reads the configuration again: adds and removes apps, and replaces each credential whose files
  /// have changed. What cannot be read or used changes nothing.
  private func reload(_ campaigns: CampaignRunner) async -> ReloadReport {
    var report = ReloadReport()
    func problem(_ what: String, _ why: String, app: String? = nil) {
      var metadata: Logger.Metadata = ["why": "\(why)"]
      if let app { metadata["app"] = "\(app)" }
      logger.error("\(what)", metadata: metadata)
      report.problems.append("\(app.map { "App \($0): " } ?? "")\(why.asSentence)")
    }
    let changed: ServerConfiguration
    do throws(ConfigurationError) { changed = try ServerConfiguration.read(file: file) } catch {
      problem("the configuration stays as it was", "\(error)")
      return report
    }
    credentialFiles.withLock { $0 = changed.credentialFiles }
    log.settings = changed.log
    do throws(CarillonError) { try replaceCertificate(changed.api.certificate) } catch {
      problem("the API keeps its certificate", error.message)
    }
    report.waiting = changed.waiting(besides: configuration)
    let new = Self.byID(changed)
    let old = settings.withLock { $0 }
    report.removed = old.keys.filter { new[$0] == nil }.sorted()
    await remove(report.removed)
    let hasAdded = new.keys.contains { old[$0] == nil }
    let paused = hasAdded ? (try? await store.pausedApps()) ?? [:] : [:]
    for app in changed.deployment.apps {
      do throws(CarillonError) {
        let isChanged = try await use(app, known: old[app.id], isPaused: paused[app.id] != nil)
        if old[app.id] == nil { report.added.append(app.id) } else if isChanged { report.refreshed.append(app.id) }
        let waiting = settings.withLock { $0[app.id] }.map { app.waiting(besides: $0) } ?? []
        if !waiting.isEmpty { report.waiting.append("app \(app.id): \(waiting.joined(separator: ", "))") }
      } catch {
        problem("the app stays as it was", error.message, app: app.id)
      }
    }
    // A new app may have notifications of an earlier process.
    _ = await deployment.resumeIntake()
    campaigns.desk.signalAll()
    let apps = settings.withLock { $0.values.sorted { $0.id < $1.id } }
    for (what, why) in bridge?.reload(changed, apps: apps) ?? [] { problem(what, why) }
    logger.notice("configuration read again", metadata: ["apps": "\(new.count)"])
    if !report.waiting.isEmpty {
      logger.warning(
        "other settings count after the next start", metadata: ["keys": "\(report.waiting.joined(separator: "; "))"])
    }
    return report
  }

  /// Removals at a time: each may wait for what its app has in flight.
  private static let removalLimit = 256

  private func remove(_ apps: [String]) async {
    settings.withLock { settings in for id in apps { settings[id] = nil } }
    await withTaskGroup(of: Void.self) { tasks in
      for (index, id) in apps.enumerated() {
        if index >= Self.removalLimit { await tasks.next() }
        tasks.addTask { [deployment] in try? await deployment.remove(id) }
      }
    }
    let left = deployment.leftByRemovedApps
    for id in apps {
      logger.notice("app removed", metadata: ["app": "\(id)"])
      guard let count = left[id], count > 0 else { continue }
      logger.warning(
        "notifications stay in the journal until the app is added again",
        metadata: ["app": "\(id)", "count": "\(count)"])
    }
    metrics.remove(apps: apps)
  }

  /// - Returns: whether it has another credential.
  private func use(_ app: AppSettings, known: AppSettings?, isPaused: Bool) async throws(CarillonError) -> Bool {
    let configuration = try AppConfiguration(app)
    guard let known else {
      let added = try deployment.add(configuration)
      if isPaused { added.pause() }
      settings.withLock { $0[app.id] = app }
      logger.notice("app added", metadata: ["app": "\(app.id)"])
      return true
    }
    let isChanged = try await deployment.app(app.id).takeOver(configuration)
    settings.withLock { $0[app.id] = app.atOnce(besides: known) }
    return isChanged
  }

  private func replaceCertificate(_ files: CredentialFiles?) throws(CarillonError) {
    guard let certificate else { return }
    guard let files else { return logger.warning("the API keeps its certificate until the next start") }
    if try certificate.replace(files) { logger.notice("the API has another certificate") }
  }

  /// - Parameter prepare: runs before it listens.
  private func listener(
    _ responder: ControlResponder, _ listen: Listen, _ certificate: ServerCertificate?,
    _ listens: @escaping @Sendable (Int) -> Void, prepare: @escaping @Sendable () async throws -> Void = {}
  ) -> ControlListener {
    let channels = OpenChannels()
    var application = Application(
      responder: responder,
      server: ControlChannel.builder(
        idleTimeout: configuration.api.idleTimeout, certificate: certificate, channels: channels),
      configuration: ApplicationConfiguration(
        address: .hostname(listen.host, port: listen.port), serverName: nil,
        availableConnectionsDelegate: MaximumAvailableConnections(configuration.api.maxConnections)),
      onServerRunning: { listens($0.localAddress?.port ?? 0) },
      logger: logger)
    application.beforeServerStarts(perform: prepare)
    return ControlListener(application: application, channels: channels, drain: configuration.shutdown.drain)
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
    guard let all else { return }
    ready(all)
    manager?.notify(.ready, status: "Serving.")
  }
}
