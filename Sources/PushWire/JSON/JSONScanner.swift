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
    var reader = unsafe JSONReader(bytes, depthLimit: depthLimit)
    let kind: Kind =
      switch try unsafe reader.next() {
      case .beginObject: .object
      case .beginArray: .array
      case .string: .string
      case .number: .number
      case .bool: .bool
      default: .null
      }
    while try unsafe reader.next() != .end {}
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
@unsafe
struct JSONReader {
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

  private let bytes: UnsafeRawBufferPointer
  private let depthLimit: Int
  private var position = 0
  private var depth = 0
  /// The lowest bit is the innermost level: 1 for an object, 0 for an array.
  private var levels: UInt64 = 0
  private var expectation = Expectation.value

  init(_ bytes: UnsafeRawBufferPointer, depthLimit: Int = JSONScanner.depthLimit) {
    unsafe self.bytes = bytes
    unsafe self.depthLimit = min(depthLimit, JSONScanner.depthLimit)
  }

  /// How many bytes were read.
  var offset: Int { unsafe position }

  mutating func next() throws(JSONError) -> JSONEvent {
    unsafe skipSpace()
    guard let byte = unsafe peek() else {
      guard unsafe expectation == .nothing else { throw unsafe failure(.unexpectedEnd) }
      return .end
    }
    switch unsafe expectation {
    case .nothing: throw unsafe failure(.trailingBytes)
    case .value: return try unsafe readValue(byte)
    case .valueOrEnd: return try unsafe byte == UInt8(ascii: "]") ? leave() : readValue(byte)
    case .keyOrEnd: return try unsafe byte == UInt8(ascii: "}") ? leave() : readKey(byte)
    case .commaOrEnd:
      let isObject = unsafe levels & 1 == 1
      if byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) { return unsafe leave() }
      guard byte == UInt8(ascii: ",") else { throw unsafe failure(.unexpectedByte) }
      unsafe position += 1
      unsafe skipSpace()
      guard let following = unsafe peek() else { throw unsafe failure(.unexpectedEnd) }
      return try unsafe isObject ? readKey(following) : readValue(following)
    }
  }

  // MARK: Structure

  private mutating func enter(object: Bool) throws(JSONError) {
    guard unsafe depth < depthLimit else { throw unsafe failure(.tooDeep) }
    unsafe depth += 1
    unsafe levels = levels << 1 | (object ? 1 : 0)
    unsafe expectation = object ? .keyOrEnd : .valueOrEnd
    unsafe position += 1
  }

  private mutating func leave() -> JSONEvent {
    let event: JSONEvent = unsafe levels & 1 == 1 ? .endObject : .endArray
    unsafe levels >>= 1
    unsafe depth -= 1
    unsafe position += 1
    unsafe valueEnded()
    return event
  }

  private mutating func valueEnded() { unsafe expectation = depth == 0 ? .nothing : .commaOrEnd }

  private mutating func readKey(_ byte: UInt8) throws(JSONError) -> JSONEvent {
    guard byte == UInt8(ascii: "\"") else { throw unsafe failure(.unexpectedByte) }
    let range = try unsafe readString()
    unsafe skipSpace()
    guard let colon = unsafe peek() else { throw unsafe failure(.unexpectedEnd) }
    guard colon == UInt8(ascii: ":") else { throw unsafe failure(.unexpectedByte) }
    unsafe position += 1
    unsafe expectation = .value
    return .key(range)
  }

  private mutating func readValue(_ byte: UInt8) throws(JSONError) -> JSONEvent {
    let event: JSONEvent
    switch byte {
    case UInt8(ascii: "{"):
      try unsafe enter(object: true)
      return .beginObject
    case UInt8(ascii: "["):
      try unsafe enter(object: false)
      return .beginArray
    case UInt8(ascii: "\""): event = try unsafe .string(readString())
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): event = try unsafe .number(readNumber())
    case UInt8(ascii: "t"):
      try unsafe readWord("true")
      event = .bool(true)
    case UInt8(ascii: "f"):
      try unsafe readWord("false")
      event = .bool(false)
    case UInt8(ascii: "n"):
      try unsafe readWord("null")
      event = .null
    default: throw unsafe failure(.unexpectedByte)
    }
    unsafe valueEnded()
    return event
  }

  // MARK: Scalars

  private mutating func readWord(_ word: StaticString) throws(JSONError) {
    for index in 0..<word.utf8CodeUnitCount {
      guard let byte = unsafe peek() else { throw unsafe failure(.unexpectedEnd) }
      guard unsafe byte == word.utf8Start[index] else { throw unsafe failure(.unexpectedByte) }
      unsafe position += 1
    }
  }

  private mutating func readNumber() throws(JSONError) -> Range<Int> {
    let start = unsafe position
    if unsafe peek() == UInt8(ascii: "-") { unsafe position += 1 }
    let isZero = unsafe peek() == UInt8(ascii: "0")
    let integerDigits = unsafe skipDigits()
    guard integerDigits > 0, !isZero || integerDigits == 1 else {
      throw unsafe JSONError(offset: start, problem: numberProblem(integerDigits))
    }
    if unsafe peek() == UInt8(ascii: ".") {
      unsafe position += 1
      let digits = unsafe skipDigits()
      guard digits > 0 else { throw unsafe JSONError(offset: start, problem: numberProblem(digits)) }
    }
    if let exponent = unsafe peek(), exponent | 0x20 == UInt8(ascii: "e") {
      unsafe position += 1
      if let sign = unsafe peek(), sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { unsafe position += 1 }
      let digits = unsafe skipDigits()
      guard digits > 0 else { throw unsafe JSONError(offset: start, problem: numberProblem(digits)) }
    }
    return unsafe start..<position
  }

  /// If digits are missing because the text ends, the problem is the end and not the number.
  private func numberProblem(_ digits: Int) -> JSONError.Problem {
    unsafe digits == 0 && position == bytes.count ? .unexpectedEnd : .malformedNumber
  }

  private mutating func skipDigits() -> Int {
    let start = unsafe position
    while let byte = unsafe peek(), byte &- UInt8(ascii: "0") < 10 { unsafe position += 1 }
    return unsafe position - start
  }

  private mutating func readString() throws(JSONError) -> Range<Int> {
    unsafe position += 1
    let start = unsafe position
    while let byte = unsafe peek() {
      switch byte {
      case UInt8(ascii: "\""):
        unsafe position += 1
        return unsafe start..<position - 1
      case UInt8(ascii: "\\"): try unsafe readEscape()
      case ..<0x20: throw unsafe failure(.controlCharacter)
      case ..<0x80: unsafe position += 1
      default:
        guard let rest = unsafe UTF8Check.rest(of: byte, in: bytes, at: position + 1) else {
          throw unsafe failure(.invalidUTF8)
        }
        unsafe position += 1 + rest
      }
    }
    throw unsafe failure(.unexpectedEnd)
  }

  private mutating func readEscape() throws(JSONError) {
    let start = unsafe position
    unsafe position += 1
    guard let byte = unsafe peek() else { throw unsafe failure(.unexpectedEnd) }
    unsafe position += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
      UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
      return
    case UInt8(ascii: "u"):
      for _ in 0..<4 {
        guard let digit = unsafe peek() else { throw unsafe failure(.unexpectedEnd) }
        guard digit &- UInt8(ascii: "0") < 10 || (digit | 0x20) &- UInt8(ascii: "a") < 6 else {
          throw JSONError(offset: start, problem: .malformedEscape)
        }
        unsafe position += 1
      }
    default: throw JSONError(offset: start, problem: .malformedEscape)
    }
  }

  // MARK: Bytes

  private func peek() -> UInt8? { unsafe position < bytes.count ? bytes[position] : nil }

  private mutating func skipSpace() {
    while let byte = unsafe peek(), byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
      unsafe position += 1
    }
  }

  private func failure(_ problem: JSONError.Problem) -> JSONError {
    unsafe JSONError(offset: position, problem: problem)
  }
}
