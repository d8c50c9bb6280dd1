internal import Carillon
internal import Hummingbird
internal import PushStore

/// The list of campaigns.
extension Dashboard {
  private static let listLimit = 50
  /// The most campaigns on the overview.
  private static let underWayLimit = 5

  func campaigns(_ viewer: Page.Viewer) async throws -> Page {
    var found = try await latest(viewer)
    let known = Set(found.map(\.id))
    found += try await store.openCampaigns().filter { viewer.caller.sees(app: $0.app) && !known.contains($0.id) }
    // Running campaigns first, then the newest.
    found.sort { first, second in
      let (isOpen, isOther) = (!first.status.isOver, !second.status.isOver)
      return isOpen == isOther ? first.createdAt > second.createdAt : isOpen
    }
    let rows = try await rows(found.prefix(Self.listLimit))
    return Page(
      title: "Campaigns", viewer: viewer,
      body: """
        <h1>Campaigns</h1>
        <section id="campaigns" data-live>
        \(rows.isEmpty ? Self.none : Self.table(rows))
        </section>
        """, refresh: 10)
  }

  private static let none: HTML = """
    <p class="card empty">There is no campaign yet. <code>carillon campaign create</code> makes one.</p>
    """

  private func latest(_ viewer: Page.Viewer) async throws -> [StoredCampaign] {
    if viewer.caller.seesAllApps { return try await store.latestCampaigns(limit: Self.listLimit) }
    var found: [StoredCampaign] = []
    for app in access.deployment.apps where viewer.caller.sees(app: app.id) {
      found += try await store.campaigns(app: app.id, before: nil, limit: Self.listLimit)
    }
    return found
  }

  /// Campaigns that send, or should: for the overview. Empty if there are none.
  func campaignsUnderWay(_ viewer: Page.Viewer) async throws -> HTML {
    let found = try await store.openCampaigns().filter {
      viewer.caller.sees(app: $0.app) && [.running, .held, .paused].contains($0.status)
    }
    guard !found.isEmpty else { return .empty }
    let rest = found.count - Self.underWayLimit
    return """
      <section id="campaigns" data-live>
      <h2>Campaigns under way</h2>
      \(Self.table(try await rows(found.suffix(Self.underWayLimit).reversed())))
      \(HTML.when(rest > 0, "<p class=\"hint\"><a href=\"/campaigns\">\(rest) more</a></p>"))
      </section>
      """
  }

  private func rows(_ records: some Sequence<StoredCampaign>) async throws -> [HTML] {
    var rows: [HTML] = []
    for record in records { rows.append(row(try await reports.report(record))) }
    return rows
  }

  private static func table(_ rows: [HTML]) -> HTML {
    """
    <table class="wide"><thead><tr><th>Campaign</th><th>App</th><th>State</th><th>Progress</th>
    <th class="number">Submitted</th><th class="number">Accepted</th><th class="number">Not accepted</th>
    <th>Made</th></tr></thead><tbody>\(rows)</tbody></table>
    """
  }

  private func row(_ report: CampaignReport) -> HTML {
    let (record, account) = (report.record, report.account)
    return """
      <tr\(HTML.when(record.status.isOver, " class=\"over\""))>
      <th scope="row"><a href="\(path(record))">\(report.plan.name)</a>
      \(HTML.when(!record.reason.isEmpty, "<p class=\"hint\">\(record.reason.asSentence)</p>"))</th>
      <td data-label="App">\(record.app)</td>
      <td data-label="State">\(badge(record))</td>
      <td data-label="Progress" class="progress">\(progress(report))</td>
      <td data-label="Submitted" class="number">\(NumberText.grouped(account.submitted))</td>
      <td data-label="Accepted" class="number">\(NumberText.grouped(account.accepted))</td>
      <td data-label="Not accepted" class="number">\(NumberText.grouped(account.rejected + account.others))</td>
      <td data-label="Made" class="time">\(time(record.createdAt))</td>
      </tr>
      """
  }

  // MARK: Parts of both pages

  /// The progress, with an estimate of the time left from the pace of the last minute.
  func progress(_ report: CampaignReport) -> HTML {
    if case .scheduled = report.record.status, let next = report.plan.beginsAt {
      return "<span>begins <span class=\"whole\">\(time(next))</span></span>"
    }
    guard let share = report.share else { return "<span class=\"empty\">not begun</span>" }
    let percent = NumberText.percent(share)
    guard !report.record.status.isOver else { return "<span>\(percent)</span>" }
    let now = StoreInstant.now
    let left = report.secondsLeft(pace: statistics.pace(report.record.id)).map { seconds -> HTML in
      let end = StoreInstant(milliseconds: now.milliseconds + Int64(seconds * 1000))
      return ", <span data-left>\(AgeText.text(.seconds(Int64(seconds.rounded(.up))))) left</span> (\(clock(end, now)))"
    }
    return """
      <progress max="100" value="\(Int(share * 100))" aria-label="Progress"></progress>
      <span>\(percent)\(left ?? HTML.empty)</span>
      """
  }

  func badge(_ record: StoredCampaign) -> HTML {
    "<span class=\"badge \(record.state)\">\(record.state)</span>"
  }

  func path(_ record: StoredCampaign) -> HTML {
    "/apps/\(record.app.asPathSegment)/campaigns/\(record.id.text)"
  }
}

extension CampaignPlan {
  /// Nil: when it is started, or at a local time.
  var beginsAt: StoreInstant? {
    if case .at(let instant) = start { instant } else { nil }
  }
}

extension CampaignReport {
  /// How much of the whole is done: what was read, as far as it has its outcome.
  var share: Double? { (fraction ?? endedFraction).map { Self.share($0, account) } }

  /// The part that was read of a campaign that ended early, by its lines.
  private var endedFraction: Double? {
    guard record.status.isOver, plan.source == .upload, record.upload.lineCount > 0 else { return nil }
    return min(1, Double(account.submitted) / Double(record.upload.lineCount))
  }

  /// - Parameter fraction: of the audience that was read.
  static func share(_ fraction: Double, _ account: CampaignAccount) -> Double {
    guard account.submitted > 0 else { return fraction }
    return fraction * Double(account.submitted - account.inFlight) / Double(account.submitted)
  }

  /// Nil: unknown, or it does not send.
  ///
  /// - Parameter pace: the share that is done in a second; 0: not known.
  func secondsLeft(pace: Double) -> Double? {
    guard record.status == .running, partCount <= 1, nextPartAt == nil, let share, share < 1, pace > 0 else {
      return nil
    }
    let seconds = (1 - share) / pace
    return seconds < Self.longestTimeLeft ? seconds : nil
  }

  /// Estimates above a year are not shown.
  private static let longestTimeLeft = 365.0 * 86_400
}
