/// Base64 with the alphabet for URLs and without padding (RFC 4648, section 5), as in JWTs.
package enum Base64URL {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

  package static func encode(_ bytes: some Collection<UInt8>) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count * 4 + 2) / 3)
    var word: UInt32 = 0
    var bits: UInt32 = 0
    for byte in bytes {
      word = word << 8 | UInt32(byte)
      bits += 8
      while bits >= 6 {
        bits -= 6
        text.append(alphabet[Int(word >> bits & 63)])
      }
    }
    if bits > 0 { text.append(alphabet[Int(word << (6 - bits) & 63)]) }
    return text
  }

  /// The usual Base64 (RFC 4648, section 4): with `+`, `/` and padding.
  package static func encodePadded(_ bytes: some Collection<UInt8>) -> [UInt8] {
    let text = encode(bytes).map {
      $0 == UInt8(ascii: "-") ? UInt8(ascii: "+") : $0 == UInt8(ascii: "_") ? UInt8(ascii: "/") : $0
    }
    return text + [UInt8](repeating: UInt8(ascii: "="), count: (4 - text.count % 4) % 4)
  }

  /// Nil if there is any other character, padding included, if no bytes have this length, or if the
  /// bits after the last byte are not zero.
  package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count * 3 / 4)
    var word: UInt32 = 0
    var bits: UInt32 = 0
    for character in text {
      let value: UInt32
      switch character {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = UInt32(character) - 65
      case UInt8(ascii: "a")...UInt8(ascii: "z"): value = UInt32(character) - 71
      case UInt8(ascii: "0")...UInt8(ascii: "9"): value = UInt32(character) + 4
      case UInt8(ascii: "-"): value = 62
      case UInt8(ascii: "_"): value = 63
      default: return nil
      }
      word = word << 6 | value
      bits += 6
      if bits >= 8 {
        bits -= 8
        bytes.append(UInt8(truncatingIfNeeded: word >> bits))
      }
    }
    guard text.count % 4 != 1, word & (1 << bits - 1) == 0 else { return nil }
    return bytes
  }
}
