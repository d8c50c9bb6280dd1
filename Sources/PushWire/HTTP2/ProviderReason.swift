/// The `reason` of an error body or of a GOAWAY (HTTP2ProviderAPI.md, sections 4 and 6). The raw
/// value is the service's text.
package enum ProviderReason: String, Hashable, Sendable, CaseIterable {
  case badCertificate = "BadCertificate"
  case badCertificateEnvironment = "BadCertificateEnvironment"
  case badChannelIdentifier = "BadChannelId"
  case badCollapseIdentifier = "BadCollapseId"
  case badDeviceToken = "BadDeviceToken"
  case badEnvironmentKeyIdentifier = "BadEnvironmentKeyIdInToken"
  /// Another spelling of the same reason, which the service has sent.
  case badEnvironmentKey = "BadEnvironmentKeyInToken"
  case badExpirationDate = "BadExpirationDate"
  case badMessageIdentifier = "BadMessageId"
  case badPath = "BadPath"
  case badPriority = "BadPriority"
  case badRequestParameters = "BadRequestParams"
  case badRequestPayload = "BadRequestPayload"
  case badTopic = "BadTopic"
  case cannotCreateChannel = "CannotCreateChannelConfig"
  case channelNotRegistered = "ChannelNotRegistered"
  case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
  case duplicateHeaders = "DuplicateHeaders"
  case expiredProviderToken = "ExpiredProviderToken"
  case expiredToken = "ExpiredToken"
  case featureNotEnabled = "FeatureNotEnabled"
  case forbidden = "Forbidden"
  case idleTimeout = "IdleTimeout"
  case internalServerError = "InternalServerError"
  case invalidProviderToken = "InvalidProviderToken"
  case invalidPushType = "InvalidPushType"
  case methodNotAllowed = "MethodNotAllowed"
  case missingChannelIdentifier = "MissingChannelId"
  case missingDeviceToken = "MissingDeviceToken"
  case missingProviderToken = "MissingProviderToken"
  case missingPushType = "MissingPushType"
  case missingTopic = "MissingTopic"
  case payloadEmpty = "PayloadEmpty"
  case payloadTooLarge = "PayloadTooLarge"
  case serviceUnavailable = "ServiceUnavailable"
  case shutdown = "Shutdown"
  case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
  case tooManyRequests = "TooManyRequests"
  case topicDisallowed = "TopicDisallowed"
  case topicMismatch = "TopicMismatch"
  case unregistered = "Unregistered"
  case unrelatedKeyIdentifier = "UnrelatedKeyIdInToken"

  /// The number in journals: the case's place in the declaration, from 1. It never changes: a new
  /// case is the last one. 0 stands for an unknown reason or none.
  package var code: UInt8 { UInt8((Self.allCases.firstIndex(of: self) ?? -1) + 1) }

  package init?(code: UInt8) {
    guard Self.allCases.indices.contains(Int(code) - 1) else { return nil }
    self = Self.allCases[Int(code) - 1]
  }
}

/// How the service refused a notification: a status with its reason.
package struct ProviderRefusal: Hashable, Sendable {
  /// The HTTP status, 100…999.
  package let status: UInt16
  /// Nil if the service named no reason, or an unknown one.
  package let reason: ProviderReason?
  /// An unknown reason in the form of ``printable(_:)``.
  package let otherReason: String?

  package init(status: UInt16, reason: ProviderReason?, otherReason: String? = nil) {
    (self.status, self.reason) = (status, reason)
    self.otherReason = reason == nil ? otherReason : nil
  }

  /// The longest unknown reason that is shown, in characters and in bytes. A journal stores the
  /// number of bytes in one byte.
  package static let otherReasonLengthLimit = 64
  package static let otherReasonByteCountLimit = 255
  /// How many bytes of an unknown reason are read.
  package static let otherReasonReadByteCount = 4 * otherReasonLengthLimit

  /// A reason in printable form: control characters and similar ones are escaped, and the text is
  /// cut off at the limits. A printable text stays the same.
  package static func printable(_ bytes: Span<UInt8>) -> String {
    let escaped = String(decoding: bytes.extracting(first: otherReasonReadByteCount)).escapedForTerminal
    var text = String(String.UnicodeScalarView(escaped.unicodeScalars.prefix(otherReasonLengthLimit)))
    while text.utf8.count > otherReasonByteCountLimit { text.unicodeScalars.removeLast() }
    return text
  }

  /// Four bytes for a journal: status × 256 + the reason's code. The text of an unknown reason is
  /// stored beside it.
  package var code: UInt32 { UInt32(status) << 8 | UInt32(reason?.code ?? 0) }

  package init(code: UInt32) { self.init(code: code, otherReason: nil) }

  package init(code: UInt32, otherReason: String?) {
    self.init(
      status: UInt16(truncatingIfNeeded: code >> 8), reason: ProviderReason(code: UInt8(truncatingIfNeeded: code)),
      otherReason: otherReason)
  }
}

extension ProviderRefusal: CustomStringConvertible {
  /// For example `400 BadDeviceToken`. Accounts count under this text.
  package var description: String { "\(status) \(reason?.rawValue ?? otherReason ?? Self.withoutReason)" }

  private static let withoutReason = "without a known reason"

  /// Reads a ``description``.
  package init?(text description: String) {
    let parts = description.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, let status = UInt16(parts[0]), (100...999).contains(status) else { return nil }
    let text = String(parts[1])
    self.init(
      status: status, reason: ProviderReason(rawValue: text), otherReason: text == Self.withoutReason ? nil : text)
  }
}
