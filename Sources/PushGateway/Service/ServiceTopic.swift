internal import PushWire

/// What the service requires of each push type (HTTP2ProviderAPI, section 3). This table is
/// independent of the engine's on purpose: tests compare the two.
struct ServiceTopic {
  let suffix: String
  let payloadLimit: Int
  let needsPriorityFive: Bool
  let needsToken: Bool

  static func of(_ type: PushType) -> ServiceTopic {
    switch type {
    case .alert: ServiceTopic("")
    case .background: ServiceTopic("", needsPriorityFive: true)
    case .complication: ServiceTopic(".complication")
    case .controls: ServiceTopic(".push-type.controls")
    case .fileProvider: ServiceTopic(".pushkit.fileprovider")
    case .liveActivity: ServiceTopic(".push-type.liveactivity")
    case .location: ServiceTopic(".location-query", needsToken: true)
    case .mdm: ServiceTopic("")
    case .pushToTalk: ServiceTopic(".voip-ptt")
    case .voip: ServiceTopic(".voip", payloadLimit: 5120)
    case .widgets: ServiceTopic(".push-type.widgets")
    }
  }

  /// The requirements for a request without a push type, by its topic's suffix.
  static func of(suffixOf topic: String) -> ServiceTopic {
    PushType.allCases.map { of($0) }.first { !$0.suffix.isEmpty && topic.hasSuffix($0.suffix) } ?? of(.alert)
  }

  private init(_ suffix: String, payloadLimit: Int = 4096, needsPriorityFive: Bool = false, needsToken: Bool = false) {
    (self.suffix, self.payloadLimit) = (suffix, payloadLimit)
    (self.needsPriorityFive, self.needsToken) = (needsPriorityFive, needsToken)
  }

  /// The app of a topic: the topic without its suffix.
  static func app(of topic: String) -> String {
    for type in PushType.allCases {
      let suffix = of(type).suffix
      if !suffix.isEmpty, topic.hasSuffix(suffix), topic.utf8.count > suffix.utf8.count {
        return String(topic.dropLast(suffix.count))
      }
    }
    return topic
  }

  /// Bundle identifiers consist of letters, digits, dots, hyphens and underscores.
  static func isUsable(_ topic: String) -> Bool {
    topic.utf8.count <= 255
      && topic.utf8.allSatisfy { byte in
        byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
          || (byte | 0x20) &- 0x61 < 26 || byte &- 0x30 < 10
      }
  }
}
