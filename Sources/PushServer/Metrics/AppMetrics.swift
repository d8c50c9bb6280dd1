internal import Carillon
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushWire

/// One app's series that the engine and the bridge count themselves, set at the export.
struct AppMetrics {
  let app: String
  let registry: MetricsRegistry

  /// Exported from the beginning, so that the first of them is seen as an increase.
  private static let usualStatuses: [GatewayStatus] = [
    .processingError, .invalidPayloadSize, .invalidToken, .shutdown,
  ]

  static func batchLabels(_ app: String) -> [(String, String)] { [("app", app)] }
  static func deliveryLabels(_ app: String) -> [(String, String)] { [("app", app), ("stage", "gateway")] }

  func update(_ push: PushApp) {
    let account = push.tally.account
    count(Metric.submitted, account.submitted)
    let outcomes = OutcomeLabels.counts(account)
    let others = outcomes.keys.filter { !OutcomeLabels.always.contains($0) }
    for labels in OutcomeLabels.always + others {
      count(Metric.outcomes, outcomes[labels] ?? 0, ("outcome", labels.outcome), ("reason", labels.reason))
    }
    count(Metric.resent, account.resent)
    count(Metric.possibleDuplicates, account.possibleDuplicates)
    for ending in ConnectionEnding.allCases {
      count(Metric.reconnects, push.tally.count(of: ending), ("cause", ending.label))
    }
    let status = push.status
    for priority in [10, 5, 1] {
      gauge(Metric.queueNotifications, Double(status.queue.byPriority[priority] ?? 0), ("priority", "\(priority)"))
    }
    gauge(Metric.queueBytes, Double(status.queue.byteCount))
    gauge(Metric.queueOldest, status.queue.oldestAge / .seconds(1))
    gauge(Metric.campaignStalled, status.campaignStall / .seconds(1))
    gauge(Metric.window, Double(status.windowNotifications))
    gauge(Metric.connections, Double(status.connections.open), ("state", "open"))
    gauge(Metric.connections, Double(status.connections.opening), ("state", "opening"))
    gauge(Metric.connections, Double(status.connections.closed), ("state", "closed"))
    let causes = PauseCause.causes(status)
    for cause in PauseCause.allCases { gauge(Metric.paused, causes.contains(cause) ? 1 : 0, ("why", cause.rawValue)) }
    if let expiry = status.credentialExpiry {
      gauge(Metric.credentialExpiry, Double(expiry))
    } else {
      // A token key may have replaced the certificate.
      registry.remove(Metric.credentialExpiry, [("app", app)])
    }
    // A ``DeliveryObserver`` records in them.
    _ = registry.histogram(Metric.batchSize, Self.batchLabels(app))
    _ = registry.histogram(Metric.deliveryDuration, Self.deliveryLabels(app))
  }

  func update(_ bridge: BridgeCounts) {
    gauge(Metric.bridgeClients, Double(bridge.clients))
    count(Metric.bridgeFrames, bridge.frames)
    count(Metric.bridgeAlreadyDelivered, bridge.alreadyDelivered)
    gauge(Metric.bridgeLastAlreadyDelivered, Double((bridge.lastAlreadyDelivered?.milliseconds ?? 0) / 1000))
    count(Metric.bridgeFeedback, bridge.feedback)
    count(Metric.bridgeSilentCloses, bridge.silentCloses)
    let usual = Self.usualStatuses.map(\.rawValue)
    for status in usual + bridge.responses.keys.filter({ !usual.contains($0) }) {
      count(Metric.bridgeResponses, bridge.responses[status] ?? 0, ("status", "\(status)"))
    }
  }

  private func count(_ metric: MetricDescription, _ total: Int, _ labels: (String, String)...) {
    registry.counter(metric, [("app", app)] + labels).set(total: total)
  }

  private func gauge(_ metric: MetricDescription, _ value: Double, _ labels: (String, String)...) {
    registry.gauge(metric, [("app", app)] + labels).set(value)
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
