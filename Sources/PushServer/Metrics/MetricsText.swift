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

  mutating func line(_ name: String, _ labels: String, _ value: Int) {
    add(name)
    add(labels)
    add(" ")
    add(String(value))
    add("\n")
  }

  mutating func line(_ name: String, _ labels: String, _ value: Double) {
    add(name)
    add(labels)
    add(" ")
    add(Self.number(value))
    add("\n")
  }

  mutating func bucket(_ name: String, _ labels: String, below bound: Double, _ count: Int) {
    add(name)
    add("_bucket")
    if labels.isEmpty {
      add("{")
    } else {
      bytes += labels.utf8.dropLast()
      add(",")
    }
    add("le=\"")
    add(Self.number(bound))
    add("\"} ")
    add(String(count))
    add("\n")
  }

  private mutating func add(_ text: String) { bytes += text.utf8 }

  private static func number(_ value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    if let whole = Int(exactly: value) { return String(whole) }
    return "\(value)"
  }

  /// Labels as they stand behind a metric's name; empty if there are none.
  static func labels(_ pairs: [(String, String)]) -> String {
    guard !pairs.isEmpty else { return "" }
    return "{"
      + pairs.map { "\(name($0.0, mayHaveColon: false))=\"\(escaped($0.1, quotes: true))\"" }
      .joined(separator: ",") + "}"
  }

  /// A name with nothing but what names may have.
  static func name(_ text: String, mayHaveColon: Bool = true) -> String {
    let name = String(
      text.map { character in
        let isGood = character.isASCII && (character.isLetter || character.isNumber || character == "_")
        return isGood || (character == ":" && mayHaveColon) ? character : "_"
      })
    return name.first.map { $0.isNumber } ?? true ? "_" + name : name
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
