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
  /// The provider API answered its request with this.
  case provider(ProviderRefusal)
  /// The provider API answered "not now" to each of its attempts, the last time with this. Says nothing about
  /// the device token.
  case gaveUp(ProviderRefusal)
  /// The provider API refused the stream of each of its attempts. Says nothing about the device token.
  case streamRefused
  /// It stood alone on a connection that the gateway closed without saying why, while others got through.
  case closedWithoutReason
  /// Its line held no device token; it was never sent.
  case malformedToken
  /// Its line could not be used for another reason; it was never sent.
  case unusableLine(LineDefect)
  /// Its payload, once filled in, is larger than its transport allows; it was never sent.
  case payloadTooLarge
}

/// What is wrong with a line of an audience, other than its token. The raw value is the journal's.
package enum LineDefect: UInt8, Hashable, Sendable, CaseIterable {
  /// A CSV record with the wrong number of columns, or with quotes that RFC 4180 does not allow.
  case row = 1
  /// A value for a placeholder is not UTF-8.
  case text = 2
  case overlong = 3
  /// The column `apns-id` is neither empty nor a UUID.
  case identifier = 4
  /// The column `collapse-id` is neither empty nor fit to be a header's value.
  case collapseIdentifier = 5
}

extension LineDefect: CustomStringConvertible {
  package var description: String {
    switch self {
    case .row: "malformed row (not as many columns as the header)"
    case .text: "malformed value (not UTF-8)"
    case .overlong: "malformed line (longer than 64 KiB)"
    case .identifier: "malformed apns-id (not a UUID)"
    case .collapseIdentifier: "malformed collapse-id (not 1 to 64 printable ASCII characters)"
    }
  }
}

extension Rejection {
  /// Of lines that never became notifications, in the order in which the journal counts them.
  package static let atIntake: [Rejection] = [.malformedToken, .payloadTooLarge] + LineDefect.allCases.map(Rejection.unusableLine)
}

extension Rejection: CustomStringConvertible {
  /// The reason as accounts and reports show it: `8 invalid token`, `400 BadDeviceToken`,
  /// `given up after 503 ServiceUnavailable`, …
  package var description: String {
    switch self {
    case .status(let status): status.description
    case .provider(let refusal): refusal.description
    case .gaveUp(let refusal): "given up after \(refusal)"
    case .streamRefused: "given up after refused streams"
    case .closedWithoutReason: "closed without a reason"
    case .malformedToken: "malformed token"
    case .unusableLine(let defect): defect.description
    case .payloadTooLarge: "payload too large"
    }
  }
}
