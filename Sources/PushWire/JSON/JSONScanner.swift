/// Checks that raw bytes are well-formed JSON (RFC 8259), including UTF-8. The nesting is bounded,
/// and nothing is allocated.
package enum JSONScanner {
  /// The largest depth limit. `JSONReader` keeps one bit for each level in a word.
  package static let depthLimit = 64

  /// Whether the bytes are one well-formed JSON object. A payload must be one; otherwise a gateway
  /// answers with status 1.
  package static func isObject(_ bytes: UnsafeRawBufferPointer) -> Bool {
    do throws(JSONError) {
      return try unsafe validate(bytes) == .object
    } catch {
      return false
    }
  }

  package enum Kind: Hashable, Sendable { case object, array, string, number, bool, null }

  /// Reads one whole value and returns its kind. `depthLimit` is the number of nested arrays and
  /// objects, at most 64.
  package static func validate(_ bytes: UnsafeRawBufferPointer, depthLimit: Int = depthLimit) throws(JSONError) -> Kind
  {
    var reader = unsafe JSONReader(Span(_unsafeBytes: bytes), depthLimit: depthLimit)
    let kind: Kind =
      switch try reader.next() {
      case .beginObject: .object
      case .beginArray: .array
      case .string: .string
      case .number: .number
      case .bool: .bool
      default: .null
      }
    while try reader.next() != .end {}
    return kind
  }
}

/// One step through a JSON text. Ranges are offsets into the text. The range of a string excludes
/// its quotes and includes its escapes as written.
enum JSONEvent: Equatable {
  case beginObject, endObject, beginArray, endArray
  case key(Range<Int>)
  case string(Range<Int>)
  case number(Range<Int>)
  case bool(Bool)
  case null
  /// The value is complete, and only white space followed.
  case end
}

/// A pull reader: each call of `next` reads one event, and throws at the first byte that breaks a
/// rule. Each read is behind a comparison with the number of bytes. There is no recursion, so no
/// text can exhaust the stack.
struct JSONReader: ~Escapable {
  private enum Expectation {
    case value
    /// After `[`: a value or `]`.
    case valueOrEnd
    /// After `{`: a key or `}`.
    case keyOrEnd
    /// After a value inside an array or object: a comma or the end.
    case commaOrEnd
    case nothing
  }

