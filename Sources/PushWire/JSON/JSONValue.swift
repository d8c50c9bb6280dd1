/// A JSON value in memory. It keeps the order of keys and repeated keys, because payloads are
/// composed and checked with it. Not for hot paths.
package enum JSONValue: Hashable, Sendable {
  case object([JSONMember])
  case array([JSONValue])
  case string(String)
  /// The number as written, so reading and writing does not change it.
  case number(String)
  case bool(Bool)
  case null

  package static func integer(_ value: Int) -> JSONValue { .number(String(value)) }

  /// JSON has no infinities and no NaN; they become null.
  package static func double(_ value: Double) -> JSONValue { value.isFinite ? .number(String(value)) : .null }

  /// The kind of value in words, such as "a string".
  var kindName: String {
    switch self {
    case .object: "an object"
    case .array: "an array"
    case .string: "a string"
    case .number: "a number"
    case .bool: "a boolean"
    case .null: "null"
    }
  }
}

package struct JSONMember: Hashable, Sendable {
  package var key: String
  package var value: JSONValue

  package init(_ key: String, _ value: JSONValue) { (self.key, self.value) = (key, value) }
}

extension JSONValue {
  /// Appends the value as compact JSON in UTF-8.
  package func append(to bytes: inout [UInt8]) {
    switch self {
    case .object(let members):
      bytes.append(UInt8(ascii: "{"))
      for (index, member) in members.enumerated() {
        if index > 0 { bytes.append(UInt8(ascii: ",")) }
        Self.appendString(member.key, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        member.value.append(to: &bytes)
      }
      bytes.append(UInt8(ascii: "}"))
    case .array(let values):
      bytes.append(UInt8(ascii: "["))
      for (index, value) in values.enumerated() {
        if index > 0 { bytes.append(UInt8(ascii: ",")) }
        value.append(to: &bytes)
      }
      bytes.append(UInt8(ascii: "]"))
    case .string(let text): Self.appendString(text, to: &bytes)
    case .number(let text): bytes.append(contentsOf: text.utf8)
    case .bool(let value): bytes.append(contentsOf: (value ? "true" : "false").utf8)
    case .null: bytes.append(contentsOf: "null".utf8)
    }
  }

  /// The value as compact JSON in UTF-8.
  package var encoded: [UInt8] {
    var bytes: [UInt8] = []
    // Most payloads fit.
    bytes.reserveCapacity(256)
    append(to: &bytes)
    return bytes
  }

  private static func appendString(_ text: String, to bytes: inout [UInt8]) {
    bytes.append(UInt8(ascii: "\""))
    JSONText.appendEscaped(text, to: &bytes)
    bytes.append(UInt8(ascii: "\""))
  }

  /// Reads one whole JSON text.
  package init(parsing bytes: Span<UInt8>) throws(JSONError) {
    var parser = JSONParser(bytes)
    self = try parser.parse()
  }

  /// Reads one whole JSON text in a slice.
  package init(parsing bytes: ArraySlice<UInt8>) throws(JSONError) { try self.init(parsing: bytes.span) }

  /// Reads one whole JSON text in raw memory.
  package init(parsing bytes: UnsafeRawBufferPointer) throws(JSONError) {
    try unsafe self.init(parsing: Span(_unsafeBytes: bytes))
  }
}

/// Builds a `JSONValue`, and notes what is well-formed but doubtful. The reader's depth limit
/// bounds the recursion.
struct JSONParser: ~Escapable {
  enum Remark: Hashable, Sendable {
    case duplicateKey
    /// One half of an escaped surrogate pair without the other half.
    case loneSurrogate
  }

  private let bytes: Span<UInt8>
  private var reader: JSONReader
  private var path = JSONPath()
  private(set) var remarks: [(path: JSONPath, remark: Remark)] = []

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>) {
    self.bytes = bytes
    reader = JSONReader(bytes)
  }

  mutating func parse() throws(JSONError) -> JSONValue {
    let value = try value(reader.next())
    _ = try reader.next()
    return value
  }

