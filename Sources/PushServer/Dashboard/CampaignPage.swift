internal import Carillon
internal import HTTPTypes
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire

/// One campaign: what it does, how far it is, and the buttons that change it.
extension Dashboard {
  func campaign(_ id: String, of app: String, _ viewer: Page.Viewer) async throws -> Page {
    let record = try await visibleCampaign(id, of: app, viewer)
    let report = try await reports.report(record)
    guard let content = try await store.plan(of: record.id) else { throw Problem.notFound }
    let plan = try CampaignPlan(parsing: content[...])
    return Page(
      title: record.summary.name, viewer: viewer,
      body: """
        <div id="head" data-live class="head">
        <h1>\(record.summary.name) \(badge(report))</h1>
        \(actions(record, viewer))
        </div>
        \(why(report.record))
        \(CampaignFunnel(report).section(amount(report)))
        <div class="columns">
        \(facts(report, plan))
        \(sum(report.account))
        </div>
        \(Self.previews(plan, app))
        \(self.plan(plan, record))
        """, refresh: record.status.isOver && record.endedAt != nil ? nil : 10)
  }

  /// Why it does not send, or has not ended well.
  private func why(_ record: CampaignHead) -> HTML {
    guard !record.reason.isEmpty else { return "<div id=\"why\" data-live></div>" }
    return """
      <div id="why" data-live><ul class="alarms"><li class="\(record.status == .failed ? "critical" : "warning")">
      <strong>\(record.reason.asSentence)</strong></li></ul></div>
      """
  }

  private func actions(_ record: CampaignHead, _ viewer: Page.Viewer) -> HTML {
    let list: HTML = "<a href=\"\(path(record))/not-accepted.csv\" download>Download what was not accepted</a>"
    let hasList = record.startedAt != nil || record.status.isOver
    guard viewer.may(.campaigns) else { return HTML.when(hasList, "<div class=\"actions\">\(list)</div>") }
    func form(_ action: String, _ button: HTML) -> HTML {
      guard let event = Self.event(action, record), case .to = record.status.after(event) else { return .empty }
      return Self.form("\(path(record))/\(action)", button, viewer)
    }
    let isReady = record.summary.isForDevices || record.upload.isComplete
    let cancel = form("cancel", "<button class=\"danger\">Cancel for good</button>")
    return """
      <div class="actions">
      \(HTML.when(hasList, list))
      \(HTML.when(isReady, form("start", "<button>Start</button>")))\(form("pause", "<button>Pause</button>"))\
      \(form("resume", "<button>Resume</button>"))
      \(Self.form("\(path(record))/duplicate", "<button>Duplicate</button>", viewer))
      \(cancel.text.isEmpty ? cancel : Self.asked("Cancel…", "What was not sent is never sent.", cancel))
      </div>
      """
  }

  private static func form(_ path: HTML, _ button: HTML, _ viewer: Page.Viewer) -> HTML {
    "<form method=\"post\" action=\"\(path)\">\(Page.token(viewer))\(button)</form>"
  }

  /// A button behind another one, for what cannot be undone.
  static func asked(_ title: String, _ consequence: String, _ form: HTML) -> HTML {
    "<details><summary>\(title)</summary><div class=\"asked\"><span>\(consequence)</span> \(form)</div></details>"
  }

  private static func event(_ action: String, _ record: CampaignHead) -> CampaignEvent? {
    switch action {
    // Whether it is due is asked when it starts.
    case "start": .started(isDue: true)
    case "pause": .paused
    case "resume": record.isDoubtful ? .decided : .resumed(isBegun: record.startedAt != nil)
    case "cancel": .cancelled
    default: nil
    }
  }

  /// How far it is, in one line.
  private func amount(_ report: CampaignReport) -> HTML {
    let settled = NumberText.grouped(report.account.settled)
    var words: HTML = "<strong>\(settled)</strong>\(report.total.map { " of \(NumberText.grouped($0))" } ?? "")"
    guard !report.record.status.isOver else { return words }
    if report.pace > 0 { words = words + " · \(NumberText.rate(report.pace))" }
    let now = access.clock.now
    guard let left = report.secondsLeft else { return words }
    let end = now.after(seconds: Int64(left.rounded(.up)))
    return words + " · done \(zone(report.record.app).clock(end, now))"
  }

