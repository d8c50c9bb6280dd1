internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushService
internal import PushStore
internal import PushWire

/// The progress of a campaign: its record, its account so far and its parts. Made without its plan.
struct CampaignReport: Sendable {
  /// As it is stored. While it runs, its reason says what it waits for at present.
  var record: CampaignHead
  var account = CampaignAccount()
  var partCount = 0
  var endedPartCount = 0
  var nextPartAt: StoreInstant?
  /// When the first and the last part begin or began; nil before it is divided.
  var partTimes: ClosedRange<StoreInstant>?
  /// How much of its audience has been read, from 0 to 1; nil if that is unknown.
  var fraction: Double?
  /// It should send, and its app's gateway takes nothing, or its app may not send.
  var isWaiting = false
  /// `the store` or `the database`, while that is away; nil: it is not.
  var waitsFor: String?
  /// Notifications that get their outcome in a second, over the last minute; 0: not known.
  var pace = 0.0

  /// Estimates above a year are not shown.
  private static let longestTimeLeft = 365.0 * 86_400

  /// How many notifications the whole campaign is; nil if that is not known yet.
  var total: Int? {
    if record.status == .finished { return account.submitted }
    // Rows that the count did not know, such as lines of a damaged file, are there all the same.
    return record.audienceCount.map { max(Int(clamping: $0), account.submitted) }
  }

  /// How much of the whole has its outcome, from 0 to 1; nil if that is not known.
  var share: Double? {
    if record.status == .finished { return 1 }
    if let total { return total == 0 ? nil : Double(account.settled) / Double(total) }
    guard let fraction else { return nil }
    return account.submitted > 0 ? fraction * Double(account.settled) / Double(account.submitted) : fraction
  }

  /// Nil: not known, or it does not send at present.
  var secondsLeft: Double? {
    guard record.status == .running, !isWaiting, nextPartAt == nil, pace > 0, let share, share > 0, share < 1 else {
      return nil
    }
    let seconds = Double(account.settled) * (1 / share - 1) / pace
    return seconds > 0 && seconds < Self.longestTimeLeft ? seconds : nil
  }

  /// When the last one would go at a campaign's own rate; nil: it has none, or has not begun.
  ///
  /// - Parameter perSecond: notifications.
  func plannedEnd(at perSecond: Int?) -> StoreInstant? {
    guard let perSecond, let total, let begun = record.startedAt else { return nil }
    let end = begun.after(seconds: Int64(((Double(total) / Double(perSecond)).rounded(.up))))
    return max(end, partTimes?.upperBound ?? end)
  }

  /// When it begins, if it has not: at one time, or from the first to the last time zone.
  var beginning: ClosedRange<StoreInstant>? {
    if let partTimes, record.summary.lastBeginsAt != nil { return partTimes }
    guard let first = record.summary.beginsAt else { return nil }
    return first...max(first, record.summary.lastBeginsAt ?? first)
  }

  /// The account as `carillon send --json` has it.
  func snapshot(now: StoreInstant) -> AccountSnapshot {
    var app = AccountSnapshot.App(id: record.app, account: account)
    if !record.reason.isEmpty { app.notes.append(record.reason) }
    if record.summary.isDryRun, record.endedAt != nil {
      app.notes.append("dry run: \(account.cancelled) of \(account.submitted) could be sent, and nothing was")
    }
    let end = record.endedAt ?? now
    let seconds = record.startedAt.map { Double(end.milliseconds - $0.milliseconds) / 1000 } ?? 0
    return AccountSnapshot(apps: [app], seconds: max(0, seconds))
  }
}

/// Makes the reports of campaigns from the store, and from what this process sends.
struct CampaignReports: Sendable {
  let controller: CampaignController
  let deployment: Deployment
  let statistics: ServiceStatistics
  let outcomes: OutcomeRecorder
  let membership: NodeMembership

  var forgotten: ForgottenParts {
    ForgottenParts(controller: controller, deployment: deployment) { [membership] in membership.leads }
  }

  /// A campaign of such an app continues, and its notifications wait.
  private static let appIsPaused = "The app is paused; the campaign continues when the app is resumed."

  func report(_ record: CampaignHead) async throws -> CampaignReport {
    try await reports([record]).first ?? CampaignReport(record: record)
  }

  /// Calls `take` with the reports of campaigns, in the same order. Their parts are read for a
  /// hundred campaigns at a time: local sends have many.
  func forEach(of records: some Sequence<CampaignHead>, _ take: (CampaignReport) async throws -> Void) async throws {
    var left = Array(records)[...]
    while !left.isEmpty {
      for report in try await reports(Array(left.prefix(100))) { try await take(report) }
      left = left.dropFirst(100)
    }
  }