  private mutating func value(_ event: JSONEvent) throws(JSONError) -> JSONValue {
    switch event {
    case .beginObject: return try object()
    case .beginArray: return try array()
    case .string(let range): return .string(text(range))
    case .number(let range): return .number(String(decoding: bytes.extracting(range)))
    case .bool(let value): return .bool(value)
    case .null, .key, .endObject, .endArray, .end: return .null
    }
  }

  private mutating func object() throws(JSONError) -> JSONValue {
    var members: [JSONMember] = []
    var keys = JSONKeys()
    while case .key(let range) = try reader.next() {
      let key = text(range)
      path.append(key: key)
      if !keys.insert(key, after: members) { remarks.append((path, .duplicateKey)) }
      members.append(JSONMember(key, try value(reader.next())))
      path.removeLast()
    }
    return .object(members)
  }

  private mutating func array() throws(JSONError) -> JSONValue {
    var values: [JSONValue] = []
    while true {
      let event = try reader.next()
      guard event != .endArray else { return .array(values) }
      path.append(index: values.count)
      values.append(try value(event))
      path.removeLast()
    }
  }

  private mutating func text(_ range: Range<Int>) -> String {
    var hasLoneSurrogate = false
    let text = JSONText.unescape(bytes.extracting(range), hasLoneSurrogate: &hasLoneSurrogate)
    if hasLoneSurrogate { remarks.append((path, .loneSurrogate)) }
    return text
  }
}

/// The keys of an object, to find those that occur again.
///
/// They are compared by bytes: keys that Swift considers equal, because they look the same, can be
/// different keys.
private struct JSONKeys {
  /// Empty while there are few keys, which are compared one by one.
  private var seen: Set<[UInt8]> = []

  private static let fewCount = 8

  /// - Parameter members: with all keys before this one.
  /// - Returns: false if it is there already.
  mutating func insert(_ key: String, after members: [JSONMember]) -> Bool {
    guard members.count >= Self.fewCount else {
      // The length is at hand, and differs most often.
      return !members.contains { $0.key.utf8.count == key.utf8.count && $0.key.utf8.elementsEqual(key.utf8) }
    }
    if seen.isEmpty { seen = Set(members.map { Array($0.key.utf8) }) }
    return seen.insert(Array(key.utf8)).inserted
  }
}

/// A place in a JSON text, such as `$.aps.alert.loc-args[0]` or `$["my key"]`.
package struct JSONPath: Hashable, Sendable, CustomStringConvertible {
  private enum Component: Hashable, Sendable {
    case key(String)
    case index(Int)
  }

  private var components: [Component] = []

  package init() {}

  package var description: String { "$" + components.map(Self.text).joined() }

  private static func text(_ component: Component) -> String {
    switch component {
    case .index(let index): return "[\(index)]"
    case .key(let key):
      let isPlain = key.utf8.first.map(isNameStart) == true && key.utf8.allSatisfy(isNamePart)
      var quoted: [UInt8] = []
      JSONText.appendEscaped(key, to: &quoted)
      return isPlain ? "." + key : "[\"" + String(decoding: quoted, as: UTF8.self) + "\"]"
    }
  }

  mutating func append(key: String) { components.append(.key(key)) }
  mutating func append(index: Int) { components.append(.index(index)) }
  mutating func removeLast() { components.removeLast() }

  func appending(key: String) -> JSONPath {
    var path = self
    path.append(key: key)
    return path
  }

  func appending(index: Int) -> JSONPath {
    var path = self
    path.append(index: index)
    return path
  }

  private static func isNameStart(_ byte: UInt8) -> Bool {
    (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte == UInt8(ascii: "_")
  }

  /// Hyphens need no quotes here, unlike in RFC 9535: half of the keys of `aps` contain one, and so
  /// many quotes are hard to read.
  private static func isNamePart(_ byte: UInt8) -> Bool {
    isNameStart(byte) || byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "-")
  }
}