  private func facts(_ report: CampaignReport, _ plan: CampaignPlan) -> HTML {
    let (record, zone) = (report.record, zone(report.record.app))
    let parts: HTML = "<dt>Parts</dt><dd>\(report.endedPartCount) of \(report.partCount) ended</dd>"
    return """
      <section id="facts" data-live class="card"><h2>Now</h2>
      <dl>
      <dt>App</dt><dd><a href="/apps/\(record.app.asPathSegment)">\(record.app)</a></dd>
      <dt>Progress</dt><dd>\(progress(report))</dd>
      \(HTML.when(report.partCount > 1, parts))
      \(report.nextPartAt.map { "<dt>Next part</dt><dd>\(zone.time($0))</dd>" } ?? HTML.empty)
      <dt>Made</dt><dd>\(zone.time(record.createdAt))</dd>
      \(begins(report))
      \(record.startedAt.map { "<dt>Began</dt><dd>\(zone.time($0))</dd>" } ?? HTML.empty)
      \(report.plannedEnd(at: plan.rateLimit).map { planned($0, record) } ?? HTML.empty)
      \(record.endedAt.map { "<dt>Ended</dt><dd>\(zone.time($0))</dd>" } ?? HTML.empty)
      <dt>Id</dt><dd><code>\(record.id.text)</code></dd>
      </dl>
      </section>
      """
  }

  /// The end that its rate allows, and how far it was missed.
  private func planned(_ end: StoreInstant, _ record: CampaignHead) -> HTML {
    let late = record.endedAt.map { Duration.milliseconds($0.milliseconds - end.milliseconds) } ?? .zero
    let missed: HTML = "<span class=\"hint\">missed by \(NumberText.age(late))</span>"
    return "<dt>Planned end</dt><dd>\(zone(record.app).time(end)) \(HTML.when(late >= .seconds(1), missed))</dd>"
  }

