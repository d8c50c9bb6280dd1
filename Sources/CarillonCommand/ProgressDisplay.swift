internal import Carillon
internal import PushWire

/// How far a campaign is, over all its apps.
struct ProgressSnapshot: Hashable, Sendable {
  /// Notifications taken in, and those with an outcome.
  var submitted: Int
  var settled: Int
  var rejected: Int
  /// How much of the token files has been read, and their size together; nil when one of them is a pipe.
  var consumedByteCount: Int
  var totalByteCount: Int?
  /// The beginning of the campaign, or of going on with it, has been so long ago.
  var elapsed: Duration
  /// What had its outcome at that time, and ``fraction`` then.
  var settledBefore = 0
  var fractionBefore = 0.0
  /// In the order in which they are shown.
  var apps: [AppProgress] = []

  /// 0…1: how much of the audience is done, as far as can be told; nil for pipes.
  ///
  /// The number of lines is known only at the end, so it is estimated from the bytes read so far.
  var fraction: Double? {
    guard let totalByteCount, totalByteCount > 0 else { return nil }
    let read = min(1, Double(consumedByteCount) / Double(totalByteCount))
    return submitted > 0 ? read * Double(settled) / Double(submitted) : 0
  }
}

/// Turns snapshots into lines on a terminal or in a log, and knows when it is time for one. Has no clock and writes nothing itself.
struct ProgressDisplay {
  enum Style: Hashable, Sendable {
    /// Redrawn in place, this many columns wide.
    case terminal(columns: Int)
    case log
  }

  private let style: Style
  private var lastDrawn: Duration?
  private var rateStart: (elapsed: Duration, settled: Int)?
  private var rate = 0.0
  private var isLineOpen = false
  private var waits = ProgressWaits()
  /// Apps whose waiting the log knows of.
  private var announced: Set<String> = []

  init(_ style: Style) { self.style = style }

  /// How often a line is due: on a terminal ten times per second, in a log every five seconds.
  private var interval: Duration { style == .log ? .seconds(5) : .milliseconds(100) }

  /// What to write to standard error now; nil when it is not time yet.
  mutating func update(_ snapshot: ProgressSnapshot) -> String? {
    if style == .log, lastDrawn == nil { lastDrawn = .zero }
    let waiting = waits.update(snapshot.apps, elapsed: snapshot.elapsed)
    if let lastDrawn, snapshot.elapsed < lastDrawn + interval { return style == .log ? announce(waiting, all: false) : nil }
    lastDrawn = snapshot.elapsed
    measureRate(snapshot)
    switch style {
    case .log: return logLine(snapshot) + "\n" + (announce(waiting, all: true) ?? "")
    case .terminal(let columns):
      isLineOpen = true
      let line = waitingLine(snapshot, waiting, columns: columns) ?? terminalLine(snapshot, columns: columns)
      // Back to the beginning of the line, and away with what is left of the last one.
      return "\r" + Self.cut(line, to: columns - 1) + "\u{1B}[K"
    }
  }

  /// What to write before anything else is written to the terminal: the bar goes away.
  mutating func clear() -> String {
    guard isLineOpen else { return "" }
    isLineOpen = false
    return "\r\u{1B}[K"
  }

  /// The rate of the last second or so, smoothed, as one of the whole run would hide that it has stopped.
  private mutating func measureRate(_ snapshot: ProgressSnapshot) {
    guard let start = rateStart else {
      let seconds = snapshot.elapsed.inSeconds
      rate = seconds > 0 ? Double(snapshot.settled - snapshot.settledBefore) / seconds : 0
      rateStart = (elapsed: snapshot.elapsed, settled: snapshot.settled)
      return
    }
    let seconds = (snapshot.elapsed - start.elapsed).inSeconds
    guard seconds >= 0.5 else { return }
    let measured = Double(snapshot.settled - start.settled) / seconds
    rate = style == .log ? measured : rate * 0.5 + measured * 0.5
    rateStart = (elapsed: snapshot.elapsed, settled: snapshot.settled)
  }

  private func counts(_ snapshot: ProgressSnapshot) -> String {
    let rejected = snapshot.rejected > 0 ? ", \(NumberText.grouped(snapshot.rejected)) rejected" : ""
    return "\(NumberText.grouped(snapshot.settled)) settled\(rejected), \(NumberText.grouped(Int(rate.rounded())))/s"
  }

  private func timeLeft(_ snapshot: ProgressSnapshot) -> String {
    // While nothing moves, nobody knows.
    guard let fraction = snapshot.fraction, fraction < 1, snapshot.elapsed >= .seconds(1), rate >= 0.5 else { return "" }
    let done = fraction - snapshot.fractionBefore
    guard done >= 0.005 else { return "" }
    let seconds = snapshot.elapsed.inSeconds * (1 - fraction) / done
    return ", about \(NumberText.seconds(seconds.rounded(.up))) left"
  }

  private func logLine(_ snapshot: ProgressSnapshot) -> String {
    let percent = snapshot.fraction.map { "\(Int($0 * 100)) %, " } ?? ""
    return "\(percent)\(counts(snapshot))\(timeLeft(snapshot))"
  }

  /// A line for each app that waits: at once when it begins to, and then with every line of progress.
  private mutating func announce(_ waiting: [ProgressWaits.Wait], all: Bool) -> String? {
    let told = waiting.filter { all || !announced.contains($0.app) }
    announced = Set(waiting.map(\.app))
    return told.isEmpty ? nil : told.map { $0.sentence + "\n" }.joined()
  }

  /// The app that has waited longest takes the place of the bar; nil if none waits.
  private func waitingLine(_ snapshot: ProgressSnapshot, _ waiting: [ProgressWaits.Wait], columns: Int) -> String? {
    guard let longest = waiting.max(by: { $0.lasting < $1.lasting }) else { return nil }
    let sentence = longest.sentence + (waiting.count > 1 ? " (and \(waiting.count - 1) more)" : "")
    let percent = snapshot.fraction.map { "\(Int($0 * 100)) %, " } ?? ""
    let withCounts = "\(percent)\(NumberText.grouped(snapshot.settled)) settled; \(sentence)"
    return withCounts.count < columns ? withCounts : sentence
  }

  private func terminalLine(_ snapshot: ProgressSnapshot, columns: Int) -> String {
    guard let fraction = snapshot.fraction else { return "\(counts(snapshot)), \(NumberText.seconds(snapshot.elapsed.inSeconds))" }
    let text = " \(Int(fraction * 100)) %  \(counts(snapshot))\(timeLeft(snapshot))"
    let width = min(30, columns - text.count - 4)
    guard width >= 5 else { return text }
    let filled = Int((fraction * Double(width)).rounded(.down))
    return "[" + String(repeating: "#", count: filled) + String(repeating: "-", count: width - filled) + "]" + text
  }

  private static func cut(_ text: String, to count: Int) -> String { text.count <= count ? text : String(text.prefix(max(0, count))) }
}
