internal import Carillon
internal import HTTPTypes
internal import Logging
internal import PushEngine
internal import PushSend
internal import PushStore
internal import PushWire

/// Moves one campaign to its end: starts its parts, pauses and resumes them, records their ends.
struct CampaignDriver: Sendable {
  let controller: CampaignController
  let deployment: Deployment
  let parts: CampaignParts
  let schedule: CampaignSchedule
  let live: LiveCampaign
  /// Otherwise another process moves the campaign on.
  let leads: @Sendable () -> Bool
  /// This process begins nothing that only it can send.
  let isDraining: @Sendable () -> Bool
  let logger: Logger

  /// What else to wait for than a signal.
  enum Step: Hashable {
    /// There is nothing to do any more.
    case leave
    case wait
    case until(StoreInstant)
    case again
  }

  /// Clocks can be set, so it looks at them at least as often.
  private static let longestWait = Duration.seconds(60)
  private static let pauseAfterTrouble = Duration.seconds(1)
  /// The longest delay of a start, in milliseconds. A later campaign is no longer useful, or was
  /// sent before its store was restored from a backup.
  private static let latestBeginning: Int64 = 3600 * 1000

  /// How often a campaign that nodes share is looked at.
  private static let lookMilliseconds: Int64 = 300
  private static let cutMilliseconds: Int64 = 50

  /// A minute more than the longest wait.
  private static let unremarkableDelay: Int64 = 120_000

  private var store: any Store { controller.store }
  private var clock: any ServiceClock { controller.clock }

  func run() async {
    guard live.beginDriving() else { return }
    await withDiscardingTaskGroup { tasks in
      repeat {
        await drive(&tasks)
      } while !live.endDriving() && !Task.isCancelled
    }
  }

  private func drive(_ tasks: inout DiscardingTaskGroup) async {
    while !Task.isCancelled {
      do {
        switch try await step(&tasks) {
        case .leave: return
        case .again: continue
        case .wait: await live.wait(atMost: Self.longestWait)
        case .until(let instant):
          let left = Duration.milliseconds(max(1, instant.milliseconds - clock.now.milliseconds))
          await live.wait(atMost: min(left, Self.longestWait))
        }
      } catch let problem as Problem where problem.status == .conflict {
        // It was changed in between.
        continue
      } catch {
        guard !Task.isCancelled else { return }
        let why = Problem(known: error)?.detail ?? "\(error)"
        logger.error("the campaign waits", metadata: ["campaign": "\(live.id.text)", "why": "\(why)"])
        keepQuietHours()
        await live.wait(atMost: Self.pauseAfterTrouble)
      }
    }
  }

  private func step(_ tasks: inout DiscardingTaskGroup) async throws -> Step {
    guard leads(), !live.isLeft, let record = try await store.campaign(live.id) else { return .leave }
    let plan = try live.plan(of: record)
    switch record.status {
    case .draft, .uploading: return .leave
    case .scheduled: return try await begin(record, plan)
    case .running: return try await send(record, plan, &tasks)
    case .held where record.isDoubtful:
      live.pause()
      return live.isBusy ? .wait : .leave
    case .held:
      if try await doubts(record) { return .again }
      if let obstacle = schedule.obstacle(plan, record.app, live, now: clock.now) {
        live.pause()
        return obstacle.until.map(Step.until) ?? .until(clock.now.after(seconds: 5))
      }
      try await controller.change(live.id, { _ in .freed })
      return .again
    case .paused:
      live.pause()
      return try await pause(record)
    case .cancelled, .failed: return try await settle(record, plan)
    case .finished: return .leave
    }
  }

  private func begin(_ record: StoredCampaign, _ plan: CampaignPlan) async throws -> Step {
    let now = clock.now
    guard plan.dueAt <= now else { return .until(plan.dueAt) }
    // Its time is looked at again on the record that changes: it may have got another one.
    let begun = try await controller.change(
      live.id, { [live] in try Self.beginning(of: $0, due: live.plan(of: $0).dueAt, at: now) }
    ) { record in
      let late = Self.lateness(due: try live.plan(of: record).dueAt, at: now)
      let spoken = Duration.seconds(late / 1000).spoken
      if record.status == .held {
        record.isDoubtful = true
        record.reason =
          "Its time was \(spoken) ago. The service did not run then, or its store was restored from a backup. "
          + "Resume it to send it now, or cancel it."
      } else {
        record.startedAt = record.startedAt ?? now
        if late > Self.unremarkableDelay {
          record.reason = "It began \(spoken) late, because the service did not run then."
        }
      }
    }
    if begun.status == .held || begun.status == .running, !begun.reason.isEmpty {
      logger.warning("a campaign is late", metadata: ["campaign": "\(live.id.text)", "why": "\(begun.reason)"])
    }
    return .again
  }

