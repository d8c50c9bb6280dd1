internal import Logging
internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// What a ``Deployment`` and its handles share.
final class DeploymentCore: Sendable {
  private enum Phase {
    case idle
    case running(RunningEngine)
    case ended
  }

  private struct State {
    var phase = Phase.idle
    var entries: [AppEntry] = []
    /// Apps that were removed while they held durably accepted notifications or a service's
    /// campaign. Their engines stay, suspended, until the app comes back or the deployment ends;
    /// the journal has everything too.
    var parked: [AppRuntime] = []
    var hasRun = false
    /// Unfinished campaigns of the journal that were not resumed or abandoned.
    var unfinished: [JournalReport.CampaignState] = []
  }

  let logger: Logger
  let registry: ProviderTokenRegistry
  let journal: EngineJournal?
  private let closesJournal: Bool
  let events = Multicast<DeploymentEvent>(bufferLimit: 1024)
  private let makeLoops: @Sendable () -> LoopGroup
  private let shutdownTimeout: Duration
  private let toleratesCredentials: Bool
  private let state: Mutex<State>
  /// Apart from the state, because apps start while that is locked.
  private let recorder = Mutex<(any IntakeRecorder)?>(nil)
  /// Of what other processes may send, too.
  let lease = SendLease(until: Instant(nanoseconds: .max))
  private let ratesAreShared = Atomic<Bool>(false)
  private let laneObserver = Mutex<(@Sendable (String) -> any LaneObserver)?>(nil)
  /// Opens when the deployment runs, or will never run.
  private let started = Gate()
  /// Opens when it is asked to end.
  private let ending = Gate()
  private let wallClockMilliseconds: @Sendable () -> Int64

  /// - Parameter toleratesCredentials: see ``AppEntry``.
  convenience init(
    apps: [AppConfiguration], journal settings: JournalSettings, loops: @escaping @Sendable () -> LoopGroup,
    shutdownTimeout: Duration, logger: Logger, toleratesCredentials: Bool = false
  ) throws(CarillonError) {
    let registry = ProviderTokenRegistry()
    var entries: [AppEntry] = []
    for app in apps {
      guard !entries.contains(where: { $0.id == app.id }) else { throw Self.duplicate(app.id) }
      entries.append(
        try AppEntry(app, registry: registry, at: NIOLoop.wallClock, toleratesCredential: toleratesCredentials))
    }
    var opened: (journal: EngineJournal, report: JournalReport)?
    if let directory = settings.directory {
      opened = try describingErrors { try EngineJournal.open(directory: directory, options: settings.options) }
    }
    self.init(
      entries, registry: registry, journal: opened?.journal, loops: loops, shutdownTimeout: shutdownTimeout,
      logger: logger, toleratesCredentials: toleratesCredentials)
    if let opened { state.withLock { $0.unfinished = opened.report.unfinished } }
  }

  /// - Parameter closesJournal: at the end of the deployment.
  init(
    _ entries: [AppEntry], registry: ProviderTokenRegistry, journal: EngineJournal?, closesJournal: Bool = true,
    loops: @escaping @Sendable () -> LoopGroup, shutdownTimeout: Duration, logger: Logger,
    toleratesCredentials: Bool = false,
    wallClockMilliseconds: @escaping @Sendable () -> Int64 = { NIOLoop.wallClockMilliseconds }
  ) {
    (self.wallClockMilliseconds, self.registry) = (wallClockMilliseconds, registry)
    (self.journal, self.closesJournal) = (journal, closesJournal)
    state = Mutex(State(entries: entries))
    (self.toleratesCredentials, self.logger) = (toleratesCredentials, logger)
    makeLoops = loops
    self.shutdownTimeout = shutdownTimeout
  }

  /// For simulations: it runs from the beginning, on an engine that the caller ends.
  convenience init(_ entries: [AppEntry], on engine: RunningEngine, unfinished: [JournalReport.CampaignState]) {
    self.init(
      entries, registry: ProviderTokenRegistry(), journal: engine.journal, closesJournal: false,
      loops: { LoopGroup(threads: 1) }, shutdownTimeout: .seconds(10),
      logger: Logger(label: "carillon") { _ in SwiftLogNoOpLogHandler() },
      wallClockMilliseconds: engine.wallClockMilliseconds)
    state.withLock { state in
      state.phase = .running(engine)
      state.hasRun = true
      state.unfinished = unfinished
    }
    started.open()
  }

  /// Seconds since 1970.
  var wallClock: UInt32 { UInt32(clamping: wallClockMilliseconds() / 1000) }

  // MARK: Unfinished campaigns

  var unfinished: [JournalReport.CampaignState] { state.withLock { $0.unfinished } }

  /// False if another caller has taken it.
  func take(unfinished number: UInt64) -> Bool {
    state.withLock { state in
      let count = state.unfinished.count
      state.unfinished.removeAll { $0.campaign.number == number }
      return state.unfinished.count < count
    }
  }

