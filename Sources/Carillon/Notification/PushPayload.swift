public import Foundation
internal import PushWire

/// What a notification says: the `aps` dictionary that the system reads, and keys of the app's own.
///
/// ```swift
/// var payload = PushPayload(alert: "Your order has left", badge: 1)
/// payload.alert?.titleLocalization = .init(key: "ORDER_TITLE", arguments: ["4711"])
/// payload.sound = "chime.caf"
/// payload.custom["order"] = 4711
/// ```
///
/// Whatever is nil, empty or false is left out. Equal payloads have equal bytes: ``json``.
///
/// The keys are those of Apple's "Generating a remote notification".
public struct PushPayload: Hashable, Sendable {
  /// What is shown. Default nil: nothing.
  public var alert: Alert?
  /// The number on the app's icon; 0 removes it. Default nil: it stays as it is.
  public var badge: Int?
  /// The sound that is played. Default nil: none.
  public var sound: Sound?
  /// The app's category of the notification, which decides about its buttons (`category`).
  public var category: String?
  /// Notifications with the same identifier are grouped (`thread-id`).
  public var threadID: String?
  /// The window that is brought forward (`target-content-id`).
  public var targetContentID: String?
  /// Wakes the app in the background (`content-available`). Default false.
  public var isContentAvailable = false
  /// Lets an extension of the app change the notification before it is shown (`mutable-content`).
  /// Default false.
  public var isMutableContent = false
  /// How urgently the system shows it (`interruption-level`). Default nil: as
  /// ``InterruptionLevel/active``.
  public var interruptionLevel: InterruptionLevel?
  /// Its place in a summary, from 0 to 1; of a Live Activity any number (`relevance-score`).
  public var relevanceScore: Double?
  /// What a Focus filter looks at (`filter-criteria`).
  public var filterCriteria: String?
  /// What happens to a Live Activity. Such a notification has the push type
  /// ``PushNotification/PushType/liveActivity``.
  public var liveActivity: LiveActivity?
  /// The app's own keys, beside `aps`. The key `aps` is ignored. Default: none.
  public var custom: [String: Value] = [:]

  /// Makes a payload.
  ///
  /// - Parameters:
  ///   - alert: what is shown. A string literal is the body alone.
  ///   - badge: the number on the app's icon; 0 removes it.
  ///   - sound: a file of the app's, or ``Sound/default``.
  public init(alert: Alert? = nil, badge: Int? = nil, sound: Sound? = nil) {
    (self.alert, self.badge, self.sound) = (alert, badge, sound)
  }

  /// What is sent: compact JSON in UTF-8. Its count is the payload's size, of which HTTP/2 allows
  /// 4,096 bytes (5,120 for VoIP) and the binary protocol 2,048 (256 in frames of command 0 and 1).
  public var json: [UInt8] {
    JSONValue.object([JSONMember("aps", aps)] + custom.wireMembers.filter { $0.key != "aps" }).encoded
  }

  private var aps: JSONValue {
    var members: [JSONMember] = []
    members.append("alert", alert?.wire)
    members.append("badge", badge.map(JSONValue.integer))
    members.append("sound", sound?.wire)
    members.append("content-available", isContentAvailable ? .integer(1) : nil)
    members.append("mutable-content", isMutableContent ? .integer(1) : nil)
    members.append("category", category.map(JSONValue.string))
    members.append("thread-id", threadID.map(JSONValue.string))
    members.append("target-content-id", targetContentID.map(JSONValue.string))
    members.append("interruption-level", interruptionLevel.map { .string($0.rawValue) })
    members.append("relevance-score", relevanceScore.map(JSONValue.double))
    members.append("filter-criteria", filterCriteria.map(JSONValue.string))
    return .object(members + (liveActivity?.members ?? []))
  }
}

extension PushPayload {
  /// The text of a notification.
  ///
  /// A string literal is a body: `PushPayload(alert: "Hello")`. With a body alone the short form is
  /// sent (`"alert":"Hello"`), otherwise the dictionary.
  public struct Alert: Hashable, Sendable, ExpressibleByStringInterpolation {
    /// A short text about the purpose of the notification.
    public var title: String?
    /// More about that.
    public var subtitle: String?
    /// The text itself.
    public var body: String?
    /// The title from the app's `Localizable.strings`, instead of ``title``.
    public var titleLocalization: Localization?
    /// The subtitle from there, instead of ``subtitle``.
    public var subtitleLocalization: Localization?
    /// The body from there, instead of ``body``.
    public var bodyLocalization: Localization?
    /// The app's launch image (`launch-image`).
    public var launchImage: String?

    /// Makes an alert.
    public init(title: String? = nil, subtitle: String? = nil, body: String? = nil) {
      (self.title, self.subtitle, self.body) = (title, subtitle, body)
    }

    /// Makes an alert with a body alone.
    public init(stringLiteral value: String) { body = value }

    fileprivate var wire: JSONValue {
      if let body, self == Alert(body: body) { return .string(body) }
      var members: [JSONMember] = []
      members.append("title", title.map(JSONValue.string))
      members.append("subtitle", subtitle.map(JSONValue.string))
      members.append("body", body.map(JSONValue.string))
      members.append(titleLocalization, prefix: "title-")
      members.append(subtitleLocalization, prefix: "subtitle-")
      members.append(bodyLocalization, prefix: "")
      members.append("launch-image", launchImage.map(JSONValue.string))
      return .object(members)
    }
  }

