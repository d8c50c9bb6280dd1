/// The `apns-*` headers that all notifications of a campaign share (HTTP2ProviderAPI.md, section
/// 2). ``check(payload:credential:)`` finds mistakes in them before anything is sent.
package struct ProviderHeaders: Hashable, Sendable {
  /// The bundle identifier, with or without the suffix of the push type; nil: the certificate's
  /// topic.
  package var topic: String?
  package var pushType: PushType
  /// 10, 5 or 1. Nil leaves it to the service (10), unless the push type demands 5.
  package var priority: UInt8?
  /// Seconds since 1970; 0: try once and do not store; nil: stored up to 30 days.
  package var expiration: UInt32?
  /// 1 to 64 bytes. Notifications with the same identifier replace each other on the device.
  package var collapseIdentifier: String?
  /// The channel of a broadcast, which has no device token and no topic header.
  package var channelIdentifier: String?

  package init(topic: String?, pushType: PushType = .alert) { (self.topic, self.pushType) = (topic, pushType) }

  package static let collapseIdentifierByteCountLimit = 64

  /// The value of `apns-topic`; nil if neither the headers nor the credential names a topic.
  package func effectiveTopic(for credential: ProviderCredentialKind) -> String? {
    switch (pushType, credential) {
    case (.mdm, .certificate(let userIdentifier, _)): topic ?? userIdentifier
    case (_, .certificate(let userIdentifier, _)): (topic ?? userIdentifier).map(pushType.topic)
    case (_, .token): topic.map(pushType.topic)
    }
  }

  /// The topic without the suffix of its push type, which the path of a broadcast contains.
  package func bundleIdentifier(for credential: ProviderCredentialKind) -> String? {
    guard let topic = effectiveTopic(for: credential) else { return nil }
    let suffix = pushType.topicSuffix
    return !suffix.isEmpty && topic.hasSuffix(suffix) ? String(topic.dropLast(suffix.count)) : topic
  }

  /// The value of `apns-priority`; nil leaves the header out. A background notification always has
  /// priority 5, so it is the default there.
  package var effectivePriority: UInt8? {
    priority ?? (pushType == .background ? PushPriority.consideringDevicePower.rawValue : nil)
  }

  /// The largest payload in bytes of uncompressed JSON: 4096, or 5120 for VoIP and broadcasts.
  package var payloadLimit: Int { payloadTransport.payloadLimit }
  package var payloadTransport: PayloadTransport { channelIdentifier == nil ? pushType.transport : .broadcast }

  /// Whether `text` can be a header's value: printable ASCII without a space at either end.
  static func isHeaderValue(_ text: String) -> Bool {
    guard let first = text.utf8.first, let last = text.utf8.last else { return false }
    return first != 0x20 && last != 0x20 && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
  }
}

/// How a connection authenticates, as far as rules depend on it.
package enum ProviderCredentialKind: Hashable, Sendable {
  /// A JWT made with a `.p8` key.
  case token
  /// A certificate with the UID of its subject, and all topics that it names; empty if it names
  /// none.
  case certificate(userIdentifier: String?, topics: [String])
}
