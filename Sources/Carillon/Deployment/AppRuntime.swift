package import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// One app of a deployment: what outlives its engine.
package final class AppEntry: Sendable {
  private struct State {
    var configuration: AppConfiguration
    var credential: ResolvedCredential
    var runtime: AppRuntime?
    var isPaused = false
  }

  package let id: String
  let goneDevices = Multicast<PushApp.GoneDevice>(bufferLimit: 16_384)
  let tally = AppTally()
  private let state: Mutex<State>

  /// - Parameters:
  ///   - unixSeconds: now; a certificate must be valid at it.
  ///   - toleratesCredential: whether one that cannot be used is no error: the app begins suspended
  ///     then.
  convenience init(
    _ configuration: AppConfiguration, registry: ProviderTokenRegistry, at unixSeconds: UInt32,
    toleratesCredential: Bool = false
  ) throws(CarillonError) {
    try configuration.check()
    self.init(configuration, try Self.resolve(configuration, registry, at: unixSeconds, orStandIn: toleratesCredential))
  }

  /// - Parameter credential: of the configuration, which is valid.
  package init(_ configuration: AppConfiguration, _ credential: ResolvedCredential) {
    id = configuration.id
    state = Mutex(State(configuration: configuration, credential: credential))
  }

  static func resolve(
    _ configuration: AppConfiguration, _ registry: ProviderTokenRegistry, at unixSeconds: UInt32,
    orStandIn: Bool = false
  ) throws(CarillonError) -> ResolvedCredential {
    do throws(CredentialError) {
      do throws(CredentialError) {
        return try ResolvedCredential.load(configuration, registry: registry, validAt: Int64(unixSeconds))
      } catch {
        guard orStandIn else { throw error }
        return try ResolvedCredential.unusable(configuration, because: error)
      }
    } catch { throw CarillonError(.credential, "The app \"\(configuration.id)\": \(error).") }
  }

  var credential: ResolvedCredential { state.withLock { $0.credential } }

  var configuration: AppConfiguration { state.withLock { $0.configuration } }

  /// The engine's part; nil before the deployment runs, and after the app was removed.
  var runtime: AppRuntime? {
    get { state.withLock { $0.runtime } }
    set { state.withLock { $0.runtime = newValue } }
  }

  /// The same, for what the engine knows.
  package var engine: App? { runtime?.app }

  /// The operator has paused it.
  var isPaused: Bool {
    get { state.withLock { $0.isPaused } }
    set { state.withLock { $0.isPaused = newValue } }
  }

  func replace(_ configuration: AppConfiguration, _ credential: ResolvedCredential) {
    state.withLock { state in
      state.configuration = configuration
      state.credential = credential
    }
  }
}

/// The engine's part of one app, while a deployment runs.
final class AppRuntime: Sendable {
  let entry: AppEntry
  let app: App
  let engine: RunningEngine
  private let dialer: DialerSwitch
  let runs = RunRegistry()
  private let sendsOnce = Mutex<SingleSends?>(nil)
  private let recorder: (any IntakeRecorder)?
  /// Of what other nodes can take over.
  private let lease: SendLease?
  private let intakeOnce = Mutex<AppIntake?>(nil)

  /// - Parameter recorder: gets the outcomes of durably accepted notifications; nil: the app
  ///   accepts none.
  convenience init(
    _ entry: AppEntry, engine: RunningEngine, recorder: (any IntakeRecorder)?, lease: SendLease,
    observer: (any LaneObserver)?, events: @escaping @Sendable (AppEvent) -> Void
  ) {
    let plan = entry.credential.plan(entry.configuration)
    let dialer = DialerSwitch(plan.dialer)
    var rules = plan.configuration
    // A service takes notifications in whether or not its gateway is there, and whatever it says
    // about the credential.
    if recorder != nil {
      rules.dialAttempts = .max
      rules.isSuspendable = true
    }
    rules.observer = observer
    let app = engine.makeApp(AppPlan(configuration: rules, dialer: dialer), tally: entry.tally, events: events)
    self.init(entry, app, dialer: dialer, engine: engine, recorder: recorder, lease: lease)
  }

  init(
    _ entry: AppEntry, _ app: App, dialer: DialerSwitch, engine: RunningEngine, recorder: (any IntakeRecorder)?,
    lease: SendLease?
  ) {
    (self.entry, self.app, self.dialer, self.engine) = (entry, app, dialer, engine)
    (self.recorder, self.lease) = (recorder, lease)
    if entry.isPaused { app.pause() }
    suspendWithoutCredential()
  }

  /// An app whose credential cannot be used takes notifications in, and sends nothing.
  func suspendWithoutCredential() {
    if let defect = entry.credential.defect { app.suspend(because: defect.reason) }
  }

  /// Takes over what the entry has and an engine can change while it runs.
  func replaceLimits() {
    let configuration = entry.configuration
    app.replace(rateLimit: configuration.rateLimit, weight: configuration.weight, patience: configuration.patience)
  }

  /// New connections show the credential that the entry has now; those with the old one are left
  /// when what is in flight on them has its outcome.
  func replaceCredential() async {
    let credential = entry.credential
    dialer.replace(credential.plan(entry.configuration).dialer)
    await app.replaceCredential(tokens: credential.tokens)
    app.restart()
  }

  /// Its single sends.
  var sends: SingleSends {
    sendsOnce.withLock { sends in
      if let sends { return sends }
      let made = SingleSends(entry: entry, engine: engine) { [weak self] queue, group in
        guard let self else { return SingleSends.end(queue, .failure(DeploymentCore.hasEnded)) }
        await send(queue, group)
      }
      sends = made
      return made
    }
  }

  /// The app's durably accepted notifications. Nil without a recorder or a journal.
  var intake: AppIntake? {
    guard let recorder, let journal = engine.journal else { return nil }
    return intakeOnce.withLock { intake in
      if let intake { return intake }
      let made = AppIntake(self, journal: journal, recorder: recorder, lease: lease)
      intake = made
      return made
    }
  }

  /// Why it cannot send any more, as an error.
  var failure: CarillonError? {
    app.failure.map { reason in
      let code: CarillonError.ErrorCode = engine.journal?.failure == nil ? .gateway : .journal
      return CarillonError(code, "The app \"\(entry.id)\" has stopped: \(reason).")
    }
  }

  /// Ends all runs within the time, and closes every connection.
  func end(within duration: Duration) async {
    runs.drain()
    // A paused app would not get anything done.
    if !app.halt.isHalted { await runs.finished.wait(atMost: duration, on: engine.loop, ignoringCancellation: true) }
    if !runs.finished.isOpen {
      runs.cancelAll()
      app.closeConnections()
      await runs.finished.wait(ignoringCancellation: true)
    }
    await app.shutDown()
  }

  /// Ends everything except durably accepted notifications, which are sent as far as the time
  /// allows.
  ///
  /// - Returns: false if nothing of it is left.
  func park(within duration: Duration) async -> Bool {
    guard let intake else { return false }
    let emptied = intake.finish()
    if !app.halt.isHalted { await emptied.wait(atMost: duration, on: engine.loop, ignoringCancellation: true) }
    // Nothing can begin any more if nothing of it is left.
    guard !emptied.isOpen || !runs.closeUnlessKept() else { return false }
    app.suspend(because: "it was removed from its deployment")
    runs.cancelAll { !$0.isKept }
    return true
  }
}
