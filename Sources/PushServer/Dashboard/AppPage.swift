internal import Carillon
internal import Hummingbird
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushWire

extension Dashboard {
  /// - Parameters:
  ///   - sent: the identifier of a test notification; nil: none was sent.
  ///   - span: of the charts.
  func app(_ id: String, _ viewer: Page.Viewer, sent: Substring?, span: Substring?) async throws -> Page {
    let app = try visibleApp(id, viewer)
    let status = app.status
    let alarms = try await alarms([(app: id, status: status)]).filter { $0.app != nil }
    let chart = Chart(
      statistics.history(id) ?? AppHistory(bounds: Metric.deliveryBounds),
      span.flatMap { AppHistory.Span(rawValue: String($0)) } ?? .minutes, now: access.clock.now,
      zone: zone(id))
    let nodes = nodes(await reports.membership.figures(of: app, statistics))
    var test = HTML.empty
    if let sent = sent.flatMap({ NotificationID($0) }) { test = try await testResult(sent, app) }
    return Page(
      title: id, viewer: viewer,
      body: """
        <div id="head" data-live class="head">
        <h1>\(id) \(StateBadge.html(status))</h1>
        \(HTML.when(viewer.may(.admin), pauseForm(id, status, viewer)))
        </div>
        \(list(alarms, isAboutOneApp: true, viewer))
        \(chart.section(path: "/apps/\(id.asPathSegment)"))
        <div class="columns">
        \(facts(app, status))
        \(account(app))
        \(bridgePart(id))
        </div>
        \(nodes)
        \(HTML.when(viewer.may(.send), testForm(app, viewer, test)))
        \(recent(id))
        """)
  }

  private func pauseForm(_ id: String, _ status: AppStatusSnapshot, _ viewer: Page.Viewer) -> HTML {
    guard status.state != .stopped else { return .empty }
    let (action, title) = status.state == .running ? ("pause", "Pause") : ("resume", "Resume")
    return """
      <div class="actions"><form method="post" action="/apps/\(id.asPathSegment)/\(action)">\(Page.token(viewer))
      <button>\(title)</button></form></div>
      """
  }

  func setPaused(_ isPaused: Bool, _ id: String, _ viewer: Page.Viewer) async throws -> Response {
    let app = try visibleApp(id, viewer)
    try demand(.admin, of: viewer)
    // What was answered outlasts the process.
    if isPaused {
      try await store.pause(app: id, at: access.clock.now)
      app.pause()
    } else {
      try await store.resume(app: id)
      await app.resumeWithCredential()
    }
    return Page.redirect("/apps/\(id.asPathSegment)")
  }

  private func facts(_ app: PushApp, _ status: AppStatusSnapshot) -> HTML {
    let queue = status.queue
    return """
      <section id="facts" data-live class="card"><h2>Now</h2>
      <dl>
      <dt>Topic</dt><dd>\(app.configuration.topic ?? "")</dd>
      <dt>Gateway</dt><dd>\(status.gateway), \(status.transport)</dd>
      <dt>Credential</dt><dd>\(CredentialText.text(status, now: access.clock.now))</dd>
      <dt>Connections</dt><dd>\(status.connections.open) open, \(status.connections.opening) opening,
      \(status.connections.closed) closed</dd>
      \(status.obstacle.map(obstacle) ?? HTML.empty)
      <dt>Rate</dt><dd>\(NumberText.rate(statistics.rate(app.id))) over the last minute</dd>
      <dt>Pending</dt><dd>\(NumberText.grouped(status.pendingCount)) without an outcome</dd>
      <dt>Queue</dt><dd>\(NumberText.grouped(queue.notifications)) notifications, \(NumberText.bytes(queue.byteCount))</dd>
      <dt>Oldest</dt><dd>\(NumberText.age(status.oldestAge))</dd>
      <dt>Devices</dt><dd><a href="/apps/\(app.id.asPathSegment)/devices">Count them</a></dd>
      <dt>In flight</dt><dd>\(NumberText.grouped(status.windowNotifications))</dd>
      \(webhooks[app.id].map(webhook) ?? HTML.empty)
      </dl>
      </section>
      """
  }

