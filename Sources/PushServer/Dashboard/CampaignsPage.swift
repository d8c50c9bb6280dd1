internal import Carillon
internal import Hummingbird
internal import PushStore

/// The campaigns, and one of them.
extension Dashboard {
  private static let listLimit = 50

  func campaigns(_ viewer: Page.Viewer) async throws -> Page {
    var found: [StoredCampaign] = []
    for app in access.deployment.apps where viewer.caller.sees(app: app.id) {
      found += try await store.campaigns(app: app.id, before: nil, limit: Self.listLimit)
    }
    // Those that go on first, then the newest.
    found.sort { first, second in
      let (isOpen, isOther) = (!first.status.isOver, !second.status.isOver)
      return isOpen == isOther ? first.createdAt > second.createdAt : isOpen
    }
    var rows: [HTML] = []
    for record in found.prefix(Self.listLimit) { rows.append(row(try await standings.standing(record))) }
    return Page(
      title: "Campaigns", viewer: viewer,
      body: """
        <h1>Campaigns</h1>
        <section id="campaigns" data-live>
        \(rows.isEmpty ? "<p>There is none yet. The command \"carillon campaign create\" makes one.</p>" : Self.table(rows))
        </section>
        """, refresh: 10)
  }

  private static func table(_ rows: [HTML]) -> HTML {
    """
    <table class="wide"><thead><tr><th>Campaign</th><th>App</th><th>State</th><th>Progress</th>
    <th class="number">Submitted</th><th class="number">Accepted</th><th class="number">Others</th>
    <th>Made</th></tr></thead><tbody>\(rows)</tbody></table>
    """
  }

  private func row(_ standing: CampaignStanding) -> HTML {
    let (record, account) = (standing.record, standing.account)
    return """
      <tr>
      <th scope="row"><a href="\(path(record))">\(standing.plan.name)</a></th>
      <td data-label="App">\(record.app)</td>
      <td data-label="State">\(badge(record))</td>
      <td data-label="Progress">\(progress(standing))</td>
      <td data-label="Submitted" class="number">\(NumberText.grouped(account.submitted))</td>
      <td data-label="Accepted" class="number">\(NumberText.grouped(account.accepted))</td>
      <td data-label="Others" class="number">\(NumberText.grouped(account.rejected + account.others))</td>
      <td data-label="Made">\(time(record.createdAt))</td>
      </tr>
      """
  }

  func campaign(_ id: String, of app: String, _ viewer: Page.Viewer) async throws -> Page {
    let record = try await visibleCampaign(id, of: app, viewer)
    let standing = try await standings.standing(record)
    return Page(
      title: standing.plan.name, viewer: viewer,
      body: """
        <h1>\(standing.plan.name)</h1>
        \(HTML.when(viewer.may(.campaigns), actions(record, viewer)))
        <div class="columns">
        \(facts(standing))
        \(sum(standing.account))
        </div>
        """, refresh: record.status.isOver ? nil : 10)
  }

  private func actions(_ record: StoredCampaign, _ viewer: Page.Viewer) -> HTML {
    let state = record.status
    let possible: [(String, String)] = [
      ("pause", "Pause"), ("resume", "Resume"), ("cancel", "Cancel the campaign"),
    ].filter { action, _ in
      Self.event(action, record).map { if case .to = state.after($0) { true } else { false } } ?? false
    }
    let forms = possible.map { action, title -> HTML in
      """
      <form method="post" action="\(path(record))/\(action)">\(Page.token(viewer))
      <button\(HTML.when(action == "cancel", " class=\"danger\""))>\(title)</button></form>
      """
    }
    return "<div id=\"actions\" data-live class=\"actions\">\(forms)</div>"
  }

  private static func event(_ action: String, _ record: StoredCampaign) -> CampaignEvent? {
    switch action {
    case "pause": .paused
    case "resume": .resumed(isBegun: record.startedAt != nil)
    case "cancel": .cancelled
    default: nil
    }
  }

