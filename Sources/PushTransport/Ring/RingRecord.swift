package import PushWire

/// A notification as it lies in a ring, from the start of a 64-byte block.
///
/// ```
///  0  blocks u32 · kind u8 · token length u8 · flags u8 · attempts u8
///  8  ordinal u64                      the line of the campaign's audience it came from
/// 16  campaign u32 · expiration u32    seconds since 1970, if the flag says so
/// 24  payload length u32 · priority u8                length 0: the campaign's payload; priority 0: the campaign's
/// 29  collapse identifier length u8 · 2 unused        0: the campaign's
/// 32  token, then identifier (16 bytes, if flagged), collapse identifier and payload of its own, if any
/// ```
/// What HTTP/2 sends in headers (``OwnHeaders``) means nothing to the binary protocol, which leaves it out.
///
/// A view: valid while its ring lives and its position has not been settled. In native byte order; nothing of it leaves the process.
@safe
package struct RingRecord {
  /// What a record says besides token and payload.
  package struct Header: Sendable {
    package var ordinal: UInt64
    package var campaign: UInt32
    package var expiration: UInt32?
    package var priority: UInt8?
    /// See ``RingRecord/mayHaveArrived``.
    package var mayHaveArrived: Bool

    package init(ordinal: UInt64, campaign: UInt32, expiration: UInt32? = nil, priority: UInt8? = nil, mayHaveArrived: Bool = false) {
      self.ordinal = ordinal
      self.campaign = campaign
      self.expiration = expiration
      self.priority = priority
      self.mayHaveArrived = mayHaveArrived
    }
  }

  /// What a notification has of its own for the headers of its request, where the campaign's will not do. Most have nothing.
  @safe
  package struct OwnHeaders {
    /// Instead of the one that the campaign's seed gives.
    package var identifier: APNSIdentifier?
    /// 1…64 bytes, instead of the campaign's; empty for none. Not copied: it lives as long as what it was read from.
    package var collapseIdentifier: UnsafeRawBufferPointer

    package init(identifier: APNSIdentifier?, collapseIdentifier: UnsafeRawBufferPointer) {
      self.identifier = identifier
      unsafe self.collapseIdentifier = unsafe collapseIdentifier
    }

    package static let byteCountLimit = identifierByteCount + collapseIdentifierByteCountLimit
    package static let collapseIdentifierByteCountLimit = ProviderHeaders.collapseIdentifierByteCountLimit
    package static let identifierByteCount = 16

    package var byteCount: Int { unsafe (identifier == nil ? 0 : Self.identifierByteCount) + collapseIdentifier.count }
    package var isEmpty: Bool { unsafe identifier == nil && collapseIdentifier.isEmpty }
  }

  /// The longest token is 100 bytes (spec, "Notification frames") and the largest payload of any transport 5120.
  package static let blockCountLimit = blockCount(tokenByteCount: 100, payloadByteCount: 5120 + OwnHeaders.byteCountLimit)

  private static let notification: UInt8 = 1
  private static let padding: UInt8 = 2
  private static let bodyOffset = 32
  private enum Flag {
    static let hasExpiration: UInt8 = 1
    static let mayHaveArrived: UInt8 = 2
    static let hasIdentifier: UInt8 = 4
  }

  private let base: UnsafeMutableRawPointer

  init(_ base: UnsafeMutableRawPointer) {
    unsafe self.base = unsafe base
  }

  /// - Parameter payloadByteCount: with own headers, theirs too.
  package static func blockCount(tokenByteCount: Int, payloadByteCount: Int) -> Int {
    (bodyOffset + tokenByteCount + payloadByteCount + NotificationRing.blockByteCount - 1) / NotificationRing.blockByteCount
  }

  static func write(
    _ header: Header, token: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, blockCount: Int, to base: UnsafeMutableRawPointer
  ) {
    precondition(token.count <= 100 && payload.count <= 5120, "record of \(token.count) + \(payload.count) bytes")
    unsafe base.storeBytes(of: UInt32(truncatingIfNeeded: blockCount), as: UInt32.self)
    unsafe base.storeBytes(of: notification, toByteOffset: 4, as: UInt8.self)
    unsafe base.storeBytes(of: UInt8(truncatingIfNeeded: token.count), toByteOffset: 5, as: UInt8.self)
    let flags = (header.expiration == nil ? 0 : Flag.hasExpiration) | (header.mayHaveArrived ? Flag.mayHaveArrived : 0)
    unsafe base.storeBytes(of: flags, toByteOffset: 6, as: UInt8.self)
    unsafe base.storeBytes(of: 0, toByteOffset: 7, as: UInt8.self)
    unsafe base.storeBytes(of: header.ordinal, toByteOffset: 8, as: UInt64.self)
    unsafe base.storeBytes(of: header.campaign, toByteOffset: 16, as: UInt32.self)
    unsafe base.storeBytes(of: header.expiration ?? 0, toByteOffset: 20, as: UInt32.self)
    unsafe base.storeBytes(of: UInt32(truncatingIfNeeded: payload.count), toByteOffset: 24, as: UInt32.self)
    unsafe base.storeBytes(of: UInt32(header.priority ?? 0), toByteOffset: 28, as: UInt32.self)
    if let source = token.baseAddress {
      unsafe (base + bodyOffset).copyMemory(from: source, byteCount: token.count)
    }
    if let source = payload.baseAddress, payload.count > 0 {
      unsafe (base + bodyOffset + token.count).copyMemory(from: source, byteCount: payload.count)
    }
  }

  /// The same with headers of its own.
  static func write(
    _ header: Header, token: UnsafeRawBufferPointer, headers: OwnHeaders, payload: UnsafeRawBufferPointer, blockCount: Int,
    to base: UnsafeMutableRawPointer
  ) {
    let collapse = unsafe headers.collapseIdentifier
    precondition(collapse.count <= OwnHeaders.collapseIdentifierByteCountLimit, "a collapse identifier of \(collapse.count) bytes")
    let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    unsafe write(header, token: token, payload: nothing, blockCount: blockCount, to: base)
    precondition(payload.count <= 5120, "a payload of \(payload.count) bytes")
    unsafe base.storeBytes(of: UInt32(truncatingIfNeeded: payload.count), toByteOffset: 24, as: UInt32.self)
    unsafe base.storeBytes(of: UInt8(truncatingIfNeeded: collapse.count), toByteOffset: 29, as: UInt8.self)
    var end = bodyOffset + token.count
    if let identifier = headers.identifier {
      let flags = unsafe base.load(fromByteOffset: 6, as: UInt8.self)
      unsafe base.storeBytes(of: flags | Flag.hasIdentifier, toByteOffset: 6, as: UInt8.self)
      unsafe base.storeBytes(of: identifier.high, toByteOffset: end, as: UInt64.self)
      unsafe base.storeBytes(of: identifier.low, toByteOffset: end + 8, as: UInt64.self)
      end += OwnHeaders.identifierByteCount
    }
    if let source = collapse.baseAddress { unsafe (base + end).copyMemory(from: source, byteCount: collapse.count) }
    end += collapse.count
    if let source = payload.baseAddress { unsafe (base + end).copyMemory(from: source, byteCount: payload.count) }
  }

  static func writePadding(blockCount: Int, to base: UnsafeMutableRawPointer) {
    unsafe base.storeBytes(of: UInt32(truncatingIfNeeded: blockCount), as: UInt32.self)
    unsafe base.storeBytes(of: padding, toByteOffset: 4, as: UInt8.self)
  }

  package var blockCount: UInt64 { UInt64(unsafe base.load(as: UInt32.self)) }
  /// False for padding, which has a length and nothing else.
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
  /// The notification's own payload; empty when it is the campaign's.
  package var payload: UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(
      start: base + Self.bodyOffset + tokenByteCount + ownHeadersByteCount, count: Int(base.load(fromByteOffset: 24, as: UInt32.self)))
  }
  /// The `apns-id` that its line of the audience has given it; nil: the campaign's sequence has one.
  package var identifier: APNSIdentifier? {
    guard flags & Flag.hasIdentifier != 0 else { return nil }
    let offset = Self.bodyOffset + tokenByteCount
    return unsafe APNSIdentifier(
      high: base.loadUnaligned(fromByteOffset: offset, as: UInt64.self), low: base.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self))
  }
  /// 1…64 bytes of its own; empty when it is the campaign's.
  package var collapseIdentifier: UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(
      start: base + Self.bodyOffset + tokenByteCount + identifierByteCount, count: collapseIdentifierByteCount)
  }
  /// Both of these; its bytes lie in the ring.
  package var ownHeaders: OwnHeaders { unsafe OwnHeaders(identifier: identifier, collapseIdentifier: collapseIdentifier) }

  /// True when payload, expiration and priority are all the campaign's, and the collapse identifier too.
  package var isPlain: Bool {
    unsafe base.load(fromByteOffset: 24, as: UInt64.self) == 0 && flags & Flag.hasExpiration == 0
  }

  /// Set when it is sent again after a connection ended without a word: it may be on the device twice.
  package var mayHaveArrived: Bool {
    get { flags & Flag.mayHaveArrived != 0 }
    nonmutating set {
      let value = newValue ? flags | Flag.mayHaveArrived : flags & ~Flag.mayHaveArrived
      unsafe base.storeBytes(of: value, toByteOffset: 6, as: UInt8.self)
    }
  }

  private var flags: UInt8 { unsafe base.load(fromByteOffset: 6, as: UInt8.self) }
  private var identifierByteCount: Int { flags & Flag.hasIdentifier == 0 ? 0 : OwnHeaders.identifierByteCount }
  private var collapseIdentifierByteCount: Int { Int(unsafe base.load(fromByteOffset: 29, as: UInt8.self)) }
  private var ownHeadersByteCount: Int { identifierByteCount + collapseIdentifierByteCount }
  private var tokenByteCount: Int { Int(unsafe base.load(fromByteOffset: 5, as: UInt8.self)) }
}