  /// How many milliseconds late a campaign would begin. Without a scheduled time it is never late.
  private static func lateness(due: StoreInstant, at now: StoreInstant) -> Int64 {
    due.milliseconds == 0 ? 0 : now.milliseconds - due.milliseconds
  }

  static func beginning(of record: StoredCampaign, due: StoreInstant, at now: StoreInstant) -> CampaignEvent {
    let late = lateness(due: due, at: now)
    // What was paused or cancelled meanwhile has no time that could have come.
    guard record.status == .scheduled else { return .due(isDue: false) }
    return late > latestBeginning ? .doubted : .due(isDue: late >= 0)
  }

  /// Whether an operator must say if the campaign continues.
  private func doubts(_ record: StoredCampaign) async throws -> Bool {
    let forgotten = ForgottenParts(controller: controller, deployment: deployment)
    guard try await !forgotten.numbers(of: record.id).isEmpty else { return false }
    try await doubt(ForgottenParts.reason)
    return true
  }

  private func doubt(_ reason: String) async throws {
    live.pause()
    try await controller.change(live.id, { _ in .doubted }) { record in
      record.reason = reason
      record.isDoubtful = true
    }
    logger.error("a campaign waits for a person", metadata: ["campaign": "\(live.id.text)", "why": "\(reason)"])
  }

  private func send(
    _ record: StoredCampaign, _ plan: CampaignPlan, _ tasks: inout DiscardingTaskGroup
  ) async throws -> Step {
    if try await doubts(record) { return .again }
    // One instant for both questions: quiet hours must not begin between them.
    let now = clock.now
    if controller.plantedMistake != .forgetsQuietHours,
      let obstacle = schedule.obstacle(plan, record.app, live, now: now)
    {
      live.pause()
      try await controller.change(live.id, { _ in .hindered }) { $0.reason = obstacle.reason }
      return .again
    }
    guard let record = try await withLastKey(record, plan) else { return .again }
    if plan.source == .upload { try await parts.files.fetch(record.head) }
    let all: [StoredCampaignPart]
    // Before the parts are read: whatever ends meanwhile is not begun again.
    var busy = live.busyParts
    do {
      all = try await divided(record, plan)
      if controller.plantedMistake == .readsPartsFirst { busy = live.busyParts }
    } catch  where error is AudienceError || error is CarillonError {
      let why = CarillonError(describing: error).message
      try await controller.change(live.id, { _ in .failed }) { $0.reason = why }
      return .again
    }
    if record.audienceCount == nil || parts.files.areMembersKept(of: plan) && !record.isCut, live.beginCounting() {
      tasks.addTask {
        await AudienceTotal(controller: controller, files: parts.files, live: live).count(record, plan, all)
        live.endCounting()
      }
    }
    let shared = try await share(record, plan, all)
    let open = all.filter { $0.endedAt == nil && !shared.ended.contains($0.number) }
    guard !open.isEmpty else {
      try await controller.change(live.id, { _ in .ended }) { $0.endedAt = clock.now }
      return .leave
    }
    let openParts = open.map(CampaignTimes.Part.init)
    live.remember(openParts: openParts)
    let times = schedule.times(plan, record.app)
    let due = times.schedule(openParts, now: now)
    live.resume(except: times.quietParts(due, of: open.count))
    if let sharing = shared.sharing {
      let quiet = live.quiet?.parts ?? []
      let own = openParts.filter { part in
        due.sending.contains(part.number) && !shared.direct.contains(part.number) && !quiet.contains(part.number)
      }
      let sending = Dictionary(uniqueKeysWithValues: own.map { ($0.number, times.end(of: $0, now: now)) })
      // What the ledger has may be of a leader that was stopped and has not noticed yet.
      let known = Dictionary(
        uniqueKeysWithValues: open.compactMap { part in
          shared.parts[part.number]?.openUntil.map { (part.number, $0) }
        })
      if known != sending { try await sharing.open(sending, of: live.id) }
    }
    for part in open where due.sending.contains(part.number) && !busy.contains(part.number) {
      guard shared.sharing == nil || shared.direct.contains(part.number) else { continue }
      guard !isDraining(), !live.isLost(part: part.number), live.begin(part: part.number) else { continue }
      tasks.addTask { await send(part, record, plan) }
    }
    guard shared.sharing != nil else { return due.next.map(Step.until) ?? .wait }
    // As long as the audience is being cut there are new segments.
    let soon = clock.now.after(milliseconds: record.isCut ? Self.lookMilliseconds : Self.cutMilliseconds)
    return .until(due.next.map { min($0, soon) } ?? soon)
  }

