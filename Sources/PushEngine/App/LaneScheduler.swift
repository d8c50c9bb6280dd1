internal import PushTransport
internal import PushWire
internal import Synchronization

/// What an app's readers, lanes and actor share: the campaigns, the lanes with room, and the
/// readers that wait for room.
///
/// The hand-off between a campaign's reader and a lane must not pass through the app's actor,
/// because a hop costs more than a hundred notifications. So it goes through the rings; this type
/// only chooses one.
final class LaneScheduler: Sendable {
  private struct State {
    var lanes: [any Lane] = []
    var ledgers: [UInt32: CampaignLedger] = [:]
    var nextCampaign: UInt32 = 1
    var openCampaigns = 0
    var waiters: [CheckedContinuation<Void, Never>] = []
    var failure: String?
    var bucket: TokenBucket?
    var breaker: BadTokenBreaker?
    var refusalStatistics = RefusalStatistics()
  }

  private let state: Mutex<State>
  private let waiterCount = Atomic<Int>(0)
  private let openCampaignCount = Atomic<Int>(0)
  private let cancellations = Atomic<Int>(0)
  private let growthHeldUntil = Atomic<UInt64>(0)
  private let searchingLaneCount = Atomic<Int>(0)
  private let surplusUntil = Atomic<UInt64>(0)
  private let surplusLaneCount = Atomic<Int>(0)
  private let loop: any Loop
  /// Requests another lane from the app.
  private let starved: @Sendable () -> Void
  let journal: EngineJournal?
  /// Why the app makes no progress.
  let status: AppStatus
  /// The app's name in the journal.
  let app: String
  let unknownReasons = UnknownReasons()

  /// No lane's backlog is longer, however fast it is (``BacklogLimit`` may set less). With a
  /// journal it is longer, because a notification may be sent only when an intent is durable, one
  /// interval later.
  var backlogBlockCountLimit: Int { journal == nil ? 65_536 : 196_608 }

  init(
    app: String, loop: any Loop, rateLimit: Double?, breaker: BadTokenBreaker? = nil, status: AppStatus, journal: EngineJournal?,
    starved: @escaping @Sendable () -> Void
  ) {
    self.app = app
    self.loop = loop
    self.status = status
    self.journal = journal
    self.starved = starved
    var state = State()
    if let rateLimit {
      // A burst of 20 ms keeps the sending even and the wake-ups few.
      state.bucket = TokenBucket(perSecond: rateLimit, burst: max(1, rateLimit / 50), now: loop.now)
    }
    state.breaker = breaker
    self.state = Mutex(state)
  }

  // MARK: Campaigns

  /// Opens the ledger of a campaign.
  ///
  /// - Parameter makeLedger: Gets the number of the campaign in this app's rings.
  /// - Throws: ``AppFailure`` when the app has failed.
  func begin(_ makeLedger: (UInt32) -> CampaignLedger) throws(AppFailure) -> CampaignLedger {
    let (ledger, failure): (CampaignLedger, String?) = state.withLock { state in
      let ledger = makeLedger(state.nextCampaign)
      if state.failure == nil {
        state.ledgers[state.nextCampaign] = ledger
        state.nextCampaign += 1
        state.openCampaigns += 1
      }
      return (ledger, state.failure)
    }
    if let failure { throw AppFailure(reason: failure) }
    openCampaignCount.add(1, ordering: .acquiringAndReleasing)
    return ledger
  }

  /// The campaign's audience has ended, or its reader has stopped.
  func close(_ ledger: CampaignLedger) {
    ledger.closeIntake()
    openCampaignCount.subtract(1, ordering: .acquiringAndReleasing)
    wakeLanes()
  }

  /// A campaign's reader waits for its source or for the end of a pause.
  func readerWaits() {
    openCampaignCount.subtract(1, ordering: .acquiringAndReleasing)
    wakeLanes()
  }

  func readerContinues() { openCampaignCount.add(1, ordering: .acquiringAndReleasing) }

  /// The campaign has its final account, so the lanes no longer need it.
  func forget(_ ledger: CampaignLedger) {
    state.withLock { state in
      state.openCampaigns -= 1
      state.ledgers[ledger.frames.campaign] = nil
    }
  }

