internal import PushEngine
internal import PushWire

/// The labels of an outcome: from a closed set, whatever a gateway says.
struct OutcomeLabels: Hashable, Sendable {
  let outcome: String
  /// Empty where the outcome says everything.
  let reason: String

  private init(_ kind: Outcome.Kind, _ reason: String) { (outcome, self.reason) = (kind.rawValue, reason) }

  /// Exported from the beginning, so that the first of them is seen as an increase. Other reasons
  /// appear with their first notification.
  static let always: [OutcomeLabels] = [
    OutcomeLabels(.accepted, "confirmed"), OutcomeLabels(.accepted, "quiet"),
    OutcomeLabels(.rejected, "BadDeviceToken"), OutcomeLabels(.rejected, "Unregistered"),
    OutcomeLabels(.rejected, "other"), OutcomeLabels(.suppressed, ""), OutcomeLabels(.capped, ""),
    OutcomeLabels(.holdout, ""), OutcomeLabels(.expired, ""), OutcomeLabels(.held, ""), OutcomeLabels(.cancelled, ""),
    OutcomeLabels(.unknown, ""),
  ]

  /// The counts of an account. Reasons that mean the same to a monitor share their labels.
  static func counts(_ account: Account) -> [OutcomeLabels: Int] {
    var counts: [OutcomeLabels: Int] = [
      OutcomeLabels(.accepted, "confirmed"): account.confirmed,
      OutcomeLabels(.accepted, "quiet"): account.quiet,
      OutcomeLabels(.suppressed, ""): account.suppressed,
      OutcomeLabels(.capped, ""): account.capped,
      OutcomeLabels(.holdout, ""): account.holdout,
      OutcomeLabels(.expired, ""): account.expired,
      OutcomeLabels(.held, ""): account.held,
      OutcomeLabels(.cancelled, ""): account.cancelled,
      OutcomeLabels(.unknown, ""): account.unknown,
    ]
    for (reason, count) in account.rejected { counts[OutcomeLabels(.rejected, label(reason)), default: 0] += count }
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
