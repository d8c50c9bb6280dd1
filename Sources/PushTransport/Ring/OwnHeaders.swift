package import PushWire

extension RingRecord {
  /// What a notification has instead of the campaign's values for its request headers. Most have
  /// nothing.
  ///
  /// A view of bytes that are the same in the ring, in a chunk and in the journal: 16 bytes of the
  /// identifier, if there is one, and then the collapse identifier.
  @safe
  package struct OwnHeaders {
    /// 128 if there is an identifier, plus the length of the collapse identifier, 0…64.
    package let code: UInt8
    private let start: UnsafeRawPointer?

    /// - Parameter start: the bytes that `code` describes.
    package init(code: UInt8, start: UnsafeRawPointer?) {
      self.code = code
      unsafe self.start = unsafe start
    }

    package static var none: OwnHeaders { unsafe OwnHeaders(code: 0, start: nil) }

    package static let identifierByteCount = 16
    package static let collapseIdentifierByteCountLimit = ProviderHeaders.collapseIdentifierByteCountLimit
    package static let byteCountLimit = identifierByteCount + collapseIdentifierByteCountLimit

    package static func code(hasIdentifier: Bool, collapseIdentifierByteCount count: Int) -> UInt8 {
      precondition(count <= collapseIdentifierByteCountLimit, "a collapse identifier of \(count) bytes")
      return (hasIdentifier ? 0x80 : 0) | UInt8(truncatingIfNeeded: count)
    }

    /// Whether `code` is valid.
    package static func isCode(_ code: UInt8) -> Bool { code & 0x7F <= UInt8(collapseIdentifierByteCountLimit) }

    package static func byteCount(_ code: UInt8) -> Int { Int(code & 0x7F) &+ Int(code >> 3 & 16) }

    package var byteCount: Int { Self.byteCount(code) }
    package var isEmpty: Bool { code == 0 }
    package var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: start, count: byteCount) }

    /// Replaces the identifier from the campaign's seed.
    package var identifier: APNSIdentifier? {
      guard code & 0x80 != 0, let start = unsafe start else { return nil }
      return APNSIdentifier(
        high: UInt64(littleEndian: unsafe start.loadUnaligned(as: UInt64.self)),
        low: UInt64(littleEndian: unsafe start.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }

    /// Writes the bytes of an identifier.
    package static func write(_ identifier: APNSIdentifier, to place: UnsafeMutableRawPointer) {
      unsafe place.storeBytes(of: identifier.high.littleEndian, as: UInt64.self)
      unsafe place.storeBytes(of: identifier.low.littleEndian, toByteOffset: 8, as: UInt64.self)
    }

    /// Replaces the campaign's collapse identifier: 1…64 bytes; empty if there is none.
    package var collapseIdentifier: UnsafeRawBufferPointer {
      let offset = code & 0x80 == 0 ? 0 : Self.identifierByteCount
      return unsafe UnsafeRawBufferPointer(start: start.map { unsafe $0 + offset }, count: Int(code & 0x7F))
    }
  }
}
