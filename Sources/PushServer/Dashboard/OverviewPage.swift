internal import Carillon
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushWire

/// Alarms, then running campaigns, then every app.
extension Dashboard {
  /// The most apps and alarms on the page.
  private static let appLimit = 200
  static let alarmLimit = 30

  /// - Parameter part: only apps with this in their names are listed.
  func overview(_ viewer: Page.Viewer, named part: String) async throws -> Page {
    let apps = access.deployment.apps.filter { viewer.caller.sees(app: $0.id) }
    let statuses = apps.map { (app: $0.id, status: $0.status) }
    let alarms = try await alarms(statuses, nodes: viewer.seesNodes ? reports.membership.lastSeen : [])
    let found = Self.inOrder(Array(zip(apps, statuses.map(\.status))), alarms)
      .filter { part.isEmpty || $0.0.id.lowercased().contains(part.lowercased()) }
    let rows = found.prefix(Self.appLimit).map { row($0, $1) }
    let empty: HTML = "<p class=\"card empty\">\(apps.isEmpty ? "There is no app." : "No app has such a name.")</p>"
    return Page(
      title: "Overview", viewer: viewer,
      body: """
        <h1>Overview</h1>
        \(summary(apps, statuses.map(\.status), viewer))
        \(AlarmList.html(alarms, isAboutOneApp: false))
        \(try await campaignsUnderWay(viewer))
        <section id="apps" data-live>
        <h2>Apps</h2>
        \(HTML.when(apps.count > Self.appLimit, Self.search(part, shown: rows.count, of: apps.count)))
        \(rows.isEmpty ? empty : Self.table(Array(rows)))
        </section>
        """, refresh: 10)
  }

  /// - Parameter nodes: those that share the store, if the viewer may see them.
  func alarms(
    _ statuses: [(app: String, status: AppStatusSnapshot)], nodes: [StoredNode] = []
  ) async throws -> [Alarm] {
    let isAnyPaused = statuses.contains { $0.status.state == .paused }
    return AlarmRules.alarms(
      statuses, pausedAt: isAnyPaused ? try await store.pausedApps().mapValues { $0.milliseconds / 1000 } : [:],
      journalFailure: access.deployment.journalFailure, storeAway: outcomes.awayDuration,
      lacksDescriptors: lacksDescriptors(), nodes: nodes, database: databaseState(), webhooks: webhooks.all,
      disk: statistics.fullerDisk,
      now: access.clock.now.seconds)
  }

  /// Apps with alarms first, the worst at the top; the others as the configuration has them.
  private static func inOrder(
    _ apps: [(PushApp, AppStatusSnapshot)], _ alarms: [Alarm]
  ) -> [(PushApp, AppStatusSnapshot)] {
    var ranks: [String: Int] = [:]
    for (rank, alarm) in alarms.enumerated() { if let app = alarm.app, ranks[app] == nil { ranks[app] = rank } }
    return apps.enumerated().map { (rank: ranks[$1.0.id] ?? .max, position: $0, entry: $1) }
      .sorted { ($0.rank, $0.position) < ($1.rank, $1.position) }.map(\.entry)
  }

  private func summary(_ apps: [PushApp], _ statuses: [AppStatusSnapshot], _ viewer: Page.Viewer) -> HTML {
    var counts: [String: Int] = [:]
    for status in statuses { counts[StateBadge.word(status), default: 0] += 1 }
    let states = StateBadge.words.compactMap { word in counts[word].map { "\($0) \(word)" } }
    let rate = apps.reduce(0) { $0 + statistics.rate($1.id) }
    var parts = ["\(apps.count) app\(apps.count == 1 ? "" : "s"): \(states.joined(separator: ", "))"]
    parts.append("\(NumberText.rate(rate)) over the last minute")
    if let bridge {
      // Whose clients they were is not known, so they are shown to those who see every app.
      let refused = viewer.caller.seesAllApps ? bridge.refusedCount : 0
      let counts = bridge.counts
      let clients = apps.reduce(0) { $0 + (counts[$1.id]?.clients ?? 0) }
      parts.append(
        "bridge: \(clients) client\(clients == 1 ? "" : "s")"
          + (refused > 0 ? ", \(NumberText.grouped(refused)) refused since the start" : ""))
    }
    return "<p id=\"summary\" data-live class=\"summary\">\(parts.joined(separator: " · "))</p>"
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
    <th class="number">Not accepted</th><th class="number">Pending</th><th class="number">Oldest</th>
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
      <td data-label="Rate" class="number rate">\(Chart.sparkline(statistics.history(app.id)))\
      \(NumberText.rate(statistics.rate(app.id)))</td>
      <td data-label="Accepted" class="number">\(NumberText.grouped(account.accepted))</td>
      <td data-label="Not accepted" class="number">\(NumberText.grouped(account.settled - account.accepted))</td>
      <td data-label="Pending" class="number">\(NumberText.grouped(status.pendingCount))</td>
      <td data-label="Oldest" class="number">\(NumberText.age(status.oldestAge))</td>
      <td data-label="Connections" class="number">\(status.connections.open)</td>
      <td data-label="Credential" class="time">\(CredentialText.text(status, now: access.clock.now))</td>
      </tr>
      """
  }
}

enum AlarmList {
  /// - Parameter isAboutOneApp: the app is not named then.
  static func html(_ alarms: [Alarm], isAboutOneApp: Bool) -> HTML {
    guard !alarms.isEmpty else { return "<section id=\"alarms\" data-live class=\"calm\"><p>No alarms.</p></section>" }
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
      <section id="alarms" data-live>\(HTML.when(!isAboutOneApp, "<h2>Alarms</h2>"))<ul class="alarms">
      \(Array(items))
      \(HTML.when(rest > 0, "<li class=\"warning\">\(rest) more.</li>"))
      </ul></section>
      """
  }
}

enum StateBadge {
  /// The states in the order in which they are counted.
  static let words = ["stopped", "suspended", "waiting", "paused", "held back", "running"]

  static func word(_ status: AppStatusSnapshot) -> String {
    guard status.state == .running, let obstacle = status.obstacle else { return status.state.rawValue }
    return obstacle.isOwnLimit ? "held back" : "waiting"
  }

  static func html(_ status: AppStatusSnapshot) -> HTML {
    let word = word(status)
    return "<span class=\"badge \(word == "held back" ? "waiting" : word)\">\(word)</span>"
  }
}

enum CredentialText {
  static func text(_ status: AppStatusSnapshot, now: StoreInstant) -> HTML {
    guard let expiry = status.credentialExpiry else { return "token key" }
    let instant = StoreInstant(milliseconds: expiry * 1000)
    let text: HTML = "until \(InstantText.text(instant).prefix(10))"
    let left = Duration.milliseconds(instant.milliseconds - now.milliseconds)
    return left < AlarmRules.expiryWarning ? "<span class=\"late\">\(text)</span>" : text
  }
}
