internal import Carillon
internal import Logging
internal import PushEngine
internal import PushSend
internal import PushStore
internal import PushWire
internal import Synchronization

/// Carries segments of campaigns on this node: claims them, sends them, and tells the ledger how
/// far they are.
///
/// Nothing is sent before the ledger has granted it, and what becomes of it is in the journal
/// before the ledger has it. So the next process of this node continues from the journal, and
/// another node from the ledger.
final class SegmentCarrier: Sendable {
  private let ledger: any Ledger
  /// Of this process, once it has joined.
  private let incarnation: @Sendable () -> Int64
  private let controller: CampaignController
  private let deployment: Deployment
  private let outcomes: OutcomeRecorder
  private let files: AudienceFiles
  private let schedule: CampaignSchedule
  /// Nothing more is claimed, and what is carried is given back.
  private let isDraining: @Sendable () -> Bool
  private let logger: Logger
  private let carried = Mutex<[SegmentID: Carried]>([:])

  private struct Carried {
    let epoch: Int64
    /// Nil: its members are being read.
    var progress: SegmentProgress?
  }

  /// Parts that had segments which nobody carries when they were looked at.
  private let claimable = Mutex<[SharedPart]>([])
  /// The node may own segments that it does not carry.
  private let ownsMore = Atomic<Bool>(true)
  /// Nothing more is claimed: the process ends.
  private let isLeaving = Atomic<Bool>(false)
  /// Set when there is something to report at once.
  private let reportSignal = ReaderSignal()

  private static let lookInterval = Duration.milliseconds(250)
  private static let reportInterval = Duration.milliseconds(80)
  /// While there is nothing to report: quiet hours begin meanwhile.
  private static let idleInterval = Duration.seconds(1)
  private static let pauseAfterTrouble = Duration.seconds(1)
  private static let leaveInterval = Duration.milliseconds(50)
  /// How long what a node has of a part, and has not read, must last: the next segment is there
  /// when one ends.
  private static let unreadTime = Duration.seconds(1)
  /// Segments of a part that are read at the same time.
  private static let readLimit = 4
  /// Segments of a part that have not ended.
  private static let openLimit = 8

  init(
    ledger: any Ledger, incarnation: @escaping @Sendable () -> Int64, controller: CampaignController,
    deployment: Deployment, outcomes: OutcomeRecorder, files: AudienceFiles, schedule: CampaignSchedule,
    isDraining: @escaping @Sendable () -> Bool, logger: Logger
  ) {
    (self.ledger, self.incarnation, self.controller) = (ledger, incarnation, controller)
    (self.deployment, self.outcomes, self.files) = (deployment, outcomes, files)
    (self.schedule, self.isDraining, self.logger) = (schedule, isDraining, logger)
  }

  private var store: any Store { controller.store }
  private var clock: any ServiceClock { controller.clock }
  private var allProgress: [SegmentProgress] { carried.withLock { $0.values.compactMap(\.progress) } }

  /// Carries segments until the task is cancelled. Call it once the node has joined.
  func run() async {
    await withDiscardingTaskGroup { tasks in
      tasks.addTask { await self.keepReporting() }
      while !Task.isCancelled {
        do {
          if !isLeaving.load(ordering: .relaxed) {
            if isDraining() { giveBack() }
            try await adopt(&tasks)
            try await look(&tasks)
          }
        } catch {
          guard !Task.isCancelled else { return }
          let why = (error as? StoreError)?.description ?? "\(error)"
          logger.error("segments cannot be claimed", metadata: ["why": "\(why)"])
          try? await clock.sleep(for: Self.pauseAfterTrouble)
        }
        await clock.sleep(for: Self.lookInterval, orUntil: controller.segmentSignal)
      }
    }
  }

  /// Gives all segments back, and says of each what was not sent. Returns when that is done, or
  /// after a while: then others find in doubt what has no outcome.
  func leave(within limit: Duration) async {
    isLeaving.store(true, ordering: .relaxed)
    let end = clock.uptime + limit
    while clock.uptime < end {
      if giveBack() == 0 { return }
      guard (try? await clock.sleep(for: Self.leaveInterval)) != nil else { return }
    }
  }

  /// - Returns: how many segments are not given back yet.
  @discardableResult
  private func giveBack() -> Int {
    let left = allProgress.filter(\.hasBegun)
    for progress in left { progress.withdraw() }
    return left.count
  }

  // MARK: Claiming

