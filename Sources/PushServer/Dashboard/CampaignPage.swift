internal import Carillon
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
        \(HTML.when(viewer.may(.campaigns), actions(record, viewer)))
        </div>
        \(why(report.record))
        <div class="columns">
        \(facts(report))
        \(sum(report.account))
        </div>
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
    let state = record.status
    func form(_ action: String, _ button: HTML) -> HTML {
      guard let event = Self.event(action, record), case .to = state.after(event) else { return .empty }
      return """
        <form method="post" action="\(path(record))/\(action)">\(Page.token(viewer))
        \(button)</form>
        """
    }
    guard !state.isOver else { return .empty }
    let cancel = form("cancel", "<button class=\"danger\">Cancel for good</button>")
    return """
      <div class="actions">
      \(form("pause", "<button>Pause</button>"))\(form("resume", "<button>Resume</button>"))
      \(cancel.text.isEmpty ? cancel : Self.asked("Cancel…", "What was not sent is never sent.", cancel))
      </div>
      """
  }

  /// A button behind another one, for what cannot be undone.
  static func asked(_ title: String, _ consequence: String, _ form: HTML) -> HTML {
    "<details><summary>\(title)</summary><div class=\"asked\"><span>\(consequence)</span> \(form)</div></details>"
  }

  private static func event(_ action: String, _ record: CampaignHead) -> CampaignEvent? {
    switch action {
    case "pause": .paused
    case "resume": record.isDoubtful ? .decided : .resumed(isBegun: record.startedAt != nil)
    case "cancel": .cancelled
    default: nil
    }
  }

  private func facts(_ report: CampaignReport) -> HTML {
    let record = report.record
    let parts: HTML = "<dt>Parts</dt><dd>\(report.endedPartCount) of \(report.partCount) ended</dd>"
    return """
      <section id="facts" data-live class="card"><h2>Now</h2>
      <dl>
      <dt>App</dt><dd><a href="/apps/\(record.app.asPathSegment)">\(record.app)</a></dd>
      <dt>Progress</dt><dd>\(progress(report))</dd>
      \(HTML.when(report.partCount > 1, parts))
      \(report.nextPartAt.map { "<dt>Next part</dt><dd>\(time($0))</dd>" } ?? HTML.empty)
      <dt>Made</dt><dd>\(time(record.createdAt))</dd>
      \(begins(report))
      \(record.startedAt.map { "<dt>Began</dt><dd>\(time($0))</dd>" } ?? HTML.empty)
      \(record.endedAt.map { "<dt>Ended</dt><dd>\(time($0))</dd>" } ?? HTML.empty)
      <dt>Id</dt><dd><code>\(record.id.text)</code></dd>
      </dl>
      </section>
      """
  }

  /// A local send has a first and a last start, also once it has begun.
  private func begins(_ report: CampaignReport) -> HTML {
    guard let times = report.beginning else { return .empty }
    if report.record.summary.lastBeginsAt != nil {
      return
        "<dt>First start</dt><dd>\(time(times.lowerBound))</dd><dt>Last start</dt><dd>\(time(times.upperBound))</dd>"
    }
    return report.record.startedAt == nil ? "<dt>Begins</dt><dd>\(time(times.lowerBound))</dd>" : .empty
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

  private func plan(_ plan: CampaignPlan, _ record: CampaignHead) -> HTML {
    let isIncomplete = plan.source == .upload && !record.upload.isComplete
    let lines = NumberText.grouped(Int(record.upload.lineCount))
    var facts: [(String, String)] = [
      (
        "Audience",
        plan.source == .upload
          ? "\(lines) uploaded lines\(isIncomplete ? ", not complete" : "")" : "stored devices"
      )
    ]
    for member in plan.members where !Self.shownElsewhere.contains(member.key) {
      facts.append((Self.titles[member.key] ?? member.key, Self.text(member)))
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

  private static let shownElsewhere: Set<String> = ["name", "payload", "sendAt"]
  private static let titles = [
    "audience": "Filter", "rateLimit": "Rate limit", "quietHours": "Quiet hours", "expiresAfter": "Expires after",
    "localSend": "Local time", "variants": "Variants", "dryRun": "Dry run",
  ]

  private static func text(_ member: JSONMember) -> String {
    let text = String(decoding: member.value.encoded, as: UTF8.self)
    switch (member.key, member.value) {
    case ("rateLimit", _): return "\(text) notifications/s"
    case ("expiresAfter", _): return "\(text) s"
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
    if action == "resume" {
      _ = try await reports.forgotten.resume(record.id)
    } else {
      try await reports.controller.change(record.id, { Self.event(action, $0.head) ?? .cancelled })
    }
    return Page.redirect(path(record).text)
  }
}
