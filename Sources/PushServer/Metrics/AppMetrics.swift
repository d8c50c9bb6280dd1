internal import Carillon
internal import PushEngine

/// The series of one app. Those with numbers that the engine counts itself are set when metrics are
/// exported.
struct AppMetrics: Sendable {
  private let app: String
  private let registry: MetricsRegistry
  private let submitted: CounterSeries
  private var outcomes: [OutcomeLabels: CounterSeries] = [:]
  private let resent: CounterSeries
  private let possibleDuplicates: CounterSeries
  private let endings: [(ConnectionEnding, CounterSeries)]
  private let queue: [(Int, GaugeSeries)]
  private let queueBytes: GaugeSeries
  private let queueOldest: GaugeSeries
  private let campaignStalled: GaugeSeries
  private let window: GaugeSeries
  private let connections: (open: GaugeSeries, opening: GaugeSeries, closed: GaugeSeries)
  private let paused: [(PauseCause, GaugeSeries)]
  /// A ``DeliveryObserver`` records in the same ones.
  private let histograms: [HistogramSeries]
  /// Nil without a certificate.
  private var credentialExpiry: GaugeSeries?

  init(_ app: String, _ registry: MetricsRegistry) {
    self.app = app
    self.registry = registry
    let labels = [("app", app)]
    submitted = registry.counter(Metric.submitted, labels)
    resent = registry.counter(Metric.resent, labels)
    possibleDuplicates = registry.counter(Metric.possibleDuplicates, labels)
    endings = ConnectionEnding.allCases.map {
      ($0, registry.counter(Metric.reconnects, labels + [("cause", $0.label)]))
    }
    queue = [10, 5, 1].map { ($0, registry.gauge(Metric.queueNotifications, labels + [("priority", "\($0)")])) }
    queueBytes = registry.gauge(Metric.queueBytes, labels)
    queueOldest = registry.gauge(Metric.queueOldest, labels)
    campaignStalled = registry.gauge(Metric.campaignStalled, labels)
    window = registry.gauge(Metric.window, labels)
    connections = (
      registry.gauge(Metric.connections, labels + [("state", "open")]),
      registry.gauge(Metric.connections, labels + [("state", "opening")]),
      registry.gauge(Metric.connections, labels + [("state", "closed")])
    )
    paused = PauseCause.allCases.map { ($0, registry.gauge(Metric.paused, labels + [("why", $0.rawValue)])) }
    histograms = [
      registry.histogram(Metric.batchSize, Self.batchLabels(app)),
      registry.histogram(Metric.deliveryDuration, Self.deliveryLabels(app)),
    ]
    for labels in OutcomeLabels.always { _ = counter(for: labels) }
  }

  static func batchLabels(_ app: String) -> [(String, String)] { [("app", app)] }
  static func deliveryLabels(_ app: String) -> [(String, String)] { [("app", app), ("stage", "gateway")] }

  private mutating func counter(for labels: OutcomeLabels) -> CounterSeries {
    if let known = outcomes[labels] { return known }
    let made = registry.counter(
      Metric.outcomes, [("app", app), ("outcome", labels.outcome), ("reason", labels.reason)])
    outcomes[labels] = made
    return made
  }

  mutating func update(_ push: PushApp) {
    let account = push.tally.account
    submitted.set(total: account.submitted)
    for (labels, count) in OutcomeLabels.counts(account) { counter(for: labels).set(total: count) }
    resent.set(total: account.resent)
    possibleDuplicates.set(total: account.possibleDuplicates)
    for (ending, counter) in endings { counter.set(total: push.tally.count(of: ending)) }
    let status = push.status
    for (priority, gauge) in queue { gauge.set(Int64(status.queue.byPriority[priority] ?? 0)) }
    queueBytes.set(Int64(status.queue.byteCount))
    queueOldest.set(status.queue.oldestAge / .seconds(1))
    campaignStalled.set(status.campaignStall / .seconds(1))
    window.set(Int64(status.windowNotifications))
    connections.open.set(Int64(status.connections.open))
    connections.opening.set(Int64(status.connections.opening))
    connections.closed.set(Int64(status.connections.closed))
    let causes = PauseCause.causes(status)
    for (cause, gauge) in paused { gauge.set(Int64(causes.contains(cause) ? 1 : 0)) }
    if let expiry = status.credentialExpiry {
      if credentialExpiry == nil { credentialExpiry = registry.gauge(Metric.credentialExpiry, [("app", app)]) }
      credentialExpiry?.set(Double(expiry))
    } else if let gone = credentialExpiry {
      // A token key has replaced the certificate.
      registry.remove([gone])
      credentialExpiry = nil
    }
  }

  /// All of them, for an app that is there no longer.
  var series: [any MetricSeries] {
    var all: [any MetricSeries] = [
      submitted, resent, possibleDuplicates, queueBytes, queueOldest, campaignStalled, window, connections.open,
      connections.opening, connections.closed,
    ]
    all += queue.map { $0.1 }
    all += outcomes.values.map { $0 }
    all += endings.map { $0.1 }
    all += paused.map { $0.1 }
    all += histograms
    if let credentialExpiry { all.append(credentialExpiry) }
    return all
  }
}

/// Why an app sends nothing, as metrics call it.
enum PauseCause: String, Hashable, Sendable, CaseIterable {
  /// It was paused.
  case `operator`
  /// Its credential was refused, its patience is over, or most of its tokens are bad.
  case suspended
  case stopped
  /// It tries, and its gateway takes nothing.
  case gateway

  static func causes(_ status: AppStatusSnapshot) -> Set<PauseCause> {
    switch status.state {
    case .paused: [.operator]
    case .suspended: [.suspended]
    case .stopped: [.stopped]
    case .running:
      if let obstacle = status.obstacle, !obstacle.isOwnLimit { [.gateway] } else { [] }
    }
  }
}

extension ConnectionEnding {
  /// The name that metrics use.
  var label: String {
    switch self {
    case .closedByGateway: "closed_by_gateway"
    case .closedByUs: "closed_by_us"
    case .reset: "reset"
    case .unreachable: "unreachable"
    case .handshakeFailed: "handshake_failed"
    case .credentialRefused: "credential_refused"
    case .failed: "failed"
    }
  }
}
