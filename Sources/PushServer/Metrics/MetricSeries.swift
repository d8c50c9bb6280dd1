internal import CoreMetrics
internal import Synchronization

/// One metric with one set of labels. Updates are lock-free and allocate nothing.
protocol MetricSeries: AnyObject, Sendable {
  /// As they are exported, with braces; empty without labels.
  var labels: String { get }
  func write(_ name: String, to text: inout MetricsText)
}

final class CounterSeries: MetricSeries, CounterHandler {
  let labels: String
  private let count = Atomic<Int>(0)

  init(labels: String) { self.labels = labels }

  func increment(by amount: Int64) { count.wrappingAdd(Int(max(0, amount)), ordering: .relaxed) }
  func reset() { count.store(0, ordering: .relaxed) }
  /// Sets a total that is counted elsewhere.
  func set(total: Int) { count.store(total, ordering: .relaxed) }

  func write(_ name: String, to text: inout MetricsText) {
    text.line(name, labels, count.load(ordering: .relaxed))
  }
}

final class GaugeSeries: MetricSeries, MeterHandler, RecorderHandler {
  let labels: String
  private let bits = Atomic<UInt64>(0)

  init(labels: String) { self.labels = labels }

  func set(_ value: Int64) { set(Double(value)) }
  func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }

  func increment(by amount: Double) {
    var old = bits.load(ordering: .relaxed)
    while true {
      let new = (Double(bitPattern: old) + amount).bitPattern
      let (exchanged, current) = bits.weakCompareExchange(expected: old, desired: new, ordering: .relaxed)
      if exchanged { return }
      old = current
    }
  }

  func decrement(by amount: Double) { increment(by: -amount) }
  func record(_ value: Int64) { set(value) }
  func record(_ value: Double) { set(value) }

  func write(_ name: String, to text: inout MetricsText) {
    text.line(name, labels, Double(bitPattern: bits.load(ordering: .relaxed)))
  }
}

final class HistogramSeries: MetricSeries, TimerHandler, RecorderHandler {
  let labels: String
  private let bounds: HistogramBounds
  /// By bucket, the infinite one last. Not cumulative.
  private let counts = InlineArray<12, Atomic<Int>> { _ in Atomic(0) }
  private let sum = Atomic<Int>(0)

  init(labels: String, bounds: HistogramBounds) {
    self.labels = labels
    self.bounds = bounds
  }

  /// The same value, several times at once.
  func record(ticks: Int, count: Int) {
    let bucket = bounds.ticks.firstIndex { ticks <= $0 } ?? bounds.ticks.count
    counts[bucket].wrappingAdd(count, ordering: .relaxed)
    sum.wrappingAdd(ticks &* count, ordering: .relaxed)
  }

  func record(_ duration: Duration, count: Int = 1) {
    record(ticks: Int(max(.zero, duration) / .nanoseconds(1)), count: count)
  }

  func recordNanoseconds(_ duration: Int64) { record(ticks: Int(max(0, duration)), count: 1) }
  func record(_ value: Int64) { record(ticks: Int(value), count: 1) }
  func record(_ value: Double) { record(ticks: Int(exactly: value.rounded()) ?? 0, count: 1) }

  func write(_ name: String, to text: inout MetricsText) {
    var total = 0
    for (index, bound) in bounds.ticks.enumerated() {
      total += counts[index].load(ordering: .relaxed)
      text.bucket(name, labels, below: Double(bound) / Double(bounds.ticksPerUnit), total)
    }
    total += counts[bounds.ticks.count].load(ordering: .relaxed)
    text.bucket(name, labels, below: .infinity, total)
    let sum = sum.load(ordering: .relaxed)
    text.line(name + "_sum", labels, Double(sum) / Double(bounds.ticksPerUnit))
    text.line(name + "_count", labels, total)
  }
}
