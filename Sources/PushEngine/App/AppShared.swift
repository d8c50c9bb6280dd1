internal import PushTransport
internal import PushWire
internal import Synchronization

/// What an app's readers, lanes and actor share. Each part has one subject; this type has what
/// concerns several of them.
final class AppShared: Sendable {
  /// The app's name in the journal.
  let app: String
  let campaigns: CampaignRegistry
  let tally: AppTally
  let scheduler: LaneScheduler
  let growth = PoolGrowth()
  let rate: RateLimiter
  /// The loop that runs the app's timers.
  let loop: any Loop
  let turns: TurnShares
  /// Why the app makes no progress.
  let status: AppStatus
  let unknownReasons = UnknownReasons()
  let journal: EngineJournal?
  private let isSuspendable: Bool
  private let halt = Mutex(AppHalt())
  private let currentGeneration = Atomic<Int>(0)
  private let halted = Atomic<Bool>(false)
  private let freshBreaker: BadTokenBreaker?
  private let breaker: Mutex<BadTokenBreaker?>
  private let starved: @Sendable () -> Void
  private let report: @Sendable (AppEvent) -> Void

  /// - Parameters:
  ///   - loop: The loop that runs the app's timers.
  ///   - weight: See ``AppRules/weight``.
  ///   - starved: Requests another lane from the app.
  ///   - report: Called when the breaker on bad tokens trips, and when the app stops for good, once
  ///     each; and when it is suspended, paused or resumed.
  init(
    app: String, loop: any Loop, rateLimit: Double?, weight: Int = 1, breaker: BadTokenBreaker? = nil,
    status: AppStatus, journal: EngineJournal?, tally: AppTally = AppTally(), isSuspendable: Bool = false,
    starved: @escaping @Sendable () -> Void, report: @escaping @Sendable (AppEvent) -> Void = { _ in }
  ) {
    (self.app, self.loop, self.status, self.journal, self.tally) = (app, loop, status, journal, tally)
    campaigns = CampaignRegistry(tally: tally)
    (self.starved, self.report, self.isSuspendable) = (starved, report, isSuspendable)
    freshBreaker = breaker
    self.breaker = Mutex(breaker)
    turns = TurnShares(weight: weight)
    scheduler = LaneScheduler(starved: starved)
    rate = RateLimiter(perSecond: rateLimit, loop: loop)
  }

  /// No lane's backlog is longer, however fast it is (``BacklogLimit`` may set less). With a
  /// journal it is longer, because a notification may be sent only when an intent is durable, one
  /// interval later.
  var backlogBlockCountLimit: Int { journal == nil ? 65_536 : 196_608 }

  // MARK: Campaigns

  /// The campaign's audience has ended, or its reader has stopped.
  func close(_ ledger: CampaignLedger) {
    campaigns.close(ledger)
    scheduler.wakeAll()
  }

  /// A campaign's reader waits for its source or for the end of a pause.
  func readerWaits() {
    campaigns.readerWaits()
    scheduler.wakeAll()
  }

  func readerContinues() { campaigns.readerContinues() }

  /// Cancels every campaign, because the app can no longer send or was asked to stop.
  func cancelAll(failure: String? = nil) {
    let isNew = campaigns.cancelAll(failure: failure)
    if isNew, let failure { report(.stopped(reason: failure)) }
    noticeCancellation()
  }

  /// A campaign was cancelled.
  func wasCancelled() {
    campaigns.countCancellation()
    noticeCancellation()
  }

  /// The reader and the notifications of a cancelled campaign stop waiting.
  private func noticeCancellation() {
    scheduler.resumeWaiters()
    scheduler.wakeAll()
  }

  // MARK: Halted apps

  /// The app can no longer send with its credential, its gateway or these tokens: it is suspended,
  /// or stops for good.
  ///
  /// - Parameter pause: a suspended app tries again after it; nil: not by itself.
  func stop(because reason: String, retryAfter pause: Duration? = nil) {
    guard isSuspendable, journal != nil else { return cancelAll(failure: reason) }
    let retryAt = pause.map { loop.now + $0 }
    let reason = retryAt == nil ? reason : "\(reason); it tries again by itself"
    change(.suspended(reason: reason)) { $0.suspended(reason, retryAt: retryAt) }
    guard let retryAt else { return }
    _ = loop.schedule(at: retryAt) { [weak self] in
      // Another halt may have taken its place.
      if self?.haltState.retryAt == retryAt { self?.restart() }
    }
  }

  func pause() { change(.paused) { $0.paused() } }

  /// The operator ends a pause or a suspension.
  func resume() { change(.resumed) { $0.resumed() } }

  /// Ends a suspension, because its reason may no longer hold.
  func restart() { change(.resumed) { $0.restarted() } }

  private func change(_ event: AppEvent, _ body: (inout AppHalt) -> Bool) {
    let hasChanged = halt.withLock { halt in
      guard body(&halt) else { return false }
      halted.store(halt.isHalted, ordering: .releasing)
      currentGeneration.store(halt.generation, ordering: .releasing)
      return true
    }
    guard hasChanged else { return }
    status.restarted()
    breaker.withLock { $0 = freshBreaker }
    report(event)
    scheduler.wakeAll()
    // Readers with a reservoir wait no longer for lanes that will not work.
    scheduler.resumeWaiters()
  }

  /// While this is true, no connection is opened and open ones carry nothing new.
  var isHalted: Bool { halted.load(ordering: .acquiring) }

  /// Changes with each beginning and end of a halt.
  var haltGeneration: Int { currentGeneration.load(ordering: .acquiring) }

  var haltState: AppHalt { halt.withLock { $0 } }

  // MARK: The breaker

  /// `count` notifications were answered; `bad` of the responses call the token bad. Returns why
  /// the app must stop, or nil.
  func answered(_ count: Int, bad: Int) -> String? {
    let reason = breaker.withLock { $0?.answered(count, bad: bad) }
    if let reason { report(.breakerTripped(reason: reason)) }
    return reason
  }

  // MARK: Growth

  /// See ``PoolGrowth/foundSurplus(for:now:)``. The app is notified at once.
  func foundSurplus(for laneCount: Int, now: Instant) {
    growth.foundSurplus(for: laneCount, now: now)
    starved()
  }

  /// Whether another lane would help.
  func isShort(now: Instant) -> Bool {
    scheduler.isWaitedFor || scheduler.isHoldingProducers || growth.surplus(now: now) > 0
  }
}
