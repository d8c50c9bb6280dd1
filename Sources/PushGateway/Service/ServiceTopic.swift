internal import PushWire

/// What the service asks of each push type (HTTP2ProviderAPI.md, section 3). Written down here once more, on purpose: a sender's rules are judged by it.
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

  /// Of a request that names no type: by its topic.
  static func of(suffixOf topic: String) -> ServiceTopic {
    PushType.allCases.map { of($0) }.first { !$0.suffix.isEmpty && topic.hasSuffix($0.suffix) } ?? of(.alert)
  }

  private init(_ suffix: String, payloadLimit: Int = 4096, needsPriorityFive: Bool = false, needsToken: Bool = false) {
    self.suffix = suffix
    self.payloadLimit = payloadLimit
    self.needsPriorityFive = needsPriorityFive
    self.needsToken = needsToken
  }

  /// The app that a topic belongs to: without a suffix, if it has one.
  static func app(of topic: String) -> String {
    for type in PushType.allCases {
      let suffix = of(type).suffix
      if !suffix.isEmpty, topic.hasSuffix(suffix), topic.utf8.count > suffix.utf8.count { return String(topic.dropLast(suffix.count)) }
    }
    return topic
  }

  /// Bundle identifiers: letters, digits, dots, hyphens and underscores.
  static func isUsable(_ topic: String) -> Bool {
    topic.utf8.count <= 255
      && topic.utf8.allSatisfy { byte in
        byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_") || (byte | 0x20) &- 0x61 < 26 || byte &- 0x30 < 10
      }
  }
}
