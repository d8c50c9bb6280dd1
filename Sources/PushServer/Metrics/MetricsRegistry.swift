internal import Synchronization

/// All metrics, in the text format of Prometheus. Equal names and labels are one series.
final class MetricsRegistry: Sendable {
  private struct Family {
    let description: MetricDescription
    /// The series in the order in which they were made.
    var series: [any MetricSeries] = []
    var indices: [String: Int] = [:]

    mutating func removeSeries(where isRemoved: (_ labels: String) -> Bool) {
      series.removeAll { isRemoved($0.labels) }
      indices = Dictionary(uniqueKeysWithValues: series.enumerated().map { ($1.labels, $0) })
    }
  }

  private struct State {
    var families: [Family] = []
    var indices: [String: Int] = [:]
    /// The size of the last export.
    var byteCount = 0
  }

  private let state: Mutex<State>

  /// - Parameter catalogue: all metrics, in the order of the export.
  init(_ catalogue: [MetricDescription]) {
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

  /// The series is exported no longer.
  func remove(_ description: MetricDescription, _ labels: [(String, String)]) {
    let removed = MetricsText.labels(labels)
    state.withLock { state in
      guard let place = state.indices[description.name], state.families[place].indices[removed] != nil else { return }
      state.families[place].removeSeries { $0 == removed }
    }
  }

  /// No series of these apps is exported any longer.
  func remove(apps: [String]) {
    let beginnings = apps.map { MetricsText.labels([("app", $0)]).dropLast() }
    state.withLock { state in
      for index in state.families.indices {
        state.families[index].removeSeries { labels in beginnings.contains { labels.hasPrefix($0) } }
      }
    }
  }

  private func series<Series: MetricSeries>(
    _ description: MetricDescription, _ labels: [(String, String)], _ make: (String) -> Series
  ) -> Series {
    let labels = MetricsText.labels(labels)
    return state.withLock { state in
      guard let place = state.indices[description.name] else {
        preconditionFailure("\(description.name) is not in the catalogue")
      }
      if let index = state.families[place].indices[labels] {
        guard let known = state.families[place].series[index] as? Series else {
          preconditionFailure("\(description.name) is of another kind")
        }
        return known
      }
      let series = make(labels)
      state.families[place].indices[labels] = state.families[place].series.count
      state.families[place].series.append(series)
      return series
    }
  }
}