  /// Continues what an earlier process of this node carried, or an app that was removed meanwhile,
  /// as far as the journal knows it. The rest is claimed anew, by this node or by another one.
  private func adopt(_ tasks: inout DiscardingTaskGroup) async throws {
    // As it was before the ledger is asked: what ends meanwhile may still be in its answer.
    let known = carried.withLock { $0.mapValues(\.epoch) }
    let names = known.map { id, epoch in id.name(epoch: epoch) }
    let left = Set(deployment.servedRemainders.map(\.name).filter(SegmentID.isName)).subtracting(names)
    guard !left.isEmpty || ownsMore.exchange(false, ordering: .relaxed) else { return }
    do {
      let owned = try await ledger.segments(of: incarnation())
      var lost: [SegmentID: Int64] = [:]
      for segment in owned where known[segment.id] == nil {
        if segment.isWithdrawn || !left.contains(segment.id.name(epoch: segment.epoch)) {
          lost[segment.id] = segment.epoch
        } else if begin(segment) {
          tasks.addTask { await self.carry(segment) }
        }
      }
      // Others carry them by now, or will.
      deployment.settle(
        served: left.subtracting(owned.filter { !$0.isWithdrawn }.map { $0.id.name(epoch: $0.epoch) }))
      if !lost.isEmpty { try await ledger.release(lost, by: incarnation()) }
    } catch {
      ownsMore.store(true, ordering: .relaxed)
      throw error
    }
  }

  /// False if it is carried already.
  private func begin(_ segment: StoredSegment) -> Bool {
    carried.withLock { carried in
      guard carried[segment.id] == nil else { return false }
      carried[segment.id] = Carried(epoch: segment.epoch)
      return true
    }
  }

  private func look(_ tasks: inout DiscardingTaskGroup) async throws {
    let live = carried.withLock { Array($0.keys) }.compactMap { controller.live($0.campaign)?.app }
    let parts = try await ledger.sharedParts(
      of: deployment.apps.map(\.id) + live, orIn: [CampaignState.cancelled, .failed].map(\.rawValue))
    for progress in allProgress {
      if let part = parts.first(where: { $0.campaign == progress.id.campaign && $0.part == progress.id.part }) {
        apply(part, to: progress)
      } else {
        progress.disown()
      }
    }
    let free = isDraining() ? [] : parts.filter { $0.hasFreeSegments && $0.mayBeClaimed }
    claimable.withLock { $0 = free }
    for part in free { try await claim(part, &tasks) }
  }

  /// The campaign's state is the segment's.
  private func apply(_ part: SharedPart, to progress: SegmentProgress) {
    guard let campaign = progress.campaign, !progress.isDisowned else { return }
    switch part.status {
    case .cancelled, .failed:
      controller.live(progress.id.campaign)?.cancel()
      campaign.cancel()
    case .running:
      progress.opened(until: part.openUntil)
      pauseOrResume(progress)
    default: if !campaign.isPaused { campaign.pause() }
    }
  }

  /// Nodes stop by themselves when quiet hours begin, also while the ledger is away. Nothing is
  /// sent, or sent again, before the ledger knows how often it may have arrived.
  private func pauseOrResume(_ progress: SegmentProgress) {
    guard let campaign = progress.campaign else { return }
    let isOpen = progress.isTold && progress.openUntil.map { clock.now < $0 } ?? false
    guard isOpen == campaign.isPaused else { return }
    if isOpen { campaign.resume() } else { campaign.pause() }
  }

  /// What this node carries of a part, and how many more segments it needs: what it has not read
  /// must last for a while. Others need some, too. What somebody else has begun is continued soon,
  /// whatever this node has: people are in the middle of it.
  private func need(of part: SharedPart) -> (known: [SegmentID], count: Int) {
    let own = carried.withLock { carried in
      carried.filter { $0.key.campaign == part.campaign && $0.key.part == part.part }
    }
    let known = Array(own.keys)
    if known.isEmpty { return (known, 1) }
    var (unread, rate, readCount) = (0, 0.0, 0)
    for carried in own.values {
      let reading = carried.progress?.reading ?? (unreadCount: controller.segmentSizes.large, rate: 0)
      unread += reading.unreadCount
      rate += reading.rate
      if reading.unreadCount > 0 { readCount += 1 }
    }
    let missing = Int(min(rate * Self.unreadTime.inSeconds, 1e9)) - unread
    guard missing > 0 || unread == 0 || part.hasBegunSegments else { return (known, 0) }
    let wanted = 1 + max(0, missing) / controller.segmentSizes.large
    return (known, max(0, min(wanted, Self.readLimit - readCount, Self.openLimit - known.count)))
  }

