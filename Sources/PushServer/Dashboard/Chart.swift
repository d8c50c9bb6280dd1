internal import PushService
internal import PushStore
internal import PushWire

/// Charts as pictures in the page itself: no script and no other file draws them.
struct Chart {
  private let slots: [AppHistory.Slot]
  private let span: AppHistory.Span
  /// The end of the last slot.
  private let now: StoreInstant
  private let zone: PageZone

  /// Of a picture; its width is the number of slots.
  private static let height = 1_000.0
  /// What is there at all can be seen.
  private static let least = 12.0

  init(_ history: AppHistory, _ span: AppHistory.Span, now: StoreInstant, zone: PageZone = .utc) {
    (slots, self.span, self.now, self.zone) = (history.slots(span), span, now, zone)
  }

  /// The rates of the last minutes, to stand in a line.
  static func sparkline(_ history: AppHistory?) -> HTML {
    let slots = history?.slots(.minutes) ?? []
    let rates = slots.map { $0.acceptedPerSecond + $0.othersPerSecond }
    guard let most = rates.max(), most > 0 else { return .empty }
    let count = AppHistory.Span.minutes.slotCount
    let path = bars(rates.map { (0, $0) }, of: count, most: most)
    return """
      <svg class="spark" viewBox="0 0 \(count) \(Int(height))" preserveAspectRatio="none" aria-hidden="true">\
      <path d="\(path)"/></svg>
      """
  }

  /// - Parameter path: of the page.
  func section(path: String) -> HTML {
    let links = AppHistory.Span.allCases.map { other -> HTML in
      let name = other == .minutes ? "10 minutes" : "24 hours"
      return """
        <a href="\(path)?span=\(other.rawValue)"\(HTML.when(other == span, " aria-current=\"true\""))>\(name)</a>
        """
    }
    return """
      <section id="charts" data-live class="card">
      <div class="head"><h2>Lately</h2><p class="spans">\(links)</p></div>
      \(slots.isEmpty ? "<p class=\"empty\">Nothing is known yet.</p>" : rates + durations)
      </section>
      """
  }

  private var rates: HTML {
    let most = slots.map { $0.acceptedPerSecond + $0.othersPerSecond }.max() ?? 0
    let top = Self.roundedUp(max(most, 1))
    let accepted = slots.reduce(0) { $0 + Int($1.accepted) }
    let rejected = slots.reduce(0) { $0 + Int($1.others) }
    let stood = slots.reduce(0) { $0 + ($1.stood ? Double($1.seconds) : 0) }
    var words = "\(NumberText.grouped(accepted)) accepted, \(NumberText.grouped(rejected)) not accepted"
    if most > 0 { words += ", at most \(NumberText.rate(most))" }
    if stood > 0 { words += "; nothing got through for \(NumberText.age(.seconds(stood)))" }
    let keys: HTML = """
      <span class="key accepted">accepted</span> <span class="key others">not accepted</span> \
      <span class="key stood">nothing got through</span>
      """
    return figure(
      "Outcomes", keys, words, top: NumberText.rate(top),
      picture: """
        <path class="stood" d="\(bars(1) { (0, $0.stood ? 1 : 0) })"/>
        <path class="accepted" d="\(bars(top) { (0, $0.acceptedPerSecond) })"/>
        <path class="others" d="\(bars(top) { ($0.acceptedPerSecond, $0.othersPerSecond) })"/>
        """)
  }

  private var durations: HTML {
    let most = Double(slots.map(\.most).max() ?? -1)
    guard most >= 0 else { return .empty }
    let top = Self.roundedUp(max(most, 0.001))
    let keys: HTML = "<span class=\"key half\">half</span> <span class=\"key most\">99 of 100</span>"
    let last = slots.last { $0.half >= 0 }
    let words = last.map { "lately half within \(Self.text($0.half)), 99 of 100 within \(Self.text($0.most))" } ?? ""
    return figure(
      "Time until the gateway's answer", keys, words, top: Self.text(Float(top)),
      picture: """
        <path class="most" d="\(line(\.most, top))"/>
        <path class="half" d="\(line(\.half, top))"/>
        """)
  }

  /// - Parameters:
  ///   - words: what the picture says.
  ///   - top: the value at its upper edge.
  private func figure(_ title: String, _ keys: HTML, _ words: String, top: String, picture: HTML) -> HTML {
    let duration = span.slotDuration * span.slotCount
    let times = [2, 1, 0].map { part -> HTML in
      let back = Int64(duration / .milliseconds(1)) * Int64(part) / 2
      let text = zone.timeOfDay(StoreInstant(milliseconds: now.milliseconds - back))
      return "<span>\(text)\(part == 0 ? " \(zone.name)" : "")</span>"
    }
    return """
      <figure><figcaption><strong>\(title)</strong> \(keys)<span class="hint">\(words)</span></figcaption>
      <div class="plot"><span class="top">\(top)</span>
      <svg viewBox="0 0 \(span.slotCount) \(Int(Self.height))" preserveAspectRatio="none" role="img"
      aria-label="\(title): \(words)">
      \(picture)
      </svg></div>
      <div class="axis">\(times)</div></figure>
      """
  }

  private func bars(_ most: Double, _ bar: (AppHistory.Slot) -> (base: Double, value: Double)) -> String {
    Self.bars(slots.map(bar), of: span.slotCount, most: most)
  }

  /// A bar for each slot, the last one at the right edge.
  private static func bars(_ bars: [(base: Double, value: Double)], of count: Int, most: Double) -> String {
    var path = ""
    for (place, bar) in bars.enumerated() where bar.value > 0 {
      let base = Int((height * (1 - bar.base / most)).rounded())
      let tall = Int(max(least, height * bar.value / most).rounded())
      path += "M\(count - bars.count + place) \(base)v-\(tall)h1v\(tall)z"
    }
    return path
  }

  /// With a gap where nothing was measured.
  private func line(_ value: (AppHistory.Slot) -> Float, _ top: Double) -> String {
    var (path, isOpen) = ("", false)
    for (place, slot) in slots.enumerated() {
      guard value(slot) >= 0 else {
        isOpen = false
        continue
      }
      let y = Int((Self.height * (1 - Double(value(slot)) / top)).rounded())
      let x = span.slotCount - slots.count + place
      // One alone is seen as well: it is as wide as its slot.
      path += isOpen ? "L\(x).5 \(y)" : "M\(x) \(y)h1"
      isOpen = true
    }
    return path
  }

  /// 1, 2 or 5 with zeros before or behind it.
  static func roundedUp(_ value: Double) -> Double {
    var (unit, divisor) = (1.0, 1.0)
    while unit * 10 < value { unit *= 10 }
    while value * divisor * 10 <= 1 { divisor *= 10 }
    if value < 1 { divisor *= 10 }
    let scaled = value * divisor / unit
    return ([1, 2, 5].first { $0 >= scaled } ?? 10) * unit / divisor
  }

  private static func text(_ seconds: Float) -> String {
    seconds < 1 ? "\(NumberText.grouped(Int((seconds * 1000).rounded(.up)))) ms" : NumberText.seconds(Double(seconds))
  }
}
