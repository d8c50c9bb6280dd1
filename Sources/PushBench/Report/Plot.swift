internal import Foundation

/// A plot as inline SVG. The page's style sheet gives the colours, so the plot follows the reader's
/// light or dark mode.
struct Plot {
  /// How values map to positions on an axis.
  enum Scale: Hashable {
    /// From 0 to a round number.
    case linear
    /// Powers of ten.
    case logarithmic
  }

  struct Line: Hashable {
    var name: String
    /// One for each of the plot's `labels`; nil leaves a gap.
    var values: [Double?]
  }

  enum Shape: Hashable {
    case lines
    /// One bar per label, with the lines' values stacked.
    case stackedBars
  }

  var title: String
  /// The title of the horizontal axis, which has a label for each position.
  var axis: String
  var labels: [String]
  /// The axis shows a subset of many labels, but every label has a point.
  var lines: [Line]
  var scale = Scale.linear
  var shape = Shape.lines
  /// The unit of a linear axis: its ticks are round numbers of this.
  var unit = 1.0
  /// Formats a value of the vertical axis.
  var format: (Double) -> String

  private static let size = (width: 560.0, height: 320.0)
  private static let margin = (left: 74.0, right: 18.0, top: 16.0, bottom: 52.0)
  /// The number of colours in the style sheet.
  static let colourCount = 8

  private var innerWidth: Double { Self.size.width - Self.margin.left - Self.margin.right }
  private var innerHeight: Double { Self.size.height - Self.margin.top - Self.margin.bottom }

  /// The figure with its title and, for several lines, a legend.
  var html: String {
    let legend =
      lines.count < 2
      ? ""
      : "<ul class=\"legend\">"
        + lines.indices.map { "<li class=\"c\($0 % Self.colourCount)\">\(Self.escaped(lines[$0].name))</li>" }.joined()
        + "</ul>"
    return "<figure><figcaption>\(Self.escaped(title))</figcaption>\(legend)\(svg)</figure>"
  }

  var svg: String {
    let ticks = ticks
    let range = (low: ticks.first ?? 0, high: ticks.last ?? 1)
    var parts = [
      "<svg viewBox=\"0 0 \(Int(Self.size.width)) \(Int(Self.size.height))\" role=\"img\" "
        + "aria-label=\"\(Self.escaped("\(title), by \(axis)"))\">"
    ]
    for tick in ticks {
      let y = place(tick, in: range)
      parts.append(rule("grid", y))
      parts.append(text("tick", Self.margin.left - 8, y + 4, format(tick), anchor: "end"))
    }
    let floor = Self.size.height - Self.margin.bottom
    for (index, label) in labels.enumerated() where isWritten(index) {
      parts.append(text("tick", x(index), floor + 18, label))
    }
    parts.append(text("axis", Self.margin.left + innerWidth / 2, Self.size.height - 10, axis))
    parts += shape == .lines ? drawnLines(range) : drawnBars(range)
    parts.append(rule("base", floor))
    parts.append("</svg>")
    return parts.joined()
  }

  // MARK: Drawing

  private func text(_ kind: String, _ x: Double, _ y: Double, _ words: String, anchor: String = "middle") -> String {
    "<text class=\"\(kind)\" x=\"\(n(x))\" y=\"\(n(y))\" text-anchor=\"\(anchor)\">\(Self.escaped(words))</text>"
  }

  private func rule(_ kind: String, _ y: Double) -> String {
    "<line class=\"\(kind)\" x1=\"\(n(Self.margin.left))\" x2=\"\(n(Self.size.width - Self.margin.right))\" "
      + "y1=\"\(n(y))\" y2=\"\(n(y))\"/>"
  }

