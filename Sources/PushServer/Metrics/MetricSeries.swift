internal import Synchronization

/// One metric with one set of labels. Updates are lock-free and allocate nothing.
protocol MetricSeries: AnyObject, Sendable {
  /// As they are exported, with braces; empty without labels.
  var labels: String { get }
  func write(_ name: String, to text: inout MetricsText)
}

final class CounterSeries: MetricSeries {
  let labels: String
  private let count = Atomic<Int>(0)

  init(labels: String) { self.labels = labels }

  /// Sets a total that is counted elsewhere.
  func set(total: Int) { count.store(total, ordering: .relaxed) }

  func write(_ name: String, to text: inout MetricsText) {
    text.line(name, labels, String(count.load(ordering: .relaxed)))
  }
}

final class GaugeSeries: MetricSeries {
  let labels: String
  private let bits = Atomic<UInt64>(0)

  init(labels: String) { self.labels = labels }

  func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }

  func write(_ name: String, to text: inout MetricsText) {
    text.line(name, labels, MetricsText.number(Double(bitPattern: bits.load(ordering: .relaxed))))
  }
}

final class HistogramSeries: MetricSeries {
  let labels: String
  private let bounds: HistogramBounds
  /// By bucket, the infinite one last. Not cumulative.
  private let counts = InlineArray<12, Atomic<Int>> { _ in Atomic(0) }
  private let sum = Atomic<Int>(0)

  init(labels: String, bounds: HistogramBounds) { (self.labels, self.bounds) = (labels, bounds) }

  /// The same value, several times at once.
  func record(ticks: Int, count: Int) {
    let bucket = bounds.ticks.firstIndex { ticks <= $0 } ?? bounds.ticks.count
    counts[bucket].wrappingAdd(count, ordering: .relaxed)
    sum.wrappingAdd(ticks &* count, ordering: .relaxed)
  }

  func record(_ duration: Duration, count: Int = 1) {
    record(ticks: Int(max(.zero, duration) / .nanoseconds(1)), count: count)
  }

  func write(_ name: String, to text: inout MetricsText) {
    var total = 0
    for (index, bound) in bounds.ticks.enumerated() {
      total += counts[index].load(ordering: .relaxed)
      text.bucket(name, labels, below: Double(bound) / Double(bounds.ticksPerUnit), total)
    }
    total += counts[bounds.ticks.count].load(ordering: .relaxed)
    text.bucket(name, labels, below: .infinity, total)
    let sum = sum.load(ordering: .relaxed)
    text.line(name + "_sum", labels, MetricsText.number(Double(sum) / Double(bounds.ticksPerUnit)))
    text.line(name + "_count", labels, String(total))
  }
}
