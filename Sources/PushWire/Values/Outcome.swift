/// The outcome of one notification. Each submitted notification gets exactly one.
package enum Outcome: Hashable, Sendable {
  /// The gateway accepted it.
  case accepted(Confirmation)
  /// The gateway rejected it, or it was rejected before it was sent.
  case rejected(Rejection)
  /// Not sent: the feedback service says that the device is gone.
  case suppressed
  /// Not sent: its user has got as many campaigns lately as the app's caps allow.
  case capped
  /// Not sent: its user belongs to those who get nothing, so that others can be compared with them.
  case holdout
  /// Not sent: its expiration date passed before its turn.
  case expired
  /// It may have arrived. The app's policy is to hold such notifications until a person decides.
  case held
  /// Not sent: before its turn, the campaign was cancelled or its gateway was given up.
  case cancelled
  /// It may have arrived or not, and will not be sent again.
  case unknown
}

extension Outcome {
  /// What an outcome is called: in lists, the store, the API and pages. The one table of these
  /// words.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    case accepted, rejected, suppressed, capped, holdout, expired, held, cancelled, unknown

    /// Those that say everything; the others have a ``Outcome/detail``.
    package static let plain = allCases.filter { $0 != .accepted && $0 != .rejected }

    /// It could have been sent, and was not to be.
    package var isWithheld: Bool { self == .suppressed || self == .capped || self == .holdout }
  }

  package var kind: Kind {
    switch self {
    case .accepted: .accepted
    case .rejected: .rejected
    case .suppressed: .suppressed
    case .capped: .capped
    case .holdout: .holdout
    case .expired: .expired
    case .held: .held
    case .cancelled: .cancelled
    case .unknown: .unknown
    }
  }

  /// How it is known, or why; empty where the kind says everything.
  package var detail: String {
    switch self {
    case .accepted(let confirmation): "\(confirmation)"
    case .rejected(let reason): "\(reason)"
    case .suppressed, .capped, .holdout, .expired, .held, .cancelled, .unknown: ""
    }
  }
}

/// Why a notification counts as accepted.
package enum Confirmation: Hashable, Sendable {
  /// Proven by an answer to a later notification, or by a known-bad probe.
  case confirmed
  /// Nothing was heard about it during the quiet period, while its connection was open.
  case quiet
}

/// Why a notification was rejected.
package enum Rejection: Hashable, Sendable {
  /// The gateway's error response named it.
  case status(GatewayStatus)
  /// The provider API answered its request with this refusal.
  case provider(ProviderRefusal)
  /// The provider API put off each of its attempts, the last one with this answer. Says nothing
  /// about the device token.
  case gaveUp(ProviderRefusal)
  /// The provider API refused the stream of each of its attempts. Says nothing about the device
  /// token.
  case streamRefused
  /// It was alone on a connection that the gateway closed without a reason, while others were
  /// accepted.
  case closedWithoutReason
  /// Its line had no valid device token; it was never sent.
  case malformedToken
  /// Its line was not usable for another reason; it was never sent.
  case unusableLine(LineDefect)
  /// Its payload with all values filled in is too large for its transport; it was never sent.
  case payloadTooLarge
}

/// What is wrong with a line of an audience, apart from its token. The journal contains the raw
/// value.
package enum LineDefect: UInt8, Hashable, Sendable, CaseIterable {
  /// A CSV record with the wrong number of columns, or with quotes that RFC 4180 does not allow.
  case row = 1
  /// A value for a placeholder is not UTF-8.
  case text = 2
  case overlong = 3
  /// The column `apns-id` is neither empty nor a UUID.
  case identifier = 4
  /// The column `collapse-id` is neither empty nor usable as a header value.
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
  /// The rejections of lines that never became notifications, in the order of the journal's counts.
  package static let atIntake: [Rejection] =
    [.malformedToken, .payloadTooLarge] + LineDefect.allCases.map(Rejection.unusableLine)
}

extension Rejection: CustomStringConvertible {
  /// The reason as it stands in accounts and reports: `8 invalid token`, `400 BadDeviceToken`,
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

extension Rejection {
  /// Reads a ``description``, as stores have it. Nil: there is no such text.
  package init?(text description: String) {
    let gaveUp = "given up after "
    let number = description.prefix { $0.isASCII && $0.isNumber }
    if let known = ([.streamRefused, .closedWithoutReason] + Self.atIntake).first(where: {
      $0.description == description
    }) {
      self = known
    } else if description.hasPrefix(gaveUp) {
      guard let refusal = ProviderRefusal(text: String(description.dropFirst(gaveUp.count))) else { return nil }
      self = .gaveUp(refusal)
    } else if let status = UInt8(number).map(GatewayStatus.init(rawValue:)), status.description == description {
      self = .status(status)
    } else if let refusal = ProviderRefusal(text: description) {
      self = .provider(refusal)
    } else {
      return nil
    }
  }
}
