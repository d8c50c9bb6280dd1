internal import PushTransport
internal import PushWire
internal import Synchronization

/// What an app's readers, lanes and actor share. Each part has a subject of its own; what concerns
/// several of them is here.
final class AppShared: Sendable {
  /// The app's name, for the journal.
  let app: String
  let campaigns = CampaignRegistry()
  let scheduler: LaneScheduler
  let growth = PoolGrowth()
  let rate: RateLimiter
  /// Why the app makes no progress, if it makes none.
  let status: AppStatus
  let unknownReasons = UnknownReasons()
  let journal: EngineJournal?
  private let breaker: Mutex<BadTokenBreaker?>
  private let starved: @Sendable () -> Void
  private let stopped: @Sendable (String) -> Void

  /// - Parameters:
  ///   - loop: for waiting.
  ///   - starved: asks the app for another lane.
  ///   - stopped: called once, when the app stops for good.
  init(
    app: String, loop: any Loop, rateLimit: Double?, breaker: BadTokenBreaker? = nil, status: AppStatus,
    journal: EngineJournal?, starved: @escaping @Sendable () -> Void,
    stopped: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.app = app
    self.status = status
    self.journal = journal
    self.starved = starved
    self.stopped = stopped
    self.breaker = Mutex(breaker)
    scheduler = LaneScheduler(starved: starved)
    rate = RateLimiter(perSecond: rateLimit, loop: loop)
  }

  /// No lane's backlog is longer, however fast it is (``BacklogLimit`` says how long it may be below
  /// that). With a journal it is longer: what is taken in now may be sent only when an intent for it is
  /// durable, an interval later.
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

  /// Cancels every campaign, because the app cannot send any more or because it is asked to stop.
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

  /// The reader of a cancelled campaign, and its notifications, need not wait any longer.
  private func noticeCancellation() {
    scheduler.resumeWaiters()
    scheduler.wakeAll()
  }

  // MARK: The breaker

  /// So many notifications got an answer, and so many answers called the token bad. Returns why the app
  /// must pause, if it must.
  func answered(_ count: Int, bad: Int) -> String? {
    breaker.withLock { $0?.answered(count, bad: bad) }
  }

  // MARK: Growth

  /// See ``PoolGrowth/foundSurplus(for:now:)``. The app is asked at once.
  func foundSurplus(for laneCount: Int, now: Instant) {
    growth.foundSurplus(for: laneCount, now: now)
    starved()
  }

  /// Whether another lane would help.
  func isShort(now: Instant) -> Bool { scheduler.isWaitedFor || growth.surplus(now: now) > 0 }
}
