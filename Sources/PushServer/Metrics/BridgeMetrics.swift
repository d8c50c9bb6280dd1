internal import PushService
internal import PushStore
internal import PushWire

/// The series of one app's bridge, set when metrics are exported.
struct BridgeMetrics: Sendable {
  private let app: String
  private let registry: MetricsRegistry
  private let clients: GaugeSeries
  private let frames: CounterSeries
  private let alreadyDelivered: CounterSeries
  private let lastAlreadyDelivered: GaugeSeries
  private let feedback: CounterSeries
  private var responses: [UInt8: CounterSeries] = [:]
  private let silentCloses: CounterSeries

  /// Exported from the beginning, so that the first of them is seen as an increase.
  private static let usualStatuses: [GatewayStatus] = [
    .processingError, .invalidPayloadSize, .invalidToken, .shutdown,
  ]

  init(_ app: String, _ registry: MetricsRegistry) {
    self.app = app
    self.registry = registry
    let labels = [("app", app)]
    clients = registry.gauge(Metric.bridgeClients, labels)
    frames = registry.counter(Metric.bridgeFrames, labels)
    alreadyDelivered = registry.counter(Metric.bridgeAlreadyDelivered, labels)
    lastAlreadyDelivered = registry.gauge(Metric.bridgeLastAlreadyDelivered, labels)
    feedback = registry.counter(Metric.bridgeFeedback, labels)
    silentCloses = registry.counter(Metric.bridgeSilentCloses, labels)
    for status in Self.usualStatuses { _ = counter(for: status.rawValue) }
  }

  private mutating func counter(for status: UInt8) -> CounterSeries {
    if let known = responses[status] { return known }
    let made = registry.counter(Metric.bridgeResponses, [("app", app), ("status", "\(status)")])
    responses[status] = made
    return made
  }

  mutating func update(_ counts: BridgeCounts) {
    clients.set(Int64(counts.clients))
    frames.set(total: counts.frames)
    alreadyDelivered.set(total: counts.alreadyDelivered)
    lastAlreadyDelivered.set((counts.lastAlreadyDelivered?.milliseconds ?? 0) / 1000)
    feedback.set(total: counts.feedback)
    silentCloses.set(total: counts.silentCloses)
    for (status, count) in counts.responses { counter(for: status).set(total: count) }
  }

  /// All of them, for an app that is there no longer.
  var series: [any MetricSeries] {
    [clients, frames, alreadyDelivered, lastAlreadyDelivered, feedback, silentCloses] + responses.values.map { $0 }
  }
}
