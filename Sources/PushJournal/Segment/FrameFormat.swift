/// The LZ4 frame as this journal writes it: LZ4 frame format 1.6 with content size and content
/// checksum, without dictionary and block checksums. So the end of a frame is known and its size is
/// bounded before it is decompressed.
enum FrameFormat {
  /// The largest content of a frame in bytes. Recovery rejects a larger one before it allocates
  /// memory for it.
  static let contentByteCountLimit = 1 << 20
  /// Magic number 4 bytes, flags 1, block descriptor 1, content size 8, header checksum 1.
  static let headerByteCount = 15
  /// The largest frame in bytes. Content that does not compress is stored in blocks of at least 64
  /// KiB, each with four more bytes. End mark and checksum are eight bytes.
  static let byteCountLimit = contentByteCountLimit + headerByteCount + 4 * (contentByteCountLimit / 65536 + 1) + 8
  static let magic: UInt32 = 0x184D_2204

  enum Measure: Equatable {
    case frame(byteCount: Int, contentByteCount: Int)
    case problem(JournalDamage.Problem)
  }

  /// Finds the end of the frame at the start of `bytes`, which extend to the end of the file or for
  /// at least `byteCountLimit` bytes.
  static func measure(_ bytes: Span<UInt8>) -> Measure {
    guard bytes.count >= 4 else { return .problem(.cutShort) }
    guard bytes.number(at: 0) == magic else { return .problem(.noFrame) }
    guard bytes.count >= headerByteCount else { return .problem(.cutShort) }
    let flags = bytes[4]
    let descriptor = bytes[5]
    // Version 01, content size, content checksum. Blocks may be linked or independent (bit 5).
    guard flags & 0b1101_1111 == 0b0100_1100, descriptor & 0b1000_1111 == 0, descriptor >> 4 >= 4 else {
      return .problem(.foreignFrame)
    }
    let contentByteCount = bytes.number(at: 6, as: UInt64.self)
    guard contentByteCount <= UInt64(contentByteCountLimit) else { return .problem(.tooLarge) }
    let blockByteCountLimit = 1 << (8 + 2 * Int(descriptor >> 4))
    var offset = headerByteCount
    while true {
      guard offset <= byteCountLimit - 8 else { return .problem(.tooLarge) }
      guard bytes.count - offset >= 4 else { return .problem(.cutShort) }
      let word = bytes.number(at: offset, as: UInt32.self)
      offset += 4
      if word == 0 { break }
      let count = Int(word & 0x7FFF_FFFF)
      guard count <= blockByteCountLimit else { return .problem(.unreadable("block size")) }
      guard count <= bytes.count - offset else { return .problem(.cutShort) }
      offset += count
    }
    guard bytes.count - offset >= 4 else { return .problem(.cutShort) }
    return .frame(byteCount: offset + 4, contentByteCount: Int(contentByteCount))
  }
}

extension FrameFormat {
  /// The offset in `bytes` at which a frame may begin; nil if there is none.
  static func firstMagic(in bytes: Span<UInt8>) -> Int? {
    guard bytes.count >= 4 else { return nil }
    var offset = 0
    while offset <= bytes.count - 4 {
      if bytes.number(at: offset) == magic { return offset }
      offset += 1
    }
    return nil
  }
}
