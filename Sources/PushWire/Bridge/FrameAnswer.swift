/// What became of a notification that a provider sent over the binary protocol, in the terms of
/// that protocol. ProtocolRulings.md, "The bridge", has the reasons.
package enum FrameAnswer: Hashable, Sendable {
  case accepted
  /// An error response with this status names the frame.
  case refused(GatewayStatus)

  /// Outcomes that say nothing about the notification itself are status 1: the provider may try it
  /// again.
  package init(_ outcome: Outcome) {
    switch outcome {
    // The device is gone, or the notification is: Apple's gateway accepted both, and the feedback
    // service named the device.
    case .accepted, .suppressed, .capped, .holdout, .expired: self = .accepted
    case .rejected(let reason): self.init(reason)
    case .held, .cancelled, .unknown: self = .refused(.processingError)
    }
  }

  private init(_ reason: Rejection) {
    switch reason {
    // 0 is no refusal, and 10 would mean that the frame was accepted.
    case .status(let status) where status != .noErrors && status != .shutdown: self = .refused(status)
    case .provider(let refusal): self.init(refusal)
    case .payloadTooLarge: self = .refused(.invalidPayloadSize)
    case .malformedToken: self = .refused(.invalidToken)
    case .status, .gaveUp, .streamRefused, .closedWithoutReason, .unusableLine: self = .refused(.processingError)
    }
  }

  private init(_ refusal: ProviderRefusal) {
    if refusal.status == 410 {
      self = .accepted
      return
    }
    switch refusal.reason {
    case .badDeviceToken?, .deviceTokenNotForTopic?: self = .refused(.invalidToken)
    case .missingDeviceToken?: self = .refused(.missingDeviceToken)
    case .payloadTooLarge?: self = .refused(.invalidPayloadSize)
    case .payloadEmpty?: self = .refused(.missingPayload)
    case .badTopic?, .missingTopic?, .topicDisallowed?: self = .refused(.missingTopic)
    default: self = .refused(.processingError)
    }
  }
}