  private func facts(_ standing: CampaignStanding) -> HTML {
    let record = standing.record
    return """
      <section id="facts" data-live class="card"><h2>Now</h2>
      <dl>
      <dt>App</dt><dd><a href="/apps/\(record.app.asPathSegment)">\(record.app)</a></dd>
      <dt>State</dt><dd>\(badge(record)) \(record.reason)</dd>
      <dt>Progress</dt><dd>\(progress(standing))</dd>
      \(HTML.when(standing.partCount > 1, "<dt>Parts</dt><dd>\(standing.endedPartCount) of \(standing.partCount) ended</dd>"))
      \(standing.nextPartAt.map { "<dt>Next part</dt><dd>\(time($0))</dd>" } ?? HTML.empty)
      <dt>Made</dt><dd>\(time(record.createdAt))</dd>
      \(record.startedAt.map { "<dt>Began</dt><dd>\(time($0))</dd>" } ?? HTML.empty)
      \(record.endedAt.map { "<dt>Ended</dt><dd>\(time($0))</dd>" } ?? HTML.empty)
      <dt>Id</dt><dd><code>\(record.id.text)</code></dd>
      </dl>
      </section>
      """
  }

  /// Every notification is in exactly one line of the sum.
  private func sum(_ account: CampaignAccount) -> HTML {
    var lines: [(String, String, Int)] = [
      ("accepted", "confirmed", account.confirmed), ("accepted", "quiet", account.quiet),
    ]
    for (reason, count) in account.rejectedByReason.sorted(by: { ($1.value, $0.key) < ($0.value, $1.key) }) {
      lines.append(("rejected", reason, count))
    }
    lines += [
      ("suppressed", "", account.suppressed), ("expired", "", account.expired), ("held", "", account.held),
      ("cancelled", "", account.cancelled), ("unknown", "", account.unknown), ("in flight", "", account.inFlight),
    ]
    let rows = lines.filter { $0.2 > 0 }.map { outcome, reason, count -> HTML in
      "<tr><td>\(outcome)</td><td>\(reason)</td><td class=\"number\">\(NumberText.grouped(count))</td></tr>"
    }
    return """
      <section id="sum" data-live class="card"><h2>Account</h2>
      <table class="narrow"><tbody>\(rows)</tbody>
      <tfoot><tr><th scope="row">Submitted</th><td>the sum</td>
      <td class="number" data-sum>\(NumberText.grouped(account.submitted))</td></tr></tfoot></table>
      </section>
      """
  }

  /// With the time that is left, as far as the pace so far tells it.
  private func progress(_ standing: CampaignStanding) -> HTML {
    guard let share = standing.share else { return "" }
    let left = standing.secondsLeft(now: .now).map { ", \(NumberText.seconds($0)) left" } ?? ""
    return """
      <progress max="100" value="\(Int(share * 100))"></progress> <span>\(NumberText.percent(share))\(left)</span>
      """
  }

  private func badge(_ record: StoredCampaign) -> HTML {
    "<span class=\"badge \(record.state)\">\(record.state)</span>"
  }

  private func path(_ record: StoredCampaign) -> HTML {
    "/apps/\(record.app.asPathSegment)/campaigns/\(record.id.text)"
  }

  private func visibleCampaign(_ id: String, of app: String, _ viewer: Page.Viewer) async throws -> StoredCampaign {
    _ = try visibleApp(app, viewer)
    guard let id = StoredUUID(id), let record = try await store.campaign(id), record.app == app else {
      throw Problem.notFound
    }
    return record
  }

  func act(_ action: String, on id: String, of app: String, _ viewer: Page.Viewer) async throws -> Response {
    let record = try await visibleCampaign(id, of: app, viewer)
    try demand(.campaigns, of: viewer)
    guard Self.event(action, record) != nil else { throw Problem.notFound }
    try await standings.desk.change(record.id, { Self.event(action, $0) ?? .cancelled })
    return Page.redirect(path(record).text)
  }
}

extension CampaignStanding {
  /// How much of the whole is done: what was read, as far as it has its outcome.
  var share: Double? {
    guard let fraction else { return nil }
    guard account.submitted > 0 else { return fraction }
    return fraction * Double(account.submitted - account.inFlight) / Double(account.submitted)
  }

  /// Nil: too early to tell, or it does not send.
  func secondsLeft(now: StoreInstant) -> Double? {
    guard record.status == .running, nextPartAt == nil, let startedAt = record.startedAt, let share, share > 0.01 else {
      return nil
    }
    let elapsed = Double(now.milliseconds - startedAt.milliseconds) / 1000
    return elapsed > 0 ? elapsed * (1 - share) / share : nil
  }
}