  private func drawnLines(_ range: (low: Double, high: Double)) -> [String] {
    var parts: [String] = []
    for (index, line) in lines.enumerated() {
      let points = line.values.enumerated().compactMap { place, value in value.map { (place, $0) } }
      let path = points.map { "\(n(x($0.0))),\(n(place($0.1, in: range)))" }.joined(separator: " ")
      parts.append("<polyline class=\"line c\(index % Self.colourCount)\" points=\"\(path)\"/>")
      for (label, value) in points {
        let tip = Self.escaped("\(line.name), \(labels[label]): \(format(value))")
        parts.append(
          "<circle class=\"dot c\(index % Self.colourCount)\" cx=\"\(n(x(label)))\" "
            + "cy=\"\(n(place(value, in: range)))\" r=\"4\"><title>\(tip)</title></circle>"
        )
      }
    }
    return parts
  }

  private func drawnBars(_ range: (low: Double, high: Double)) -> [String] {
    let width = min(64, innerWidth / Double(max(1, labels.count)) * 0.6)
    var parts: [String] = []
    for label in labels.indices {
      var height = 0.0
      for (index, line) in lines.enumerated() {
        guard let value = line.values[label], value > 0 else { continue }
        let (top, bottom) = (place(height + value, in: range), place(height, in: range))
        let tip = Self.escaped("\(line.name), \(labels[label]): \(format(value))")
        parts.append(
          "<rect class=\"bar c\(index % Self.colourCount)\" x=\"\(n(x(label) - width / 2))\" y=\"\(n(top))\" "
            + "width=\"\(n(width))\" "
            + "height=\"\(n(max(0, bottom - top)))\"><title>\(tip)</title></rect>")
        height += value
      }
      if height > 0 { parts.append(text("value", x(label), place(height, in: range) - 6, format(height))) }
    }
    return parts
  }

  // MARK: Axes

  /// Labels stand in the middle of equal parts, so a single one stands in the centre.
  private func x(_ index: Int) -> Double {
    Self.margin.left + innerWidth * (Double(index) + 0.5) / Double(max(1, labels.count))
  }

  /// At most a dozen labels fit.
  private func isWritten(_ index: Int) -> Bool {
    let step = (labels.count + 11) / 12
    return step <= 1 || index % step == 0
  }

  private func place(_ value: Double, in range: (low: Double, high: Double)) -> Double {
    let share: Double
    switch scale {
    case .linear: share = (value - range.low) / (range.high - range.low)
    case .logarithmic:
      share = (log10(max(value, range.low)) - log10(range.low)) / (log10(range.high) - log10(range.low))
    }
    return Self.margin.top + innerHeight * (1 - max(0, min(1, share)))
  }

  /// The positions of the grid lines: at least two round numbers that enclose all values.
  var ticks: [Double] {
    let values =
      shape == .lines
      ? lines.flatMap { $0.values.compactMap { $0 } }
      : labels.indices.map { label in lines.compactMap { $0.values[label] }.reduce(0, +) }
    switch scale {
    case .linear: return Self.linearTicks(to: (values.max() ?? unit) / unit).map { $0 * unit }
    case .logarithmic: return Self.powerTicks(values.filter { $0 > 0 })
    }
  }

  /// Ticks from 0 on, four to eight steps of 1, 2, 2.5 or 5 times a power of ten. The last is at or
  /// above `highest`.
  static func linearTicks(to highest: Double) -> [Double] {
    guard highest > 0, highest.isFinite else { return [0, 1] }
    let power = pow(10, log10(highest / 5).rounded(.down))
    let step = [1, 2, 2.5, 5, 10].map { $0 * power }.first { highest / $0 <= 6 } ?? power * 10
    return (0...Int((highest / step).rounded(.up))).map { Double($0) * step }
  }

  static func powerTicks(_ values: [Double]) -> [Double] {
    guard let least = values.min(), let most = values.max() else { return [1, 10] }
    let low = Int(log10(least).rounded(.down))
    let high = max(Int(log10(most).rounded(.up)), low + 1)
    return (low...high).map { pow(10, Double($0)) }
  }

  // MARK: Text

  /// A coordinate with one decimal, which is finer than any screen.
  private func n(_ number: Double) -> String { String(format: "%.1f", number) }

  static func escaped(_ text: String) -> String {
    var result = ""
    for character in text {
      switch character {
      case "&": result += "&amp;"
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "\"": result += "&quot;"
      default: result.append(character)
      }
    }
    return result
  }
}
