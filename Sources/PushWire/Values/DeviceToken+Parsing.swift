extension TokenBytes {
  /// Parses the text of a token into memory and returns the number of bytes written. Allocates
  /// nothing.
  ///
  /// Accepts what `init(parsing:)` accepts. The destination needs half as many bytes as there are
  /// digits. If it is smaller, or the token exceeds 100 bytes, the error is `.tooLong`. After an
  /// error, the content of the destination is undefined.
  package static func parse(
    _ text: UnsafeRawBufferPointer, into destination: UnsafeMutableRawBufferPointer
  ) throws(DeviceTokenError) -> Int {
    let digits = text.count
    // Campaign files have millions of lines that are bare digits, usually 64.
    if digits > 0, digits % 8 == 0, digits / 2 <= Swift.min(destination.count, byteCountLimit),
      unsafe parseBare(text, into: destination)
    {
      return digits / 2
    }
    return try unsafe parseAny(text, into: destination)
  }

  /// Parses sixteen digits at a time in two 64-bit words, without a look-up table: 45 instructions.
  /// Returns false if a character is not a digit.
  ///
  /// It uses words because Swift compiles some operations on 16 bytes to a hundred scalar
  /// instructions.
  private static func parseBare(_ text: UnsafeRawBufferPointer, into destination: UnsafeMutableRawBufferPointer) -> Bool
  {
    var bad = SIMD2<UInt64>(repeating: 0)
    var offset = 0
    while offset + 16 <= text.count {
      let bytes = bytes(of: unsafe text.loadUnaligned(fromByteOffset: offset, as: SIMD2<UInt64>.self), &bad)
      unsafe destination.storeBytes(of: bytes[0] | bytes[1] << 32, toByteOffset: offset / 2, as: UInt64.self)
      offset += 16
    }
    if offset < text.count {
      let bytes = bytes(
        of: SIMD2(unsafe text.loadUnaligned(fromByteOffset: offset, as: UInt64.self), lanes(0x30)[0]), &bad)
      unsafe destination.storeBytes(of: UInt32(truncatingIfNeeded: bytes[0]), toByteOffset: offset / 2, as: UInt32.self)
    }
    bad &= lanes(0x80)
    return bad[0] | bad[1] == 0
  }

  @inline(__always)
  private static func lanes(_ byte: UInt64) -> SIMD2<UInt64> { SIMD2(repeating: 0x0101_0101_0101_0101 &* byte) }

  /// Converts four pairs of digits in each word; the result is in the word's lower half. Sets the
  /// top bit of a byte of `bad` where a character is not a digit.
  @inline(__always)
  private static func bytes(of characters: SIMD2<UInt64>, _ bad: inout SIMD2<UInt64>) -> SIMD2<UInt64> {
    // While the top bit of each byte is clear, adding 0x80 − c sets it exactly where the byte is at
    // least c, and never carries into the next byte.
    let low = characters & lanes(0x7F)
    let folded = low | lanes(0x20)
    let isDigit = (low &+ lanes(0x80 - 0x30)) & ~(low &+ lanes(0x80 - 0x3A))
    let isLetter = (folded &+ lanes(0x80 - 0x61)) & ~(folded &+ lanes(0x80 - 0x67)) & lanes(0x80)
    bad |= characters | ~(isDigit | isLetter)
    // The value of a letter is its lower half plus 9.
    let nibbles = (characters & lanes(0x0F)) &+ (isLetter &>> 4) &+ (isLetter &>> 7)
    // The first digit of each pair is in the lower byte and becomes the upper nibble. Then the four
    // bytes are moved together.
    var packed = (nibbles &<< 4 | nibbles &>> 8) & SIMD2(repeating: 0x00FF_00FF_00FF_00FF)
    packed = (packed | packed &>> 8) & SIMD2(repeating: 0x0000_FFFF_0000_FFFF)
    packed |= packed &>> 16
    return packed & SIMD2(repeating: 0xFFFF_FFFF)
  }

  /// Parses one character at a time. Handles spaces, `<>` and odd lengths, and finds the place of
  /// an error.
  private static func parseAny(
    _ text: UnsafeRawBufferPointer, into destination: UnsafeMutableRawBufferPointer
  ) throws(DeviceTokenError) -> Int {
    var range = 0..<text.count
    unsafe trimSpaces(text, &range)
    if let first = range.first, let last = range.last, unsafe text[first] == UInt8(ascii: "<"),
      unsafe text[last] == UInt8(ascii: ">")
    {
      range = first + 1..<last
    }
    let limit = Swift.min(destination.count, byteCountLimit)
    var count = 0
    var upper: UInt8?
    for offset in range {
      let character = unsafe text[offset]
      if isSpace(character) { continue }
      guard let value = nibble(character) else { throw .notHexadecimal(offset: offset) }
      if let high = upper {
        guard count < limit else { throw .tooLong }
        unsafe destination[count] = high << 4 | value
        count += 1
        upper = nil
      } else {
        upper = value
      }
    }
    guard upper == nil else { throw count < limit ? .oddDigits : .tooLong }
    guard count > 0 else { throw .empty }
    return count
  }

  private static func trimSpaces(_ text: UnsafeRawBufferPointer, _ range: inout Range<Int>) {
    while let first = range.first, unsafe isSpace(text[first]) { range.removeFirst() }
    while let last = range.last, unsafe isSpace(text[last]) { range.removeLast() }
  }

  private static func isSpace(_ character: UInt8) -> Bool {
    character == UInt8(ascii: " ") || character == UInt8(ascii: "\t")
  }

  private static func nibble(_ character: UInt8) -> UInt8? {
    switch character {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