  /// Gets the outcomes of durably accepted notifications.
  var intakeRecorder: (any IntakeRecorder)? {
    get { recorder.withLock { $0 } }
    set { recorder.withLock { $0 = newValue } }
  }

  /// Whether other processes keep the rate limits of apps, too: each of them uses its share, and
  /// none in the beginning.
  var sharesRates: Bool {
    get { ratesAreShared.load(ordering: .relaxed) }
    set { ratesAreShared.store(newValue, ordering: .relaxed) }
  }

  /// Lanes that wait for the lease continue.
  func extendLease(until end: Instant, now: Instant) {
    guard lease.extend(until: end, now: now) else { return }
    let parked = state.withLock { $0.parked }
    for app in entries.compactMap(\.runtime?.app) + parked.map(\.app) { app.leaseExtended() }
  }

  /// Observes the lanes of each app.
  var makeLaneObserver: (@Sendable (String) -> any LaneObserver)? {
    get { laneObserver.withLock { $0 } }
    set { laneObserver.withLock { $0 = newValue } }
  }

  private static func duplicate(_ id: String) -> CarillonError {
    CarillonError(.configuration, "There are two apps with the id \"\(id)\".")
  }

  // MARK: Apps

  var entries: [AppEntry] { state.withLock { $0.entries } }

  func entry(_ id: String) throws(CarillonError) -> AppEntry {
    guard let entry = entries.first(where: { $0.id == id }) else {
      throw CarillonError(.configuration, "There is no app \"\(id)\".")
    }
    return entry
  }

  func add(_ configuration: AppConfiguration) throws(CarillonError) -> AppEntry {
    if let entry = try takeBack(configuration) { return entry }
    let entry = try AppEntry(
      configuration, registry: registry, at: wallClock, toleratesCredential: toleratesCredentials)
    let isNew = state.withLock { state in
      guard !state.entries.contains(where: { $0.id == entry.id }) else { return false }
      state.entries.append(entry)
      // Within the lock: a deployment that ends then knows of it.
      if case .running(let engine) = state.phase { start(entry, engine) }
      return true
    }
    guard isNew else { throw Self.duplicate(entry.id) }
    return entry
  }

  func remove(_ id: String) async throws(CarillonError) {
    let entry = try entry(id)
    state.withLock { state in state.entries.removeAll { $0 === entry } }
    if let runtime = entry.runtime {
      entry.runtime = nil
      if await runtime.park(within: shutdownTimeout), park(runtime) { return }
      await runtime.end(within: shutdownTimeout)
    }
    entry.goneDevices.finish()
  }

  /// False once the deployment ends.
  private func park(_ app: AppRuntime) -> Bool {
    state.withLock { state in
      guard case .running = state.phase else { return false }
      state.parked.append(app)
      return true
    }
  }

  /// An app that was removed while it held notifications is added again, and resumes them. Nil if
  /// its settings differ: then they stay in the journal.
  private func takeBack(_ configuration: AppConfiguration) throws(CarillonError) -> AppEntry? {
    func isSame(_ parked: AppRuntime) -> Bool { parked.entry.id == configuration.id }
    guard let parked = state.withLock({ $0.parked.first(where: isSame) }) else { return nil }
    try configuration.check()
    let before = parked.entry.configuration
    guard configuration.adopting(before) == before else { return nil }
    parked.entry.replace(configuration, try AppEntry.resolve(configuration, registry, at: wallClock))
    return state.withLock { state -> AppEntry? in
      guard let index = state.parked.firstIndex(where: isSame), case .running(let engine) = state.phase,
        !state.entries.contains(where: { $0.id == configuration.id })
      else { return nil }
      let runtime = state.parked.remove(at: index)
      runtime.entry.runtime = runtime
      state.entries.append(runtime.entry)
      runtime.replaceLimits()
      engine.jobs.put { await runtime.replaceCredential() }
      return runtime.entry
    }
  }

  /// The notifications that removed apps hold.
  var parkedCounts: [String: Int] {
    let parked = state.withLock { $0.parked }
    return Dictionary(parked.map { ($0.entry.id, $0.app.activity.inFlightCount) }, uniquingKeysWith: +)
  }

  @discardableResult
  func start(_ entry: AppEntry, _ engine: RunningEngine) -> AppRuntime {
    let log = AppLog(app: entry.id, logger: logger)
    let runtime = AppRuntime(
      entry, engine: engine, recorder: intakeRecorder, lease: lease, observer: makeLaneObserver?(entry.id)
    ) { [weak self, id = entry.id, loop = engine.loop] event in
      let event = DeploymentEvent(app: id, kind: DeploymentEvent.Kind(event), droppedCount: 0)
      log.write(event.kind, now: loop.now)
      self?.events.send(event)
    }
    if sharesRates { runtime.app.useRate(perSecond: 0, for: .zero) }
    entry.runtime = runtime
    engine.jobs.put { await runtime.app.run() }
    return runtime
  }

