package import PushWire

/// A refusal of a request: a status, and the reason in the response's body.
package struct ServiceRefusal: Hashable, Sendable {
  /// 400…599.
  package let status: UInt16
  /// Apple's reason, or one that a fault rule invents.
  package let reason: String

  package init(status: UInt16, reason: String) { (self.status, self.reason) = (status, reason) }

  /// A refusal with the status that belongs to the reason.
  package init(_ reason: ProviderReason) { self.init(status: Self.status(of: reason), reason: reason.rawValue) }

  /// The body of the response, and of a GOAWAY that names a reason.
  ///
  /// - Parameter timestamp: Milliseconds since 1970, with 410 only.
  package func body(timestamp: Int64? = nil) -> [UInt8] {
    let text = JSONWriter.text { json in
      json.field("reason", reason)
      if let timestamp { json.field("timestamp", timestamp) }
    }
    return Array(text.utf8)
  }

  /// The status of each reason (HTTP2ProviderAPI, sections 4 and 6). This table is independent of
  /// the engine's on purpose: tests compare the two.
  package static func status(of reason: ProviderReason) -> UInt16 {
    switch reason {
    case .badChannelIdentifier, .badCollapseIdentifier, .badDeviceToken, .badExpirationDate, .badMessageIdentifier,
      .badPriority, .badRequestParameters, .badRequestPayload, .badTopic, .cannotCreateChannel, .channelNotRegistered,
      .deviceTokenNotForTopic, .duplicateHeaders, .featureNotEnabled, .idleTimeout, .invalidPushType,
      .missingChannelIdentifier, .missingDeviceToken, .missingPushType, .missingTopic, .payloadEmpty, .topicDisallowed:
      400
    case .badCertificate, .badCertificateEnvironment, .badEnvironmentKeyIdentifier, .badEnvironmentKey,
      .expiredProviderToken, .forbidden,
      .invalidProviderToken, .missingProviderToken, .topicMismatch, .unrelatedKeyIdentifier:
      403
    case .badPath: 404
    case .methodNotAllowed: 405
    case .expiredToken, .unregistered: 410
    case .payloadTooLarge: 413
    case .tooManyProviderTokenUpdates, .tooManyRequests: 429
    case .internalServerError: 500
    case .serviceUnavailable, .shutdown: 503
    }
  }
}

extension ServiceRefusal: CustomStringConvertible {
  /// For example `400 BadDeviceToken`, the key under which it is counted.
  package var description: String { "\(status) \(reason)" }
}
