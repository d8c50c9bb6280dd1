internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire

/// The processes that share the store: only for those who see every app.
extension Dashboard {
  func nodes(_ viewer: Page.Viewer) async throws -> Page {
    try demandNodes(.read, of: viewer)
    let reports = try await reports.membership.reports()
    let rows = reports.map { row($0, viewer) }
    return Page(
      title: "Nodes", viewer: viewer,
      body: """
        <h1>Nodes</h1>
        <section id="nodes" data-live>
        <table class="wide">
        \(Page.head(
          "Node", "State", "Since", "#Last beat", "Version", "Configuration", "#Clock", "#Segments", "#Pending", "#Doubt",
          ""))
        <tbody>
        \(rows)
        </tbody></table>
        </section>
        <p class="hint">Doubt: notifications that may have arrived twice because other nodes took over from this one;
        the lists of their campaigns name them. Pending: without an outcome when the node was last heard of.</p>
        """)
  }

  func setDraining(_ isDraining: Bool, _ node: String, _ viewer: Page.Viewer) async throws -> Response {
    try demandNodes(.admin, of: viewer)
    _ = try await reports.membership.setDraining(isDraining, node)
    return Page.redirect("/nodes")
  }

  func forget(node: String, _ viewer: Page.Viewer) async throws -> Response {
    try demandNodes(.admin, of: viewer)
    _ = try await reports.membership.forget(node)
    return Page.redirect("/nodes")
  }

  private func demandNodes(_ scope: Scope, of viewer: Page.Viewer) throws {
    guard viewer.seesNodes else { throw Problem.notFound }
    try demand(scope, of: viewer)
  }

  private func row(_ report: NodeReport, _ viewer: Page.Viewer) -> HTML {
    let (node, work) = (report.node, report.work)
    let isOver = !node.isAlive
    let offset = node.facts.clockOffset
    let clock: HTML = offset.map { "\(Self.seconds($0))" } ?? "–"
    let isApart = (offset ?? .zero).magnitude > StoredNode.clockTolerance
    let configuration: HTML =
      node.facts.configuration.isEmpty ? "–" : "<code class=\"whole\">\(node.facts.configuration)</code>"
    return """
      <tr\(HTML.when(node.state == .ended, " class=\"over\""))>
      <th scope="row">\(node.name)\(HTML.when(node.leads, "<p class=\"hint\">leads</p>"))</th>
      <td data-label="State"><span class="badge \(node.state.badge)">\(node.state.rawValue)</span></td>
      <td data-label="Since">\(node.joinedAt.map(time) ?? "–")</td>
      <td data-label="Last beat" class="number">\(NumberText.age(node.silence)) ago</td>
      <td data-label="Version">\(node.facts.version.isEmpty ? "–" : node.facts.version)</td>
      <td data-label="Configuration">\(configuration)
      \(HTML.when(report.isConfiguredOtherwise, "<br><span class=\"late\">differs</span>"))</td>
      <td data-label="Clock" class="number\(HTML.when(isApart, " late"))">\(clock)</td>
      <td data-label="Segments" class="number">\(NumberText.grouped(work.segmentCount))</td>
      <td data-label="Pending" class="number">\(NumberText.grouped(node.facts.pendingCount))</td>
      <td data-label="Doubt" class="number">\(NumberText.grouped(work.possibleDuplicateCount))
      \(work.lastTakeover.map { "<br><span class=\"hint\">\(self.time($0))</span>" } ?? HTML.empty)</td>
      <td class="act">\(HTML.when(viewer.may(.admin), isOver ? forgetForm(node, viewer) : drainForm(node, viewer)))</td>
      </tr>
      """
  }

  /// Such as +0.3 s.
  private static func seconds(_ offset: Duration) -> String {
    let tenths = Int((offset / .milliseconds(100)).rounded())
    return "\(tenths < 0 ? "−" : "+")\(abs(tenths) / 10).\(abs(tenths) % 10) s"
  }

  private func drainForm(_ node: StoredNode, _ viewer: Page.Viewer) -> HTML {
    let action = node.isDraining ? "resume" : "drain"
    return """
      <form method="post" action="/nodes/\(node.name.asPathSegment)/\(action)">\(Page.token(viewer))
      <button>\(node.isDraining ? "Resume" : "Drain")</button></form>
      """
  }

  private func forgetForm(_ node: StoredNode, _ viewer: Page.Viewer) -> HTML {
    """
    <details id="forget-\(node.name)"><summary>Forget…</summary>
    <form method="post" action="/nodes/\(node.name.asPathSegment)/forget">\(Page.token(viewer))
    <p class="hint">What only its journal has is unknown<br>unless a service with it serves again.</p>
    <button class="danger">Forget it</button></form></details>
    """
  }
}

extension StoredNode.State {
  /// The class of its badge.
  fileprivate var badge: String {
    switch self {
    case .running: "running"
    case .draining, .silent: "waiting"
    case .lost: "failed"
    case .ended: "ended"
    }
  }
}

extension Duration {
  fileprivate var magnitude: Duration { self < .zero ? .zero - self : self }
}
