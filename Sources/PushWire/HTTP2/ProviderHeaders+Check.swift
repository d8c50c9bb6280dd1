/// One rule of the provider API that a notification breaks. Its description is one sentence.
package enum ProviderRuleViolation: Hashable, Sendable {
  case payloadEmpty
  case payloadTooLarge(byteCount: Int, limit: Int, name: String)
  case topicMissing, topicUnusable
  case topicNotCovered(topic: String, covered: [String])
  case priorityUnknown(UInt8)
  case backgroundPriority(UInt8)
  case collapseIdentifierTooLong(byteCount: Int)
  case collapseIdentifierUnusable, locationNeedsToken
  case managementTopic(topic: String, userIdentifier: String)
  case managementNeedsCertificate
  case managementWithAps, managementWithoutMDM, mdmOutsideManagement, apsMissing, liveActivityWithoutEvent
  case broadcastPushType(PushType)
  case broadcastWithoutExpiration, broadcastWithCollapseIdentifier, channelUnusable
}

extension ProviderHeaders {
  /// Every rule that a notification with these headers and this payload would break; empty if it
  /// can be sent.
  ///
  /// It checks the headers and what the push type demands of the payload as a whole, not whether
  /// the payload is well-formed and its keys have the right types.
  /// ``findings(payload:credential:)`` checks both.
  package func check(payload: [UInt8], credential: ProviderCredentialKind) -> [ProviderRuleViolation] {
    var found: [ProviderRuleViolation] = []
    if payload.count == 0 { found.append(.payloadEmpty) }
    if payload.count > payloadLimit {
      let name = channelIdentifier == nil ? "\(pushType.rawValue)" : "broadcast"
      found.append(.payloadTooLarge(byteCount: payload.count, limit: payloadLimit, name: name))
    }
    checkTopic(credential, &found)
    checkPriority(&found)
    checkCollapseIdentifier(&found)
    checkChannel(&found)
    checkPushType(credential, &found)
    if let keys = ProviderPayloadKeys(payload.span) { checkPayload(keys, &found) }
    return found
  }

  private func checkTopic(_ credential: ProviderCredentialKind, _ found: inout [ProviderRuleViolation]) {
    // A broadcast has its bundle in the path instead of a header, but it needs a topic too.
    guard let topic = effectiveTopic(for: credential) else { return found.append(.topicMissing) }
    guard Self.isHeaderValue(topic), !topic.utf8.contains(0x20), !topic.utf8.contains(UInt8(ascii: "/")) else {
      return found.append(.topicUnusable)
    }
    if case .certificate(let userIdentifier, let topics) = credential {
      if pushType == .mdm {
        if let userIdentifier, topic != userIdentifier {
          found.append(.managementTopic(topic: topic, userIdentifier: userIdentifier))
        }
      } else if !topics.isEmpty, !Self.covers(topics, topic, pushType) {
        found.append(.topicNotCovered(topic: topic, covered: topics))
      }
    }
  }

  /// Certificates name topics with or without suffixes. One that names the bundle passes, because
  /// the service decides.
  private static func covers(_ topics: [String], _ topic: String, _ pushType: PushType) -> Bool {
    topics.contains { $0 == topic || pushType.topic(for: $0) == topic }
  }

  /// Whether a certificate with these topics can send notifications of any type to an app.
  package static func covers(_ topics: [String], app bundle: String) -> Bool {
    PushType.allCases.contains { covers(topics, $0.topic(for: bundle), $0) }
  }

  private func checkPriority(_ found: inout [ProviderRuleViolation]) {
    guard let priority else { return }
    guard let known = PushPriority(rawValue: priority) else { return found.append(.priorityUnknown(priority)) }
    if pushType == .background, known != .consideringDevicePower { found.append(.backgroundPriority(priority)) }
  }

  private func checkCollapseIdentifier(_ found: inout [ProviderRuleViolation]) {
    guard let collapseIdentifier else { return }
    if channelIdentifier != nil { found.append(.broadcastWithCollapseIdentifier) }
    if let violation = Self.check(collapseIdentifier: collapseIdentifier) { found.append(violation) }
  }

  /// Checks the collapse identifier of a single notification; nil if it can be sent.
  package static func check(collapseIdentifier: String) -> ProviderRuleViolation? {
    let byteCount = collapseIdentifier.utf8.count
    if byteCount > collapseIdentifierByteCountLimit { return .collapseIdentifierTooLong(byteCount: byteCount) }
    return isHeaderValue(collapseIdentifier) ? nil : .collapseIdentifierUnusable
  }

  private func checkChannel(_ found: inout [ProviderRuleViolation]) {
    guard let channelIdentifier else { return }
    if !Self.isHeaderValue(channelIdentifier) { found.append(.channelUnusable) }
    if pushType != .liveActivity { found.append(.broadcastPushType(pushType)) }
    if expiration == nil { found.append(.broadcastWithoutExpiration) }
  }

