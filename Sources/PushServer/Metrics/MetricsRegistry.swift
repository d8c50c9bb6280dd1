internal import CoreMetrics
internal import Synchronization

/// Every metric of the process: a backend of swift-metrics that keeps its numbers in memory and
/// exports them in the text format of Prometheus.
///
/// Handles are made once and kept by their users. Two with the same name and labels are the same
/// series.
final class MetricsRegistry: MetricsFactory {
  private struct Family {
    let description: MetricDescription
    /// The series in the order in which they were made.
    var series: [any MetricSeries] = []
    var indices: [String: Int] = [:]
  }

  private struct State {
    var families: [Family] = []
    var indices: [String: Int] = [:]
    /// The size of the last export.
    var byteCount = 0
  }

  private let state: Mutex<State>

  /// - Parameter catalogue: the metrics that are known in advance, in the order of the export.
  init(_ catalogue: [MetricDescription] = []) {
    var state = State()
    for description in catalogue {
      state.indices[description.name] = state.families.count
      state.families.append(Family(description: description))
    }
    self.state = Mutex(state)
  }

  var text: [UInt8] {
    let (families, capacity) = state.withLock { ($0.families, $0.byteCount) }
    var text = MetricsText(capacity: capacity + capacity / 8)
    for family in families where !family.series.isEmpty {
      text.head(family.description)
      for series in family.series { series.write(family.description.name, to: &text) }
    }
    state.withLock { $0.byteCount = text.bytes.count }
    return text.bytes
  }

  // MARK: Handles

  func counter(_ description: MetricDescription, _ labels: [(String, String)] = []) -> CounterSeries {
    series(description, labels) { CounterSeries(labels: $0) }
  }

  func gauge(_ description: MetricDescription, _ labels: [(String, String)] = []) -> GaugeSeries {
    series(description, labels) { GaugeSeries(labels: $0) }
  }

  func histogram(_ description: MetricDescription, _ labels: [(String, String)] = []) -> HistogramSeries {
    guard case .histogram(let bounds) = description.kind else {
      preconditionFailure("\(description.name) is no histogram")
    }
    return series(description, labels) { HistogramSeries(labels: $0, bounds: bounds) }
  }

  /// The series are exported no longer.
  func remove(_ series: [any MetricSeries]) {
    let removed = Set(series.map { ObjectIdentifier($0) })
    state.withLock { state in
      for index in state.families.indices {
        let count = state.families[index].series.count
        state.families[index].series.removeAll { removed.contains(ObjectIdentifier($0)) }
        guard state.families[index].series.count < count else { continue }
        state.families[index].indices = Dictionary(
          uniqueKeysWithValues: state.families[index].series.enumerated().map { ($1.labels, $0) })
      }
    }
  }

  /// One that is not exported, if the name belongs to a metric of another kind.
  private func series<Series: MetricSeries>(
    _ description: MetricDescription, _ labels: [(String, String)], _ make: (String) -> Series
  ) -> Series {
    let labels = MetricsText.labels(labels)
    return state.withLock { state in
      let place: Int
      if let known = state.indices[description.name] {
        place = known
      } else {
        place = state.families.count
        state.indices[description.name] = place
        state.families.append(Family(description: description))
      }
      if let index = state.families[place].indices[labels] {
        return state.families[place].series[index] as? Series ?? make(labels)
      }
      let series = make(labels)
      guard state.families[place].description.kind == description.kind else { return series }
      state.families[place].indices[labels] = state.families[place].series.count
      state.families[place].series.append(series)
      return series
    }
  }

  // MARK: MetricsFactory, for other libraries

  /// Nil if the name belongs to a metric of another kind: such a handle is not exported.
  private func description(_ name: String, _ kind: MetricDescription.Kind) -> MetricDescription? {
    let known = state.withLock { state in state.indices[name].map { state.families[$0].description } }
    guard let known else { return MetricDescription(name: name, help: "", kind: kind) }
    switch (known.kind, kind) {
    case (.counter, .counter), (.gauge, .gauge), (.histogram, .histogram): return known
    default: return nil
    }
  }

  private static let usualDurations = HistogramBounds.durations(
    [1, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000].map { .milliseconds($0) })
  private static let usualCounts = HistogramBounds.counts([1, 4, 16, 64, 256, 1_024, 4_096, 16_384])

  func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    let name = MetricsText.name(label)
    let description = description(name.hasSuffix("_total") ? name : name + "_total", .counter)
    return description.map { counter($0, dimensions) } ?? CounterSeries(labels: "")
  }

  func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    description(MetricsText.name(label), .gauge).map { gauge($0, dimensions) } ?? GaugeSeries(labels: "")
  }

  func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
    let name = MetricsText.name(label)
    guard aggregate else { return description(name, .gauge).map { gauge($0, dimensions) } ?? GaugeSeries(labels: "") }
    return description(name, .histogram(Self.usualCounts)).map { histogram($0, dimensions) }
      ?? HistogramSeries(labels: "", bounds: Self.usualCounts)
  }

  func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    let name = MetricsText.name(label)
    let description = description(
      name.hasSuffix("_seconds") ? name : name + "_seconds", .histogram(Self.usualDurations))
    return description.map { histogram($0, dimensions) }
      ?? HistogramSeries(labels: "", bounds: Self.usualDurations)
  }

  func destroyCounter(_ handler: any CounterHandler) { destroy(handler) }
  func destroyMeter(_ handler: any MeterHandler) { destroy(handler) }
  func destroyRecorder(_ handler: any RecorderHandler) { destroy(handler) }
  func destroyTimer(_ handler: any TimerHandler) { destroy(handler) }

  private func destroy(_ handler: AnyObject) {
    if let series = handler as? any MetricSeries { remove([series]) }
  }
}
