internal import Hummingbird
internal import PushService
internal import PushStore

/// Who has done what, and what the service noticed: only for those that may do everything.
extension Dashboard {
  private static let eventLimit = 100

  /// - Parameters:
  ///   - app: only its events; nil or empty: all that the viewer may see.
  ///   - cursor: only older ones.
  func events(_ viewer: Page.Viewer, app: Substring?, cursor: StoredUUID?) async throws -> Page {
    try demand(.admin, of: viewer)
    let app = app.flatMap { $0.isEmpty ? nil : String($0) }
    let found = try await store.events(
      of: viewer.caller.reach(of: app), before: cursor, limit: ListPage<StoredEvent>.readLimit(Self.eventLimit))
    let page = ListPage(found, limit: Self.eventLimit)
    let names = try await store.keyNames()
    let rows = page.items.map { row($0, names) }
    let filter = app.map { "app=\($0.asPathSegment)&" } ?? ""
    let older = page.last.map { "<p><a href=\"/events?\(filter)cursor=\($0.id.text)\">Older</a></p>" as HTML }
    return Page(
      title: "Events", viewer: viewer,
      body: """
        <h1>Events</h1>
        <form method="get" action="/events" class="filter"><label for="app">Of the app</label>
        <input id="app" name="app" value="\(app ?? "")" placeholder="all"> <button>Show</button></form>
        <section id="events" data-live>
        \(rows.isEmpty ? "<p class=\"card empty\">There is none.</p>" : Self.eventTable(rows))
        </section>
        \(older ?? HTML.empty)
        """)
  }

  private static func eventTable(_ rows: [HTML]) -> HTML {
    """
    <table class="wide">\(Page.head("Time (UTC)", "Event", "App", "Of", "Who", "Why"))
    <tbody>\(rows)</tbody></table>
    """
  }

  private func row(_ event: StoredEvent, _ names: [String: String]) -> HTML {
    let at = InstantText.text(event.at)
    let app = event.app.map { "<a href=\"/apps/\($0.asPathSegment)\">\($0)</a>" as HTML }
    return """
      <tr>
      <td data-label="Time (UTC)" class="time"><span class="whole">\(at.prefix(10))</span>
      <span class="whole">\(at.dropFirst(11).prefix(8))</span></td>
      <th scope="row"\(HTML.when(event.kind == .refusal, " class=\"late\""))>\(event.action)</th>
      <td data-label="App">\(app ?? "–")</td>
      <td data-label="Of">\(subject(event))</td>
      <td data-label="Who">\(who(event, names))</td>
      <td data-label="Why">\(event.reason ?? "–")</td>
      </tr>
      """
  }

  private func subject(_ event: StoredEvent) -> HTML {
    guard let subject = event.subject else { return "–" }
    let text: HTML = "<code class=\"whole\">\(subject)</code>"
    guard let app = event.app, event.action.hasPrefix("campaign ") else { return text }
    return "<a href=\"/apps/\(app.asPathSegment)/campaigns/\(subject.asPathSegment)\">\(text)</a>"
  }

  private func who(_ event: StoredEvent, _ names: [String: String]) -> HTML {
    switch event.kind {
    case .change: return event.node.map { "the service, \($0)" } ?? "the service"
    case .action where event.key == nil && event.address == nil: return "an operator at the machine"
    case .action, .refusal:
      let name = event.key.map { names[$0] ?? $0 } ?? "no key"
      let more = [event.key, event.address].compactMap { $0 }.joined(separator: ", ")
      return "\(name) <span class=\"hint\">\(more)</span>"
    }
  }
}
