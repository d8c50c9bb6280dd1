/// What the sender does about an answer (HTTP2ProviderAPI.md, section 4 and "What our sender makes
/// of it").
package enum ProviderVerdict: Hashable, Sendable, CaseIterable {
  /// The service accepted the notification.
  case accepted
  /// Rejected: the caller's mistake. A resend would get the same answer.
  case rejected
  /// Rejected, and counted by the breaker, because many of these mean a wrong environment or topic.
  /// The token is not removed.
  case badToken
  /// Rejected, and reported as gone with the time that the body names.
  case gone
  /// Rejected, and the app pauses: it keeps its queue and raises an alarm, because its credential
  /// or topic is wrong.
  case pausesApp
  /// The service does not accept the JWT. If the answer's `date` shows that the local clock is
  /// wrong, a corrected JWT is made and the notification is resent. Otherwise the same as
  /// ``pausesApp``.
  case disputesToken
  /// The JWT is too old. A new one is made as soon as the 20 minutes allow, and the notification is
  /// resent on a new connection.
  case expiredToken
  /// The key cannot be used on this connection. The notification is resent on a new connection.
  case needsOwnConnection
  /// Notifications for this device token wait; all others continue.
  case delaysToken
  /// The present JWT stays in use, none is made for 20 minutes, and the notification is resent.
  case keepsToken
  /// Retried with exponential back-off and jitter, until its expiration or the limit of attempts.
  case backsOff
  /// The connection has ended. The notification was not processed and is resent on a new
  /// connection.
  case reconnects
  /// Not an answer of the protocol, so the notification may have been accepted. The app's policy
  /// for unknown notifications decides.
  case unknown
}

/// The one table of answers. An answer that is not in it is judged by its status alone.
package enum ProviderAnswer {
  package struct Row: Hashable, Sendable {
    /// Nil: any status from 400 on. The service's documents do not name the status of channel
    /// errors.
    package let status: UInt16?
    /// Nil for any other reason, or none.
    package let reason: ProviderReason?
    package let verdict: ProviderVerdict
  }

  package static let table: [Row] = [
    Row(status: 200, reason: nil, verdict: .accepted),

    Row(status: 400, reason: .badCollapseIdentifier, verdict: .rejected),
    Row(status: 400, reason: .badDeviceToken, verdict: .badToken),
    Row(status: 400, reason: .badExpirationDate, verdict: .rejected),
    Row(status: 400, reason: .badMessageIdentifier, verdict: .rejected),
    Row(status: 400, reason: .badPriority, verdict: .rejected),
    Row(status: 400, reason: .badTopic, verdict: .rejected),
    Row(status: 400, reason: .deviceTokenNotForTopic, verdict: .badToken),
    Row(status: 400, reason: .duplicateHeaders, verdict: .rejected),
    Row(status: 400, reason: .idleTimeout, verdict: .reconnects),
    Row(status: 400, reason: .invalidPushType, verdict: .rejected),
    Row(status: 400, reason: .missingDeviceToken, verdict: .rejected),
    Row(status: 400, reason: .missingTopic, verdict: .rejected),
    Row(status: 400, reason: .payloadEmpty, verdict: .rejected),
    Row(status: 400, reason: .topicDisallowed, verdict: .pausesApp),
    Row(status: 400, reason: nil, verdict: .rejected),

    Row(status: 403, reason: .badCertificate, verdict: .pausesApp),
    Row(status: 403, reason: .badCertificateEnvironment, verdict: .pausesApp),
    Row(status: 403, reason: .badEnvironmentKeyIdentifier, verdict: .pausesApp),
    Row(status: 403, reason: .badEnvironmentKey, verdict: .pausesApp),
    Row(status: 403, reason: .expiredProviderToken, verdict: .expiredToken),
    Row(status: 403, reason: .forbidden, verdict: .pausesApp),
    Row(status: 403, reason: .invalidProviderToken, verdict: .disputesToken),
    Row(status: 403, reason: .missingProviderToken, verdict: .pausesApp),
    Row(status: 403, reason: .topicMismatch, verdict: .pausesApp),
    Row(status: 403, reason: .unrelatedKeyIdentifier, verdict: .needsOwnConnection),
    Row(status: 403, reason: nil, verdict: .pausesApp),

    Row(status: 404, reason: .badPath, verdict: .rejected),
    Row(status: 404, reason: nil, verdict: .rejected),
    Row(status: 405, reason: .methodNotAllowed, verdict: .rejected),
    Row(status: 405, reason: nil, verdict: .rejected),

    Row(status: 410, reason: .expiredToken, verdict: .gone),
    Row(status: 410, reason: .unregistered, verdict: .gone),
    Row(status: 410, reason: nil, verdict: .gone),

    Row(status: 413, reason: .payloadTooLarge, verdict: .rejected),
    Row(status: 413, reason: nil, verdict: .rejected),

    Row(status: 429, reason: .tooManyProviderTokenUpdates, verdict: .keepsToken),
    Row(status: 429, reason: .tooManyRequests, verdict: .delaysToken),
    Row(status: 429, reason: nil, verdict: .delaysToken),

    Row(status: 500, reason: .internalServerError, verdict: .backsOff),
    Row(status: 500, reason: nil, verdict: .backsOff),
    Row(status: 503, reason: .serviceUnavailable, verdict: .backsOff),
    Row(status: 503, reason: .shutdown, verdict: .reconnects),
    Row(status: 503, reason: nil, verdict: .backsOff),

    Row(status: nil, reason: .badChannelIdentifier, verdict: .rejected),
    Row(status: nil, reason: .badRequestParameters, verdict: .rejected),
    Row(status: nil, reason: .badRequestPayload, verdict: .rejected),
    Row(status: nil, reason: .cannotCreateChannel, verdict: .rejected),
    Row(status: nil, reason: .channelNotRegistered, verdict: .rejected),
    Row(status: nil, reason: .featureNotEnabled, verdict: .pausesApp),
    Row(status: nil, reason: .missingChannelIdentifier, verdict: .rejected),
    Row(status: nil, reason: .missingPushType, verdict: .rejected),
  ]

  /// What the sender does about an answer.
  package static func verdict(status: UInt16, reason: ProviderReason?) -> ProviderVerdict {
    if status == 200 { return .accepted }
    if let reason {
      for row in table where row.reason == reason && (row.status == status || row.status == nil && status >= 400) {
        return row.verdict
      }
    }
    for row in table where row.reason == nil && row.status == status { return row.verdict }
    switch status {
    case 400..<500: return .rejected
    case 500..<600: return .backsOff
    // The service never redirects or continues a push.
    default: return .unknown
    }
  }
}
