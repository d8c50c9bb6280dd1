internal import Glibc

/// Comparisons of the raw bytes of header fields.
enum HTTP2Text {
  @inline(__always)
  static func equal(_ bytes: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
    guard bytes.count == text.utf8CodeUnitCount, let base = bytes.baseAddress else { return false }
    return unsafe memcmp(base, text.utf8Start, bytes.count) == 0
  }

  /// A valid name of a field that is no pseudo-header (RFC 9113, 8.2.1).
  static func isName(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard bytes.count > 0 else { return false }
    for index in 0..<bytes.count {
      let byte = unsafe bytes[index]
      guard byte > 0x20, byte < 0x7F, byte != UInt8(ascii: ":"), byte < 0x41 || byte > 0x5A else { return false }
    }
    return true
  }

  /// A valid value: without NUL, CR and LF, and without white space at either end.
  static func isValue(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard bytes.count > 0 else { return true }
    var isBad = false
    var index = 0
    // Eight bytes at a time: a byte of zero in one of the words sets its highest bit.
    while index + 8 <= bytes.count {
      let word = unsafe bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
      let zeros = zeros(word) | zeros(word ^ 0x0A0A_0A0A_0A0A_0A0A) | zeros(word ^ 0x0D0D_0D0D_0D0D_0D0D)
      isBad = isBad || zeros != 0
      index += 8
    }
    while index < bytes.count {
      let byte = unsafe bytes[index]
      isBad = isBad || byte == 0 || byte == 0x0A || byte == 0x0D
      index += 1
    }
    let (first, last) = unsafe (bytes[0], bytes[bytes.count - 1])
    return !isBad && first != 0x20 && first != 0x09 && last != 0x20 && last != 0x09
  }

  /// Not zero exactly if one of the word's bytes is.
  @inline(__always)
  private static func zeros(_ word: UInt64) -> UInt64 {
    (word &- 0x0101_0101_0101_0101) & ~word & 0x8080_8080_8080_8080
  }

  /// A number of up to nine digits and nothing else.
  static func number(_ bytes: UnsafeRawBufferPointer) -> Int? {
    guard (1...9).contains(bytes.count) else { return nil }
    var value = 0
    for index in 0..<bytes.count {
      let digit = unsafe bytes[index] &- 0x30
      guard digit < 10 else { return nil }
      value = value * 10 + Int(digit)
    }
    return value
  }
}

/// Lower-case hexadecimal digits.
enum HTTP2Hexadecimal {
  /// No token is longer.
  static let byteCountLimit = 100

  /// Writes two digits for each byte, at most 100 bytes, and returns the number of digits. Works on
  /// eight digits at a time in one word, without a table.
  @inline(__always)
  static func write(_ bytes: UnsafeRawBufferPointer, into destination: UnsafeMutablePointer<UInt8>) -> Int {
    let count = min(bytes.count, byteCountLimit)
    let output = UnsafeMutableRawPointer(destination)
    var index = 0
    while index + 4 <= count {
      // Spreads bytes b3 b2 b1 b0 to one per 16 bits, then each to two nibbles, the upper one first
      // in memory.
      let four = unsafe UInt64(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt32.self)))
      let pairs = (four | four << 16) & 0x0000_FFFF_0000_FFFF
      let spread = (pairs | pairs << 8) & 0x00FF_00FF_00FF_00FF
      let nibbles = (spread >> 4 | spread << 8) & 0x0F0F_0F0F_0F0F_0F0F
      // The top bit of 0x76 + n is set exactly if n is at least 10. Then "a" − 10 is added instead
      // of "0".
      let letters = (nibbles &+ 0x7676_7676_7676_7676) >> 7 & 0x0101_0101_0101_0101
      let digits = nibbles &+ 0x3030_3030_3030_3030 &+ letters &* 0x27
      unsafe output.storeBytes(of: digits.littleEndian, toByteOffset: index * 2, as: UInt64.self)
      index += 4
    }
    while index < count {
      let byte = unsafe bytes[index]
      unsafe destination[index * 2] = digit(byte >> 4)
      unsafe destination[index * 2 + 1] = digit(byte & 15)
      index += 1
    }
    return count * 2
  }

  private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}

/// Decimal digits.
enum HTTP2Decimal {
  /// At most ten digits; returns their number.
  static func write(_ value: UInt32, into destination: UnsafeMutablePointer<UInt8>) -> Int {
    var digits = 1
    var rest = value
    while rest >= 10 {
      rest /= 10
      digits += 1
    }
    rest = value
    for index in (0..<digits).reversed() {
      unsafe destination[index] = 0x30 + UInt8(rest % 10)
      rest /= 10
    }
    return digits
  }
}
