/// The bytes around the device token in one JSON object.
///
/// The lines of a batch often differ in their token alone. Such a line is recognised by comparing
/// bytes, and is not parsed: with other digits between the same quotes, the text is the same JSON.
package struct JSONTokenLine: Sendable {
  /// Up to the opening quote of the token, inclusive.
  private let before: [UInt8]
  private let digitCount: Int
  /// From the closing quote of the token on.
  private let after: [UInt8]

  /// - Parameter range: of one JSON object in `text`.
  /// - Returns: nil if the object has no member `token` that is a string without escapes.
  package init?(_ text: [UInt8], _ range: Range<Int>) {
    let value = unsafe text.withUnsafeBytes { bytes -> Range<Int>? in
      unsafe Self.token(UnsafeRawBufferPointer(rebasing: bytes[range]))
    }
    guard let value, !value.isEmpty else { return nil }
    before = Array(text[range.lowerBound..<range.lowerBound + value.lowerBound])
    after = Array(text[range.lowerBound + value.upperBound..<range.upperBound])
    digitCount = value.count
  }

  /// The token of an object that differs from the first one in nothing else; nil if it differs
  /// otherwise, or the token is malformed.
  package func token(_ text: [UInt8], _ range: Range<Int>) -> DeviceToken? {
    guard range.count == before.count + digitCount + after.count else { return nil }
    return unsafe text.withUnsafeBytes { bytes -> DeviceToken? in
      let end = range.lowerBound + before.count + digitCount
      guard unsafe Self.isEqual(before, bytes, at: range.lowerBound), unsafe Self.isEqual(after, bytes, at: end)
      else { return nil }
      let digits = unsafe UnsafeRawBufferPointer(rebasing: bytes[end - digitCount..<end])
      return unsafe withUnsafeTemporaryAllocation(byteCount: DeviceToken.byteCountLimit, alignment: 8) { scratch in
        guard let count = try? unsafe DeviceToken.parse(digits, into: scratch) else { return nil }
        return unsafe DeviceToken(bytes: UnsafeRawBufferPointer(rebasing: scratch[..<count]))
      }
    }
  }

  /// The inside of the string that is the object's token.
  private static func token(_ bytes: UnsafeRawBufferPointer) -> Range<Int>? {
    var reader = unsafe JSONReader(bytes)
    var depth = 0
    var found: Range<Int>?
    do throws(JSONError) {
      while true {
        switch try unsafe reader.next() {
        case .beginObject, .beginArray: depth += 1
        case .endObject, .endArray: depth -= 1
        case .key(let key) where unsafe depth == 1 && isToken(bytes, key):
          guard found == nil, case .string(let value) = try unsafe reader.next() else { return nil }
          found = value
        case .end:
          guard let found, unsafe !bytes[found].contains(UInt8(ascii: "\\")) else { return nil }
          return found
        default: break
        }
      }
    } catch {
      return nil
    }
  }

  private static func isToken(_ bytes: UnsafeRawBufferPointer, _ key: Range<Int>) -> Bool {
    unsafe bytes[key].elementsEqual("token".utf8)
  }

  /// Compares eight bytes at a time.
  private static func isEqual(_ own: [UInt8], _ bytes: UnsafeRawBufferPointer, at start: Int) -> Bool {
    unsafe own.withUnsafeBytes { own in
      var offset = 0
      while offset + 8 <= own.count {
        let difference =
          unsafe own.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
          ^ bytes.loadUnaligned(fromByteOffset: start + offset, as: UInt64.self)
        guard difference == 0 else { return false }
        offset += 8
      }
      while offset < own.count {
        guard unsafe own[offset] == bytes[start + offset] else { return false }
        offset += 1
      }
      return true
    }
  }
}

extension JSONScanner {
  /// Where the line that begins at `start` ends: at the next line feed, or at the end of the text.
  package static func lineEnd(_ text: [UInt8], from start: Int) -> Int {
    unsafe text.withUnsafeBytes { bytes in
      var offset = start
      // A byte is a line feed where the difference has a zero byte: the lowest one is found
      // exactly.
      while offset + 8 <= bytes.count {
        let word = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        let difference = word ^ 0x0A0A_0A0A_0A0A_0A0A
        let zeros = (difference &- 0x0101_0101_0101_0101) & ~difference & 0x8080_8080_8080_8080
        if zeros != 0 { return offset + zeros.trailingZeroBitCount / 8 }
        offset += 8
      }
      while offset < bytes.count, unsafe bytes[offset] != UInt8(ascii: "\n") { offset += 1 }
      return offset
    }
  }

  /// Where the elements of an array lie in its text. Nothing is parsed into values.
  ///
  /// - Throws: ``JSONError`` if the text is not JSON.
  /// - Returns: nil if it is something else than an array.
  package static func elements(_ text: [UInt8]) throws(JSONError) -> [Range<Int>]? {
    let result = unsafe text.withUnsafeBytes { bytes -> Result<[Range<Int>]?, JSONError> in
      do throws(JSONError) { return .success(try unsafe elements(bytes)) } catch { return .failure(error) }
    }
    return try result.get()
  }

  private static func elements(_ bytes: UnsafeRawBufferPointer) throws(JSONError) -> [Range<Int>]? {
    var reader = unsafe JSONReader(bytes)
    guard try unsafe reader.next() == .beginArray else {
      while try unsafe reader.next() != .end {}
      return nil
    }
    var elements: [Range<Int>] = []
    var depth = 1
    var start = 0
    while true {
      let event = try unsafe reader.next()
      if event == .end { return elements }
      let isNested = event == .beginObject || event == .beginArray
      let isEnd = event == .endObject || event == .endArray
      // An opening bracket is the last byte that was read.
      if depth == 1, isNested { start = unsafe reader.offset - 1 }
      if isNested { depth += 1 }
      if isEnd { depth -= 1 }
      guard depth == 1, !isNested else { continue }
      switch event {
      case .string(let range): elements.append(range.lowerBound - 1..<range.upperBound + 1)
      case .number(let range): elements.append(range)
      case .bool(let value): elements.append(unsafe reader.offset - (value ? 4 : 5)..<reader.offset)
      case .null: elements.append(unsafe reader.offset - 4..<reader.offset)
      default: elements.append(unsafe start..<reader.offset)
      }
    }
  }
}