  /// A text that the device takes from the app's string table, in the user's language.
  public struct Localization: Hashable, Sendable {
    /// The key in the string table (`loc-key` and its like).
    public var key: String
    /// What takes the places of `%@` and `%n$@` in the text (`loc-args`). Default: nothing.
    public var arguments: [String]

    /// Makes a reference to the string table.
    public init(key: String, arguments: [String] = []) { (self.key, self.arguments) = (key, arguments) }
  }

  /// The sound of a notification: a file's name as a string literal, or a critical alert.
  public struct Sound: Hashable, Sendable, ExpressibleByStringLiteral {
    /// A file in the app or in its container, or `default`.
    public var name: String
    /// It is heard although the device is silent, which the user must have allowed. Default false.
    public var isCritical: Bool
    /// Of a critical alert, from 0 (silent) to 1 (full). Default nil: full.
    public var volume: Double?

    /// Makes a sound.
    public init(name: String, isCritical: Bool = false, volume: Double? = nil) {
      (self.name, self.isCritical, self.volume) = (name, isCritical, volume)
    }

    /// Makes a sound of a file in the app.
    public init(stringLiteral value: String) { self.init(name: value) }

    /// The system's own sound.
    public static let `default` = Sound(name: "default")

    fileprivate var wire: JSONValue {
      guard isCritical || volume != nil else { return .string(name) }
      var members: [JSONMember] = []
      members.append("critical", isCritical ? .integer(1) : nil)
      members.append("name", .string(name))
      members.append("volume", volume.map(JSONValue.double))
      return .object(members)
    }
  }

  /// How urgently the system shows a notification.
  public enum InterruptionLevel: String, Hashable, Sendable, CaseIterable {
    /// Added to the list, without light or sound.
    case passive
    /// Shown at once, with light and sound. What the system takes if nothing is said.
    case active
    /// Shown also when the user is not to be disturbed. The app needs an entitlement.
    case timeSensitive = "time-sensitive"
    /// Shown and heard in any case. The app needs an entitlement from Apple.
    case critical
  }
}

extension PushPayload {
  /// What happens to a Live Activity.
  public struct LiveActivity: Hashable, Sendable {
    /// What a notification does to the activity.
    public enum Event: String, Hashable, Sendable, CaseIterable {
      /// Begins one. It needs ``LiveActivity/attributesType`` and ``LiveActivity/attributes``.
      case start
      /// Changes what it shows.
      case update
      /// Ends it.
      case end
    }

    /// What happens.
    public var event: Event
    /// When it happened: older notifications than the last one are ignored. Whole seconds are sent.
    public var timestamp: Date
    /// What the activity shows from now on, as its `ContentState` decodes it.
    public var contentState: Value
    /// From when on the activity counts as out of date. Whole seconds are sent.
    public var staleDate: Date?
    /// When an activity that has ended is removed. Whole seconds are sent.
    public var dismissalDate: Date?
    /// With ``Event/start``: the name of the type of its attributes.
    public var attributesType: String?
    /// With ``Event/start``: its attributes.
    public var attributes: Value?

    /// Makes an event of a Live Activity.
    ///
    /// - Parameters:
    ///   - event: what happens.
    ///   - timestamp: when it happened. Default: now.
    ///   - contentState: what the activity shows from now on.
    public init(_ event: Event, timestamp: Date = Date(), contentState: Value) {
      (self.event, self.timestamp, self.contentState) = (event, timestamp, contentState)
    }

    fileprivate var members: [JSONMember] {
      var members: [JSONMember] = []
      members.append("stale-date", (staleDate?.wholeSeconds).map(JSONValue.integer))
      members.append("content-state", contentState.wire)
      members.append("timestamp", .integer(timestamp.wholeSeconds))
      members.append("event", .string(event.rawValue))
      members.append("dismissal-date", (dismissalDate?.wholeSeconds).map(JSONValue.integer))
      members.append("attributes-type", attributesType.map(JSONValue.string))
      members.append("attributes", attributes?.wire)
      return members
    }
  }
}

extension [JSONMember] {
  /// Appends nothing if the value is nil.
  fileprivate mutating func append(_ key: String, _ value: JSONValue?) {
    if let value { append(JSONMember(key, value)) }
  }

  fileprivate mutating func append(_ text: PushPayload.Localization?, prefix: String) {
    guard let text else { return }
    append(prefix + "loc-key", .string(text.key))
    append(prefix + "loc-args", text.arguments.isEmpty ? nil : .array(text.arguments.map(JSONValue.string)))
  }
}

extension Date {
  /// Since 1970, rounded down. Times that no whole number can say become the nearest that can.
  var wholeSeconds: Int {
    let seconds = timeIntervalSince1970.rounded(.down)
    return Int(exactly: seconds) ?? (seconds < 0 ? .min : .max)
  }

  /// The same as headers and frames carry it.
  var wireSeconds: UInt32 { UInt32(clamping: wholeSeconds) }
}
