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
  private let queueBytes: GaugeSeries
  private let paused: [(String, GaugeSeries)]
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
    queueBytes = registry.gauge(Metric.queueBytes, labels)
    paused = ["stopped"].map { ($0, registry.gauge(Metric.paused, labels + [("why", $0)])) }
    for labels in OutcomeLabels.always { _ = counter(for: labels) }
  }

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
    queueBytes.set(Double(push.queuedByteCount))
    for (_, gauge) in paused { gauge.set(push.stopReason == nil ? 0 : Int64(1)) }
    if let expiry = push.credentialExpiry {
      if credentialExpiry == nil { credentialExpiry = registry.gauge(Metric.credentialExpiry, [("app", app)]) }
      credentialExpiry?.set(Double(expiry))
    }
  }

  /// All of them, for an app that is there no longer.
  var series: [any MetricSeries] {
    var all: [any MetricSeries] = [submitted, resent, possibleDuplicates, queueBytes]
    all += outcomes.values.map { $0 }
    all += endings.map { $0.1 }
    all += paused.map { $0.1 }
    if let credentialExpiry { all.append(credentialExpiry) }
    return all
  }
}

extension ConnectionEnding {
  /// As metrics call it.
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