  private let bytes: Span<UInt8>
  private let depthLimit: Int
  private var position = 0
  private var depth = 0
  /// The lowest bit is the innermost level: 1 for an object, 0 for an array.
  private var levels: UInt64 = 0
  private var expectation = Expectation.value

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>, depthLimit: Int = JSONScanner.depthLimit) {
    self.bytes = bytes
    self.depthLimit = min(depthLimit, JSONScanner.depthLimit)
  }

  /// How many bytes were read.
  var offset: Int { position }

  mutating func next() throws(JSONError) -> JSONEvent {
    skipSpace()
    guard let byte = peek() else {
      guard expectation == .nothing else { throw failure(.unexpectedEnd) }
      return .end
    }
    switch expectation {
    case .nothing: throw failure(.trailingBytes)
    case .value: return try readValue(byte)
    case .valueOrEnd: return try byte == UInt8(ascii: "]") ? leave() : readValue(byte)
    case .keyOrEnd: return try byte == UInt8(ascii: "}") ? leave() : readKey(byte)
    case .commaOrEnd:
      let isObject = levels & 1 == 1
      if byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) { return leave() }
      guard byte == UInt8(ascii: ",") else { throw failure(.unexpectedByte) }
      position += 1
      skipSpace()
      guard let following = peek() else { throw failure(.unexpectedEnd) }
      return try isObject ? readKey(following) : readValue(following)
    }
  }

  // MARK: Structure

  private mutating func enter(object: Bool) throws(JSONError) {
    guard depth < depthLimit else { throw failure(.tooDeep) }
    depth += 1
    levels = levels << 1 | (object ? 1 : 0)
    expectation = object ? .keyOrEnd : .valueOrEnd
    position += 1
  }

  private mutating func leave() -> JSONEvent {
    let event: JSONEvent = levels & 1 == 1 ? .endObject : .endArray
    levels >>= 1
    depth -= 1
    position += 1
    valueEnded()
    return event
  }

  private mutating func valueEnded() { expectation = depth == 0 ? .nothing : .commaOrEnd }

  private mutating func readKey(_ byte: UInt8) throws(JSONError) -> JSONEvent {
    guard byte == UInt8(ascii: "\"") else { throw failure(.unexpectedByte) }
    let range = try readString()
    skipSpace()
    guard let colon = peek() else { throw failure(.unexpectedEnd) }
    guard colon == UInt8(ascii: ":") else { throw failure(.unexpectedByte) }
    position += 1
    expectation = .value
    return .key(range)
  }

  private mutating func readValue(_ byte: UInt8) throws(JSONError) -> JSONEvent {
    let event: JSONEvent
    switch byte {
    case UInt8(ascii: "{"):
      try enter(object: true)
      return .beginObject
    case UInt8(ascii: "["):
      try enter(object: false)
      return .beginArray
    case UInt8(ascii: "\""): event = try .string(readString())
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): event = try .number(readNumber())
    case UInt8(ascii: "t"):
      try readWord("true")
      event = .bool(true)
    case UInt8(ascii: "f"):
      try readWord("false")
      event = .bool(false)
    case UInt8(ascii: "n"):
      try readWord("null")
      event = .null
    default: throw failure(.unexpectedByte)
    }
    valueEnded()
    return event
  }

  // MARK: Scalars

  private mutating func readWord(_ word: StaticString) throws(JSONError) {
    for index in 0..<word.utf8CodeUnitCount {
      guard let byte = peek() else { throw failure(.unexpectedEnd) }
      guard unsafe byte == word.utf8Start[index] else { throw failure(.unexpectedByte) }
      position += 1
    }
  }

  private mutating func readNumber() throws(JSONError) -> Range<Int> {
    let start = position
    if peek() == UInt8(ascii: "-") { position += 1 }
    let isZero = peek() == UInt8(ascii: "0")
    let integerDigits = skipDigits()
    guard integerDigits > 0, !isZero || integerDigits == 1 else {
      throw JSONError(offset: start, problem: numberProblem(integerDigits))
    }
    if peek() == UInt8(ascii: ".") {
      position += 1
      let digits = skipDigits()
      guard digits > 0 else { throw JSONError(offset: start, problem: numberProblem(digits)) }
    }
    if let exponent = peek(), exponent | 0x20 == UInt8(ascii: "e") {
      position += 1
      if let sign = peek(), sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { position += 1 }
      let digits = skipDigits()
      guard digits > 0 else { throw JSONError(offset: start, problem: numberProblem(digits)) }
    }
    return start..<position
  }

  /// If digits are missing because the text ends, the problem is the end and not the number.
  private func numberProblem(_ digits: Int) -> JSONError.Problem {
    digits == 0 && position == bytes.count ? .unexpectedEnd : .malformedNumber
  }

  private mutating func skipDigits() -> Int {
    let start = position
    while let byte = peek(), byte &- UInt8(ascii: "0") < 10 { position += 1 }
    return position - start
  }

  private mutating func readString() throws(JSONError) -> Range<Int> {
    position += 1
    let start = position
    while let byte = peek() {
      switch byte {
      case UInt8(ascii: "\""):
        position += 1
        return start..<position - 1
      case UInt8(ascii: "\\"): try readEscape()
      case ..<0x20: throw failure(.controlCharacter)
      case ..<0x80: position += 1
      default:
        guard let rest = UTF8Check.rest(of: byte, in: bytes, at: position + 1) else {
          throw failure(.invalidUTF8)
        }
        position += 1 + rest
      }
    }
    throw failure(.unexpectedEnd)
  }

  private mutating func readEscape() throws(JSONError) {
    let start = position
    position += 1
    guard let byte = peek() else { throw failure(.unexpectedEnd) }
    position += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
      UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
      return
    case UInt8(ascii: "u"):
      for _ in 0..<4 {
        guard let digit = peek() else { throw failure(.unexpectedEnd) }
        guard digit &- UInt8(ascii: "0") < 10 || (digit | 0x20) &- UInt8(ascii: "a") < 6 else {
          throw JSONError(offset: start, problem: .malformedEscape)
        }
        position += 1
      }
    default: throw JSONError(offset: start, problem: .malformedEscape)
    }
  }

  // MARK: Bytes

  private func peek() -> UInt8? { position < bytes.count ? bytes[position] : nil }

  private mutating func skipSpace() {
    while let byte = peek(), byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
      position += 1
    }
  }

  private func failure(_ problem: JSONError.Problem) -> JSONError {
    JSONError(offset: position, problem: problem)
  }
}