  /// Gives an app another credential.
  func replaceCredential(of entry: AppEntry, _ credential: AppCredential) async throws(CarillonError) {
    var configuration = entry.configuration
    configuration.credential = AppConfiguration.Credential(credential)
    _ = try await reconfigure(entry, configuration, evenIfSame: true)
  }

  /// Gives an app another credential, another proxy and other limits. Its other settings stay as
  /// they are.
  ///
  /// - Parameter evenIfSame: whether connections are renewed although they show this credential.
  /// - Returns: whether they are renewed.
  func reconfigure(_ entry: AppEntry, _ other: AppConfiguration, evenIfSame: Bool) async throws(CarillonError) -> Bool {
    let (known, before) = (entry.credential, entry.configuration)
    let configuration = before.adopting(other)
    try configuration.check()
    // One that could not be used may be good by now: its time has come, or others may read its
    // files no longer.
    let isSame =
      !evenIfSame && known.defect == nil && configuration.credential == before.credential
      && configuration.proxy == before.proxy && configuration.credentialDigest == known.digest
    var credential = known
    if !isSame { credential = try AppEntry.resolve(configuration, registry, at: wallClock) }
    entry.replace(configuration, credential)
    guard let runtime = entry.runtime else { return !isSame }
    runtime.replaceLimits()
    if runtime.failure != nil {
      await restart(entry)
    } else if isSame {
      // What has suspended it may be over.
      runtime.app.restart()
    } else {
      await runtime.replaceCredential()
    }
    return !isSame
  }

  /// Puts a new engine in the place of one that has stopped, and ends a suspension.
  func restart(_ entry: AppEntry) async {
    entry.runtime?.app.restart()
    let old: AppRuntime? = state.withLock { state in
      guard case .running(let engine) = state.phase, let old = entry.runtime, old.failure != nil else { return nil }
      start(entry, engine)
      return old
    }
    await old?.end(within: shutdownTimeout)
  }

  /// The engine's part of an app, as soon as the deployment runs.
  ///
  /// - Parameter evenIfStopped: whether an app that sends nothing any more will do.
  func runtime(of entry: AppEntry, evenIfStopped: Bool = false) async throws(CarillonError) -> AppRuntime {
    await started.wait()
    guard case .running = state.withLock({ $0.phase }) else {
      throw started.isOpen
        ? Self.hasEnded : CarillonError(.cancelled, "The task was cancelled before the deployment ran.")
    }
    guard let runtime = entry.runtime else {
      throw CarillonError(.cancelled, "The app \"\(entry.id)\" was removed from its deployment.")
    }
    if !evenIfStopped, let failure = runtime.failure { throw failure }
    return runtime
  }

  /// Nil before and after the deployment runs.
  var runningEngine: RunningEngine? {
    state.withLock { if case .running(let engine) = $0.phase { engine } else { nil } }
  }

  /// It ends, or has ended.
  var isOver: Bool { state.withLock { if case .ended = $0.phase { true } else { false } } }

  static var hasEnded: CarillonError { CarillonError(.cancelled, "The deployment has ended.") }

  // MARK: Running

  func run() async throws(CarillonError) {
    let mayRun = state.withLock { state in
      defer { state.hasRun = true }
      return !state.hasRun
    }
    guard mayRun else { throw CarillonError(.configuration, "A deployment runs once.") }
    let engine = RunningEngine(makeLoops(), journal: journal)
    await withTaskCancellationHandler {
      await serve(engine)
    } onCancel: {
      end()
    }
    await engine.shutDown()
    if closesJournal { try await describingErrors { try await journal?.close() } }
  }

  /// Asks the deployment to end in good order.
  func end() { ending.open() }

  private func serve(_ engine: RunningEngine) async {
    let entries = state.withLock { state in
      state.phase = .running(engine)
      return state.entries
    }
    for entry in entries { start(entry, engine) }
    started.open()
    logger.info("deployment runs", metadata: ["apps": "\(entries.count)"])
    await withDiscardingTaskGroup { tasks in
      tasks.addTask { await self.finish(engine) }
      while let jobs = await engine.jobs.take() {
        for job in jobs { tasks.addTask { await job() } }
      }
    }
    logger.info("deployment has ended")
  }

  /// Waits for the end, and brings it about.
  private func finish(_ engine: RunningEngine) async {
    await ending.wait(ignoringCancellation: true)
    logger.info("deployment ends")
    let (entries, parked) = state.withLock { state in
      state.phase = .ended
      return (state.entries, state.parked)
    }
    await withDiscardingTaskGroup { tasks in
      for runtime in entries.compactMap(\.runtime) + parked {
        tasks.addTask { [shutdownTimeout] in await runtime.end(within: shutdownTimeout) }
      }
    }
    for entry in entries + parked.map(\.entry) { entry.goneDevices.finish() }
    events.finish()
    engine.jobs.close()
  }
}
