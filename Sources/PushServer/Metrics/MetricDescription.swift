/// A metric as it is exported: its name, what it means, and its kind.
struct MetricDescription: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    case counter
    case gauge
    case histogram(HistogramBounds)

    var name: String {
      switch self {
      case .counter: "counter"
      case .gauge: "gauge"
      case .histogram: "histogram"
      }
    }
  }

  /// In base units; with `_total` if it is a counter.
  let name: String
  /// One sentence.
  let help: String
  let kind: Kind
}

/// The upper bounds of a histogram's buckets, without the last one, which is infinite.
struct HistogramBounds: Hashable, Sendable {
  /// Ascending, in ticks.
  let ticks: [Int]
  /// Ticks in one unit of the metric.
  let ticksPerUnit: Int

  /// A thousand apps multiply the number of buckets, so there are few.
  static let limit = 11

  private init(ticks: [Int], ticksPerUnit: Int) {
    precondition(ticks.count <= Self.limit, "\(ticks.count) buckets")
    (self.ticks, self.ticksPerUnit) = (ticks, ticksPerUnit)
  }

  /// Durations, which are recorded in nanoseconds and exported in seconds.
  static func durations(milliseconds bounds: [Double]) -> HistogramBounds {
    HistogramBounds(ticks: bounds.map { Int($0 * 1_000_000) }, ticksPerUnit: 1_000_000_000)
  }

  static func counts(_ bounds: [Int]) -> HistogramBounds { HistogramBounds(ticks: bounds, ticksPerUnit: 1) }
}
