internal import Carillon
internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import PushEngine
package import PushService
internal import PushStore
internal import PushTransport
internal import ServiceLifecycle
internal import Synchronization

/// The service (`carillon serve`): a long-running deployment with an HTTP API.
package final class Daemon: Sendable {
  /// Where it listens; 0: not yet.
  package struct Ports: Hashable, Sendable {
    package var api: Int
    package var admin: Int
    package var bridge: Int?
    package var bridgeFeedback: Int?
  }

  package enum Ending: Hashable, Sendable {
    /// The process was asked to end.
    case stopped
    /// The journal had failed, and can be written again: run another daemon, with these ports.
    case restart(Ports)
  }

  let program: ProgramFacts
  let configuration: ServerConfiguration
  /// As they count at present: they change when the configuration is read again.
  let tenants: Mutex<[String: Tenant]>
  let file: String
  /// The credential files that the configuration names at present.
  let credentialFiles: Mutex<[String]>
  let manager: ServiceManager?
  let clock: any ServiceClock
  let log: ServiceLog
  let logger: Logger
  let store: any Store
  let deployment: Deployment
  private let outcomes: OutcomeRecorder
  let events: EventLog
  private let feed: OutcomeFeed
  private let webhooks = WebhookStates()
  private let keys: KeyRing
  let metrics = ServiceMetrics()
  let certificate: ServerCertificate?
  /// Nil: no client is served over the binary protocol.
  package let bridge: Bridge?
  let membership: NodeMembership
  /// Nil: no other process can use the store.
  let carrier: IntakeCarrier?
  let description: NodeDescription
  private let statistics: ServiceStatistics
  /// What `/readyz` says. Denied first when the service ends, so that others send elsewhere.
  private let isReady = Atomic<Bool>(false)
  /// Whether notifications are accepted and event streams continue.
  private let isOpen = Atomic<Bool>(false)
  /// The service ends because its journal has failed and can be written again.
  private let restarts = Atomic<Bool>(false)
  private let askedToEnd = Atomic<Bool>(false)
  var wasAskedToEnd: Bool { askedToEnd.load(ordering: .relaxed) }
  /// Whether everything has listened.
  var hasServed: Bool { isReady.load(ordering: .relaxed) || isOpen.load(ordering: .relaxed) }
  private let recoveryPause: Duration
  private let deadline: EndDeadline
  let ports = Mutex(Ports(api: 0, admin: 0))
  let listeners = Mutex<[OpenChannels]>([])
  let reserve: DescriptorReserve

  /// Opens the store and the journal, and reads every credential. Nothing listens yet. An app whose
  /// credential cannot be used begins suspended.
  ///
  /// - Parameters:
  ///   - file: where the configuration was read, and is read again.
  ///   - program: what clients and operators are told of this program.
  ///   - manager: nil if no service manager has started the process.
  ///   - recoveryPause: between looks whether a journal that has failed can be written again.
  ///   - overdue: called with a sentence if the service was asked to end and has not. The process
  ///     must end then.
  /// - Throws: ``CarillonError``; ``StoreError`` of the store.
  package init(
    _ configuration: ServerConfiguration, file: String, log: ServiceLog, program: ProgramFacts = ProgramFacts(),
    manager: ServiceManager? = nil, clock: any ServiceClock = MachineClock(), recoveryPause: Duration = .seconds(1),
    overdue: @escaping @Sendable (String) -> Void
  ) throws {
    (self.program, self.configuration, self.file) = (program, configuration, file)
    credentialFiles = Mutex(configuration.credentialFiles)
    tenants = Mutex(Self.byID(configuration))
    (self.manager, self.clock, self.recoveryPause) = (manager, clock, recoveryPause)
    deadline = EndDeadline(configuration.shutdown, passed: overdue)
    self.log = log
    logger = log.logger
    reserve = DescriptorReserve { [logger] error in
      logger.error(
        "no connection can be accepted: too many open files",
        metadata: [
          "why": "\(error)", "what helps": "a higher limit of open files, such as LimitNOFILE, or fewer connections",
        ])
    }
    certificate = try configuration.api.certificate.map { files throws(CarillonError) in
      try ServerCertificate(files, at: clock.now.seconds)
    }
    guard let journal = JournalSettings(configuration.journal) else {
      throw CarillonError(.configuration, "The service needs a journal.")
    }
    let node: NodeFile?
    (store, node) = try configuration.store.open(besides: file, journal: configuration.journal.directory ?? ".")
    deployment = try Deployment(
      serving: configuration.tenants.map(\.app), journal: journal, shutdownTimeout: configuration.shutdown.drain,
      logger: logger)
    try node?.keep()
    do throws(JournalProblem) {
      let log = try DeferredList(directory: configuration.journal.directory ?? ".")
      outcomes = OutcomeRecorder(store: store, clock: clock, deferred: DeferredChanges(log))
    } catch { throw CarillonError(.journal, "\(error)") }
    events = EventLog(
      store: store, node: configuration.store.cluster.map { [configuration] _ in configuration.store.node },
      clock: clock, logger: log.logger, isAway: { [outcomes] in outcomes.awayDuration != nil })
    statistics = ServiceStatistics(
      journalDirectory: configuration.journal.directory ?? ".", storePath: configuration.store.base(besides: file),
      durations: { [metrics] in metrics.deliveryDurations($0) })
    try deployment.recordIntake(with: outcomes)
    bridge = try Bridge.make(
      configuration, deployment: deployment, outcomes: outcomes, store: store, clock: clock, logger: logger)
    let description = NodeDescription(deployment, statistics)
    description.note(Self.byID(configuration), retention: configuration.retention)
    self.description = description
    membership = NodeMembership(
      store: store, name: configuration.store.node,
      memory: node.map { node in NodeMembership.Memory(former: node.incarnation) { try node.write($0) } },
      pace: configuration.nodePace, clock: clock, logger: logger, facts: { description.current },
      extendLease: { [deployment] in deployment.extendLease(until: $0, now: $1) },
      waits: { manager?.waits(status: $0) })
    carrier = store.ledger.map { [membership, deployment, outcomes] ledger in
      IntakeCarrier(
        ledger: ledger, outcomes: outcomes, deployment: deployment, incarnation: { membership.current },
        isDraining: { membership.isDraining }, clock: clock, logger: log.logger)
    }
    keys = KeyRing(
      rate: configuration.api.rateLimit, clock: clock, serviceCount: { [membership] in membership.aliveCount }
    ) { [store] () async throws(StoreError) in
      try await store.keys()
    }
    feed = OutcomeFeed(store: store, recorder: outcomes)
    metrics.observe(deployment)
  }

  /// Serves until SIGTERM or SIGINT, until its task is cancelled, or until it has to restart.
  ///
  /// - Parameter ready: called once, when everything listens.
  package func run(ready: @escaping @Sendable (Ports) -> Void) async throws -> Ending {
    let files = OpenFileLimit.raise()
    logger.debug("open files", metadata: ["limit": "\(files)"])
    // Before anything is recovered and sent.
    for (_, key, listen) in configuration.listeners {
      if let failure = await ListenFailure.probe(key, listen) {
        try await endUnused()
        throw failure
      }
    }
    let run = prepareRun()
    return try await serve(run, through: listening(run, ready))
  }

  /// Serves once: until one of the front's signals, until its task is cancelled or shut down, or
  /// until it has to restart.
  func serve(_ run: Run, through front: Front) async throws -> Ending {
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: services(run, front), gracefulShutdownSignals: front.endSignals, logger: logger))
    defer { deadline.cancel() }
    do { try await group.run() } catch {
      // Another daemon may open it in this process.
      try? store.close()
      throw error
    }
    if restarts.load(ordering: .relaxed) {
      manager?.notify(.reloading, status: "Restarting, because the journal can be written again.")
      try store.close()
      return .restart(ports.withLock { $0 })
    }
    // With `sync: never` the last outcomes may not be durable yet.
    try await outcomes.finish()
    await membership.leave()
    try store.close()
    return .stopped
  }

  /// Closes the store and the journal of a daemon that never ran.
  private func endUnused() async throws {
    try store.close()
    await withDiscardingTaskGroup { [deployment] tasks in
      tasks.addTask { try? await deployment.run() }
      tasks.cancelAll()
    }
  }

  // MARK: Parts

  func prepareRun() -> Run {
    let campaigns = makeCampaigns()
    description.note(campaigns.controller)
    let (opening, opened) = AsyncStream.makeStream(of: Void.self)
    return Run(
      campaigns: campaigns, alarms: makeAlarmWatch(),
      reloading: Reloading(
        manager: manager, files: { [self] in [file] + credentialFiles.withLock { $0 } }
      ) { [self] in await reload(campaigns) },
      clients: OpenChannels(
        OpenChannels.Limits(
          all: configuration.api.maxConnections, perAddress: configuration.api.addressConnections,
          keyless: configuration.api.keylessConnections), clock: clock, logger: logger), opening: opening,
      opened: opened)
  }

  private func makeCampaigns() -> CampaignRunner {
    let schedule = CampaignSchedule(deployment: deployment) { [self] app in
      CampaignTimes.App(tenants.withLock { $0[app] })
    }
    return CampaignRunner(
      controller: CampaignController(store: store, clock: clock, events: events),
      spool: CampaignSpool(besides: configuration.store.base(besides: file)), recorder: outcomes.campaigns,
      outcomes: outcomes, deployment: deployment, schedule: schedule, retention: configuration.retention,
      incarnation: { [membership] in membership.current }, pace: configuration.nodePace,
      leads: { [membership] in membership.leads }, isDraining: { [membership] in membership.isDraining },
      logger: logger)
  }

  private func makeAlarmWatch() -> AlarmWatch {
    AlarmWatch(
      deployment: deployment, outcomes: outcomes, statistics: statistics, webhooks: webhooks, membership: membership,
      lacksDescriptors: { [reserve] in reserve.isShort }, databaseState: { [metrics] in metrics.databaseState },
      events: events, clock: clock)
  }

  /// What answers the API's requests, and the dashboard's.
  func apiResponder(_ run: Run) -> ControlResponder {
    let access = ControlAccess(deployment: deployment, keys: keys, settings: configuration.api)
    let intake = IntakeLimit(
      queueByteCount: { [self] app in tenants.withLock { $0[app]?.queueByteCount ?? 0 } },
      isShared: { [self] app in tenants.withLock { $0[app]?.isShared ?? false } },
      isOpen: { [self] in isOpen.load(ordering: .relaxed) },
      isDraining: { [membership] in membership.isDraining },
      journalFailure: { [deployment] in deployment.journalFailure })
    let dashboard = Dashboard(
      access: access, store: store, outcomes: outcomes, intake: intake, campaigns: run.campaigns,
      statistics: statistics,
      reports: CampaignReports(
        controller: run.campaigns.controller, deployment: deployment, statistics: statistics, outcomes: outcomes,
        membership: membership),
      bridge: bridge,
      alarms: run.alarms, census: DeviceCensus(store: store, clock: clock),
      zone: { [self] app in PageZone(tenants.withLock { $0[app]?.timeZone }) }, webhooks: webhooks,
      program: program,
      check: BrowserCheck(names: configuration.api.hosts), isSecure: certificate != nil,
      sessions: DashboardSessions(store: store, clock: clock))
    return ControlRoutes(
      access: access, store: store, outcomes: outcomes, feed: feed, intake: intake, campaigns: run.campaigns,
      reload: { [reloading = run.reloading] in await reloading.reload() }, metrics: metrics.requests, bridge: bridge,
      dashboard: dashboard, channels: run.clients, membership: membership, events: events, program: program
    ).responder
  }

  /// What answers requests for metrics and health.
  var adminResponder: ControlResponder {
    let access = ControlAccess(deployment: deployment, keys: keys, settings: configuration.api)
    return AdminRoutes(
      isReady: { [self] in
        isReady.load(ordering: .relaxed) && !membership.isDraining && deployment.journalFailure == nil
          && !reserve.isPaused && listeners.withLock { $0.allSatisfy { !$0.isFull } }
      },
      obstacle: { [self] in
        outcomes.awayDuration.map { _ in store.spoken } ?? (membership.isDraining ? "carillon node resume" : nil)
      },
      metrics: { [self] in
        metrics.text(
          deployment, program: program, store: store, storeAway: outcomes.awayDuration, bridge: bridge,
          membership: membership, webhooks: webhooks.all, now: clock.now,
          isReady: isReady.load(ordering: .relaxed) && !membership.isDraining,
          lacksDescriptors: reserve.isShort)
      }, requests: metrics.requests, access: configuration.admin.listen.isLoopback ? nil : access,
      clock: clock
    ).responder
  }

  /// Recovers all acknowledged notifications. Requests are served afterwards.
  func recover(_ run: Run) async throws {
    try await membership.enter()
    if membership.isShared { outcomes.share(as: membership.current) }
    try outcomes.restoreDeferred()
    try await carrier?.restore()
    await pauseApps()
    if membership.leads { try await bridge?.apps.restore(owned: carrier?.owned ?? []) }
    let open = Set(deployment.unfinishedIntakeLines.keys.map(StoredRunID.init))
    try await store.endRuns(except: open, at: clock.now)
    for left in await deployment.resumeIntake(owned: carrier?.owned ?? []) {
      logger.warning("notifications stay in the journal", metadata: ["app": "\(left.app)", "why": "\(left.reason)"])
    }
    try await run.campaigns.recover()
    isOpen.store(true, ordering: .relaxed)
    run.opened.finish()
  }

  /// The API serves: `/readyz` says so.
  func becomeReady() {
    isReady.store(true, ordering: .relaxed)
    events.note("service started", subject: program.text)
  }

  // MARK: Services

  /// They are stopped in the reverse order.
  private func services(_ run: Run, _ front: Front) -> [ServiceGroupConfiguration.ServiceConfiguration] {
    var services: [any Service] = [
      membership,
      Supervision(
        manager: manager, deployment: deployment, store: store, outcomes: outcomes, logger: logger, clock: clock),
      Maintenance(
        store: store, outcomes: outcomes, events: events, keys: keys, metrics: metrics,
        retention: configuration.retention, renewJournal: { [deployment] in deployment.renewJournal() },
        leads: { [membership] in membership.leads }, clock: clock, logger: logger),
    ]
    if membership.isShared {
      services += [
        PauseFollowing(store: store, deployment: deployment, clock: clock),
        ConnectionSharing(
          membership: membership, deployment: deployment,
          totals: { [self] in tenants.withLock { $0.compactMapValues(\.connectionTotal) } }, clock: clock),
        Carrying(carrier: carrier) { [self] app in
          tenants.withLock { app.queuedByteCount < $0[app.id]?.queueByteCount ?? 0 }
        },
        HandingOn(membership: membership, clock: clock) { [bridge] in
          bridge?.isServing != true && !run.campaigns.sendsAlone
        },
      ]
    }
    if let admin = front.admin { services.append(admin) }
    services += [
      run.campaigns, Sending(deployment: deployment) { [self] in restarts.load(ordering: .relaxed) },
      Leaving(campaigns: run.campaigns, limit: configuration.shutdown.drain),
      RateSampling(
        statistics: statistics, deployment: deployment, controller: run.campaigns.controller, alarms: run.alarms),
      ReloadTriggers(
        reloading: run.reloading, signals: front.reloadSignals, clock: clock, logger: logger),
    ]
    if let bridge {
      services.append(
        BridgeService(
          bridge: bridge, reserve: reserve, isReady: run.opening,
          isWanted: { [membership] in membership.leads && !membership.isDraining },
          drain: configuration.shutdown.drain, listens: front.bridgeListens))
    }
    services.append(
      FeedbackPolling(
        deployment: deployment, store: store, tenants: { [self] in tenants.withLock { Array($0.values) } },
        leads: { [membership] in membership.leads }, clock: clock, logger: logger))
    services.append(
      WebhookDelivery(
        states: webhooks, feed: feed, store: store, tenants: { [self] in tenants.withLock { $0 } },
        leads: { [membership] in membership.leads }, clock: clock, logger: logger))
    services.append(front.api)
    return services.map { .init(service: $0) } + [
      .init(service: diskRecovery, successTerminationBehavior: .gracefullyShutdownGroup),
      .init(service: shutdownAnnouncement),
    ]
  }

  private var diskRecovery: DiskRecovery {
    DiskRecovery(
      deployment: deployment, folders: configuration.folders(besides: file), pause: recoveryPause, clock: clock,
      logger: logger
    ) { [self] in
      restarts.store(true, ordering: .relaxed)
    }
  }

  private var shutdownAnnouncement: ShutdownAnnouncement {
    ShutdownAnnouncement(
      duration: configuration.shutdown.announce, clock: clock,
      begin: { [self] in
        isReady.store(false, ordering: .relaxed)
        askedToEnd.store(true, ordering: .relaxed)
        guard !restarts.load(ordering: .relaxed) else {
          events.note("service restarts", reason: deployment.journalFailure)
          return false
        }
        events.note("service ends")
        manager?.notify(.stopping)
        return true
      },
      close: { [self] in isOpen.store(false, ordering: .relaxed) }, deadline: deadline)
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

  /// The address of the API, for the store.
  func describe(api port: Int) {
    var listen = configuration.api.listen
    listen.port = port
    description.note(address: "\(certificate == nil ? "http" : "https")://\(listen)")
  }

  static func byID(_ configuration: ServerConfiguration) -> [String: Tenant] {
    Dictionary(configuration.tenants.map { ($0.id, $0) }) { first, _ in first }
  }
}

extension ServerConfiguration {
  fileprivate var nodePace: NodePace { store.cluster.map { NodePace(lease: $0.lease) } ?? NodePace() }
}
