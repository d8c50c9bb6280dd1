/// What the value of a documented key must be.
enum PayloadRule {
  case string, stringOrNull, strings, number
  /// A number without a fraction, in 64 bits.
  case integer
  /// The number 1. The key is left out where it does not apply.
  case flag
  case boolean, object
  case oneOf([String])
  /// A number from 0 to 1.
  case unit
  case alert, sound
  /// A text, or in a Live Activity an object with a key of the app's string table and arguments.
  case localizable

  typealias Keys = [String: PayloadRule]

  static let aps: Keys = [
    "alert": .alert, "badge": .integer, "sound": .sound, "thread-id": .string, "category": .string,
    "content-available": .flag,
    "mutable-content": .flag, "target-content-id": .string,
    "interruption-level": .oneOf(["passive", "active", "time-sensitive", "critical"]),
    "relevance-score": .number, "filter-criteria": .string, "stale-date": .integer, "content-state": .object,
    "timestamp": .integer,
    "event": .oneOf(["start", "update", "end"]), "dismissal-date": .integer, "attributes-type": .string,
    "attributes": .object,
    "input-push-token": .flag, "input-push-channel": .string, "content-changed": .boolean, "url-args": .strings,
  ]

  static let alertKeys: Keys = [
    "title": .localizable, "subtitle": .localizable, "body": .localizable, "title-loc-key": .stringOrNull,
    "title-loc-args": .strings,
    "subtitle-loc-key": .stringOrNull, "subtitle-loc-args": .strings, "loc-key": .string, "loc-args": .strings,
    "action-loc-key": .stringOrNull,
    "action": .string, "launch-image": .string, "summary-arg": .string, "summary-arg-count": .integer, "sound": .string,
  ]

  static let soundKeys: Keys = ["critical": .flag, "name": .string, "volume": .unit]
  static let localizableKeys: Keys = ["loc-key": .string, "loc-args": .strings]

  /// The text that follows "It must be …".
  var requirement: String {
    switch self {
    case .string: "a string"
    case .stringOrNull: "a string or null"
    case .strings: "an array of strings"
    case .number, .unit: "a number"
    case .integer: "a whole number"
    case .flag: "the number 1"
    case .boolean: "true or false"
    case .object: "an object"
    case .oneOf(let values): "one of " + values.joined(separator: ", ")
    case .alert, .sound, .localizable: "a string or an object"
    }
  }
}

extension PayloadChecker {
  mutating func check(_ members: [JSONMember], by rules: PayloadRule.Keys, at path: JSONPath) {
    for member in members {
      let place = path.appending(key: member.key)
      if let rule = rules[member.key] {
        check(member.value, by: rule, at: place)
      } else {
        warning(place, "This key is not documented here, so it has no effect; custom keys belong beside aps.")
      }
    }
    checkArguments(members, at: path)
    checkRelevance(members, at: path)
    checkBadge(members, at: path)
  }

  private mutating func check(_ value: JSONValue, by rule: PayloadRule, at path: JSONPath) {
    switch (rule, value) {
    case (.string, .string), (.stringOrNull, .string), (.stringOrNull, .null), (.number, .number), (.boolean, .bool),
      (.object, .object), (.alert, .string), (.sound, .string), (.localizable, .string):
      break
    case (.strings, .array(let values)):
      for (index, value) in values.enumerated() { check(value, by: .string, at: path.appending(index: index)) }
    case (.integer, .number(let text)):
      if Double(text).flatMap({ Int64(exactly: $0) }) == nil { error(path, "It must be a whole number, not \(text).") }
    case (.flag, .number(let text)):
      if Double(text) == 0 {
        warning(path, "0 has no effect; leave the key out.")
      } else if Double(text) != 1 {
        error(path, "It must be the number 1, not \(text).")
      }
    case (.unit, .number(let text)):
      if Double(text).map({ (0...1).contains($0) }) != true { error(path, "It must be from 0 to 1, not \(text).") }
    case (.oneOf(let values), .string(let text)):
      if !values.contains(text) { error(path, "It must be \(rule.requirement), not \"\(text)\".") }
    case (.alert, .object(let members)): check(members, by: PayloadRule.alertKeys, at: path)
    case (.sound, .object(let members)): check(members, by: PayloadRule.soundKeys, at: path)
    case (.localizable, .object(let members)): check(members, by: PayloadRule.localizableKeys, at: path)
    default: error(path, "It must be \(rule.requirement), not \(value.kindName).")
    }
  }

  /// The arguments fill the placeholders of the text that a key names.
  private mutating func checkArguments(_ members: [JSONMember], at path: JSONPath) {
    for prefix in ["", "title-", "subtitle-"] {
      let (key, arguments) = (prefix + "loc-key", prefix + "loc-args")
      if members.contains(where: { $0.key == arguments }), !members.contains(where: { $0.key == key }) {
        warning(path.appending(key: arguments), "The arguments have no effect without \(key).")
      }
    }
  }

  /// The score is from 0 to 1, except in Live Activities, which have an event.
  private mutating func checkRelevance(_ members: [JSONMember], at path: JSONPath) {
    guard case .number(let text)? = members.last(where: { $0.key == "relevance-score" })?.value,
      !members.contains(where: { $0.key == "event" }), let score = Double(text), !(0...1).contains(score)
    else { return }
    warning(path.appending(key: "relevance-score"), "It should be from 0 to 1, not \(text).")
  }

  private mutating func checkBadge(_ members: [JSONMember], at path: JSONPath) {
    guard case .number(let text)? = members.last(where: { $0.key == "badge" })?.value, let badge = Double(text),
      badge < 0
    else { return }
    warning(path.appending(key: "badge"), "It should not be negative; 0 removes the badge.")
  }
}
