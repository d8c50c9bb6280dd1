internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire

/// How many devices an app has, of which kind, and since when.
extension Dashboard {
  func devices(of id: String, _ viewer: Page.Viewer) async throws -> Page {
    let app = try visibleApp(id, viewer)
    let result = try await census.result(of: app.id)
    let counts = result.counts
    let newCount = result.days.reduce(0) { $0 + $1.counts.new }
    let withoutLanguage: HTML = """
      <p class="hint">\(NumberText.grouped(result.withoutLanguage)) without a language.</p>
      """
    return Page(
      title: "Devices of \(app.id)", viewer: viewer,
      body: """
        <h1>Devices of <a href="/apps/\(app.id.asPathSegment)">\(app.id)</a></h1>
        <dl class="tiles">
        \(Page.tile("Active", NumberText.grouped(counts.active), "can get notifications"))
        \(Page.tile("Gone", NumberText.grouped(counts.gone), "have removed the app, and nothing is sent to them"))
        \(Page.tile("New", NumberText.grouped(newCount), "in the last \(DeviceCensus.dayCount) days"))
        </dl>
        <div class="columns">
        <section class="card"><h2>Languages</h2>
        \(Self.shares(result.languages, of: counts.active + counts.gone, withoutLanguage))</section>
        <section class="card"><h2>Tags</h2>
        \(Self.shares(result.tags, of: counts.active + counts.gone, .empty))</section>
        <section class="card"><h2>Days</h2>\(Self.growth(result.days))</section>
        </div>
        <p class="hint">Counted \(zone(app.id).time(result.at)), at most once a minute. Days are in UTC.</p>
        """)
  }

  private static func shares(_ found: [(name: String, count: Int)], of total: Int, _ rest: HTML) -> HTML {
    guard total > 0, !found.isEmpty else { return "<p class=\"empty\">None.</p>" + HTML.when(total > 0, rest) }
    let rows = found.map { name, count -> HTML in
      """
      <tr><td>\(name)</td><td class="number">\(NumberText.grouped(count))</td>
      <td class="number">\(NumberText.percent(Double(count) / Double(total)))</td></tr>
      """
    }
    return "<table class=\"narrow\"><tbody>\(rows)</tbody></table>" + rest
  }

  private static func growth(_ days: [(date: String, counts: DeviceCounts.Day)]) -> HTML {
    let most = max(1, days.map(\.counts.new).max() ?? 1)
    let rows = days.map { date, counts -> HTML in
      """
      <tr><td class="whole">\(date)</td><td class="number">\(NumberText.grouped(counts.new))</td>
      <td class="bar"><svg viewBox="0 0 \(most) 1" preserveAspectRatio="none" aria-hidden="true">\
      <rect width="\(counts.new)" height="1"/></svg></td>
      <td class="number">\(NumberText.grouped(counts.gone))</td></tr>
      """
    }
    return "<table class=\"narrow\">\(Page.head("Day", "#New", "", "#Gone"))<tbody>\(rows)</tbody></table>"
  }
}
