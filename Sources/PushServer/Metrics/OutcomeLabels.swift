internal import PushEngine
internal import PushWire

/// The labels of an outcome: from a closed set, whatever a gateway says.
struct OutcomeLabels: Hashable, Sendable {
  let outcome: String
  /// Empty where the outcome says everything.
  let reason: String

  /// Exported from the beginning, so that the first of them is seen as an increase. Other reasons
  /// appear with their first notification.
  static let always: [OutcomeLabels] = [
    OutcomeLabels(outcome: "accepted", reason: "confirmed"), OutcomeLabels(outcome: "accepted", reason: "quiet"),
    OutcomeLabels(outcome: "rejected", reason: "BadDeviceToken"),
    OutcomeLabels(outcome: "rejected", reason: "Unregistered"), OutcomeLabels(outcome: "rejected", reason: "other"),
    OutcomeLabels(outcome: "suppressed", reason: ""), OutcomeLabels(outcome: "expired", reason: ""),
    OutcomeLabels(outcome: "held", reason: ""), OutcomeLabels(outcome: "cancelled", reason: ""),
    OutcomeLabels(outcome: "unknown", reason: ""),
  ]

  /// The counts of an account. Reasons that mean the same to a monitor share their labels.
  static func counts(_ account: Account) -> [OutcomeLabels: Int] {
    var counts: [OutcomeLabels: Int] = [
      OutcomeLabels(outcome: "accepted", reason: "confirmed"): account.confirmed,
      OutcomeLabels(outcome: "accepted", reason: "quiet"): account.quiet,
      OutcomeLabels(outcome: "suppressed", reason: ""): account.suppressed,
      OutcomeLabels(outcome: "expired", reason: ""): account.expired,
      OutcomeLabels(outcome: "held", reason: ""): account.held,
      OutcomeLabels(outcome: "cancelled", reason: ""): account.cancelled,
      OutcomeLabels(outcome: "unknown", reason: ""): account.unknown,
    ]
    for (reason, count) in account.rejected {
      counts[OutcomeLabels(outcome: "rejected", reason: label(reason)), default: 0] += count
    }
    return counts
  }

  private static func label(_ rejection: Rejection) -> String {
    switch rejection {
    case .status(let status):
      GatewayStatus.documented.contains(status) ? status.meaning.replacing(" ", with: "_") : "other"
    case .provider(let refusal): refusal.reason?.rawValue ?? "other"
    case .gaveUp: "gave_up"
    case .streamRefused: "stream_refused"
    case .closedWithoutReason: "closed_without_reason"
    case .malformedToken: "malformed_token"
    case .unusableLine: "unusable_line"
    case .payloadTooLarge: "payload_too_large"
    }
  }
}
