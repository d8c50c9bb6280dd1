/// Escapes text for JSON strings, and unescapes it.
package enum JSONText {
  /// The text as a JSON string, with its quotes.
  package static func quoted(_ text: String) -> String {
    var bytes = [UInt8(ascii: "\"")]
    appendEscaped(text, to: &bytes)
    bytes.append(UInt8(ascii: "\""))
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Appends the text as it stands between the quotes of a JSON string: with quote, backslash and
  /// control characters escaped. Column values enter a payload's template in this form too.
  package static func appendEscaped(_ text: String, to bytes: inout [UInt8]) {
    var text = text
    text.withUTF8 { unsafe appendEscaped(UnsafeRawBufferPointer($0), to: &bytes) }
  }

  /// Appends raw UTF-8 in the same way. The bytes are not checked.
  package static func appendEscaped(_ text: UnsafeRawBufferPointer, to bytes: inout [UInt8]) {
    // Most texts need no escapes.
    guard unsafe text.contains(where: needsEscape) else { return unsafe bytes.append(contentsOf: text) }
    for index in 0..<text.count { unsafe appendEscaped(text[index], to: &bytes) }
  }

  private static func needsEscape(_ byte: UInt8) -> Bool {
    byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
  }

  private static func appendEscaped(_ byte: UInt8, to bytes: inout [UInt8]) {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"):
      bytes.append(UInt8(ascii: "\\"))
      bytes.append(byte)
    case 0x0A: bytes.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "n")])
    case 0x0D: bytes.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "r")])
    case 0x09: bytes.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "t")])
    case ..<0x20:
      bytes.append(contentsOf: "\\u00".utf8)
      bytes.append(UInt8(ascii: "0") + byte >> 4)
      let low = byte & 15
      bytes.append(low < 10 ? UInt8(ascii: "0") + low : UInt8(ascii: "a") + low - 10)
    default: bytes.append(byte)
    }
  }

  /// Unescapes the inside of a JSON string that `JSONReader` has accepted. A lone surrogate, which
  /// no text can contain, becomes U+FFFD and sets `hasLoneSurrogate`.
  static func unescape(_ text: Span<UInt8>, hasLoneSurrogate: inout Bool) -> String {
    guard text.contains(UInt8(ascii: "\\")) else { return String(decoding: text) }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count)
    var index = 0
    while index < text.count {
      let byte = text[index]
      guard byte == UInt8(ascii: "\\"), index + 1 < text.count else {
        bytes.append(byte)
        index += 1
        continue
      }
      let escaped = text[index + 1]
      index += 2
      switch escaped {
      case UInt8(ascii: "b"): bytes.append(0x08)
      case UInt8(ascii: "f"): bytes.append(0x0C)
      case UInt8(ascii: "n"): bytes.append(0x0A)
      case UInt8(ascii: "r"): bytes.append(0x0D)
      case UInt8(ascii: "t"): bytes.append(0x09)
      case UInt8(ascii: "u"):
        let scalar = readScalar(text, &index)
        if scalar == nil { hasLoneSurrogate = true }
        bytes.append(contentsOf: Character(scalar ?? "\u{FFFD}").utf8)
      default: bytes.append(escaped)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Reads the digits after `\u`, and those of a second `\u` if the first is the upper half of a
  /// surrogate pair. Nil for a lone half.
  private static func readScalar(_ text: Span<UInt8>, _ index: inout Int) -> Unicode.Scalar? {
    let first = hexadecimal(text, at: index)
    index += 4
    guard (0xD800..<0xDC00).contains(first) else { return Unicode.Scalar(first) }
    guard index + 6 <= text.count, text[index] == UInt8(ascii: "\\") && text[index + 1] == UInt8(ascii: "u")
    else { return nil }
    let second = hexadecimal(text, at: index + 2)
    guard (0xDC00..<0xE000).contains(second) else { return nil }
    index += 6
    return Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
  }

  private static func hexadecimal(_ text: Span<UInt8>, at offset: Int) -> UInt32 {
    var value: UInt32 = 0
    for index in offset..<min(offset + 4, text.count) {
      let byte = text[index]
      value = value << 4 | UInt32(byte < 0x40 ? byte & 15 : (byte & 7) + 9)
    }
    return value
  }
}
