/// The XXH32 with seed 0 that an LZ4 frame ends with, and of which its header has a byte.
///
/// liblz4 computes the same, but a compiler that makes vectors of it needs 0.7 ns for a byte
/// (Debian's library, measured): ten times as much as compressing tokens, and eight times this.
enum ContentChecksum {
  private static let prime1: UInt32 = 0x9E37_79B1
  private static let prime2: UInt32 = 0x85EB_CA77
  private static let prime3: UInt32 = 0xC2B2_AE3D
  private static let prime4: UInt32 = 0x27D4_EB2F
  private static let prime5: UInt32 = 0x1656_67B1

  static func of(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
    var offset = 0
    var sum = prime5
    if bytes.count >= 16 {
      var (first, second, third, fourth) = (prime1 &+ prime2, prime2, UInt32(0), 0 &- prime1)
      while offset <= bytes.count - 16 {
        // Two words at once: four loads of 32 bits would become a vector.
        let low = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        let high = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self))
        first = round(first, UInt32(truncatingIfNeeded: low))
        second = round(second, UInt32(truncatingIfNeeded: low >> 32))
        third = round(third, UInt32(truncatingIfNeeded: high))
        fourth = round(fourth, UInt32(truncatingIfNeeded: high >> 32))
        offset += 16
      }
      sum = rotated(first, 1) &+ rotated(second, 7) &+ rotated(third, 12) &+ rotated(fourth, 18)
    }
    sum = sum &+ UInt32(truncatingIfNeeded: bytes.count)
    while offset <= bytes.count - 4 {
      let word = unsafe UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
      sum = rotated(sum &+ word &* prime3, 17) &* prime4
      offset += 4
    }
    while offset < bytes.count {
      sum = unsafe rotated(sum &+ UInt32(bytes[offset]) &* prime5, 11) &* prime1
      offset += 1
    }
    sum = (sum ^ sum >> 15) &* prime2
    sum = (sum ^ sum >> 13) &* prime3
    return sum ^ sum >> 16
  }

  @inline(__always)
  private static func round(_ sum: UInt32, _ word: UInt32) -> UInt32 { rotated(sum &+ word &* prime2, 13) &* prime1 }

  @inline(__always)
  private static func rotated(_ word: UInt32, _ count: UInt32) -> UInt32 { word &<< count | word &>> (32 &- count) }
}