  private func reports(_ records: [CampaignHead]) async throws -> [CampaignReport] {
    let ids = records.filter(\.hasAccount).map(\.id)
    let progress = try await controller.store.progress(of: ids)
    let open = ids.filter { progress[$0]?.contains { $0.endedAt == nil } == true }
    let shared = open.isEmpty ? [:] : try await controller.store.ledger?.sharedProgress(of: open) ?? [:]
    let others = await membership.others().map(\.status)
    return records.map { record in
      guard record.hasAccount else { return CampaignReport(record: record) }
      return report(record, progress[record.id] ?? [], shared[record.id] ?? [:], others)
    }
  }

  private func report(
    _ record: CampaignHead, _ parts: [CampaignPartProgress], _ shared: [Int: SharedPartProgress],
    _ others: [NodeStatus]
  ) -> CampaignReport {
    var report = CampaignReport(record: record)
    let live = controller.live(record.id)
    report.partCount = parts.count
    let elsewhere = others.compactMap { $0.campaign(record.id) }
    report.pace = elsewhere.reduce(statistics.pace(record.id)) { $0 + $1.pace }
    var remainders: [ServedRemainder]?
    let now = controller.clock.now
    for part in parts {
      report.addTime(of: part)
      if let ended = part.account.flatMap(AccountJSON.account(reading:)) {
        report.account = report.account + ended
        report.endedPartCount += 1
      } else if let shared = shared[part.number] {
        report.account = report.account + shared.account
      } else if let campaign = live?.campaign(part: part.number) {
        report.account = report.account + campaign.accountSoFar
        if parts.count == 1 { report.fraction = campaign.fractionRead }
      } else if let known = live?.lastAccount(part: part.number) {
        // The journal or the store cannot be written: this is what was known then.
        report.account = report.account + known
      } else {
        let known = remainders ?? deployment.servedRemainders
        remainders = known
        let name = record.id.name(part: part.number)
        if let left = known.first(where: { $0.name == name }) { report.account = report.account + left.account }
        if part.dueAt > now { report.nextPartAt = min(report.nextPartAt ?? part.dueAt, part.dueAt) }
      }
    }
    if record.status == .running { addWait(&report, live, elsewhere) }
    if parts.count > 1 { report.fraction = Double(report.endedPartCount) / Double(parts.count) }
    if record.status == .finished { report.fraction = 1 }
    return report
  }

  private func addWait(_ report: inout CampaignReport, _ live: LiveCampaign?, _ elsewhere: [NodeStatus.Campaign]) {
    if let away = outcomes.awayDuration { return report.waitForStore(controller.store, away) }
    // The node that leads knows of it.
    let other = elsewhere.first { $0.reason != nil && $0.until != nil }
    let quietReason = live?.quiet?.reason ?? other?.reason
    let quietUntil = live?.quiet?.until ?? other?.until.map(StoreInstant.init(milliseconds:))
    if let until = quietUntil { report.nextPartAt = min(report.nextPartAt ?? until, until) }
    let app = try? deployment.app(report.record.app)
    if app?.isPaused == true {
      (report.record.reason, report.isWaiting) = (Self.appIsPaused, true)
    } else if let quietReason {
      report.record.reason = quietReason
    } else if let obstacle = app?.obstacle, obstacle.isTrouble {
      report.record.reason = "Nothing gets through at present: \(obstacle.cause.asSentence)"
      report.isWaiting = true
    }
  }
}

extension Obstacle {
  /// It has lasted for longer than an interruption does, and is no limit of the app itself.
  var isTrouble: Bool { !isOwnLimit && lasting >= AlarmRules.obstacleAge }
}

extension CampaignReport {
  fileprivate mutating func waitForStore(_ store: any Store, _ duration: Duration) {
    (waitsFor, isWaiting) = (store.spoken, true)
    record.reason = "It waits for \(store.spoken), which has not answered for \(NumberText.age(duration))."
  }

  fileprivate mutating func addTime(of part: CampaignPartProgress) {
    // Those who were left out have a part that was never to be sent.
    guard part.endedAt != part.dueAt || part.begunAt != nil else { return }
    partTimes =
      min(partTimes?.lowerBound ?? part.dueAt, part.dueAt)...max(partTimes?.upperBound ?? part.dueAt, part.dueAt)
  }
}

extension Store {
  /// What a sentence calls it.
  var spoken: String { file == nil ? "the database" : "the store" }
}

extension CampaignHead {
  /// One that was cancelled before it began has an account, too.
  fileprivate var hasAccount: Bool { startedAt != nil || status.isOver }
}
