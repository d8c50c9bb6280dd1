internal import Carillon
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushWire

/// One app's values that the engine and the bridge count themselves, read at the export.
extension MetricsText {
  /// Exported from the beginning, so that the first of them is seen as an increase.
  private static let usualStatuses: [GatewayStatus] = [
    .processingError, .invalidPayloadSize, .invalidToken, .shutdown,
  ]

  mutating func add(_ push: PushApp) {
    let (app, account) = (("app", push.id), push.tally.account)
    add(Metric.submitted, account.submitted, app)
    let outcomes = OutcomeLabels.counts(account)
    let others = outcomes.keys.filter { !OutcomeLabels.always.contains($0) }
    for labels in OutcomeLabels.always + others {
      add(Metric.outcomes, outcomes[labels] ?? 0, app, ("outcome", labels.outcome), ("reason", labels.reason))
    }
    add(Metric.resent, account.resent, app)
    add(Metric.possibleDuplicates, account.possibleDuplicates, app)
    for ending in ConnectionEnding.allCases {
      add(Metric.reconnects, push.tally.count(of: ending), app, ("cause", ending.label))
    }
    let status = push.status
    for priority in [10, 5, 1] {
      add(Metric.queueNotifications, status.queue.byPriority[priority] ?? 0, app, ("priority", "\(priority)"))
    }
    add(Metric.queueBytes, status.queue.byteCount, app)
    add(Metric.queueOldest, status.queue.oldestAge / .seconds(1), app)
    add(Metric.campaignStalled, status.campaignStall / .seconds(1), app)
    add(Metric.window, status.windowNotifications, app)
    add(Metric.connections, status.connections.open, app, ("state", "open"))
    add(Metric.connections, status.connections.opening, app, ("state", "opening"))
    add(Metric.connections, status.connections.closed, app, ("state", "closed"))
    let causes = PauseCause.causes(status)
    for cause in PauseCause.allCases {
      add(Metric.paused, causes.contains(cause) ? 1 : 0, app, ("why", cause.rawValue))
    }
    if let expiry = status.credentialExpiry { add(Metric.credentialExpiry, Double(expiry), app) }
  }

  mutating func add(_ webhook: WebhookState, of app: String, now: StoreInstant) {
    let app = ("app", app)
    add(Metric.webhookWaiting, webhook.waitingCount, app)
    add(Metric.webhookLag, webhook.lag(at: now) / .seconds(1), app)
    add(Metric.webhookDeliveries, webhook.acknowledgedCount, app, ("result", "acknowledged"))
    add(Metric.webhookDeliveries, webhook.failedCount, app, ("result", "failed"))
  }

  mutating func add(_ bridge: BridgeCounts, of app: String) {
    let app = ("app", app)
    add(Metric.bridgeClients, bridge.clients, app)
    add(Metric.bridgeFrames, bridge.frames, app)
    add(Metric.bridgeAlreadyDelivered, bridge.alreadyDelivered, app)
    add(Metric.bridgeLastAlreadyDelivered, Double((bridge.lastAlreadyDelivered?.milliseconds ?? 0) / 1000), app)
    add(Metric.bridgeFeedback, bridge.feedback, app)
    add(Metric.bridgeSilentCloses, bridge.silentCloses, app)
    let usual = Self.usualStatuses.map(\.rawValue)
    for status in usual + bridge.responses.keys.filter({ !usual.contains($0) }) {
      add(Metric.bridgeResponses, bridge.responses[status] ?? 0, app, ("status", "\(status)"))
    }
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
