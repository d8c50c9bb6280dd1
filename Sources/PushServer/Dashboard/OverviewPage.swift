internal import Carillon
internal import PushEngine
internal import PushStore

extension Dashboard {
  /// More apps or alarms make a page that nobody reads.
  private static let appLimit = 200
  static let alarmLimit = 30

  /// - Parameter part: only apps with this in their names are listed.
  func overview(_ viewer: Page.Viewer, named part: String) async throws -> Page {
    let apps = access.deployment.apps.filter { viewer.caller.sees(app: $0.id) }
    let statuses = apps.map { (app: $0.id, status: $0.status) }
    let alarms = alarms(statuses)
    let found = zip(apps, statuses).filter { part.isEmpty || $0.0.id.lowercased().contains(part.lowercased()) }
    let rows = found.prefix(Self.appLimit).map { app, entry in row(app, entry.status) }
    return Page(
      title: "Overview", viewer: viewer,
      body: """
        <h1>Overview</h1>
        \(AlarmList.html(alarms, isAboutOneApp: false))
        <section id="apps" data-live>
        <h2>Apps</h2>
        \(HTML.when(apps.count > Self.appLimit, Self.search(part, shown: rows.count, of: apps.count)))
        \(rows.isEmpty ? "<p>There is no such app.</p>" : Self.table(Array(rows)))
        </section>
        """, refresh: 10)
  }

  /// Of the apps, and of the service.
  func alarms(_ statuses: [(app: String, status: AppStatusSnapshot)]) -> [Alarm] {
    AlarmRules.alarms(
      statuses, journalFailure: access.deployment.journalFailure, freeBytes: seeing.freeByteCount,
      now: StoreInstant.now.milliseconds / 1000)
  }

  private static func search(_ part: String, shown: Int, of count: Int) -> HTML {
    """
    <form method="get" action="/"><label for="name">\(shown) of \(count) apps; name contains</label>
    <input id="name" name="name" value="\(part)"> <button>Find</button></form>
    """
  }

  private static func table(_ rows: [HTML]) -> HTML {
    """
    <table class="wide">
    <thead><tr><th>App</th><th>State</th><th class="number">Rate</th><th class="number">Accepted</th>
    <th class="number">Not accepted</th><th class="number">Queue</th><th class="number">Oldest</th>
    <th class="number">Connections</th><th>Credential</th></tr></thead>
    <tbody>
    \(rows)
    </tbody>
    </table>
    """
  }

  private func row(_ app: PushApp, _ status: AppStatusSnapshot) -> HTML {
    let account = app.tally.account
    return """
      <tr>
      <th scope="row"><a href="/apps/\(app.id.asPathSegment)">\(app.id)</a></th>
      <td data-label="State">\(StateBadge.html(status))</td>
      <td data-label="Rate" class="number">\(RateText.text(seeing.rate(app.id)))</td>
      <td data-label="Accepted" class="number">\(NumberText.grouped(account.accepted))</td>
      <td data-label="Not accepted" class="number">\(NumberText.grouped(account.settled - account.accepted))</td>
      <td data-label="Queue" class="number">\(NumberText.grouped(status.queue.notifications))</td>
      <td data-label="Oldest" class="number">\(AgeText.text(status.queue.oldestAge))</td>
      <td data-label="Connections" class="number">\(status.connections.open)</td>
      <td data-label="Credential">\(CredentialText.text(status))</td>
      </tr>
      """
  }
}

enum AlarmList {
  /// - Parameter isAboutOneApp: the app is not named then.
  static func html(_ alarms: [Alarm], isAboutOneApp: Bool) -> HTML {
    guard !alarms.isEmpty else {
      return "<section id=\"alarms\" data-live class=\"calm\"><p>No alarms.</p></section>"
    }
    let rest = alarms.count - Dashboard.alarmLimit
    let items = alarms.prefix(Dashboard.alarmLimit).map { alarm -> HTML in
      let app: HTML =
        alarm.app.flatMap { isAboutOneApp ? nil : "<a href=\"/apps/\($0.asPathSegment)\">\($0)</a> " } ?? HTML.empty
      return """
        <li class="\(alarm.severity == .critical ? "critical" : "warning")" data-alarm="\(alarm.name.rawValue)">
        \(app)<strong>\(alarm.text)</strong> <span>\(alarm.action)</span></li>
        """
    }
    return """
      <section id="alarms" data-live><h2>Alarms</h2><ul class="alarms">
      \(Array(items))
      \(HTML.when(rest > 0, "<li class=\"warning\">\(rest) more.</li>"))
      </ul></section>
      """
  }
}

enum StateBadge {
  static func html(_ status: AppStatusSnapshot) -> HTML {
    if status.state == .running, let obstacle = status.obstacle {
      return obstacle.isOwnLimit
        ? "<span class=\"badge waiting\">held back</span>" : "<span class=\"badge waiting\">waiting</span>"
    }
    return "<span class=\"badge \(status.state.rawValue)\">\(status.state.rawValue)</span>"
  }
}

enum RateText {
  static func text(_ perSecond: Double) -> String {
    if perSecond >= 10 || perSecond == 0 { return "\(NumberText.grouped(Int(perSecond.rounded())))/s" }
    return "\(Double(Int(perSecond * 10)) / 10)/s"
  }
}

enum CredentialText {
  static func text(_ status: AppStatusSnapshot) -> String {
    guard let expiry = status.credentialExpiry else { return "token key" }
    return "until " + InstantText.text(StoreInstant(milliseconds: expiry * 1000)).prefix(10)
  }
}
