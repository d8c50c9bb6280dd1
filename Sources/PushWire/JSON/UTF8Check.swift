/// Well-formed UTF-8 (RFC 3629; the Unicode standard, table 3-7): no overlong forms, no surrogates,
/// nothing above U+10FFFF.
package enum UTF8Check {
  package static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
    let bytes = unsafe Span<UInt8>(_unsafeBytes: bytes)
    var position = 0
    while position < bytes.count {
      let first = bytes[position]
      position += 1
      if first < 0x80 { continue }
      guard let rest = rest(of: first, in: bytes, at: position) else { return false }
      position += rest
    }
    return true
  }

  /// How many bytes follow a byte that begins a sequence of several; nil: they are not well-formed.
  static func rest(of first: UInt8, in bytes: Span<UInt8>, at position: Int) -> Int? {
    let (count, second): (Int, ClosedRange<UInt8>)
    switch first {
    case 0xC2...0xDF: (count, second) = (1, 0x80...0xBF)
    case 0xE0: (count, second) = (2, 0xA0...0xBF)
    case 0xED: (count, second) = (2, 0x80...0x9F)
    case 0xE1...0xEF: (count, second) = (2, 0x80...0xBF)
    case 0xF0: (count, second) = (3, 0x90...0xBF)
    case 0xF1...0xF3: (count, second) = (3, 0x80...0xBF)
    case 0xF4: (count, second) = (3, 0x80...0x8F)
    default: return nil
    }
    guard position + count <= bytes.count, second.contains(bytes[position]) else { return nil }
    for offset in 1..<count where bytes[position + offset] & 0xC0 != 0x80 { return nil }
    return count
  }
}
