package import PushStore
package import PushWire

/// What devices demand of the payload of a Live Activity, beside the types of its values (Apple:
/// "Starting and updating Live Activities with ActivityKit push notifications"). They ignore what
/// breaks these rules, and the gateway accepts it.
package enum ActivityRules {
  package enum Event: String, Sendable {
    case start, update, end
  }

  /// A rule that is broken.
  package struct Refusal: Error, Hashable, Sendable {
    /// In `aps`.
    package let key: String
    package let sentence: String
  }

  /// Devices ignore what is older than the last they got: a time that lies ahead shuts out what is
  /// sent before it comes. Seconds.
  private static let clockTolerance = 60

  package static let nameRule = "It must be at most \(nameLimit) letters, digits and - . _ ~."
  /// Characters.
  private static let nameLimit = 64

  /// Of an activity, or of a type.
  package static func isName(_ text: String) -> Bool {
    (1...nameLimit).contains(text.utf8.count) && text.utf8.allSatisfy(\.isUnreserved)
  }

  /// - Parameters:
  ///   - aps: without `timestamp` it is of the time at which it is sent.
  ///   - instant: when it is sent.
  package static func check(
    _ aps: [JSONMember], of activity: ActivityName, sentAt instant: StoreInstant
  ) throws(Refusal) {
    func value(_ key: String) -> JSONValue? { aps.last { $0.key == key }?.value }
    func demandObject(_ key: String, _ what: String) throws(Refusal) {
      switch value(key) {
      case .object?: break
      case nil: throw Refusal(key: key, sentence: what)
      default: throw Refusal(key: key, sentence: "It must be an object.")
      }
    }
    var event: Event?
    if case .string(let text)? = value("event") { event = Event(rawValue: text) }
    switch (activity, event) {
    case (.startable(let type), .start?):
      try demandObject("attributes", "What the activity is made with is missing.")
      guard value("attributes-type") == .string(type) else {
        throw Refusal(key: "attributes-type", sentence: "It must be \"\(type)\", as its tokens are registered.")
      }
      guard value("alert") != nil else {
        throw Refusal(key: "alert", sentence: "Devices start an activity only with an alert.")
      }
    case (.startable, _): throw Refusal(key: "event", sentence: "What can be started gets the event \"start\".")
    case (.shown, .update?), (.shown, .end?): break
    case (.shown, _): throw Refusal(key: "event", sentence: "What is shown gets the event \"update\" or \"end\".")
    }
    if event != .end || value("content-state") != nil {
      try demandObject("content-state", "What the activity shows is missing.")
    }
    if event != .end, value("dismissal-date") != nil {
      throw Refusal(key: "dismissal-date", sentence: "Only an activity that ends is dismissed.")
    }
    let now = Int(instant.milliseconds / 1_000)
    let timestamp = seconds(value("timestamp")) ?? now
    guard timestamp <= now + clockTolerance else {
      throw Refusal(
        key: "timestamp", sentence: "The timestamp lies ahead: devices would ignore what comes before it.")
    }
    if let stale = seconds(value("stale-date")), stale <= timestamp {
      throw Refusal(key: "stale-date", sentence: "It must be later than the timestamp.")
    }
  }

  private static func seconds(_ value: JSONValue?) -> Int? {
    guard case .number(let text)? = value else { return nil }
    return Int(text)
  }

  /// The payload with the time of what it says, unless it has one. What cannot be read stays.
  static func timed(_ payload: [UInt8], at instant: StoreInstant) -> [UInt8] {
    guard case .object(var members)? = try? JSONValue(parsing: payload[...]),
      let place = members.firstIndex(where: { $0.key == "aps" }), case .object(let aps) = members[place].value,
      !aps.contains(where: { $0.key == "timestamp" })
    else { return payload }
    members[place].value = .object([JSONMember("timestamp", .integer(Int(instant.milliseconds / 1_000)))] + aps)
    return JSONValue.object(members).encoded
  }

  /// Of a payload.
  static func aps(_ payload: [UInt8]) -> [JSONMember] {
    guard case .object(let members)? = try? JSONValue(parsing: payload[...]),
      case .object(let aps)? = members.last(where: { $0.key == "aps" })?.value
    else { return [] }
    return aps
  }
}

extension UInt8 {
  /// In an address they stand for themselves (RFC 3986, section 2.3).
  fileprivate var isUnreserved: Bool {
    switch self {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
      UInt8(ascii: "~"):
      true
    default: false
    }
  }
}
