package import PushWire

/// A notification in a ring. It starts at a 64-byte block.
///
/// ```
///  0  blocks u32 · kind u8 · token length u8 · flags u8 · 1 unused
///  8  ordinal u64                      the line of the campaign's audience
/// 16  campaign u32 · expiration u32    seconds since 1970, if the flag is set
/// 24  payload length u32 · priority u8                length 0, priority 0: the campaign's
/// 29  own headers' code u8 · 2 unused                 0: all are the campaign's
/// 32  token, then its own headers and payload, if any
/// ```
/// The binary protocol ignores the headers of HTTP/2 (``OwnHeaders``). An expiration stands there,
/// for the journal, and in the field above, for both protocols.
///
/// A record is a view. It is valid while its ring exists and its position is not settled. It is for
/// machines that have the lower byte first, and never leaves the process.
@safe
package struct RingRecord {
  /// The fields of a record without token and payload.
  package struct Header: Sendable {
    package var ordinal: UInt64
    package var campaign: UInt32
    package var expiration: UInt32?
    package var priority: UInt8?
    /// See ``RingRecord/mayHaveArrived``.
    package var mayHaveArrived: Bool

    package init(
      ordinal: UInt64, campaign: UInt32, expiration: UInt32? = nil, priority: UInt8? = nil, mayHaveArrived: Bool = false
    ) {
      (self.ordinal, self.campaign, self.expiration) = (ordinal, campaign, expiration)
      (self.priority, self.mayHaveArrived) = (priority, mayHaveArrived)
    }
  }

  /// The longest token has 100 bytes (BinaryProtocol.md, "Notification frames"), and the largest
  /// payload of any transport 5120.
  package static let blockCountLimit = blockCount(
    tokenByteCount: 100, payloadByteCount: 5120 + OwnHeaders.byteCountLimit)

  private static let notification: UInt8 = 1
  private static let padding: UInt8 = 2
  private static let bodyOffset = 32
  private enum Flag {
    static let hasExpiration: UInt8 = 1
    static let mayHaveArrived: UInt8 = 2
  }

  private let base: UnsafeMutableRawPointer

  init(_ base: UnsafeMutableRawPointer) { unsafe self.base = unsafe base }

  /// - Parameter payloadByteCount: including the notification's own headers.
  package static func blockCount(tokenByteCount: Int, payloadByteCount: Int) -> Int {
    // Unsigned, so that the division is a shift.
    Int(truncatingIfNeeded: UInt(truncatingIfNeeded: bodyOffset &+ tokenByteCount &+ payloadByteCount &+ 63) / 64)
  }

  /// Writes a record of one block: a token of 32 bytes, and nothing of its own.
  @inline(__always)
  static func writePlain(_ header: Header, token: UnsafeRawPointer, to base: UnsafeMutableRawPointer) {
    unsafe writeFields(header, tokenByteCount: 32, payloadByteCount: 0, blockCount: 1, to: base)
    unsafe copyUsualToken(token, to: base + bodyOffset)
  }

  @inline(__always)
  private static func writeFields(
    _ header: Header, tokenByteCount: Int, payloadByteCount: Int, blockCount: Int, to base: UnsafeMutableRawPointer
  ) {
    let flags = (header.expiration == nil ? 0 : Flag.hasExpiration) | (header.mayHaveArrived ? Flag.mayHaveArrived : 0)
    // Four stores instead of eleven.
    let first =
      UInt64(UInt32(truncatingIfNeeded: blockCount)) | UInt64(notification) << 32
      | UInt64(UInt8(truncatingIfNeeded: tokenByteCount)) << 40 | UInt64(flags) << 48
    let third = UInt64(header.campaign) | UInt64(header.expiration ?? 0) << 32
    let fourth = UInt64(UInt32(truncatingIfNeeded: payloadByteCount)) | UInt64(header.priority ?? 0) << 32
    unsafe base.storeBytes(of: first, as: UInt64.self)
    unsafe base.storeBytes(of: header.ordinal, toByteOffset: 8, as: UInt64.self)
    unsafe base.storeBytes(of: third, toByteOffset: 16, as: UInt64.self)
    unsafe base.storeBytes(of: fourth, toByteOffset: 24, as: UInt64.self)
  }

  /// In practice every token has 32 bytes: two loads and stores instead of a call.
  @inline(__always)
  private static func copyUsualToken(_ token: UnsafeRawPointer, to body: UnsafeMutableRawPointer) {
    unsafe body.storeBytes(of: token.loadUnaligned(as: SIMD2<UInt64>.self), as: SIMD2<UInt64>.self)
    unsafe body.storeBytes(
      of: token.loadUnaligned(fromByteOffset: 16, as: SIMD2<UInt64>.self), toByteOffset: 16, as: SIMD2<UInt64>.self)
  }

  static func write(
    _ header: Header, token: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, blockCount: Int,
    to base: UnsafeMutableRawPointer
  ) {
    precondition(token.count <= 100 && payload.count <= 5120, "record of \(token.count) + \(payload.count) bytes")
    unsafe writeFields(
      header, tokenByteCount: token.count, payloadByteCount: payload.count, blockCount: blockCount, to: base)
    if let source = token.baseAddress {
      let body = unsafe base + bodyOffset
      if token.count == 32 {
        unsafe copyUsualToken(source, to: body)
      } else {
        unsafe body.copyMemory(from: source, byteCount: token.count)
      }
    }
    if let source = payload.baseAddress, payload.count > 0 {
      unsafe (base + bodyOffset + token.count).copyMemory(from: source, byteCount: payload.count)
    }
  }

  /// Writes a record with headers of its own.
  static func write(
    _ header: Header, token: UnsafeRawBufferPointer, headers: OwnHeaders, payload: UnsafeRawBufferPointer,
    blockCount: Int, to base: UnsafeMutableRawPointer
  ) {
    precondition(payload.count <= 5120, "a payload of \(payload.count) bytes")
    unsafe write(header, token: token, payload: headers.bytes, blockCount: blockCount, to: base)
    unsafe base.storeBytes(of: UInt32(truncatingIfNeeded: payload.count), toByteOffset: 24, as: UInt32.self)
    unsafe base.storeBytes(of: headers.code, toByteOffset: 29, as: UInt8.self)
    if let source = payload.baseAddress, payload.count > 0 {
      unsafe (base + bodyOffset + token.count + headers.byteCount).copyMemory(from: source, byteCount: payload.count)
    }
  }

  static func writePadding(blockCount: Int, to base: UnsafeMutableRawPointer) {
    unsafe base.storeBytes(of: UInt32(truncatingIfNeeded: blockCount), as: UInt32.self)
    unsafe base.storeBytes(of: padding, toByteOffset: 4, as: UInt8.self)
  }

  package var blockCount: UInt64 { UInt64(unsafe base.load(as: UInt32.self)) }
  /// False for padding, which has only a length.
  package var isNotification: Bool { unsafe base.load(fromByteOffset: 4, as: UInt8.self) == Self.notification }
  package var ordinal: UInt64 { unsafe base.load(fromByteOffset: 8, as: UInt64.self) }
  package var campaign: UInt32 { unsafe base.load(fromByteOffset: 16, as: UInt32.self) }
  package var expiration: UInt32? {
    flags & Flag.hasExpiration == 0 ? nil : unsafe base.load(fromByteOffset: 20, as: UInt32.self)
  }
  package var priority: UInt8? {
    let value = unsafe base.load(fromByteOffset: 28, as: UInt8.self)
    return value == 0 ? nil : value
  }
  package var token: UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(start: base + Self.bodyOffset, count: tokenByteCount)
  }
  /// The notification's own payload; empty if it has the campaign's.
  package var payload: UnsafeRawBufferPointer {
    // One load for length and code, which every frame with its own payload needs.
    let word = unsafe base.load(fromByteOffset: 24, as: UInt64.self).littleEndian
    let offset = Self.bodyOffset &+ tokenByteCount &+ OwnHeaders.byteCount(UInt8(truncatingIfNeeded: word >> 40))
    return unsafe UnsafeRawBufferPointer(start: base + offset, count: Int(UInt32(truncatingIfNeeded: word)))
  }
  /// The notification's own values for its request headers; the bytes are in the ring.
  package var ownHeaders: OwnHeaders {
    unsafe OwnHeaders(code: ownHeadersCode, start: UnsafeRawPointer(base + Self.bodyOffset + tokenByteCount))
  }
  /// The `apns-id` from its line of the audience; nil if the campaign's sequence gives it one.
  package var identifier: APNSIdentifier? { ownHeaders.identifier }
  /// Its own collapse identifier, 1…64 bytes; empty if it has the campaign's.
  package var collapseIdentifier: UnsafeRawBufferPointer { unsafe ownHeaders.collapseIdentifier }

  /// True if payload, expiration, priority and headers are all the campaign's.
  package var isPlain: Bool {
    unsafe base.load(fromByteOffset: 24, as: UInt64.self) == 0 && flags & Flag.hasExpiration == 0
  }

  /// True if it is of this campaign, its token has 32 bytes, and all else is the campaign's: three
  /// comparisons.
  func isPlain(of campaign: UInt32) -> Bool {
    let fields = UInt64(1) | UInt64(Self.notification) << 32 | UInt64(32) << 40
    let mask = ~(UInt64(Flag.mayHaveArrived) << 48)
    return unsafe base.load(as: UInt64.self) & mask == fields
      && base.load(fromByteOffset: 16, as: UInt64.self) == UInt64(campaign)
      && base.load(fromByteOffset: 24, as: UInt64.self) == 0
  }

  /// The token of a plain record (``isPlain(of:)``).
  var usualToken: UnsafeRawPointer { unsafe UnsafeRawPointer(base + Self.bodyOffset) }

  /// Set when it is resent after a connection ended without an answer: it may arrive twice.
  package var mayHaveArrived: Bool {
    get { flags & Flag.mayHaveArrived != 0 }
    nonmutating set {
      let value = newValue ? flags | Flag.mayHaveArrived : flags & ~Flag.mayHaveArrived
      unsafe base.storeBytes(of: value, toByteOffset: 6, as: UInt8.self)
    }
  }

  private var flags: UInt8 { unsafe base.load(fromByteOffset: 6, as: UInt8.self) }
  private var ownHeadersCode: UInt8 { unsafe base.load(fromByteOffset: 29, as: UInt8.self) }
  private var tokenByteCount: Int { Int(unsafe base.load(fromByteOffset: 5, as: UInt8.self)) }
}
