internal import Synchronization

/// A histogram with one set of labels. Updates are lock-free and allocate nothing.
final class HistogramSeries: Sendable {
  let description: MetricDescription
  let labels: [(String, String)]
  let bounds: HistogramBounds
  /// By bucket, the infinite one last. Not cumulative.
  private let counts = InlineArray<12, Atomic<Int>> { _ in Atomic(0) }
  private let ticks = Atomic<Int>(0)

  init(_ description: MetricDescription, _ labels: [(String, String)] = []) {
    guard case .histogram(let bounds) = description.kind else {
      preconditionFailure("\(description.name) is no histogram")
    }
    (self.description, self.labels, self.bounds) = (description, labels, bounds)
  }

  /// The same value, several times at once.
  func record(ticks: Int, count: Int) {
    let bucket = bounds.ticks.firstIndex { ticks <= $0 } ?? bounds.ticks.count
    counts[bucket].wrappingAdd(count, ordering: .relaxed)
    self.ticks.wrappingAdd(ticks &* count, ordering: .relaxed)
  }

  func record(_ duration: Duration, count: Int = 1) {
    record(ticks: Int(max(.zero, duration) / .nanoseconds(1)), count: count)
  }

  /// The infinite bucket is the last one.
  var bucketCounts: [Int] { (0...bounds.ticks.count).map { counts[$0].load(ordering: .relaxed) } }
  var sum: Int { ticks.load(ordering: .relaxed) }
}

/// The histograms of a service. Equal names and labels are one series.
final class Histograms: Sendable {
  private struct Key: Hashable {
    let name: String
    let labels: [String]
  }

  private struct State {
    /// In the order in which they were made.
    var series: [HistogramSeries] = []
    var indices: [Key: Int] = [:]
  }

  private let state = Mutex(State())

  var all: [HistogramSeries] { state.withLock { $0.series } }

  func series(_ description: MetricDescription, _ labels: (String, String)...) -> HistogramSeries {
    let key = Key(name: description.name, labels: labels.flatMap { [$0, $1] })
    return state.withLock { state in
      if let index = state.indices[key] { return state.series[index] }
      let series = HistogramSeries(description, labels)
      state.indices[key] = state.series.count
      state.series.append(series)
      return series
    }
  }

  /// Nil: there is none yet.
  func known(_ description: MetricDescription, _ labels: (String, String)...) -> HistogramSeries? {
    let key = Key(name: description.name, labels: labels.flatMap { [$0, $1] })
    return state.withLock { state in state.indices[key].map { state.series[$0] } }
  }

  /// None of these apps is exported any longer.
  func remove(apps: [String]) {
    state.withLock { state in
      let removed = Set(state.indices.filter { $0.key.labels.first == "app" && apps.contains($0.key.labels[1]) }.values)
      var left = State()
      for (index, series) in state.series.enumerated() where !removed.contains(index) {
        left.indices[Key(name: series.description.name, labels: series.labels.flatMap { [$0, $1] })] = left.series.count
        left.series.append(series)
      }
      state = left
    }
  }
}
