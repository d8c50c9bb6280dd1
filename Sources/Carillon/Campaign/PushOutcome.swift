public import Foundation
package import PushWire

/// How one notification ended. Every notification ends in exactly one of these.
public enum PushOutcome: Hashable, Sendable {
  /// The gateway accepted it. No protocol says whether the device shows it.
  case accepted(Confirmation)
  /// The gateway refused it, or it could not be sent as it was.
  case rejected(Rejection)
  /// Not sent: the feedback service says that the device is gone.
  case suppressed
  /// Not sent: its user has got as many campaigns lately as the app's caps allow. Only campaigns to
  /// the stored devices of `carillon serve` end so.
  case capped
  /// Not sent: its user belongs to the holdout group. Only campaigns to the stored devices of
  /// `carillon serve` end so.
  case holdout
  /// Not sent: its expiration date had passed when its turn came.
  case expired
  /// It may have arrived. The app's policy is to keep such notifications for a person to decide:
  /// ``AppConfiguration/UnknownPolicy/hold``.
  case held
  /// Not sent: its campaign was cancelled, the deployment ended, or the gateway was given up before
  /// its turn came.
  case cancelled
  /// It may have arrived or not, and will not be sent again.
  case unknown

  /// Why an accepted notification counts as accepted.
  public enum Confirmation: Hashable, Sendable {
    /// The gateway said so: the answer 200 over HTTP/2; over the binary protocol an answer that
    /// named a later notification.
    case confirmed
    /// Binary protocol only: nothing was heard about it for the quiet period
    /// (``AppConfiguration/Settling/quiet``) while its connection lived.
    case quiet
  }

  /// The gateway took it.
  public var isAccepted: Bool { if case .accepted = self { true } else { false } }

  /// Why it was rejected; nil for every other outcome.
  public var rejection: Rejection? { if case .rejected(let rejection) = self { rejection } else { nil } }
}

extension PushOutcome {
  /// Why a notification was rejected.
  public struct Rejection: Hashable, Sendable, CustomStringConvertible {
    /// The reason as accounts show it, such as `410 Unregistered`, `8 invalid token`, or
    /// `malformed token` for what was never sent.
    public let reason: String
    /// The device token is to blame: it is malformed, belongs to another app or environment, or its
    /// device no longer has the app. Nothing should be sent to it again before it is registered
    /// anew.
    public let isTokenInvalid: Bool
    /// Of a device that no longer has the app (410): when the service last found that. A token that
    /// was registered again after this time is good. Nil for every other reason.
    public let goneSince: Date?

    /// The reason.
    public var description: String { reason }

    init(_ wire: PushWire.Rejection, goneSince milliseconds: UInt64? = nil) {
      reason = wire.description
      isTokenInvalid = wire.blamesToken
      goneSince = milliseconds.map { Date(timeIntervalSince1970: Double($0) / 1000) }
    }
  }

  init(_ wire: PushWire.Outcome, goneSince milliseconds: UInt64? = nil) {
    switch wire {
    case .accepted(.confirmed): self = .accepted(.confirmed)
    case .accepted(.quiet): self = .accepted(.quiet)
    case .rejected(let rejection): self = .rejected(Rejection(rejection, goneSince: milliseconds))
    case .suppressed: self = .suppressed
    case .capped: self = .capped
    case .holdout: self = .holdout
    case .expired: self = .expired
    case .held: self = .held
    case .cancelled: self = .cancelled
    case .unknown: self = .unknown
    }
  }
}

extension PushWire.Rejection {
  /// See ``PushOutcome/Rejection/isTokenInvalid``.
  fileprivate var blamesToken: Bool {
    switch self {
    case .malformedToken: true
    case .status(let status): status == .invalidToken || status == .invalidTokenSize || status == .missingDeviceToken
    case .provider(let refusal):
      refusal.isGone || refusal.reason == .badDeviceToken || refusal.reason == .deviceTokenNotForTopic
        || refusal.reason == .missingDeviceToken
    case .gaveUp, .streamRefused, .closedWithoutReason, .unusableLine, .payloadTooLarge: false
    }
  }
}

extension PushWire.Outcome {
  /// The device no longer has the app.
  package var saysGone: Bool { if case .rejected(.provider(let refusal)) = self { refusal.isGone } else { false } }
}

extension ProviderRefusal {
  fileprivate var isGone: Bool { ProviderAnswer.verdict(status: status, reason: reason) == .gone }
}
