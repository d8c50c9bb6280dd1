internal import PushWire

extension PushPayload {
  /// A JSON value: what custom keys and the content of a Live Activity hold.
  ///
  /// Literals make one:
  ///
  /// ```swift
  /// payload.custom["order"] = ["number": 4711, "items": ["tea", "milk"], "gift": true]
  /// ```
  ///
  /// An object's keys are written in alphabetical order, so that equal values have equal bytes.
  public indirect enum Value: Hashable, Sendable {
    /// A JSON object.
    case object([String: Value])
    /// A JSON array.
    case array([Value])
    /// A JSON string.
    case string(String)
    /// A number without a fraction.
    case integer(Int)
    /// Any other number. Infinities and NaN, which JSON does not have, are written as `null`.
    case number(Double)
    /// `true` or `false`.
    case bool(Bool)
    /// `null`.
    case null
  }
}

extension PushPayload.Value {
  var wire: JSONValue {
    switch self {
    case .object(let members): .object(members.wireMembers)
    case .array(let values): .array(values.map(\.wire))
    case .string(let text): .string(text)
    case .integer(let number): .integer(number)
    case .number(let number): .double(number)
    case .bool(let value): .bool(value)
    case .null: .null
    }
  }
}

extension [String: PushPayload.Value] {
  /// In the order of the keys' bytes, whatever the platform's collation.
  var wireMembers: [JSONMember] {
    sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }.map { JSONMember($0.key, $0.value.wire) }
  }
}

extension PushPayload.Value: ExpressibleByDictionaryLiteral {
  /// Makes an object. Of keys that occur twice, the last counts.
  public init(dictionaryLiteral elements: (String, PushPayload.Value)...) {
    self = .object(Dictionary(elements) { $1 })
  }
}

extension PushPayload.Value: ExpressibleByArrayLiteral {
  /// Makes an array.
  public init(arrayLiteral elements: PushPayload.Value...) { self = .array(elements) }
}

extension PushPayload.Value: ExpressibleByStringInterpolation {
  /// Makes a string.
  public init(stringLiteral value: String) { self = .string(value) }
}

extension PushPayload.Value: ExpressibleByIntegerLiteral {
  /// Makes a number without a fraction.
  public init(integerLiteral value: Int) { self = .integer(value) }
}

extension PushPayload.Value: ExpressibleByFloatLiteral {
  /// Makes a number.
  public init(floatLiteral value: Double) { self = .number(value) }
}

extension PushPayload.Value: ExpressibleByBooleanLiteral {
  /// Makes `true` or `false`.
  public init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension PushPayload.Value: ExpressibleByNilLiteral {
  /// Makes `null`.
  public init(nilLiteral: ()) { self = .null }
}
