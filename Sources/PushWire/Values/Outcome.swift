/// How one notification ended. Every submitted notification ends in exactly one of these.
package enum Outcome: Hashable, Sendable {
  /// The gateway took it.
  case accepted(Confirmation)
  /// The gateway named it as refused, or it was refused before it was sent.
  case rejected(Rejection)
  /// Not sent: the feedback service says that the device is gone.
  case suppressed
  /// Not sent: its expiration date had passed when its turn came.
  case expired
  /// It may have arrived; the app's policy is to keep such notifications for a person to decide.
  case held
  /// Not sent: the campaign was cancelled, or its gateway given up, before its turn came.
  case cancelled
  /// It may have arrived or not, and will not be sent again.
  case unknown
}

/// Why an accepted notification counts as accepted.
package enum Confirmation: Hashable, Sendable {
  /// An answer that named a later notification, or a known-bad probe, proves it.
  case confirmed
  /// Nothing was heard about it for the quiet period while its connection lived.
  case quiet
}

/// Why a notification was rejected.
package enum Rejection: Hashable, Sendable {
  /// The gateway's error response named it.
  case status(GatewayStatus)
  /// It stood alone on a connection that the gateway closed without saying why, while others got through.
  case closedWithoutReason
  /// Its line held no device token; it was never sent.
  case malformedToken
  /// Its payload, once filled in, is larger than its transport allows; it was never sent.
  case payloadTooLarge
}

extension Rejection: CustomStringConvertible {
  /// The reason as accounts and reports show it: `8 invalid token`, `malformed token`, …
  package var description: String {
    switch self {
    case .status(let status): status.description
    case .closedWithoutReason: "closed without a reason"
    case .malformedToken: "malformed token"
    case .payloadTooLarge: "payload too large"
    }
  }
}