  /// What nodes carry of a campaign.
  private struct Shared {
    /// Nil: this process sends all of it.
    var sharing: CampaignSharing?
    /// Those of its parts that nodes carry.
    var parts: [Int: SharedPartProgress] = [:]
    /// Parts that have ended just now.
    var ended: Set<Int> = []
    /// Parts that this process has begun by itself: an older version did.
    var direct: Set<Int> = []
  }

  /// Ends the parts in which everything has its outcome.
  private func share(
    _ record: StoredCampaign, _ plan: CampaignPlan, _ all: [StoredCampaignPart]
  ) async throws -> Shared {
    var shared = Shared()
    guard let ledger = store.ledger, !plan.isDryRun else { return shared }
    let sharing = CampaignSharing(ledger: ledger, controller: controller)
    shared.sharing = sharing
    let (parts, ended) = try await sharing.advance(record, all)
    shared.parts = parts
    shared.direct = Set(all.filter { $0.begunAt != nil && parts[$0.number] == nil }.map(\.number))
    for (number, account) in ended {
      guard let part = all.first(where: { $0.number == number }) else { continue }
      try await end(part, record, account: account)
      shared.ended.insert(number)
    }
    return shared
  }

  /// They are kept while the store is away, too, by what is known of the campaign. The next step
  /// that reads the store resumes what may be sent.
  private func keepQuietHours() {
    guard let (plan, openParts) = live.known else { return }
    if schedule.obstacle(plan, live.app, live, now: clock.now) != nil { return live.pause() }
    live.pause(parts: schedule.times(plan, live.app).schedule(openParts, now: clock.now).inQuietHours)
  }

  /// Fixes which devices belong to the audience, or how far its rows go.
  ///
  /// - Returns: nil if it is in another state by now, so that nothing is fixed.
  private func withLastKey(_ record: StoredCampaign, _ plan: CampaignPlan) async throws -> StoredCampaign? {
    guard parts.files.areMembersKept(of: plan), record.lastKey == nil else { return record }
    let key =
      switch plan.source {
      case .devices: try await store.lastDeviceKey(app: record.app)
      case .upload: record.upload.lineCount + 1
      }
    let fixed = try await controller.change(live.id, { _ in .audienceFixed }) { $0.lastKey = $0.lastKey ?? key }
    return fixed.lastKey == nil ? nil : fixed
  }

  /// The parts of a campaign that has begun; they are made once.
  private func divided(_ record: StoredCampaign, _ plan: CampaignPlan) async throws -> [StoredCampaignPart] {
    let known = try await store.parts(of: record.id)
    if !known.isEmpty { return known }
    let parts: [StoredCampaignPart]
    if case .local(let send) = plan.start {
      let division = CampaignDivision(
        spool: self.parts.spool, store: store, schedule: schedule, now: clock.now, clock: clock,
        outcomes: self.parts.outcomes)
      parts = try await division.parts(of: record, plan, send)
    } else {
      parts = [StoredCampaignPart(number: 0, dueAt: record.startedAt ?? clock.now, content: [])]
    }
    try await clock.waiting(failureLimit: CampaignDivision.failureLimit) { () throws(StoreError) in
      try await store.add(parts, of: record.id)
    }
    return try await store.parts(of: record.id)
  }

