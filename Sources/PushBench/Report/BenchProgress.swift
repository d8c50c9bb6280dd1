package import PushWire

/// Shows on standard error how a benchmark is getting on: a line that is redrawn on a terminal, a
/// line for each point in a log. Has no clock.
package struct BenchProgress {
  private let style: ProgressStyle
  private let pointCount: Int
  /// What varies between the points.
  private let swept: [BenchVariable]
  private var isLineOpen = false

  package init(_ style: ProgressStyle, sweep: BenchSweep) {
    self.style = style
    pointCount = sweep.points.count
    swept = sweep.swept
  }

  /// What to write; nil when there is nothing new to say.
  package mutating func update(_ event: BenchEvent) -> String? {
    switch event {
    case .preparing(let text): preparing(text)
    case .running(let point, let settings, let stage, let elapsed):
      update(point: point, settings: settings, stage: stage, elapsed: elapsed)
    case .measured(let point, let result): finished(point: point, result)
    }
  }

  /// Before the first point.
  private func preparing(_ text: String) -> String { style == .log ? "\(text)\n" : "\r\(text)\u{1B}[K" }

  /// What to write when a point (from 0) is at this stage; nil when nothing new is to be said.
  private mutating func update(point: Int, settings: BenchSettings, stage: BenchStage, elapsed: Duration) -> String? {
    guard case .terminal(let columns) = style else { return nil }
    isLineOpen = true
    let state: String
    switch stage {
    case .connecting(let apps, let all): state = all == 1 ? "connecting" : "connecting, \(apps) of \(all) apps"
    case .warmingUp: state = "warming up"
    case .measuring(let count, let fraction): state = "\(bar(fraction)) \(NumberText.grouped(count)) sent"
    case .settling: state = "waiting for the last answers"
    }
    let line = "\(name(point, settings))\(state), \(NumberText.seconds(elapsed.inSeconds))"
    return "\r" + String(line.prefix(max(0, columns - 1))) + "\u{1B}[K"
  }

  /// When a point has been measured.
  private mutating func finished(point: Int, _ result: BenchPoint) -> String {
    let latency = result.toSocket.map { ", to socket p99 \(Figures.time(Double($0.at(99))))" } ?? ""
    let line =
      "\(name(point, result.settings))\(Figures.rate(result.perSecond)), "
      + "CPU \(Figures.decimal(result.userMicroseconds + result.systemMicroseconds)) µs\(latency)\n"
    return clear() + line
  }

  /// What to write before anything else is.
  package mutating func clear() -> String {
    guard isLineOpen || style != .log else { return "" }
    isLineOpen = false
    return "\r\u{1B}[K"
  }

  private func name(_ point: Int, _ settings: BenchSettings) -> String {
    let varied = swept.map { "\($0.rawValue) \($0.text(settings))" }.joined(separator: ", ")
    return "[\(point + 1)/\(pointCount)] " + (varied.isEmpty ? "" : "\(varied): ")
  }

  private func bar(_ fraction: Double) -> String {
    let width = 20
    let filled = Int(max(0, min(1, fraction)) * Double(width))
    return "[" + String(repeating: "#", count: filled) + String(repeating: "-", count: width - filled) + "]"
  }
}
