/// A JSON object with places where other text may stand: its device's token or identifier, and the
/// caller's reference.
///
/// The lines of a batch often differ in nothing else. Such a line is recognised by comparing bytes,
/// and is not parsed: with other plain text between the same quotes, it is the same JSON.
package struct JSONLineShape: Sendable {
  /// What stands in those places of one line.
  package struct Line: Hashable, Sendable {
    package var token: TokenBytes?
    /// Where the identifier of a device stands in the text. What it says is not checked.
    package var deviceID: Range<Int>?
    /// Where the reference stands in the text: printable ASCII without escapes.
    package var reference: Range<Int>?
  }

  /// The places, by their keys.
  private enum Field: String, CaseIterable { case token, deviceID = "deviceId", reference }

  private struct Gap {
    let field: Field
    /// The index of the gap in ``fixed``.
    let place: Int
    /// Its length in the first object. References may have other lengths.
    let byteCount: Int
  }

  /// The text without what is in the gaps.
  private let fixed: [UInt8]
  private let gaps: [Gap]
  /// Nil: lines may have any length from that of ``fixed`` on.
  private let byteCount: Int?

  /// - Parameter range: of one JSON object in `text`.
  /// - Returns: nil if the object names no device, or its keys have escapes.
  package init?(_ text: [UInt8], _ range: Range<Int>) {
    guard let found = Self.fields(text.span.extracting(range)), found.contains(where: { $0.field != .reference }) else {
      return nil
    }
    var fixed: [UInt8] = []
    var gaps: [Gap] = []
    var start = range.lowerBound
    for (field, value) in found {
      fixed += text[start..<range.lowerBound + value.lowerBound]
      gaps.append(Gap(field: field, place: fixed.count, byteCount: value.count))
      start = range.lowerBound + value.upperBound
    }
    fixed += text[start..<range.upperBound]
    let hasReference = gaps.contains { $0.field == .reference }
    byteCount = hasReference ? nil : fixed.count + gaps.reduce(0) { $0 + $1.byteCount }
    (self.fixed, self.gaps) = (fixed, gaps)
  }

  /// What an object has in the gaps; nil if it differs otherwise, or its token is malformed.
  package func line(_ text: [UInt8], _ range: Range<Int>) -> Line? {
    guard byteCount.map({ $0 == range.count }) ?? (range.count >= fixed.count) else { return nil }
    return unsafe text.withUnsafeBytes { bytes in
      unsafe line(UnsafeRawBufferPointer(rebasing: bytes[range]), at: range.lowerBound)
    }
  }

  /// - Parameter base: where the line begins in the whole text.
  private func line(_ bytes: UnsafeRawBufferPointer, at base: Int) -> Line? {
    var line = Line()
    var digits = 0..<0
    var (place, offset) = (0, 0)
    for gap in gaps {
      guard unsafe isFixed(place..<gap.place, bytes, at: offset) else { return nil }
      offset += gap.place - place
      place = gap.place
      let value: Range<Int>
      if gap.field == .reference {
        value = unsafe offset..<Self.plainEnd(bytes, from: offset)
      } else {
        value = offset..<offset + gap.byteCount
      }
      offset = value.upperBound
      switch gap.field {
      case .token: digits = value
      case .deviceID: line.deviceID = base + value.lowerBound..<base + value.upperBound
      case .reference: line.reference = base + value.lowerBound..<base + value.upperBound
      }
    }
    guard bytes.count - offset == fixed.count - place, unsafe isFixed(place..<fixed.count, bytes, at: offset) else {
      return nil
    }
    guard !digits.isEmpty else { return line }
    line.token = unsafe Self.token(UnsafeRawBufferPointer(rebasing: bytes[digits]))
    return line.token == nil ? nil : line
  }

  private static func token(_ digits: UnsafeRawBufferPointer) -> TokenBytes? {
    unsafe withUnsafeTemporaryAllocation(byteCount: TokenBytes.byteCountLimit, alignment: 8) { scratch in
      guard let count = try? unsafe TokenBytes.parse(digits, into: scratch) else { return nil }
      return unsafe TokenBytes(bytes: UnsafeRawBufferPointer(rebasing: scratch[..<count]))
    }
  }

  /// Where text ends that means itself in JSON: at the closing quote, in a line of this shape.
  private static func plainEnd(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
    var end = start
    while end < bytes.count, unsafe isPlain(bytes[end]) { end += 1 }
    return end
  }

  private static func isPlain(_ byte: UInt8) -> Bool {
    (0x20...0x7E).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
  }

  /// The members that may differ, in the order of the text. An empty one has no gap.
  private static func fields(_ bytes: Span<UInt8>) -> [(field: Field, value: Range<Int>)]? {
    var reader = JSONReader(bytes)
    var depth = 0
    var found: [(field: Field, value: Range<Int>)] = []
    do throws(JSONError) {
      while true {
        switch try reader.next() {
        case .beginObject, .beginArray: depth += 1
        case .endObject, .endArray: depth -= 1
        case .key(let key) where depth == 1:
          // With escapes it may be one of these keys, spelled otherwise.
          let name = bytes.extracting(key)
          guard !name.contains(UInt8(ascii: "\\")) else { return nil }
          guard let field = Field.allCases.first(where: { name.equals($0.rawValue) }) else { continue }
          guard !found.contains(where: { $0.field == field }) else { return nil }
          switch try reader.next() {
          case .string(let value):
            let isUsual = !value.isEmpty && bytes.extracting(value).allSatisfy(isPlain)
            guard field == .reference || isUsual else { return nil }
            found.append((field, value))
          case .null: continue
          default: return nil
          }
        case .end: return found
        default: break
        }
      }
    } catch { return nil }
  }

  /// Compares eight bytes at a time.
  private func isFixed(_ part: Range<Int>, _ bytes: UnsafeRawBufferPointer, at start: Int) -> Bool {
    guard start + part.count <= bytes.count else { return false }
    return unsafe fixed.withUnsafeBytes { fixed in
      var offset = 0
      while offset + 8 <= part.count {
        let difference =
          unsafe fixed.loadUnaligned(fromByteOffset: part.lowerBound + offset, as: UInt64.self)
          ^ bytes.loadUnaligned(fromByteOffset: start + offset, as: UInt64.self)
        guard difference == 0 else { return false }
        offset += 8
      }
      while offset < part.count {
        guard unsafe fixed[part.lowerBound + offset] == bytes[start + offset] else { return false }
        offset += 1
      }
      return true
    }
  }
}
