/// A payload: an `aps` dictionary, or none (MDM), and custom keys. `encoded` is what is sent.
///
/// `Payload.check` is separate and works on the bytes, whatever program made them.
package struct Payload: Hashable, Sendable {
  /// Nil for payloads without `aps`, such as those of MDM.
  package var aps: Aps?
  /// Custom keys, written in this order. A key named "aps" is left out, because there would be two.
  package var custom: [JSONMember]

  package init(aps: Aps?, custom: [JSONMember] = []) {
    self.aps = aps
    self.custom = custom
  }

  /// A payload that makes a managed device contact its server: `{"mdm": PushMagic}`.
  package static func mdm(pushMagic: String) -> Payload {
    Payload(aps: nil, custom: [JSONMember("mdm", .string(pushMagic))])
  }

  package var value: JSONValue {
    .object((aps.map { [JSONMember("aps", $0.value)] } ?? []) + custom.filter { $0.key != "aps" })
  }

  /// Compact JSON in UTF-8 without a terminator. Its count is the payload's size.
  package var encoded: [UInt8] { value.encoded }
}

/// The `aps` dictionary with every documented key. A key whose value is nil or false is left out.
package struct Aps: Hashable, Sendable {
  package enum AlertForm: Hashable, Sendable {
    case text(String)
    case dictionary(Alert)
  }

  package enum SoundForm: Hashable, Sendable {
    /// A file in the app, or "default".
    case name(String)
    case dictionary(Sound)
  }

  package enum InterruptionLevel: String, Hashable, Sendable, CaseIterable {
    case passive
    case active
    case timeSensitive = "time-sensitive"
    case critical
  }

  /// The event of a Live Activity.
  package enum Event: String, Hashable, Sendable, CaseIterable {
    case start
    case update
    case end
  }

  package var alert: AlertForm?
  /// 0 removes the badge.
  package var badge: Int?
  package var sound: SoundForm?
  package var contentAvailable = false
  package var mutableContent = false
  package var category: String?
  package var threadID: String?
  package var targetContentID: String?
  package var interruptionLevel: InterruptionLevel?
  /// 0…1; for Live Activities any number.
  package var relevanceScore: Double?
  package var filterCriteria: String?
  /// In UNIX seconds, as all dates.
  package var staleDate: Int?
  package var contentState: JSONValue?
  package var timestamp: Int?
  package var event: Event?
  package var dismissalDate: Int?
  package var attributesType: String?
  package var attributes: JSONValue?
  package var contentChanged = false
  /// For website push: the values for the URL's template.
  package var urlArguments: [String]?
  /// Keys that this type does not know, written last.
  package var others: [JSONMember] = []

  package init() {}

  package var value: JSONValue {
    var members: [JSONMember] = []
    switch alert {
    case .text(let text): members.append("alert", .string(text))
    case .dictionary(let alert): members.append("alert", alert.value)
    case nil: break
    }
    members.append("badge", badge.map(JSONValue.integer))
    switch sound {
    case .name(let name): members.append("sound", .string(name))
    case .dictionary(let sound): members.append("sound", sound.value)
    case nil: break
    }
    members.append("content-available", contentAvailable ? .integer(1) : nil)
    members.append("mutable-content", mutableContent ? .integer(1) : nil)
    members.append("category", category.map(JSONValue.string))
    members.append("thread-id", threadID.map(JSONValue.string))
    members.append("target-content-id", targetContentID.map(JSONValue.string))
    members.append("interruption-level", interruptionLevel.map { .string($0.rawValue) })
    members.append("relevance-score", relevanceScore.map(JSONValue.double))
    members.append("filter-criteria", filterCriteria.map(JSONValue.string))
    members.append("stale-date", staleDate.map(JSONValue.integer))
    members.append("content-state", contentState)
    members.append("timestamp", timestamp.map(JSONValue.integer))
    members.append("event", event.map { .string($0.rawValue) })
    members.append("dismissal-date", dismissalDate.map(JSONValue.integer))
    members.append("attributes-type", attributesType.map(JSONValue.string))
    members.append("attributes", attributes)
    members.append("content-changed", contentChanged ? .bool(true) : nil)
    members.append("url-args", urlArguments.map { .array($0.map(JSONValue.string)) })
    return .object(members + others)
  }
}

/// The dictionary form of `alert`.
package struct Alert: Hashable, Sendable {
  package var title: String?
  package var subtitle: String?
  package var body: String?
  package var titleLocKey: String?
  package var titleLocArgs: [String]?
  package var subtitleLocKey: String?
  package var subtitleLocArgs: [String]?
  package var locKey: String?
  package var locArgs: [String]?
  package var actionLocKey: String?
  /// For website push: the label of the action button.
  package var action: String?
  package var launchImage: String?
  package var summaryArg: String?
  package var summaryArgCount: Int?

  package init() {}

  package var value: JSONValue {
    let strings: ([String]?) -> JSONValue? = { $0.map { .array($0.map(JSONValue.string)) } }
    var members: [JSONMember] = []
    members.append("title", title.map(JSONValue.string))
    members.append("subtitle", subtitle.map(JSONValue.string))
    members.append("body", body.map(JSONValue.string))
    members.append("title-loc-key", titleLocKey.map(JSONValue.string))
    members.append("title-loc-args", strings(titleLocArgs))
    members.append("subtitle-loc-key", subtitleLocKey.map(JSONValue.string))
    members.append("subtitle-loc-args", strings(subtitleLocArgs))
    members.append("loc-key", locKey.map(JSONValue.string))
    members.append("loc-args", strings(locArgs))
    members.append("action-loc-key", actionLocKey.map(JSONValue.string))
    members.append("action", action.map(JSONValue.string))
    members.append("launch-image", launchImage.map(JSONValue.string))
    members.append("summary-arg", summaryArg.map(JSONValue.string))
    members.append("summary-arg-count", summaryArgCount.map(JSONValue.integer))
    return .object(members)
  }
}

/// The dictionary form of `sound`, for critical alerts.
package struct Sound: Hashable, Sendable {
  /// A file in the app, or "default".
  package var name: String
  package var isCritical: Bool
  /// 0 (silent) to 1 (full).
  package var volume: Double?

  package init(name: String, isCritical: Bool = false, volume: Double? = nil) {
    self.name = name
    self.isCritical = isCritical
    self.volume = volume
  }

  package var value: JSONValue {
    var members: [JSONMember] = []
    members.append("critical", isCritical ? .integer(1) : nil)
    members.append("name", .string(name))
    members.append("volume", volume.map(JSONValue.double))
    return .object(members)
  }
}

extension [JSONMember] {
  /// Appends nothing if the value is nil.
  fileprivate mutating func append(_ key: String, _ value: JSONValue?) {
    if let value { append(JSONMember(key, value)) }
  }
}