  /// A local send has a first and a last start, also once it has begun.
  private func begins(_ report: CampaignReport) -> HTML {
    guard let times = report.beginning else { return .empty }
    let (first, last) = (zone(report.record.app).time(times.lowerBound), zone(report.record.app).time(times.upperBound))
    if report.record.summary.lastBeginsAt != nil {
      return "<dt>First start</dt><dd>\(first)</dd><dt>Last start</dt><dd>\(last)</dd>"
    }
    return report.record.startedAt == nil ? "<dt>Begins</dt><dd>\(first)</dd>" : .empty
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
      ("suppressed", "", account.suppressed), ("capped", "", account.capped),
      ("holdout", "", account.holdout), ("expired", "", account.expired), ("held", "", account.held),
      ("cancelled", "", account.cancelled), ("unknown", "", account.unknown), ("in flight", "", account.inFlight),
    ]
    let rows = lines.filter { $0.2 > 0 }.map { outcome, reason, count -> HTML in
      """
      <tr><td>\(outcome)</td><td>\(reason)</td><td class="number">\(NumberText.grouped(count))</td>
      <td class="number">\(NumberText.percent(Double(count) / Double(account.submitted)))</td></tr>
      """
    }
    let hints = lines.compactMap { line -> HTML? in
      guard line.0 == "rejected", let text = RejectionHint.texts[line.1] else { return nil }
      return "<li><strong>\(line.1)</strong>: \(text)</li>"
    }
    return """
      <section id="sum" data-live class="card"><h2>Account</h2>
      <table class="narrow"><tbody>\(rows)</tbody>
      <tfoot><tr><th scope="row">Submitted</th><td>the sum</td>
      <td class="number" data-sum>\(NumberText.grouped(account.submitted))</td><td></td></tr></tfoot></table>
      \(HTML.when(!hints.isEmpty, "<ul class=\"hint\">\(hints)</ul>"))
      \(HTML.when(account.resent > 0, resends(account)))
      </section>
      """
  }

  private func resends(_ account: CampaignAccount) -> HTML {
    """
    <p class="hint">\(NumberText.grouped(account.resent)) resends, after which at most
    \(NumberText.grouped(account.possibleDuplicates)) devices can have got it twice.</p>
    """
  }

  // MARK: What it is

  /// The most variants that are shown.
  private static let previewLimit = 12

  private static func previews(_ plan: CampaignPlan, _ app: String) -> HTML {
    let others = plan.variants.isEmpty ? "to all" : "to all others"
    let variants = plan.variants.sorted { $0.key < $1.key }.prefix(previewLimit)
    let rest = plan.variants.count - variants.count
    let figures =
      [NotificationPreview(payload: plan.notification.json).html(app: app, for: others)]
      + variants.map { NotificationPreview(payload: $0.value).html(app: app, for: $0.key) }
    return """
      <section><h2>As a phone shows it</h2><div class="phones">\(figures)</div>
      \(HTML.when(rest > 0, "<p class=\"hint\">\(rest) more languages.</p>"))</section>
      """
  }

  private func plan(_ plan: CampaignPlan, _ record: CampaignHead) -> HTML {
    let isIncomplete = plan.source == .upload && !record.upload.isComplete
    let lines = NumberText.grouped(Int(record.upload.lineCount))
    var facts: [(String, String)] = [
      (
        "Audience",
        plan.source == .upload
          ? "\(lines) uploaded lines\(isIncomplete ? ", not complete" : "")" : Self.devices(plan.filter.activity)
      )
    ]
    for member in plan.members where !Self.shownElsewhere.contains(member.key) {
      let text = Self.text(member)
      if !text.isEmpty { facts.append((Self.titles[member.key] ?? member.key, text)) }
    }
    let rows = facts.map { title, value -> HTML in "<dt>\(title)</dt><dd>\(value)</dd>" }
    let payload = plan.members.first { $0.key == "payload" }.map { String(decoding: $0.value.encoded, as: UTF8.self) }
    return """
      <section class="card"><h2>What it sends</h2>
      <dl>\(rows)</dl>
      <pre><code>\(payload ?? "")</code></pre>
      </section>
      """
  }

  private static func devices(_ activity: ActivityName?) -> String {
    switch activity {
    case nil: "stored devices"
    case .shown(let name): "stored devices that show the Live Activity \(name)"
    case .startable(let type): "stored devices on which a Live Activity \(type) can be started"
    }
  }

  private static let shownElsewhere: Set<String> = ["name", "payload", "sendAt"]
  private static let titles = [
    "audience": "Filter", "rateLimit": "Rate limit", "quietHours": "Quiet hours", "expiresAfter": "Expires after",
    "localSend": "Local time", "variants": "Variants", "dryRun": "Dry run",
    "ignoreCaps": "Ignores caps", "holdoutPercent": "Holdout group",
  ]

  private static func text(_ member: JSONMember) -> String {
    let text = String(decoding: member.value.encoded, as: UTF8.self)
    switch (member.key, member.value) {
    case ("audience", .object(let members)):
      let rest = members.filter { $0.key != "source" }
      return rest.isEmpty ? "" : String(decoding: JSONValue.object(rest).encoded, as: UTF8.self)
    case ("rateLimit", _): return "\(text) notifications/s"
    case ("expiresAfter", _): return "\(text) s"
    case ("holdoutPercent", _): return "\(text) %"
    case ("variants", .object(let languages)): return languages.map(\.key).joined(separator: ", ")
    case (_, .string(let string)): return string
    default: return text
    }
  }

  // MARK: Buttons

  private func visibleCampaign(_ id: String, of app: String, _ viewer: Page.Viewer) async throws -> CampaignHead {
    _ = try visibleApp(app, viewer)
    guard let id = StoredUUID(id), let record = try await store.campaignHead(id), record.app == app else {
      throw Problem.notFound
    }
    return record
  }

  func act(_ action: String, on id: String, of app: String, _ viewer: Page.Viewer) async throws -> Response {
    let record = try await visibleCampaign(id, of: app, viewer)
    try demand(.campaigns, of: viewer)
    guard Self.event(action, record) != nil else { throw Problem.notFound }
    switch action {
    case "resume": _ = try await reports.forgotten.resume(record.id)
    case "start":
      try intake.demandOpen()
      _ = try await reports.controller.start(record.id)
    default: try await reports.controller.change(record.id, { Self.event(action, $0.head) ?? .cancelled })
    }
    return Page.redirect(path(record).text)
  }

  /// Makes a draft of the same plan.
  func duplicate(_ id: String, of app: String, _ viewer: Page.Viewer) async throws -> Response {
    let record = try await visibleCampaign(id, of: app, viewer)
    try demand(.campaigns, of: viewer)
    guard let content = try await store.plan(of: record.id) else { throw Problem.notFound }
    let plan = try CampaignPlan(parsing: content[...]).copy()
    return Page.redirect(path(try await campaigns.add(plan, app: app).head).text)
  }

  func notAccepted(_ id: String, of app: String, _ viewer: Page.Viewer) async throws -> Response {
    let record = try await visibleCampaign(id, of: app, viewer)
    let grant = Grant(viewer.caller, access.keys, app: app, scope: .read)
    var response = try await CampaignList(runner: campaigns, campaign: record.id).response(under: grant)
    for field in Page.headers where response.headers[field.name] == nil { response.headers.append(field) }
    response.headers[.contentDisposition] = "attachment; filename=\"\(record.id.text).csv\""
    return response
  }
}
