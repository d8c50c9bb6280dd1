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
    if digits % digitBlock == 0, digits / 2 <= Swift.min(destination.count, byteCountLimit),
      let start = text.baseAddress, let place = destination.baseAddress, digits > 0,
      unsafe parseBare(start, count: digits, into: place)
    {
      return digits / 2
    }
    return try unsafe parseAny(text, into: destination)
  }

  /// ``parseBare(_:count:into:)`` takes a multiple of it.
  private static let digitBlock = 32

  /// Parses bare digits, half as many bytes. Neither place is checked.
  ///
  /// The compiler makes operations on 16 characters of the inner loops, as long as these have a
  /// fixed length, and no comparison: that becomes a branch. 7 ns for 64 digits.
  ///
  /// - Parameter count: a multiple of 32.
  /// - Returns: False if a character is not a digit. Then the content of the destination is
  ///   undefined.
  package static func parseBare(_ text: UnsafeRawPointer, count: Int, into destination: UnsafeMutableRawPointer) -> Bool
  {
    var values = InlineArray<32, UInt8>(repeating: 0)
    var areDigits: Int8 = -1
    var offset = 0
    while offset < count {
      for index in 0..<32 {
        let character = unsafe text.load(fromByteOffset: offset &+ index, as: Int8.self)
        let folded = character | 0x20
        // Negative where the character is between two others.
        let isDecimal = (0x2F &- character) & (character &- 0x3A)
        let isLetter = (0x60 &- folded) & (folded &- 0x67)
        areDigits &= (isDecimal | isLetter) &>> 7
        // The value of a letter is its lower half plus 9.
        values[index] = UInt8(bitPattern: (character & 0x0F) &+ (isLetter &>> 7 & 9))
      }
      for index in 0..<16 {
        let byte = values[2 &* index] &<< 4 | values[2 &* index &+ 1]
        unsafe destination.storeBytes(of: byte, toByteOffset: offset / 2 &+ index, as: UInt8.self)
      }
      offset &+= 32
    }
    return areDigits != 0
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

  /// The value of a hexadecimal digit.
  package static func nibble(_ character: UInt8) -> UInt8? {
    switch character {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
