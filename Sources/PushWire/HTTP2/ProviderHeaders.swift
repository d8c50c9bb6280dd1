/// The `apns-*` headers that all notifications of a campaign have in common (HTTP2ProviderAPI.md, section 2), as a person gave them:
/// ``check(payload:credential:)`` says what is wrong with them before anything is sent.
package struct ProviderHeaders: Hashable, Sendable {
  /// Bundle identifier, with or without the suffix of the push type; nil: what the certificate says.
  package var topic: String?
  package var pushType: PushType
  /// 10, 5 or 1; nil leaves it to the service (10), except where the push type demands 5.
  package var priority: UInt8?
  /// Seconds since 1970; 0: try once and do not store; nil: stored up to 30 days.
  package var expiration: UInt32?
  /// Notifications with the same one replace each other on the device: 1 to 64 bytes.
  package var collapseIdentifier: String?
  /// Of a broadcast channel; such a notification goes to no device token and has no topic header.
  package var channelIdentifier: String?

  package init(topic: String?, pushType: PushType = .alert) {
    self.topic = topic
    self.pushType = pushType
  }

  package static let collapseIdentifierByteCountLimit = 64

  /// What `apns-topic` will say; nil if nobody has named one.
  package func effectiveTopic(for credential: ProviderCredentialKind) -> String? {
    switch (pushType, credential) {
    case (.mdm, .certificate(let userIdentifier, _)): topic ?? userIdentifier
    case (_, .certificate(let userIdentifier, _)): (topic ?? userIdentifier).map(pushType.topic)
    case (_, .token): topic.map(pushType.topic)
    }
  }

  /// The topic without the suffix of its push type: what the path of a broadcast names.
  package func bundleIdentifier(for credential: ProviderCredentialKind) -> String? {
    guard let topic = effectiveTopic(for: credential) else { return nil }
    let suffix = pushType.topicSuffix
    return !suffix.isEmpty && topic.hasSuffix(suffix) ? String(topic.dropLast(suffix.count)) : topic
  }

  /// What `apns-priority` will say; nil leaves it out. A background notification has priority 5, and nobody should have to say so.
  package var effectivePriority: UInt8? { priority ?? (pushType == .background ? PushPriority.considerate.rawValue : nil) }

  /// In bytes of uncompressed JSON: 4096, or 5120 for VoIP and broadcasts.
  package var payloadLimit: Int { payloadTransport.payloadLimit }
  package var payloadTransport: PayloadTransport { channelIdentifier == nil ? pushType.transport : .broadcast }

  /// Whether `text` can be a header's value as it is: printable ASCII, no space at either end.
  static func isHeaderValue(_ text: String) -> Bool {
    guard let first = text.utf8.first, let last = text.utf8.last else { return false }
    return first != 0x20 && last != 0x20 && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
  }
}

/// How a connection proves who is sending, as far as rules depend on it.
package enum ProviderCredentialKind: Hashable, Sendable {
  /// A JWT made with a `.p8` key.
  case token
  /// A certificate: the UID of its subject, and every topic that it names (none: it does not say).
  case certificate(userIdentifier: String?, topics: [String])
}