  private func claim(_ part: SharedPart, _ tasks: inout DiscardingTaskGroup) async throws {
    let (known, limit) = need(of: part)
    guard limit > 0 else { return }
    let claimed: [StoredSegment]
    do {
      claimed = try await ledger.claimSegments(
        of: part.campaign, part: part.part, limit: limit, by: incarnation(), known: known)
    } catch {
      // The answer may be all that was lost.
      ownsMore.store(true, ordering: .relaxed)
      throw error
    }
    for segment in claimed where begin(segment) { tasks.addTask { await self.carry(segment) } }
  }

  // MARK: Carrying

  private func carry(_ segment: StoredSegment) async {
    while !Task.isCancelled, !isLeaving.load(ordering: .relaxed), !isDraining() {
      do {
        guard try await attempt(segment) else { break }
      } catch { note(error, of: segment) }
      try? await clock.sleep(for: Self.pauseAfterTrouble)
    }
    carried.withLock { $0[segment.id] = nil }
    ownsMore.store(true, ordering: .relaxed)
    controller.segmentSignal.set()
    controller.live(segment.id.campaign)?.signal.set()
  }

  /// - Returns: whether to try again.
  private func attempt(_ segment: StoredSegment) async throws -> Bool {
    let keys = try await members(of: segment)
    guard let record = try await store.campaign(segment.id.campaign) else { return false }
    let live = controller.live(record.id, app: record.app)
    let plan = try live.plan(of: record)
    let isOver = record.status == .cancelled || record.status == .failed
    if isOver { live.cancel() }
    let progress = try SegmentProgress(
      segment, owner: incarnation(), keys: keys, doubtOutcome: doubtOutcome(record.app), isOver: isOver,
      grants: GrantMachine(bounds: controller.segmentSizes.grants, ahead: ahead(of: segment.id)),
      plantedMistake: controller.segmentMistake,
      wantsReport: { [reportSignal] in reportSignal.set() })
    if let node = segment.lostOwner {
      try await ledger.note(
        SegmentTakeover(
          segment: segment.id, epoch: segment.epoch, node: node, at: clock.now,
          possibleDuplicateCount: progress.newDoubtCount))
    }
    carried.withLock { $0[segment.id]?.progress = progress }
    try files.spool.make(record.id)
    let parts = CampaignParts(
      files: files, recorder: outcomes.campaigns, outcomes: outcomes, store: store, clock: clock, live: live,
      schedule: schedule, plantedMistake: nil)
    let part = try await store.progress(of: record.id).first { $0.number == segment.id.part }
    var rows: (file: KeptAudience, mark: AudienceMark)?
    if plan.source == .upload {
      try await files.fetch(record.head)
      rows = try await files.rows(record, at: segment.id.firstKey)
    }
    let sending = SegmentSending(
      progress: progress, parts: parts, record: record, plan: part.map { plan.timed(at: $0.dueAt) } ?? plan,
      begunAt: part?.begunAt, rows: rows)
    let remainder = deployment.servedRemainders.first { $0.name == progress.name }
    if isOver, remainder == nil {
      _ = try await deployment.settleUnsent(sending.served, isUnknown: false, sending.events(after: nil))
      outcomes.campaigns.ended(progress)
      try await sending.end()
      progress.close()
      return false
    }
    do throws(CarillonError) {
      let campaign = try await deployment.app(record.app).serve(
        sending.served, sending.events(after: remainder?.account))
      live.began(progress.id, campaign)
      defer { live.ended(progress.id) }
      progress.begun(campaign)
      reportSignal.set()
      controller.rateSignal.set()
      if isOver { campaign.cancel() }
      _ = try await campaign.result()
    } catch {
      return try await setback(error, progress)
    }
    // The journal knows nothing of it any more: it must not begin again.
    while !Task.isCancelled {
      do {
        try await sending.end()
        progress.close()
        if progress.isWithdrawn { try await ledger.release([segment.id: segment.epoch], by: incarnation()) }
        break
      } catch { note(error, of: segment) }
      try? await clock.sleep(for: Self.pauseAfterTrouble)
    }
    return false
  }

  private func note(_ error: any Error, of segment: StoredSegment) {
    guard !Task.isCancelled else { return }
    let why = Problem(known: error)?.detail ?? "\(error)"
    logger.error(
      "a segment of a campaign waits", metadata: ["campaign": "\(segment.id.campaign.text)", "why": "\(why)"])
  }