  private func pause(_ record: StoredCampaign) async throws -> Step {
    let all = try await store.progress(of: record.id)
    if !all.isEmpty, all.allSatisfy({ $0.endedAt != nil }) {
      try await controller.change(live.id, { _ in .ended }) { $0.endedAt = clock.now }
      return .leave
    }
    return live.isBusy ? .wait : .leave
  }

  /// Nothing more is sent: everybody of the audience gets an outcome.
  private func settle(_ record: StoredCampaign, _ plan: CampaignPlan) async throws -> Step {
    guard record.endedAt == nil else { return .leave }
    live.cancel()
    guard let record = try await withLastKey(record, plan) else { return .again }
    let busy = live.busyParts
    var all = try await store.parts(of: record.id)
    if all.isEmpty {
      // It was never divided, so all of its audience is one part.
      try parts.spool.removeLeftOut(record.id)
      try await store.ledger?.list(leftOut: [], number: 1, of: record.id)
      // Nor what a division that did not come to its end has written.
      try await store.removeMembers(of: record.id)
      try await store.add([StoredCampaignPart(number: 0, dueAt: clock.now, content: [])], of: record.id)
      all = try await store.parts(of: record.id)
    }
    try parts.spool.make(record.id)
    if plan.source == .upload { try await parts.files.fetch(record.head) }
    // Nodes can carry some of it, or could before any of it was cut.
    let isOpened = try await store.ledger?.sharedProgress(of: [record.id])[record.id]?.isEmpty == false
    if plan.source == .devices || record.cutKey > 0 || isOpened {
      let cut = AudienceCut(controller: controller, files: parts.files, live: live)
      do { _ = try await cut.finish(record.id, plan, all) } catch is AudienceError {
        // Behind what can be read there is nobody.
        try await cut.close(record.id)
      }
    }
    let shared = try await share(record, plan, all)
    for part in all where part.endedAt == nil && !busy.contains(part.number) && shared.parts[part.number] == nil {
      let (served, events) = (parts.served(part, of: record, plan), parts.events(part, of: record))
      if deployment.servedRemainders.contains(where: { $0.name == served.name }) {
        // What it has in flight is its app's, which may come back.
        guard let app = try? deployment.app(record.app) else { return .wait }
        if try await app.abandon(served, events) { try parts.recorder.close(served.name) }
        continue
      }
      guard !live.isLost(part: part.number) else { return live.isBusy ? .wait : .leave }
      let isUnknown = part.begunAt != nil
      try await end(part, record, account: try await deployment.settleUnsent(served, isUnknown: isUnknown, events))
    }
    guard !live.isBusy else { return .wait }
    let progress = try await store.progress(of: record.id)
    // Nodes settle what they carry.
    let isShared = progress.contains { $0.endedAt == nil && shared.parts[$0.number] != nil }
    if isShared { return .until(clock.now.after(milliseconds: Self.lookMilliseconds)) }
    // A part that was busy above may have come to nothing meanwhile.
    guard progress.allSatisfy({ $0.endedAt != nil }) else { return .again }
    if plan.source == .upload {
      let lost = LostRows(spool: parts.spool, record: record, now: clock.now)
      if let part = try await lost.part(besides: progress) { try await store.add([part], of: record.id) }
    }
    try await controller.change(live.id, { _ in .settled }) { $0.endedAt = clock.now }
    return .leave
  }

  // MARK: One part

  private func send(_ part: StoredCampaignPart, _ record: StoredCampaign, _ plan: CampaignPlan) async {
    defer { live.ended(part: part.number) }
    let campaign: PushCampaign
    do {
      guard let begun = try await begin(part, record, plan) else { return }
      campaign = begun
    } catch let error as CarillonError where plan.isDryRun {
      return await failed(part, error)
    } catch let error as CarillonError {
      return await didNotBegin(part, error)
    } catch {
      // The store or the disk. What they cannot do now they may do later.
      return await beginLater("\(Problem(known: error)?.detail ?? "\(error)")")
    }
    live.begun(part: part.number, campaign)
    controller.rateSignal.set()
    do { try await follow(part, record, campaign) } catch let error as CarillonError {
      await failed(part, error)
    } catch {
      logger.error("a campaign cannot be kept", metadata: ["campaign": "\(live.id.text)", "why": "\(error)"])
      live.lost(part: part.number)
    }
  }

