/// The series of one app's bridge, set when metrics are exported.
struct BridgeMetrics: Sendable {
  private let app: String
  private let registry: MetricsRegistry
  private let clients: GaugeSeries
  private let frames: CounterSeries
  private let alreadyDelivered: CounterSeries
  private let feedback: CounterSeries
  private var responses: [UInt8: CounterSeries] = [:]

  init(_ app: String, _ registry: MetricsRegistry) {
    self.app = app
    self.registry = registry
    let labels = [("app", app)]
    clients = registry.gauge(Metric.bridgeClients, labels)
    frames = registry.counter(Metric.bridgeFrames, labels)
    alreadyDelivered = registry.counter(Metric.bridgeAlreadyDelivered, labels)
    feedback = registry.counter(Metric.bridgeFeedback, labels)
  }

  mutating func update(_ counts: BridgeCounts) {
    clients.set(Int64(counts.clients))
    frames.set(total: counts.frames)
    alreadyDelivered.set(total: counts.alreadyDelivered)
    feedback.set(total: counts.feedback)
    for (status, count) in counts.responses {
      let series =
        responses[status] ?? registry.counter(Metric.bridgeResponses, [("app", app), ("status", "\(status)")])
      responses[status] = series
      series.set(total: count)
    }
  }
}
