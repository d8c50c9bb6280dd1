package import PushWire

/// How the service refuses a request: a status, and the reason that its body names.
package struct ServiceRefusal: Hashable, Sendable {
  /// 400…599.
  package let status: UInt16
  /// The service's word; a fault rule may make one up.
  package let reason: String

  package init(status: UInt16, reason: String) {
    self.status = status
    self.reason = reason
  }

  /// The reason with the status that goes with it.
  package init(_ reason: ProviderReason) {
    self.init(status: Self.status(of: reason), reason: reason.rawValue)
  }

  /// The body of the answer, and of a GOAWAY that names a reason.
  ///
  /// - Parameter timestamp: milliseconds since 1970, with 410 only.
  package func body(timestamp: Int64? = nil) -> [UInt8] {
    var text = "{\"reason\":\(JSONText.quoted(reason))"
    if let timestamp { text += ",\"timestamp\":\(timestamp)" }
    return Array((text + "}").utf8)
  }

  /// HTTP2ProviderAPI.md, sections 4 and 6. Written down here once more, on purpose: a sender's table is judged by it.
  package static func status(of reason: ProviderReason) -> UInt16 {
    switch reason {
    case .badChannelIdentifier, .badCollapseIdentifier, .badDeviceToken, .badExpirationDate, .badMessageIdentifier, .badPriority, .badRequestParameters,
      .badRequestPayload, .badTopic, .cannotCreateChannel, .channelNotRegistered, .deviceTokenNotForTopic, .duplicateHeaders, .featureNotEnabled,
      .idleTimeout, .invalidPushType, .missingChannelIdentifier, .missingDeviceToken, .missingPushType, .missingTopic, .payloadEmpty, .topicDisallowed:
      400
    case .badCertificate, .badCertificateEnvironment, .badEnvironmentKeyIdentifier, .badEnvironmentKey, .expiredProviderToken, .forbidden,
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
  /// Such as `400 BadDeviceToken`: the key under which it is counted.
  package var description: String { "\(status) \(reason)" }
}
