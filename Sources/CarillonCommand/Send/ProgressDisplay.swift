internal import Carillon
internal import PushSend
internal import PushWire

/// Turns snapshots into lines, and decides when one is due. It has no clock and writes nothing.
struct ProgressDisplay {
  private let style: ProgressStyle
  private var lastDrawn: Duration?
  private var rate: ProgressRate
  private var isLineOpen = false
  private var waits = ProgressWaits()
  /// Waiting apps that the log already names.
  private var announced: Set<String> = []

  init(_ style: ProgressStyle) {
    self.style = style
    rate = ProgressRate(isSmoothed: style != .log)
  }

  /// How often a line is due: on a terminal ten times per second, in a log every five seconds.
  private var interval: Duration { style == .log ? .seconds(5) : .milliseconds(100) }

  /// What to write to standard error now; nil when it is not time yet.
  mutating func update(_ snapshot: ProgressSnapshot) -> String? {
    if style == .log, lastDrawn == nil { lastDrawn = .zero }
    let waiting = waits.update(snapshot.apps, elapsed: snapshot.elapsed)
    if let lastDrawn, snapshot.elapsed < lastDrawn + interval {
      return style == .log ? announce(waiting, all: false) : nil
    }
    lastDrawn = snapshot.elapsed
    rate.measure(snapshot)
    switch style {
    case .log: return logLine(snapshot) + "\n" + (announce(waiting, all: true) ?? "")
    case .terminal(let columns):
      isLineOpen = true
      let line = waitingLine(snapshot, waiting, columns: columns) ?? terminalLine(snapshot, columns: columns)
      // Back to the start of the line; then erase the rest of the previous text.
      return "\r" + Self.cut(line, to: columns - 1) + "\u{1B}[K"
    }
  }

  /// What to write before other text goes to the terminal: it erases the bar.
  mutating func clear() -> String {
    guard isLineOpen else { return "" }
    isLineOpen = false
    return "\r\u{1B}[K"
  }

  private func counts(_ snapshot: ProgressSnapshot) -> String {
    let rejected = snapshot.rejected > 0 ? ", \(NumberText.grouped(snapshot.rejected)) rejected" : ""
    let perSecond = NumberText.grouped(Int(rate.perSecond.rounded()))
    return "\(NumberText.grouped(snapshot.settled)) settled\(rejected), \(perSecond)/s"
  }

  private func timeLeft(_ snapshot: ProgressSnapshot) -> String {
    rate.secondsLeft(snapshot).map { ", about \(NumberText.seconds($0.rounded(.up))) left" } ?? ""
  }

  private func logLine(_ snapshot: ProgressSnapshot) -> String {
    let percent = snapshot.fraction.map { "\(Int($0 * 100)) %, " } ?? ""
    return "\(percent)\(counts(snapshot))\(timeLeft(snapshot))"
  }

  /// A line for each waiting app: when its wait begins, and then with each line of progress.
  private mutating func announce(_ waiting: [ProgressWaits.Wait], all: Bool) -> String? {
    let lines = waiting.filter { all || !announced.contains($0.app) }
    announced = Set(waiting.map(\.app))
    return lines.isEmpty ? nil : lines.map { $0.sentence + "\n" }.joined()
  }

  /// The line of the app that has waited longest, which replaces the bar; nil if no app waits.
  private func waitingLine(_ snapshot: ProgressSnapshot, _ waiting: [ProgressWaits.Wait], columns: Int) -> String? {
    guard let longest = waiting.max(by: { $0.lasting < $1.lasting }) else { return nil }
    let sentence = longest.sentence + (waiting.count > 1 ? " (and \(waiting.count - 1) more)" : "")
    let percent = snapshot.fraction.map { "\(Int($0 * 100)) %, " } ?? ""
    let withCounts = "\(percent)\(NumberText.grouped(snapshot.settled)) settled; \(sentence)"
    return withCounts.count < columns ? withCounts : sentence
  }

  private func terminalLine(_ snapshot: ProgressSnapshot, columns: Int) -> String {
    guard let fraction = snapshot.fraction else {
      return "\(counts(snapshot)), \(NumberText.seconds(snapshot.elapsed.inSeconds))"
    }
    let text = " \(Int(fraction * 100)) %  \(counts(snapshot))\(timeLeft(snapshot))"
    let width = min(30, columns - text.count - 4)
    guard width >= 5 else { return text }
    let filled = Int((fraction * Double(width)).rounded(.down))
    return "[" + String(repeating: "#", count: filled) + String(repeating: "-", count: width - filled) + "]" + text
  }

  private static func cut(_ text: String, to count: Int) -> String {
    text.count <= count ? text : String(text.prefix(max(0, count)))
  }
}
