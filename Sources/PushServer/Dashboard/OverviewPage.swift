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

  /// - Parameters:
  ///   - part: only apps with this in their names are listed.
  ///   - order: of the list; nil: apps with alarms first.
  func overview(_ viewer: Page.Viewer, named part: String, by order: AppOrder?) async throws -> Page {
    let apps = access.deployment.apps.filter { viewer.caller.sees(app: $0.id) }
    let statuses = apps.map { (app: $0.id, status: $0.status) }
    let alarms = try await alarms(statuses, nodes: viewer.seesNodes ? reports.membership.lastSeen : [])
    let others = await reports.membership.others().map(\.status)
    let lines = zip(apps, statuses).map { app, known in
      let own = statistics.figures(of: app, known.status)
      return AppLine(
        app: app, status: known.status, figures: others.reduce(own) { $0 + $1.figures(of: app.id) })
    }
    let found = (order.map { lines.sorted(by: $0.precedes) } ?? Self.inOrder(lines, alarms))
      .filter { part.isEmpty || $0.app.id.lowercased().contains(part.lowercased()) }
    let rows = found.prefix(Self.appLimit).map(row)
    let empty: HTML = "<p class=\"card empty\">\(apps.isEmpty ? "There is no app." : "No app has such a name.")</p>"
    return Page(
      title: "Overview", viewer: viewer,
      body: """
        <h1>Overview</h1>
        \(summary(apps, statuses.map(\.status), viewer))
        \(tiles(lines))
        \(list(alarms, isAboutOneApp: false, viewer))
        \(try await campaignsUnderWay(viewer))
        <section id="apps" data-live>
        <h2>Apps</h2>
        \(HTML.when(apps.count > Self.appLimit, Self.search(part, shown: rows.count, of: apps.count)))
        \(rows.isEmpty ? empty : Self.table(Array(rows), named: part, by: order))
        </section>
        """, refresh: 10)
  }

  /// - Parameter nodes: those that share the store, if the viewer may see them.
  func alarms(
    _ statuses: [(app: String, status: AppStatusSnapshot)], nodes: [StoredNode] = []
  ) async throws -> [Alarm] {
    let isAnyPaused = statuses.contains { $0.status.state == .paused }
    return alarms.alarms(statuses, pausedAt: isAnyPaused ? try await store.pausedApps() : [:], nodes: nodes)
  }

  /// - Parameter isAboutOneApp: the app is not named then.
  func list(_ found: [Alarm], isAboutOneApp: Bool, _ viewer: Page.Viewer) -> HTML {
    AlarmList.html(found, isAboutOneApp: isAboutOneApp) { alarm in
      var parts: [String] = []
      if let since = alarms.since(alarm) { parts.append("since \(PageZone.utc.clock(since, access.clock.now).text)") }
      if let next = alarm.nextTryIn {
        parts.append(next <= .zero ? "being tried" : "next try in \(NumberText.age(next))")
      }
      let when: HTML = parts.isEmpty ? .empty : "<span class=\"hint\">\(parts.joined(separator: ", "))</span>"
      return "\(when) \(button(alarm, viewer))"
    }
  }

  /// What an operator can do about an alarm from here.
  private func button(_ alarm: Alarm, _ viewer: Page.Viewer) -> HTML {
    switch alarm.name {
    case .appPaused, .appSuspended:
      guard let app = alarm.app, viewer.may(.admin) else { return .empty }
      return """
        <form method="post" action="/apps/\(app.asPathSegment)/resume">\(Page.token(viewer))<button>Resume</button></form>
        """
    case .nodeSilent, .clocksApart, .configurationsDiffer: return "<a href=\"/nodes\">Nodes</a>"
    case .campaignStuck: return "<a href=\"/campaigns\">Campaigns</a>"
    default: return .empty
    }
  }

  /// Apps with alarms first, the worst at the top; the others as the configuration has them.
  private static func inOrder(_ lines: [AppLine], _ alarms: [Alarm]) -> [AppLine] {
    var ranks: [String: Int] = [:]
    for (rank, alarm) in alarms.enumerated() { if let app = alarm.app, ranks[app] == nil { ranks[app] = rank } }
    return lines.enumerated().map { (rank: ranks[$1.app.id] ?? .max, position: $0, line: $1) }
      .sorted { ($0.rank, $0.position) < ($1.rank, $1.position) }.map(\.line)
  }

  /// The few numbers that one looks at first.
  private func tiles(_ lines: [AppLine]) -> HTML {
    func sum(_ figure: NodeStatus.Figure) -> Int { lines.reduce(0) { $0 + $1.figures.count(figure) } }
    let (accepted, others) = (sum(.acceptedLately), sum(.othersLately))
    let known = lines.compactMap { statistics.history($0.app.id)?.total(.day).duration }.max() ?? .zero
    let oldest = lines.max { $0.oldestAge < $1.oldestAge }
    let share = accepted + others > 0 ? NumberText.percent(Double(others) / Double(accepted + others)) : "–"
    let tiles: [(String, String, HTML)] = [
      ("Sending now", NumberText.rate(lines.reduce(0) { $0 + $1.figures[.rate] }), "over the last minute"),
      (
        "Accepted", NumberText.grouped(sum(.acceptedOfDay)),
        known >= .seconds(86_000) ? "in the last 24 hours" : "in the last \(NumberText.age(known)), since the start"
      ),
      ("Not accepted", share, "\(NumberText.grouped(others)) in the last 10 minutes"),
      (
        "Oldest wait", oldest.map { NumberText.age($0.oldestAge) } ?? "–",
        oldest.flatMap { $0.oldestAge > .zero ? "of \($0.app.id)" : nil } ?? "nothing waits"
      ),
    ]
    let cells = tiles.map { Page.tile($0, $1, $2) }
    return "<dl id=\"tiles\" data-live class=\"tiles\">\(cells)</dl>"
  }

  private func summary(_ apps: [PushApp], _ statuses: [AppStatusSnapshot], _ viewer: Page.Viewer) -> HTML {
    var counts: [String: Int] = [:]
    for status in statuses { counts[StateBadge.word(status), default: 0] += 1 }
    let states = StateBadge.words.compactMap { word in counts[word].map { "\($0) \(word)" } }
    var parts = ["\(apps.count) app\(apps.count == 1 ? "" : "s"): \(states.joined(separator: ", "))"]
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

  /// More apps than this are shown closer together.
  private static let roomyLimit = 20

  private static func table(_ rows: [HTML], named part: String, by order: AppOrder?) -> HTML {
    let filter = part.isEmpty ? "" : "&name=\(part.asPathSegment)"
    let heads = AppOrder.allCases.map { other -> HTML in
      let isNumber = HTML.when(other.isNumber, " class=\"number\"")
      let sort = HTML.when(other == order, " aria-sort=\"\(other.isNumber ? "descending" : "ascending")\"")
      return """
        <th scope="col"\(isNumber)\(sort)><a href="/?sort=\(other.rawValue)\(filter)">\(other.title)</a></th>
        """
    }
    return """
      <table class="wide\(HTML.when(rows.count > roomyLimit, " dense"))">
      <thead><tr>\(heads)<th scope="col">Credential</th></tr></thead>
      <tbody>
      \(rows)
      </tbody>
      </table>
      """
  }

  private func row(_ line: AppLine) -> HTML {
    let (app, status) = (line.app, line.status)
    return """
      <tr>
      <th scope="row"><a href="/apps/\(app.id.asPathSegment)">\(app.id)</a></th>
      <td data-label="State">\(StateBadge.html(status))</td>
      <td data-label="Rate" class="number rate">\(Chart.sparkline(statistics.history(app.id)))\
      \(NumberText.rate(line.figures[.rate]))</td>
      <td data-label="Accepted" class="number">\(NumberText.grouped(line.figures.count(.accepted)))</td>
      <td data-label="Not accepted" class="number">\(NumberText.grouped(line.figures.count(.others)))</td>
      <td data-label="Pending" class="number">\(NumberText.grouped(line.figures.count(.pending)))</td>
      <td data-label="Oldest" class="number">\(NumberText.age(status.oldestAge))</td>
      <td data-label="Connections" class="number">\(NumberText.grouped(line.figures.count(.connections)))</td>
      <td data-label="Credential" class="time">\(CredentialText.text(status, now: access.clock.now))</td>
      </tr>
      """
  }
}

enum AlarmList {
  /// - Parameters:
  ///   - isAboutOneApp: the app is not named then.
  ///   - more: since when an alarm stands, and what can be done.
  static func html(_ alarms: [Alarm], isAboutOneApp: Bool, more: (Alarm) -> HTML) -> HTML {
    guard !alarms.isEmpty else { return "<section id=\"alarms\" data-live class=\"calm\"><p>No alarms.</p></section>" }
    let rest = alarms.count - Dashboard.alarmLimit
    let items = alarms.prefix(Dashboard.alarmLimit).map { alarm -> HTML in
      let app: HTML =
        alarm.app.flatMap { isAboutOneApp ? nil : "<a href=\"/apps/\($0.asPathSegment)\">\($0)</a> " } ?? HTML.empty
      return """
        <li class="\(alarm.severity == .critical ? "critical" : "warning")" data-alarm="\(alarm.name.rawValue)"
        data-of="\(alarm.app ?? alarm.node ?? "")">
        \(app)<strong>\(alarm.text)</strong> <span>\(alarm.action)</span> \(more(alarm))</li>
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