  func ledger(_ campaign: UInt32) -> CampaignLedger? {
    state.withLock { $0.ledgers[campaign] }
  }

  /// No campaign is being read, so nothing more arrives for now.
  var isDraining: Bool { openCampaignCount.load(ordering: .acquiring) == 0 }

  /// Every campaign was cancelled.
  var isCancelled: Bool {
    state.withLock { state in state.ledgers.values.allSatisfy { $0.isCancelled } }
  }

  var failure: String? { state.withLock { $0.failure } }

  /// Cancels every campaign, because the app can no longer send or was asked to stop.
  func cancelAll(failure: String? = nil) {
    let ledgers = state.withLock { state in
      state.failure = state.failure ?? failure
      return Array(state.ledgers.values)
    }
    for ledger in ledgers { ledger.cancel() }
    wasCancelled()
  }

  /// A campaign was cancelled. Its reader and its notifications stop waiting.
  func wasCancelled() {
    cancellations.add(1, ordering: .releasing)
    resumeWaiters()
    wakeLanes()
  }

  /// Grows with every cancellation.
  var cancellationCount: Int { cancellations.load(ordering: .acquiring) }

  /// A notification in a ring has no outcome.
  var hasWork: Bool { lanes.contains { $0.ring.published != $0.ring.settled } }

  // MARK: The breaker

  /// `count` notifications were answered; `bad` of the responses call the token bad. Returns why
  /// the app must stop, or nil.
  func answered(_ count: Int, bad: Int) -> String? { state.withLock { $0.breaker?.answered(count, bad: bad) } }

  // MARK: Lanes

  var lanes: [any Lane] { state.withLock { $0.lanes } }

  func add(_ lane: any Lane) {
    state.withLock { $0.lanes.append(lane) }
    resumeWaiters()
  }

  func remove(_ lane: any Lane) {
    state.withLock { $0.lanes.removeAll { $0 === lane } }
  }

  /// Lanes and scheduler refer to each other. Breaking the cycle releases the memory of an app that
  /// was shut down.
  func removeLanes() {
    state.withLock { $0.lanes = [] }
  }

  func wakeLanes() {
    for lane in lanes { lane.wake() }
  }

  // MARK: Room

  /// A lane, and how many blocks it accepts.
  struct Room {
    let lane: any Lane
    let blockCount: Int
  }

