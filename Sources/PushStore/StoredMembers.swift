/// A device that belongs to an audience.
package struct AudienceMember: Hashable, Sendable {
  package let key: Int64
  /// Nil: it has none, or was not asked for.
  package let timeZone: String?

  package init(key: Int64, timeZone: String? = nil) { (self.key, self.timeZone) = (key, timeZone) }
}

/// The members of an audience among neighbouring devices.
package struct AudienceStretch: Hashable, Sendable {
  /// By key.
  package var members: [AudienceMember]
  /// The last key that was looked at. The next stretch begins behind it.
  package var through: Int64

  package init(_ members: [AudienceMember], through: Int64) { (self.members, self.through) = (members, through) }
}

/// Neighbouring bytes of the file of an uploaded audience, in a store that nodes share.
package struct AudiencePiece: Hashable, Sendable {
  package static let byteCountLimit = 4 << 20

  /// Where they begin in the file.
  package let start: Int64
  /// Random. Whoever has the piece with this id has these bytes.
  package let id: Int64
  package let bytes: [UInt8]

  package init(start: Int64, id: Int64, bytes: [UInt8]) { (self.start, self.id, self.bytes) = (start, id, bytes) }

  /// A piece without its bytes.
  package struct Head: Hashable, Sendable {
    package let start: Int64
    package let id: Int64
    package let byteCount: Int

    package init(start: Int64, id: Int64, byteCount: Int) {
      (self.start, self.id, self.byteCount) = (start, id, byteCount)
    }

    package var end: Int64 { start + Int64(byteCount) }
  }

  package var head: Head { Head(start: start, id: id, byteCount: bytes.count) }
}

/// Members of a campaign's part, as the store keeps them: the keys of their devices, or the numbers
/// of their rows.
package struct MemberPiece: Hashable, Sendable {
  /// More keys are several pieces: one is read at a time.
  package static let keyLimit = 4096

  package let part: Int
  /// Ascending, at least one.
  package let keys: [Int64]

  package init(part: Int, keys: [Int64]) { (self.part, self.keys) = (part, keys) }

  /// - Returns: pieces of keys in ascending order.
  package static func pieces(of keys: [Int64], part: Int) -> [MemberPiece] {
    stride(from: 0, to: keys.count, by: keyLimit).map { start in
      MemberPiece(part: part, keys: Array(keys[start..<min(start + keyLimit, keys.count)]))
    }
  }

  package var first: Int64 { keys.first ?? 0 }
  package var last: Int64 { keys.last ?? 0 }

  /// The distances of the keys, seven bits a byte, the lowest first: about a byte for each device.
  package var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(keys.count * 2)
    var before: Int64 = 0
    for key in keys {
      var distance = UInt64(bitPattern: key &- before)
      while distance >= 0x80 {
        bytes.append(UInt8(truncatingIfNeeded: distance) | 0x80)
        distance >>= 7
      }
      bytes.append(UInt8(distance))
      before = key
    }
    return bytes
  }

  /// - Returns: the keys in what ``bytes`` has given; nil if it is damaged.
  package static func keys(in bytes: [UInt8]) -> [Int64]? {
    var keys: [Int64] = []
    keys.reserveCapacity(bytes.count)
    var (key, distance, shift): (Int64, UInt64, UInt64) = (0, 0, 0)
    for byte in bytes {
      guard shift < 64 else { return nil }
      distance |= UInt64(byte & 0x7F) << shift
      shift += 7
      guard byte & 0x80 == 0 else { continue }
      let next = key &+ Int64(bitPattern: distance)
      guard next > key else { return nil }
      keys.append(next)
      (key, distance, shift) = (next, 0, 0)
    }
    return shift == 0 ? keys : nil
  }
}
