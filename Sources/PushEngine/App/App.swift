package import PushTransport
package import PushWire

/// One app, which is one topic with one credential: the control plane of its lanes.
///
/// It is called for each connection and each shortage, never for each notification. Notifications
/// go from a campaign's reader through a ring to a lane. ``PoolMachine`` makes the decisions.
package actor App {
  package nonisolated let configuration: AppRules
  package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe home.executor.asUnownedSerialExecutor() }

  nonisolated let shared: AppShared
  private nonisolated let home: any Loop
  /// Creates the lane with this index.
  private let makeLane: @Sendable (Int, AppRules) -> Lane
  private var pool: PoolMachine
  /// A timer is set that checks whether readers still wait for room.
  private var isLooking = false
  private let report: Mailbox<LaneEvent>
  private let events: (@Sendable (AppEvent) -> Void)?
  /// ``AppEvent/waiting(_:)`` was the last event of its kind.
  private var hasReportedWaiting = false
  /// The configuration of lanes that are made later.
  private var laneConfiguration: AppRules

  /// - Parameters:
  ///   - dialer: Connects to the app's gateway with the app's credential.
  ///   - loops: The event loops of its lanes, used in turn from `firstLoop` on; at least one.
  ///   - seed: The seed of the jitter of its back-off.
  ///   - budget: The memory that it shares with other apps; nil: as much as its configuration
  ///     allows.
  ///   - journal: Records everything that another process must know if this one ends unexpectedly.
  ///   - tally: Counts what the app does.
  ///   - events: Called on the app's loop with what happens to its connections.
  package init(
    configuration: AppRules, dialer: any Dialer, loops: [any Loop], firstLoop: Int = 0, seed: UInt64,
    budget: RingBudget? = nil,
    journal: EngineJournal? = nil, tally: AppTally = AppTally(), events: (@Sendable (AppEvent) -> Void)? = nil
  ) {
    precondition(!loops.isEmpty, "an app needs a loop")
    let first = firstLoop % loops.count
    self.configuration = configuration
    laneConfiguration = configuration
    self.events = events
    home = loops[first]
    pool = PoolMachine(
      limits: PoolMachine.Limits(
        lanes: configuration.connections, connectionsPerMinute: configuration.connectionsPerMinute,
        dialAttempts: configuration.dialAttempts), now: loops[first].now)
    let report = Mailbox<LaneEvent>()
    self.report = report
    let shared = AppShared(
      app: configuration.id, loop: loops[first], rateLimit: configuration.rateLimit, weight: configuration.weight,
      breaker: configuration.badTokenBreaker,
      status: AppStatus(patience: configuration.patience, planCheck: { report.put(.troubled(checkAt: $0)) }),
      journal: journal, tally: tally, isSuspendable: configuration.isSuspendable,
      starved: { report.put(.starved) }, report: { report.put(.app($0)) })
    self.shared = shared
    // What cannot be journaled may not be sent.
    journal?.onFailure { [weak shared] reason in shared?.cancelAll(failure: reason) }
    let makeLane: @Sendable (Int, AppRules) -> Lane = { index, configuration in
      let lane = Lane(
        configuration: configuration, isKept: index < configuration.connections.lowerBound,
        loop: loops[(first + index) % loops.count], dialer: dialer, shared: shared, budget: budget,
        seed: seed &+ UInt64(index) &* 0x9E37_79B9_7F4A_7C15, report: { report.put($0) })
      if let number = lane.journalNumber {
        shared.journal?.onPinned(lane: number) { [weak lane] end in lane?.compact(before: end) }
      }
      return lane
    }
    self.makeLane = makeLane
    for index in 0..<configuration.connections.lowerBound { shared.scheduler.add(makeLane(index, configuration)) }
  }

  /// Serves the lanes until ``shutDown()``.
  package func run() async {
    while let events = await report.take() {
      for event in events { handle(event) }
    }
  }

  /// Why the app cannot send; nil if it can.
  package nonisolated var failure: String? { shared.campaigns.failure }

  /// A producer waits for outcomes, because it bounds how many of its notifications have none. If
  /// the lanes are behind, the app opens more connections. To be balanced by
  /// ``producerContinues()``.
  package nonisolated func producerWaits() { shared.scheduler.producerWaits() }

  package nonisolated func producerContinues() { shared.scheduler.producerContinues() }

  // MARK: Holding

  /// Lets nothing new be sent until ``resume()``. What is in flight gets its outcome, then the
  /// connections are closed. Campaigns continue afterwards.
  package nonisolated func pause() { shared.pause() }

  /// Like ``pause()``, until ``resume()`` or ``restart()``. The reason is the caller's.
  package nonisolated func suspend(because reason: String) { shared.stop(because: reason) }

  /// Ends a pause, and a suspension.
  package nonisolated func resume() { shared.resume() }

  /// Ends a suspension, because its reason may no longer hold.
  package nonisolated func restart() { shared.restart() }

  /// Changes what can be changed while it runs.
  package nonisolated func replace(rateLimit: Double?, weight: Int, patience: Duration) {
    shared.rate.replace(perSecond: rateLimit)
    shared.turns.replace(weight: weight)
    shared.status.replace(patience: patience)
  }

  /// How many connections it may have at most, because others have some, too; at least one. Those
  /// that are too many close when all on them has its outcome.
  package nonisolated func limit(connections count: Int) { report.put(.limited(max(1, count))) }

  /// How much of its rate limit this process may use for a while, because others keep it, too.
  package nonisolated func useRate(perSecond: Double, for duration: Duration) {
    shared.rate.use(perSecond: perSecond, for: duration)
  }

  /// What was used of its rate limit since the last call.
  package nonisolated func takeRateUse() -> RateUse { shared.rate.takeUse() }

  /// Lanes that waited for the lease of what they send continue.
  package nonisolated func leaseExtended() { shared.scheduler.wakeAll() }

  /// Until a suspended app tries again by itself; nil: it is not suspended, or an operator must
  /// act.
  package nonisolated var retryIn: Duration? { halt.retryAt.map { $0 > home.now ? $0.since(home.now) : .zero } }

  /// Whether and why it is paused or suspended.
  package nonisolated var halt: AppHalt { shared.haltState }

  /// Why the app makes no progress.
  package nonisolated var status: AppStatus { shared.status }

  /// What its lanes do at present.
  package nonisolated var activity: AppActivity { AppActivity(shared) }

  /// What stops the app's progress at present; nil: nothing.
  package nonisolated var obstacle: Obstacle? { shared.status.obstacle(now: home.now) }

  /// Ends ``run()`` and closes every connection. Call it when the campaigns have ended:
  /// notifications in flight get no outcome.
  package func shutDown() async {
    for lane in shared.scheduler.lanes { await lane.shutDown() }
    shared.scheduler.removeAll()
    report.close()
  }

  /// Closes every connection for good, without waiting for responses. Notifications in flight get
  /// an outcome by the app's policy. Call it from any thread, after the campaigns were cancelled.
  package nonisolated func closeConnections() {
    for lane in shared.scheduler.lanes { lane.loop.execute { lane.assumeIsolated { $0.shutDown() } } }
  }

  /// The app's credential has been replaced, and the dialer uses the new one. When this returns,
  /// connections with the old one take nothing new; each is closed when everything in flight on it
  /// has its outcome.
  ///
  /// - Parameter tokens: Those of the new key; nil with a certificate.
  package func replaceCredential(tokens: ProviderTokenSource?) async {
    if case .http2(var settings) = laneConfiguration.transport {
      settings.tokens = tokens
      laneConfiguration.transport = .http2(settings)
    }
    // A lane in the middle of its turn would still send what is published now: wait for each.
    for lane in shared.scheduler.lanes { await lane.renewConnection(tokens: tokens) }
  }

  private func handle(_ event: LaneEvent) {
    switch event {
    case .wantsConnection(let lane): permit(lane)
    case .opened(let isFirst):
      events?(.connected)
      pool.opened(isFirst: isFirst, now: home.now)
      // A reader that waits asks again when it is woken. Others do not.
      if isFirst, shared.scheduler.isHoldingProducers || shared.growth.surplus(now: home.now) > 0 { considerGrowth() }
    case .troubled(let instant): watchTrouble(at: instant)
    case .ended(let ending, let cause):
      events?(.connectionEnded(cause: ending == .ordinary ? nil : cause))
      if let reason = pool.ended(ending) { shared.stop(because: reason) }
    case .app(let event):
      events?(event)
    case .idled(let lane):
      if pool.idled() { lane.loop.execute { lane.assumeIsolated { $0.retire() } } }
    case .stayed:
      pool.stayed()
    case .left(let lane):
      lane.loop.execute { lane.assumeIsolated { $0.leave() } }
    case .starved:
      considerGrowth()
    case .limited(let count): follow(pool.limit(lanes: count))
    case .lacksSpare:
      if mayGrow, pool.mayAddSpare() { addLanes(1) }
    }
  }

  private func considerGrowth() {
    let now = home.now
    follow(
      pool.starved(
        mayGrow: mayGrow, mayJudge: !shared.scheduler.takeClientHasWaited(),
        usefulLaneCount: shared.growth.surplus(now: now), settledCount: shared.tally.account.settled, now: now))
  }

  private func follow(_ growth: PoolMachine.Growth) {
    switch growth {
    case .none: break
    case .add(let count): addLanes(count)
    case .takeBack(let count): removeLanes(count)
    case .look(let deadline):
      guard !isLooking else { return }
      isLooking = true
      _ = home.schedule(at: deadline) { self.assumeIsolated { $0.lookForShortage() } }
    }
  }

  private var mayGrow: Bool { shared.growth.isAllowed(now: home.now) && shared.status.trouble == nil }

  private func addLanes(_ count: Int) {
    for _ in 0..<count {
      let lane = makeLane(shared.scheduler.lanes.count, laneConfiguration)
      shared.scheduler.add(lane)
      // It may need a connection before it has anything to send.
      lane.wake()
    }
  }

  /// The newest lanes take nothing new, and leave when all they hold has its outcome.
  private func removeLanes(_ count: Int) {
    for lane in shared.scheduler.lanes.filter({ !$0.backlog.isLeaving }).suffix(count) {
      lane.backlog.isLeaving = true
      lane.wake()
    }
  }

  /// A reader that waits for long reports the shortage only once, so it is checked again here.
  private func lookForShortage() {
    isLooking = false
    if shared.isShort(now: home.now) { considerGrowth() }
  }

  private func permit(_ lane: Lane) {
    // Without permission a lane stays as it is. When everything is cancelled it needs no
    // connection.
    guard shared.campaigns.failure == nil else { return }
    // It asks again when the app is resumed.
    guard !shared.isHalted else { return lane.loop.execute { lane.assumeIsolated { $0.mayNotDial() } } }
    switch pool.mayDial(now: home.now) {
    case .now: lane.loop.execute { lane.assumeIsolated { $0.connect() } }
    case .later(let deadline):
      shared.status.delayed(rateDelay, until: deadline, now: home.now)
      _ = home.schedule(at: deadline) { self.assumeIsolated { $0.permit(lane) } }
    }
  }

  private var rateDelay: String { "\(Int(configuration.connectionsPerMinute)) connections per minute are in use" }

  private func watchTrouble(at instant: Instant) {
    _ = home.schedule(at: instant) { self.assumeIsolated { $0.watchTrouble() } }
  }

  /// Checks the trouble until it is over, or until patience ends.
  private func watchTrouble() {
    guard shared.campaigns.failure == nil else { return }
    if shared.isHalted {
      shared.status.restarted()
      hasReportedWaiting = false
    }
    switch shared.status.check(now: home.now, hasWork: shared.scheduler.hasWork) {
    case .calm:
      if hasReportedWaiting { events?(.progressing) }
      hasReportedWaiting = false
    case .again(let instant):
      if let events, let obstacle {
        events(.waiting(obstacle))
        hasReportedWaiting = true
      }
      watchTrouble(at: instant)
    case .giveUp(let reason): shared.stop(because: reason, retryAfter: shared.status.retryPause())
    }
  }
}