  /// The lane that will send first, among those with room for `blockCount` blocks. Waits until
  /// there is one.
  func room(for blockCount: Int, isCancelled: () -> Bool) async -> Room? {
    while !isCancelled() {
      if let room = roomInLane(for: blockCount) { return room }
      starved()
      await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
        state.withLock { state in
          state.waiters.append(continuation)
          waiterCount.store(state.waiters.count, ordering: .sequentiallyConsistent)
        }
        // Without this second look, room made between the first look and the wait would be missed.
        if roomInLane(for: blockCount) != nil || isCancelled() { resumeWaiters() }
      }
    }
    return nil
  }

  private func roomInLane(for blockCount: Int) -> Room? {
    state.withLock { state in
      var best: Room?
      var leastLoad = Double.infinity
      for lane in state.lanes where lane.ring.freeBlockCount >= blockCount + RingRecord.blockCountLimit {
        let (backlog, limit) = (lane.backlog.backlog(of: lane.ring), lane.backlog.blockCount)
        // Each limit is what its lane sends in the same time. A lane without a connection comes
        // last.
        let load = Double(backlog) / Double(limit) + (lane.backlog.isConnected ? 0 : 1)
        if backlog < limit, load < leastLoad { (best, leastLoad) = (Room(lane: lane, blockCount: limit - backlog), load) }
      }
      return best
    }
  }

  /// A lane has sent or settled something. Cheap while no reader waits; otherwise wakes the readers
  /// when there is enough room.
  func roomMade(in lane: some Lane) {
    guard isWaitedFor else { return }
    let ring = lane.ring
    let isWorthIt = ring.freeBlockCount >= ring.blockCountLimit / 8 && lane.backlog.backlog(of: ring) <= lane.backlog.blockCount / 2
    if isWorthIt { resumeWaiters() }
  }

  /// Whether a reader waits for room.
  var isWaitedFor: Bool { waiterCount.load(ordering: .sequentiallyConsistent) > 0 }

  /// Wakes all readers that wait for room, to look again.
  func resumeWaiters() {
    let waiters = state.withLock { state in
      defer { state.waiters = [] }
      waiterCount.store(0, ordering: .sequentiallyConsistent)
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  // MARK: Growth

  /// The service has refused something temporarily, or not answered. More connections would not
  /// help.
  ///
  /// - Parameter nextTryAt: When a lane tries again, if that is later than now.
  func holdGrowth(nextTryAt: Instant?, now: Instant) {
    let end = max(now, nextTryAt ?? now) + Self.growthHold
    // Lanes on other loops may store an earlier time, so the latest one counts.
    growthHeldUntil.max(end.nanoseconds, ordering: .relaxed)
  }

  /// One more or one fewer lane is in a poison search.
  fileprivate func searching(_ change: Int) { searchingLaneCount.add(change, ordering: .relaxed) }

  func mayGrow(now: Instant) -> Bool {
    searchingLaneCount.load(ordering: .relaxed) == 0 && growthHeldUntil.load(ordering: .relaxed) <= now.nanoseconds
  }

  private static let growthHold = Duration.seconds(1)

  /// A lane has more to resend than it can send in a few hundred milliseconds, so other lanes could
  /// help.
  ///
  /// - Parameter laneCount: How many lanes could send it soon.
  func foundSurplus(for laneCount: Int, now: Instant) {
    surplusLaneCount.store(laneCount, ordering: .relaxed)
    surplusUntil.store((now + Self.surplusHold).nanoseconds, ordering: .relaxed)
    starved()
  }

  /// How many lanes would help with what lanes have recently had to resend.
  func surplus(now: Instant) -> Int {
    surplusUntil.load(ordering: .relaxed) > now.nanoseconds ? surplusLaneCount.load(ordering: .relaxed) : 0
  }

  /// Whether another lane would help.
  func isShort(now: Instant) -> Bool { isWaitedFor || surplus(now: now) > 0 }

  /// Longer than most connections that end in refusals.
  private static let surplusHold = Duration.milliseconds(300)

  /// How often connections have recently ended in refusals. New lanes start with it.
  var refusalStatistics: RefusalStatistics { state.withLock { $0.refusalStatistics } }

  func learned(_ statistics: RefusalStatistics) {
    state.withLock { $0.refusalStatistics = statistics }
  }

  // MARK: Rate

  /// The number of notifications, up to `count`, that the app's rate limit allows now. Waits until
  /// there is at least one.
  func allowance(upTo count: Int, isCancelled: () -> Bool) async -> Int {
    while !isCancelled() {
      let now = loop.now
      let (allowed, nextAt): (Int, Instant) = state.withLock { state in
        guard state.bucket != nil else { return (count, now) }
        let taken = state.bucket?.take(upTo: count, now: now) ?? 0
        return (taken, state.bucket?.nextAt(now: now) ?? now)
      }
      if allowed > 0 { return allowed }
      await sleep(until: nextAt)
    }
    return 0
  }

  func pause(_ duration: Duration) async {
    await sleep(until: loop.now + duration)
  }

  private func sleep(until deadline: Instant) async {
    await withCheckedContinuation { continuation in
      _ = loop.schedule(at: deadline) { continuation.resume() }
    }
  }
}

/// A lane's part in holding back its app's growth, for the time of its poison search.
struct GrowthHold {
  private var isHeld = false

  mutating func update(_ isSearching: Bool, of intake: LaneScheduler) {
    guard isSearching != isHeld else { return }
    isHeld = isSearching
    intake.searching(isSearching ? 1 : -1)
  }
}

/// Why an app cannot send, as a sentence.
package struct AppFailure: Error, Hashable, CustomStringConvertible {
  package var reason: String
  package var description: String { reason }
}
