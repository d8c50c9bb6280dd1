/// An `apns-id`, the UUID that identifies a notification. The sender chooses it, and each resend
/// has the same one. Its text is lower-case, 8-4-4-4-12.
package struct APNSIdentifier: Hashable, Sendable {
  /// The first eight bytes, the most significant first.
  package let high: UInt64
  package let low: UInt64

  /// The length of the text: 32 digits and four hyphens.
  package static let textByteCount = 36

  package init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }

  /// Nil unless there are exactly 16 bytes.
  package init?(bytes: some Collection<UInt8>) {
    guard bytes.count == 16 else { return nil }
    high = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    low = bytes.dropFirst(8).reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// Reads the canonical form with digits of either case; nil for any other text. Allocates
  /// nothing.
  package init?(parsing text: UnsafeRawBufferPointer) {
    guard text.count == Self.textByteCount else { return nil }
    var words: (UInt64, UInt64) = (0, 0)
    var digits = 0
    for index in 0..<Self.textByteCount {
      let byte = unsafe text[index]
      if index == 8 || index == 13 || index == 18 || index == 23 {
        guard byte == UInt8(ascii: "-") else { return nil }
        continue
      }
      let lower = byte | 0x20
      let value: UInt64
      if byte &- 0x30 < 10 {
        value = UInt64(byte &- 0x30)
      } else if lower &- 0x61 < 6 {
        value = UInt64(lower &- 0x61 + 10)
      } else {
        return nil
      }
      if digits < 16 { words.0 = words.0 << 4 | value } else { words.1 = words.1 << 4 | value }
      digits += 1
    }
    (high, low) = words
  }

  /// Reads the canonical form of a string; nil for any other text.
  package init?(parsing text: String) {
    var text = text
    let parsed = text.withUTF8 { unsafe APNSIdentifier(parsing: UnsafeRawBufferPointer($0)) }
    guard let parsed else { return nil }
    self = parsed
  }

  /// Writes the 36 bytes of the text to the beginning of `destination`. Allocates nothing.
  package func write(into destination: UnsafeMutableRawBufferPointer) {
    precondition(destination.count >= Self.textByteCount, "an apns-id has 36 characters")
    let hyphen = UInt8(ascii: "-")
    let second = Self.digits(UInt32(truncatingIfNeeded: high))
    let third = Self.digits(UInt32(truncatingIfNeeded: low >> 32))
    unsafe destination.storeBytes(
      of: Self.digits(UInt32(truncatingIfNeeded: high >> 32)).littleEndian, as: UInt64.self)
    unsafe destination[8] = hyphen
    unsafe destination.storeBytes(of: UInt32(truncatingIfNeeded: second).littleEndian, toByteOffset: 9, as: UInt32.self)
    unsafe destination[13] = hyphen
    unsafe destination.storeBytes(
      of: UInt32(truncatingIfNeeded: second >> 32).littleEndian, toByteOffset: 14, as: UInt32.self)
    unsafe destination[18] = hyphen
    unsafe destination.storeBytes(of: UInt32(truncatingIfNeeded: third).littleEndian, toByteOffset: 19, as: UInt32.self)
    unsafe destination[23] = hyphen
    unsafe destination.storeBytes(
      of: UInt32(truncatingIfNeeded: third >> 32).littleEndian, toByteOffset: 24, as: UInt32.self)
    unsafe destination.storeBytes(
      of: Self.digits(UInt32(truncatingIfNeeded: low)).littleEndian, toByteOffset: 28, as: UInt64.self)
  }

  /// Eight hexadecimal digits of a word, the first one in the lowest byte.
  @inline(__always)
  private static func digits(_ word: UInt32) -> UInt64 {
    // Spreads the bytes to one per 16 bits, then each to two nibbles, the upper one first.
    let four = UInt64(word.byteSwapped)
    let pairs = (four | four << 16) & 0x0000_FFFF_0000_FFFF
    let spread = (pairs | pairs << 8) & 0x00FF_00FF_00FF_00FF
    let nibbles = (spread >> 4 | spread << 8) & 0x0F0F_0F0F_0F0F_0F0F
    // The top bit of 0x76 + n is set exactly if n is at least 10. Then "a" − 10 is added instead of
    // "0".
    let letters = (nibbles &+ 0x7676_7676_7676_7676) >> 7 & 0x0101_0101_0101_0101
    return nibbles &+ 0x3030_3030_3030_3030 &+ letters &* 0x27
  }
}

extension APNSIdentifier: CustomStringConvertible {
  package var description: String {
    unsafe String(unsafeUninitializedCapacity: Self.textByteCount) {
      unsafe write(into: UnsafeMutableRawBufferPointer($0))
      return Self.textByteCount
    }
  }
}

/// 128 random bits of a campaign, from which all its identifiers are computed. They are kept as
/// long as the campaign can be resumed.
package struct IdentifierSeed: Hashable, Sendable {
  package let high: UInt64
  package let low: UInt64

  package init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }
}

/// The identifiers of one campaign, computed from its seed and a notification's ordinal. So none is
/// stored, and a resend has the same one, even from another process. Ordinals below 2^62 have
/// different identifiers.
package struct APNSIdentifierSequence: Hashable, Sendable {
  private let high: UInt64
  private let offset: UInt64

  /// - Parameter seed: 128 bits, random for each campaign and kept as long as it can be resumed.
  package init(_ seed: IdentifierSeed) {
    // Version 4 ("random") in the third group, variant 1 at the beginning of the fourth, as every
    // reader of UUIDs expects.
    high = seed.high & ~0xF000 | 0x4000
    offset = seed.low
  }

  package subscript(ordinal: UInt64) -> APNSIdentifier {
    // Multiplying by an odd number permutes the 62-bit numbers: different ordinals stay different,
    // and neighbours do not look alike.
    let mixed = (ordinal &+ offset) &* 0x9E37_79B9_7F4A_7C15
    return APNSIdentifier(high: high, low: mixed & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
  }
}
