package import PushWire

extension RingRecord {
  /// What a notification has instead of the campaign's values for its request headers. Most have
  /// nothing.
  ///
  /// A view of bytes that are the same in the ring, in a chunk and in the journal: 16 bytes of the
  /// identifier and 4 of the expiration, if there are any, and then the collapse identifier.
  @safe
  package struct OwnHeaders {
    /// 128 if there is an identifier, plus the length of the collapse identifier: 0…64 without an
    /// expiration, 65…127 for 0…62 bytes beside one.
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
    package static let expirationByteCount = 4
    /// A longer collapse identifier leaves no code for an expiration beside it.
    package static let collapseIdentifierByteCountLimitBesideExpiration = 0x7F - expirationCode
    package static let byteCountLimit =
      identifierByteCount + expirationByteCount + collapseIdentifierByteCountLimitBesideExpiration

    /// The code of an expiration without a collapse identifier: one more than the longest of those.
    /// A number, because a constant of another module is initialised at its first use, and each
    /// later use checks that: 20 instructions a notification.
    private static let expirationCode = 65

    package static func code(
      hasIdentifier: Bool, hasExpiration: Bool = false, collapseIdentifierByteCount count: Int
    ) -> UInt8 {
      precondition(
        count <= (hasExpiration ? collapseIdentifierByteCountLimitBesideExpiration : collapseIdentifierByteCountLimit),
        "a collapse identifier of \(count) bytes")
      return (hasIdentifier ? 0x80 : 0) | UInt8(truncatingIfNeeded: count &+ (hasExpiration ? expirationCode : 0))
    }

    package static func byteCount(_ code: UInt8) -> Int {
      let length = Int(code & 0x7F)
      let more = length < expirationCode ? 0 : expirationByteCount &- expirationCode
      return length &+ more &+ Int(code >> 3 & 16)
    }

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

    private var hasExpiration: Bool { Int(code & 0x7F) >= Self.expirationCode }
    private var expirationOffset: Int { code & 0x80 == 0 ? 0 : Self.identifierByteCount }

    /// Replaces the campaign's expiration, in seconds since 1970.
    package var expiration: UInt32? {
      guard hasExpiration, let start = unsafe start else { return nil }
      return UInt32(littleEndian: unsafe start.loadUnaligned(fromByteOffset: expirationOffset, as: UInt32.self))
    }

    /// Writes the bytes of an expiration.
    package static func write(expiration: UInt32, to place: UnsafeMutableRawPointer) {
      unsafe place.storeBytes(of: expiration.littleEndian, as: UInt32.self)
    }

    /// Writes the bytes of an identifier.
    package static func write(_ identifier: APNSIdentifier, to place: UnsafeMutableRawPointer) {
      unsafe place.storeBytes(of: identifier.high.littleEndian, as: UInt64.self)
      unsafe place.storeBytes(of: identifier.low.littleEndian, toByteOffset: 8, as: UInt64.self)
    }

    /// Replaces the campaign's collapse identifier: 1…64 bytes; empty if there is none.
    package var collapseIdentifier: UnsafeRawBufferPointer {
      let offset = expirationOffset &+ (hasExpiration ? Self.expirationByteCount : 0)
      let count = byteCount &- offset
      return unsafe UnsafeRawBufferPointer(start: start.map { unsafe $0 + offset }, count: count)
    }
  }
}
