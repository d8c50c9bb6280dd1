/// Metrics in the text format of Prometheus, version 0.0.4.
struct MetricsText: Sendable {
  private(set) var bytes: [UInt8] = []

  static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

  mutating func head(_ description: MetricDescription) {
    let kind =
      switch description.kind {
      case .counter: "counter"
      case .gauge: "gauge"
      case .histogram: "histogram"
      }
    if !description.help.isEmpty {
      add("# HELP \(description.name) \(Self.escaped(description.help, quotes: false))\n")
    }
    add("# TYPE \(description.name) \(kind)\n")
  }

  mutating func line(_ name: String, _ labels: String, _ value: String) {
    for part in [name, labels, " ", value, "\n"] { add(part) }
  }

  mutating func bucket(_ name: String, _ labels: String, below bound: Double, _ count: Int) {
    let others = labels.isEmpty ? "{" : labels.dropLast() + ","
    line(name + "_bucket", "\(others)le=\"\(Self.number(bound))\"}", String(count))
  }

  private mutating func add(_ text: String) { bytes += text.utf8 }

  static func number(_ value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    if let whole = Int(exactly: value) { return String(whole) }
    return "\(value)"
  }

  /// Labels as they stand behind a metric's name; empty if there are none.
  static func labels(_ pairs: [(String, String)]) -> String {
    guard !pairs.isEmpty else { return "" }
    return "{" + pairs.map { "\($0.0)=\"\(escaped($0.1, quotes: true))\"" }.joined(separator: ",") + "}"
  }

  private static func escaped(_ text: String, quotes: Bool) -> String {
    guard text.utf8.contains(where: { $0 == UInt8(ascii: "\\") || $0 == UInt8(ascii: "\"") || $0 == 10 }) else {
      return text
    }
    var escaped = ""
    for character in text.unicodeScalars {
      switch character {
      case "\\": escaped += "\\\\"
      case "\n": escaped += "\\n"
      case "\"" where quotes: escaped += "\\\""
      default: escaped.unicodeScalars.append(character)
      }
    }
    return escaped
  }
}