  /// How far segments of the same part are granted at present.
  private func ahead(of id: SegmentID) -> Int? {
    carried.withLock { carried in
      carried.filter { $0.key.campaign == id.campaign && $0.key.part == id.part }.values.compactMap {
        $0.progress?.ahead
      }.max()
    }
  }

  /// What becomes of what may have arrived; nil: it is sent again.
  private func doubtOutcome(_ app: String) -> Outcome? {
    (try? deployment.app(app))?.configuration.onUnknown.doubtOutcome
  }

  private func setback(_ error: CarillonError, _ progress: SegmentProgress) async throws -> Bool {
    let live = controller.live(progress.id.campaign)
    let app = live?.app ?? ""
    guard progress.campaign == nil else {
      // The next process of this node continues it from the journal.
      return false
    }
    switch PartSetback(
      error.code, isEnding: deployment.hasEnded, isAppTroubled: schedule.hasTroubledApp(app))
    {
    case .leaves: return false
    case .begins: return true
    case .fails:
      try await controller.change(progress.id.campaign, { _ in .failed }) { $0.reason = error.message }
      return true
    }
  }

  /// The keys of a segment's members, in order.
  private func members(of segment: StoredSegment) async throws -> [Int64] {
    var keys: [Int64] = []
    var last = segment.id.firstKey - 1
    while last < segment.lastKey {
      let next = try await clock.retrying { () throws(StoreError) in
        try await store.members(of: segment.id.campaign, part: segment.id.part, after: last)
      }
      guard let end = next.last else { break }
      keys += next.prefix { $0 <= segment.lastKey }
      last = end
    }
    return keys
  }

  // MARK: Reporting

  private func keepReporting() async {
    while !Task.isCancelled {
      switch await report() {
      case .told: try? await clock.sleep(for: Self.reportInterval)
      case .nothing: await clock.sleep(for: Self.idleInterval, orUntil: reportSignal)
      case .failed: try? await clock.sleep(for: Self.pauseAfterTrouble)
      }
    }
  }

  private enum Telling { case told, nothing, failed }

  /// Tells the ledger what it does not know. One report of a segment follows the other: the ledger
  /// refuses those that come late.
  private func report() async -> Telling {
    let all = allProgress
    for progress in all where progress.openUntil.map({ $0 <= clock.now }) ?? false { pauseOrResume(progress) }
    let began = clock.uptime
    let reports = all.compactMap { progress in progress.report(now: began).map { (progress, $0) } }
    guard !reports.isEmpty else { return .nothing }
    do {
      // The next process of this node must know no less than the ledger, and nothing has its
      // outcome there that clients cannot read.
      try await deployment.makeJournalDurable()
      do { try await outcomes.makeDurableElsewhere(waits: false) } catch { throw StoreError(error) }
      let written = try await tell(reports.map(\.1.report))
      let duration = clock.uptime.since(began)
      if claimable.withLock({ $0 }).contains(where: { need(of: $0).count > 0 }) {
        controller.segmentSignal.set()
      }
      for (progress, report) in reports {
        guard let part = written[progress.id] else {
          progress.refused()
          continue
        }
        progress.acknowledge(report, after: duration)
        apply(part, to: progress)
      }
      return .told
    } catch {
      if (error as? StoreError)?.kind != .away, !Task.isCancelled {
        logger.error("the ledger cannot be written", metadata: ["why": "\(error)"])
      }
      return .failed
    }
  }

  /// On a thread that may wait.
  private func tell(_ reports: [SegmentReport]) async throws -> [SegmentID: SharedPart] {
    let owner = incarnation()
    let result: Result<[SegmentID: SharedPart], StoreError> = await withCheckedContinuation { continuation in
      clock.run { [ledger] in
        continuation.resume(
          returning: Result { () throws(StoreError) in try ledger.report(reports, by: owner) })
      }
    }
    return try result.get()
  }
}

extension SharedPart {
  fileprivate var status: CampaignState { CampaignState(rawValue: state) ?? .failed }

  /// What was cancelled is claimed, too: whoever does settles it.
  fileprivate var mayBeClaimed: Bool {
    switch status {
    case .running: openUntil != nil
    case .cancelled, .failed: true
    default: false
    }
  }
}

extension SegmentID {
  /// What the journal calls it in an epoch.
  func name(epoch: Int64) -> String { "\(campaign.text)/\(part)/\(firstKey)@\(epoch)" }

  /// Whether a name in the journal is a segment's.
  static func isName(_ name: String) -> Bool { name.split(separator: "/").count == 3 }
}
