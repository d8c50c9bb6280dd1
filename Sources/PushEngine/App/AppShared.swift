internal import PushTransport
internal import PushWire
internal import Synchronization

/// What an app's readers, lanes and actor share. Each part has one subject; this type has what
/// concerns several of them.
final class AppShared: Sendable {
  /// The app's name in the journal.
  let app: String
  let campaigns = CampaignRegistry()
  let scheduler: LaneScheduler
  let growth = PoolGrowth()
  let rate: RateLimiter
  let turns: TurnShares
  /// Why the app makes no progress.
  let status: AppStatus
  let unknownReasons = UnknownReasons()
  let journal: EngineJournal?
  private let breaker: Mutex<BadTokenBreaker?>
  private let starved: @Sendable () -> Void
  private let breakerTripped: @Sendable (String) -> Void
  private let stopped: @Sendable (String) -> Void

  /// - Parameters:
  ///   - loop: For timers.
  ///   - weight: See ``AppRules/weight``.
  ///   - starved: Requests another lane from the app.
  ///   - breakerTripped: Called once, when the breaker on bad tokens trips.
  ///   - stopped: Called once, when the app stops for good.
  init(
    app: String, loop: any Loop, rateLimit: Double?, weight: Int = 1, breaker: BadTokenBreaker? = nil,
    status: AppStatus,
    journal: EngineJournal?, starved: @escaping @Sendable () -> Void,
    breakerTripped: @escaping @Sendable (String) -> Void = { _ in },
    stopped: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.app = app
    self.status = status
    self.journal = journal
    self.starved = starved
    self.breakerTripped = breakerTripped
    self.stopped = stopped
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
    if isNew, let failure { stopped(failure) }
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

  // MARK: The breaker

  /// `count` notifications were answered; `bad` of the responses call the token bad. Returns why
  /// the app must stop, or nil.
  func answered(_ count: Int, bad: Int) -> String? {
    let reason = breaker.withLock { $0?.answered(count, bad: bad) }
    if let reason { breakerTripped(reason) }
    return reason
  }

  // MARK: Growth

  /// See ``PoolGrowth/foundSurplus(for:now:)``. The app is notified at once.
  func foundSurplus(for laneCount: Int, now: Instant) {
    growth.foundSurplus(for: laneCount, now: now)
    starved()
  }

  /// Whether another lane would help.
  func isShort(now: Instant) -> Bool { scheduler.isWaitedFor || growth.surplus(now: now) > 0 }
}