  /// - Returns: nil if it is a dry run, which has ended.
  private func begin(
    _ part: StoredCampaignPart, _ record: StoredCampaign, _ plan: CampaignPlan
  ) async throws -> PushCampaign? {
    if plan.isDryRun {
      let account = try await DryRun(parts: parts).account(part, of: record, plan)
      try await end(part, record, account: account)
      return nil
    }
    let app = try deployment.app(record.app)
    // Its list is there, also if nothing was uploaded.
    try parts.spool.make(record.id)
    return try await app.serve(parts.served(part, of: record, plan), parts.events(part, of: record))
  }

  private func follow(_ part: StoredCampaignPart, _ record: StoredCampaign, _ campaign: PushCampaign) async throws {
    do throws(CarillonError) { _ = try await campaign.result() } catch {
      guard error.code == .audience else { throw error }
      campaign.giveUp()
      try await end(part, record)
      throw error
    }
    try await end(part, record)
  }

  /// The part has ended: its list and its final account are in the store when this returns.
  ///
  /// - Parameter account: of a part that was not sent; nil: the recorder has it from its campaign.
  private func end(_ part: StoredCampaignPart, _ record: StoredCampaign, account: CampaignAccount? = nil) async throws {
    try parts.recorder.close(record.id.name(part: part.number))
    if let account {
      parts.recorder.ended(
        EndedCampaignPart(
          campaign: record.id, number: part.number, account: AccountJSON.bytes(of: account), endedAt: clock.now))
    }
    try await parts.outcomes.makeDurableElsewhere()
  }

  /// Nothing of it was sent. What its app caused is no failure: the next step of the driver holds
  /// the campaign with the reason, or begins the part again.
  private func didNotBegin(_ part: StoredCampaignPart, _ error: CarillonError) async {
    let setback = PartSetback(
      error.code, isEnding: deployment.hasEnded, isAppTroubled: schedule.hasTroubledApp(live.app))
    switch setback {
    case .leaves: live.leave()
    case .begins: await beginLater(error.message)
    case .fails: await failed(part, error)
    }
  }

  private func beginLater(_ why: String) async {
    logger.notice("a campaign's part could not begin yet", metadata: ["campaign": "\(live.id.text)", "why": "\(why)"])
    try? await clock.sleep(for: Self.pauseAfterTrouble)
  }

  private func failed(_ part: StoredCampaignPart, _ error: CarillonError) async {
    switch error.code {
    case .cancelled, .journal:
      // The service ends, or cannot continue: the next process resumes the campaign.
      live.leave()
    case .gateway:
      live.lost(part: part.number)
      _ = try? await controller.change(live.id, { _ in .hindered }) { $0.reason = error.message }
    default:
      _ = try? await controller.change(live.id, { _ in .failed }) { $0.reason = error.message }
    }
  }
}

/// What becomes of a part that could not begin.
enum PartSetback: Hashable {
  /// The process ends, or its journal cannot be written: the next process begins it.
  case leaves
  /// It begins again, as soon as its app can send.
  case begins
  /// It can never begin.
  case fails

  init(_ code: CarillonError.ErrorCode, isEnding: Bool, isAppTroubled: Bool) {
    switch code {
    case .journal: self = .leaves
    case .cancelled: self = isEnding ? .leaves : .begins
    case .configuration, .credential, .gateway: self = isEnding ? .leaves : .begins
    default: self = isAppTroubled ? .begins : .fails
    }
  }
}

extension CampaignTimes.Part {
  init(_ part: StoredCampaignPart) {
    let clocks = CampaignDivision.Content(reading: part.content)?.clocks
    self.init(number: part.number, dueAt: part.dueAt, zones: clocks ?? [])
  }
}

extension CampaignTimes {
  /// Nil if quiet hours hold back no part.
  ///
  /// - Parameter count: of parts that have not ended.
  fileprivate func quietParts(_ schedule: PartSchedule, of count: Int) -> LiveCampaign.QuietParts? {
    guard let quietHours, let until = schedule.quietUntil else { return nil }
    let parts = count == 1 ? "its last part" : "\(schedule.inQuietHours.count) of \(count) parts"
    return LiveCampaign.QuietParts(
      parts: schedule.inQuietHours, until: until,
      reason: "Quiet hours (\(quietHours)) hold back \(parts) until \(InstantText.text(until)).")
  }
}
