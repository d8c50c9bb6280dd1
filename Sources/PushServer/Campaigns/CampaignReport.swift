internal import Carillon
internal import PushStore

/// The progress of a campaign: its record, its account so far and its parts.
struct CampaignReport: Sendable {
  /// As it is stored. While it runs, its reason says what it waits for at present.
  var record: StoredCampaign
  var plan: CampaignPlan
  var account = CampaignAccount()
  /// The number of planned parts.
  var partCount = 0
  var endedPartCount = 0
  /// When the next part begins, if one waits.
  var nextPartAt: StoreInstant?
  /// How much of its audience has been read, from 0 to 1; nil if that is unknown.
  var fraction: Double?

  /// The account as `carillon send --json` has it.
  var snapshot: AccountSnapshot {
    var app = AccountSnapshot.App(id: record.app, account: account)
    if !record.reason.isEmpty { app.notes.append(record.reason) }
    if plan.isDryRun, record.endedAt != nil {
      app.notes.append("dry run: \(account.cancelled) of \(account.submitted) could be sent, and nothing was")
    }
    let end = record.endedAt ?? .now
    let seconds = record.startedAt.map { Double(end.milliseconds - $0.milliseconds) / 1000 } ?? 0
    return AccountSnapshot(apps: [app], seconds: max(0, seconds))
  }
}

/// Makes the reports of campaigns from the store, and from what this process sends.
struct CampaignReports: Sendable {
  let controller: CampaignController
  let deployment: Deployment

  var forgotten: ForgottenParts { ForgottenParts(controller: controller, deployment: deployment) }

  /// A campaign of such an app continues, and its notifications wait.
  private static let appIsPaused = "The app is paused; the campaign continues when the app is resumed."

  /// Nil if there is no such campaign.
  func report(_ id: StoredUUID, app: String) async throws -> CampaignReport? {
    guard let record = try await controller.store.campaign(id), record.app == app else { return nil }
    return try await report(record)
  }

  func report(_ record: StoredCampaign) async throws -> CampaignReport {
    var report = CampaignReport(record: record, plan: try CampaignPlan(parsing: record.content[...]))
    guard record.startedAt != nil else { return report }
    let live = controller.live(record.id)
    let parts = try await controller.store.parts(of: record.id)
    report.partCount = parts.count
    var remainders: [ServedRemainder]?
    for part in parts {
      if let ended = part.account.flatMap(AccountJSON.account(reading:)) {
        report.account = report.account + ended
        report.endedPartCount += 1
      } else if let campaign = live?.campaign(part: part.number) {
        report.account = report.account + campaign.accountSoFar
        if parts.count == 1 { report.fraction = campaign.fractionRead }
      } else {
        let known = remainders ?? deployment.servedRemainders
        remainders = known
        let name = record.id.name(part: part.number)
        if let left = known.first(where: { $0.name == name }) { report.account = report.account + left.account }
        if part.dueAt > .now { report.nextPartAt = min(report.nextPartAt ?? part.dueAt, part.dueAt) }
      }
    }
    if record.status == .running {
      let quiet = live?.quiet
      if let until = quiet?.until { report.nextPartAt = min(report.nextPartAt ?? until, until) }
      let isAppPaused = (try? deployment.app(record.app))?.isPaused == true
      if let reason = isAppPaused ? Self.appIsPaused : quiet?.reason { report.record.reason = reason }
    }
    if parts.count > 1 { report.fraction = Double(report.endedPartCount) / Double(parts.count) }
    if record.status == .finished { report.fraction = 1 }
    return report
  }
}