  private func checkPushType(_ credential: ProviderCredentialKind, _ found: inout [ProviderRuleViolation]) {
    switch (pushType, credential) {
    case (.location, .certificate): found.append(.locationNeedsToken)
    case (.mdm, .token): found.append(.managementNeedsCertificate)
    default: break
    }
  }

  private func checkPayload(_ keys: ProviderPayloadKeys, _ found: inout [ProviderRuleViolation]) {
    if pushType == .mdm {
      if !keys.hasMDM { found.append(.managementWithoutMDM) }
      if keys.hasAps { found.append(.managementWithAps) }
      return
    }
    if keys.hasMDM {
      found.append(.mdmOutsideManagement)
    } else if !keys.hasAps, pushType.needsAps {
      found.append(.apsMissing)
    }
    if pushType == .liveActivity, keys.hasAps, !keys.hasEvent { found.append(.liveActivityWithoutEvent) }
  }
}

extension PushType {
  /// Whether the system itself acts on the payload. PushKit and extensions of the app define their
  /// own payloads.
  fileprivate var needsAps: Bool {
    switch self {
    case .alert, .background, .controls, .liveActivity, .widgets: true
    case .complication, .fileProvider, .location, .mdm, .pushToTalk, .voip: false
    }
  }
}

/// The keys of a payload that some push types demand.
private struct ProviderPayloadKeys {
  var hasAps = false
  var hasMDM = false
  /// `aps.event`.
  var hasEvent = false

  /// Nil if the payload is not a JSON object, which the check of payloads reports.
  init?(_ payload: Span<UInt8>) {
    guard payload.count > 0 else { return nil }
    var reader = JSONReader(payload)
    do throws(JSONError) {
      guard case .beginObject = try reader.next() else { return nil }
      var depth = 1
      var isInAps = false
      while true {
        let event = try reader.next()
        switch event {
        case .beginObject, .beginArray:
          // If the key `event` is repeated, the last value counts.
          if depth == 1, isInAps, event == .beginObject { hasEvent = false }
          depth += 1
        case .endObject, .endArray:
          depth -= 1
          if depth == 1 { isInAps = false }
        case .key(let range) where depth == 1:
          switch Self.text(payload, range) {
          case "aps":
            hasAps = true
            isInAps = true
          case "mdm": hasMDM = true
          default: break
          }
        case .key(let range) where depth == 2 && isInAps:
          if Self.text(payload, range) == "event" { hasEvent = true }
        case .end: return
        default: if depth == 1 { isInAps = false }
        }
      }
    } catch { return nil }
  }

  private static func text(_ payload: Span<UInt8>, _ range: Range<Int>) -> String {
    var hasLoneSurrogate = false
    return JSONText.unescape(payload.extracting(range), hasLoneSurrogate: &hasLoneSurrogate)
  }
}

extension ProviderRuleViolation: CustomStringConvertible {
  package var description: String {
    switch self {
    case .payloadEmpty: "The payload is empty."
    case .payloadTooLarge(let byteCount, let limit, let name):
      "The payload has \(byteCount) bytes, \(byteCount - limit) more than "
        + "a notification of type \(name) may have (\(limit))."
    case .topicMissing:
      "There is no topic: set it to the app's bundle identifier, or use a certificate whose subject has a UID."
    case .topicUnusable: "The topic must be printable ASCII without spaces or slashes."
    case .topicNotCovered(let topic, let covered):
      "The certificate does not cover the topic \(topic), only \(covered.joined(separator: ", "))."
    case .priorityUnknown(let priority): "The priority must be 10, 5 or 1, not \(priority)."
    case .backgroundPriority(let priority): "A background notification must have priority 5, not \(priority)."
    case .collapseIdentifierTooLong(let byteCount):
      "The collapse identifier has \(byteCount) bytes; at most 64 are allowed."
    case .collapseIdentifierUnusable: "The collapse identifier must be printable ASCII, with no space at either end."
    case .locationNeedsToken: "A location notification can be sent with a token key only, not with a certificate."
    case .managementTopic(let topic, let userIdentifier):
      "The topic of device management is the UID of the certificate's subject, \(userIdentifier), not \(topic)."
    case .managementNeedsCertificate:
      "A device management notification can be sent with its certificate only, not with a token key."
    case .managementWithAps: "The payload of device management is {\"mdm\":…} and must not contain aps."
    case .managementWithoutMDM: "The payload of device management must contain mdm."
    case .mdmOutsideManagement: "The payload contains mdm, so its push type must be mdm."
    case .apsMissing: "The payload does not contain aps."
    case .liveActivityWithoutEvent: "The aps of a Live Activity must say which event it is: start, update or end."
    case .broadcastPushType(let pushType): "A broadcast must have the push type liveactivity, not \(pushType.rawValue)."
    case .broadcastWithoutExpiration: "A broadcast must have an expiration: 0 if its channel stores nothing."
    case .broadcastWithCollapseIdentifier: "A broadcast has no collapse identifier."
    case .channelUnusable: "The channel identifier must be printable ASCII, with no space at either end."
    }
  }
}
