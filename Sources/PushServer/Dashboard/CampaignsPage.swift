internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire

extension Dashboard {
  private static let listLimit = 50
  /// The most campaigns on the overview.
  private static let underWayLimit = 5

  func campaigns(_ viewer: Page.Viewer) async throws -> Page {
    var found = try await store.latestCampaigns(of: viewer.caller.reach, limit: Self.listLimit)
    let known = Set(found.map(\.id))
    found += try await store.openCampaigns(of: viewer.caller.reach, in: nil, limit: Self.listLimit)
      .filter { !known.contains($0.id) }
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

  /// Campaigns that send, or should: for the overview. Empty if there are none.
  func campaignsUnderWay(_ viewer: Page.Viewer) async throws -> HTML {
    let states = [CampaignState.running, .held, .paused].map(\.rawValue)
    let reach = viewer.caller.reach
    let found = try await store.openCampaigns(of: reach, in: states, limit: Self.underWayLimit)
    guard !found.isEmpty else { return .empty }
    let rest = try await store.openCampaignCount(of: reach, in: states) - found.count
    return """
      <section id="campaigns" data-live>
      <h2>Campaigns under way</h2>
      \(Self.table(try await rows(found)))
      \(HTML.when(rest > 0, "<p class=\"hint\"><a href=\"/campaigns\">\(rest) more</a></p>"))
      </section>
      """
  }

  private func rows(_ records: some Sequence<CampaignHead>) async throws -> [HTML] {
    var rows: [HTML] = []
    try await reports.forEach(of: records) { rows.append(row($0)) }
    return rows
  }

  private static func table(_ rows: [HTML]) -> HTML {
    """
    <table class="wide">
    \(Page.head("Campaign", "App", "State", "Progress", "#Submitted", "#Accepted", "#Not accepted", "Made"))
    <tbody>\(rows)</tbody></table>
    """
  }

  private func row(_ report: CampaignReport) -> HTML {
    let (record, account) = (report.record, report.account)
    return """
      <tr\(HTML.when(record.status.isOver, " class=\"over\""))>
      <th scope="row"><a href="\(path(record))">\(record.summary.name)</a>
      \(HTML.when(!record.reason.isEmpty, "<p class=\"hint\">\(record.reason.asSentence)</p>"))</th>
      <td data-label="App">\(record.app)</td>
      <td data-label="State">\(badge(report))</td>
      <td data-label="Progress" class="progress">\(progress(report))</td>
      <td data-label="Submitted" class="number">\(NumberText.grouped(account.submitted))</td>
      <td data-label="Accepted" class="number">\(NumberText.grouped(account.accepted))</td>
      <td data-label="Not accepted" class="number">\(NumberText.grouped(account.rejected + account.others))</td>
      <td data-label="Made" class="time">\(zone(record.app).time(record.createdAt))</td>
      </tr>
      """
  }

  // MARK: Parts of both pages

  /// The progress, with an estimate of the time left from the pace of the last minute.
  func progress(_ report: CampaignReport) -> HTML {
    let zone = zone(report.record.app)
    if case .scheduled = report.record.status, let times = report.beginning {
      let last: HTML =
        times.lowerBound == times.upperBound
        ? .empty : " to <span class=\"whole\">\(zone.time(times.upperBound))</span>"
      return "<span>begins <span class=\"whole\">\(zone.time(times.lowerBound))</span>\(last)</span>"
    }
    guard let share = report.share else {
      if report.record.status.isOver { return "–" }
      return report.record.startedAt == nil
        ? "<span class=\"empty\">not begun</span>" : "<span class=\"empty\">its audience is being counted</span>"
    }
    let percent = NumberText.percent(share)
    let total = report.total.map { " of \(NumberText.grouped($0))" } ?? ""
    guard !report.record.status.isOver else { return "<span>\(percent)\(total)</span>" }
    let now = access.clock.now
    let left = report.secondsLeft.map { seconds -> HTML in
      let end = StoreInstant(milliseconds: now.milliseconds + Int64(seconds * 1000))
      return
        ", <span data-left>\(NumberText.age(.seconds(Int64(seconds.rounded(.up))))) left</span> (\(zone.clock(end, now)))"
    }
    return """
      <progress max="100" value="\(Int(share * 100))" aria-label="Progress"></progress>
      <span>\(percent)\(total)\(left ?? HTML.empty)</span>
      """
  }

  /// The state. A running campaign that waits for its gateway or its app is not shown as running.
  func badge(_ report: CampaignReport) -> HTML {
    let word = report.isWaiting ? "waiting" : report.record.state
    return "<span class=\"badge \(word)\">\(word)</span>"
  }

  func path(_ record: CampaignHead) -> HTML { "/apps/\(record.app.asPathSegment)/campaigns/\(record.id.text)" }
}