  /// Nothing, if no other node lives.
  private func nodes(_ nodes: [(name: String, figures: NodeStatus.Figures)]) -> HTML {
    guard nodes.count > 1 else { return .empty }
    let sum = nodes.reduce(NodeStatus.Figures()) { $0 + $1.figures }
    func row(_ name: String, _ figures: NodeStatus.Figures) -> HTML {
      """
      <tr><th scope="row">\(name)</th>
      <td data-label="Rate" class="number">\(NumberText.rate(figures[.rate]))</td>
      <td data-label="Pending" class="number">\(NumberText.grouped(figures.count(.pending)))</td>
      <td data-label="Queue" class="number">\(NumberText.grouped(figures.count(.queued)))</td>
      <td data-label="Connections" class="number">\(NumberText.grouped(figures.count(.connections)))</td></tr>
      """
    }
    return """
      <section id="app-nodes" data-live><h2>Nodes</h2>
      <table class="wide">\(Page.head("Node", "#Rate", "#Pending", "#Queue", "#Connections"))
      <tbody>\(nodes.map { row($0.name, $0.figures) })\(row("all", sum))</tbody></table>
      <p class="hint">The other parts of this page are of the node that answers: \(reports.membership.name).</p>
      </section>
      """
  }

  private func obstacle(_ obstacle: Obstacle) -> HTML {
    "<dt>Waits</dt><dd>for \(NumberText.age(obstacle.lasting)): \(obstacle.cause)</dd>"
  }

  private func webhook(_ state: WebhookState) -> HTML {
    guard state.waitingCount > 0 else {
      return "<dt>Webhook</dt><dd>\(state.receiver) has every outcome</dd>"
    }
    let failure = state.failure.map { "; it \($0)" } ?? ""
    return """
      <dt>Webhook</dt><dd>\(NumberText.grouped(state.waitingCount)) outcomes wait for \(state.receiver), the oldest for
      \(NumberText.age(state.lag(at: access.clock.now)))\(failure)</dd>
      """
  }

  private func account(_ app: PushApp) -> HTML {
    let account = app.tally.account
    let rows = OutcomeLabels.counts(account).filter { $0.value > 0 }
      .sorted { ($1.value, $0.key.outcome, $0.key.reason) < ($0.value, $1.key.outcome, $1.key.reason) }
      .map { labels, count -> HTML in
        """
        <tr><td>\(labels.outcome)</td><td>\(labels.reason.replacing("_", with: " "))</td>
        <td class="number">\(NumberText.grouped(count))</td></tr>
        """
      }
    let endings = ConnectionEnding.allCases.map { ($0, app.tally.count(of: $0)) }.filter { $0.1 > 0 }
      .map { ending, count -> HTML in
        """
        <tr><td>\(ending.label.replacing("_", with: " "))</td><td class="number">\(NumberText.grouped(count))</td></tr>
        """
      }
    func table(_ rows: [HTML]) -> HTML { "<table class=\"narrow\"><tbody>\(rows)</tbody></table>" }
    return """
      <section id="account" data-live class="card"><h2>Since the start</h2>
      <p>\(NumberText.grouped(account.submitted)) taken in, \(NumberText.grouped(account.settled)) with an outcome\
      \(HTML.when(account.resent > 0, ", \(NumberText.grouped(account.resent)) resends")).</p>
      \(HTML.when(!rows.isEmpty, table(rows)))
      \(HTML.when(!endings.isEmpty, "<h3>Connections that ended</h3>\(table(endings))"))
      </section>
      """
  }

  private func recent(_ id: String) -> HTML {
    let rows = outcomes.recent(id).map { entry -> HTML in
      let at = InstantText.text(entry.at)
      return """
          <tr>
        <td><span class="whole">\(at.prefix(10))</span> <span class="whole">\(at.dropFirst(11).prefix(8))</span></td>
        <td><code>\(entry.token.prefix(8))…</code></td><td>\(entry.state)</td><td>\(entry.detail)</td></tr>
        """
    }
    return """
      <section id="recent" data-live><h2>Latest that were not accepted</h2>
      \(rows.isEmpty ? Self.nothingRecent : Self.recentTable(rows))
      </section>
      """
  }

  private static let nothingRecent: HTML = """
    <p class="card empty">None since the start, of single notifications, batches and the bridge. \
    Each campaign has a list of its own.</p>
    """

  private static func recentTable(_ rows: [HTML]) -> HTML {
    """
    <table>\(Page.head("Time (UTC)", "Device", "Outcome", "Reason"))
    <tbody>\(rows)</tbody></table>
    """
  }
}
