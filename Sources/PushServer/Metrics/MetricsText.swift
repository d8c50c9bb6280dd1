/// Metrics in the text format of Prometheus, version 0.0.4.
struct MetricsText: Sendable {
  private struct Family {
    let description: MetricDescription
    var lines: [UInt8] = []
  }

  private var families: [Family]
  private let places: [String: Int]

  static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  /// - Parameter catalogue: all metrics, in the order of the export.
  init(_ catalogue: [MetricDescription]) {
    families = catalogue.map { Family(description: $0) }
    places = Dictionary(uniqueKeysWithValues: catalogue.enumerated().map { ($1.name, $0) })
  }

  /// Those with a value; each family's lines stand together.
  var bytes: [UInt8] {
    let families = families.filter { !$0.lines.isEmpty }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(families.reduce(0) { $0 + $1.lines.count + 512 })
    for family in families {
      let (name, help) = (family.description.name, family.description.help)
      if !help.isEmpty {
        bytes += "# HELP \(name) ".utf8
        Self.add(help, escapingQuotes: false, to: &bytes)
        bytes.append(UInt8(ascii: "\n"))
      }
      bytes += "# TYPE \(name) \(family.description.kind.name)\n".utf8
      bytes += family.lines
    }
    return bytes
  }

  mutating func add(_ metric: MetricDescription, _ value: Int, _ labels: (String, String)...) {
    add(metric, "", labels, String(value))
  }

  mutating func add(_ metric: MetricDescription, _ value: Double, _ labels: (String, String)...) {
    add(metric, "", labels, Self.number(value))
  }

  mutating func add(_ histogram: HistogramSeries) {
    let bounds = histogram.bounds
    var total = 0
    for (index, count) in histogram.bucketCounts.enumerated() {
      total += count
      let bound = index < bounds.ticks.count ? Double(bounds.ticks[index]) / Double(bounds.ticksPerUnit) : .infinity
      add(histogram.description, "_bucket", histogram.labels + [("le", Self.number(bound))], String(total))
    }
    let sum = Double(histogram.sum) / Double(bounds.ticksPerUnit)
    add(histogram.description, "_sum", histogram.labels, Self.number(sum))
    add(histogram.description, "_count", histogram.labels, String(total))
  }

  private mutating func add(
    _ metric: MetricDescription, _ suffix: String, _ labels: [(String, String)], _ value: String
  ) {
    guard let place = places[metric.name] else { preconditionFailure("\(metric.name) is not in the catalogue") }
    Self.add(metric.name + suffix, labels, value, to: &families[place].lines)
  }

  private static func add(_ name: String, _ labels: [(String, String)], _ value: String, to bytes: inout [UInt8]) {
    bytes += name.utf8
    var mark = UInt8(ascii: "{")
    for (key, text) in labels {
      bytes.append(mark)
      bytes += key.utf8
      bytes += "=\"".utf8
      add(text, escapingQuotes: true, to: &bytes)
      bytes.append(UInt8(ascii: "\""))
      mark = UInt8(ascii: ",")
    }
    if !labels.isEmpty { bytes.append(UInt8(ascii: "}")) }
    bytes.append(UInt8(ascii: " "))
    bytes += value.utf8
    bytes.append(UInt8(ascii: "\n"))
  }

  private static func add(_ text: String, escapingQuotes: Bool, to bytes: inout [UInt8]) {
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\\"): bytes += "\\\\".utf8
      case UInt8(ascii: "\n"): bytes += "\\n".utf8
      case UInt8(ascii: "\"") where escapingQuotes: bytes += "\\\"".utf8
      default: bytes.append(byte)
      }
    }
  }

  static func number(_ value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    if let whole = Int(exactly: value) { return String(whole) }
    return "\(value)"
  }
}
