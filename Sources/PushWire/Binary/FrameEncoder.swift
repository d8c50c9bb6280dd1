/// Writes notification frames into raw memory, without allocating (BinaryProtocol.md, "Notification
/// frames").
///
/// It encodes any input without checking it: an empty token or an oversized payload is written as
/// it is, because tests and probes need frames that a gateway must reject. It traps only if a frame
/// cannot be written: the destination is too small, or the token or payload exceeds 65,535 bytes,
/// the limit of the 16-bit lengths.
package enum FrameEncoder {
  /// The size of the frame that `encode` will write. Commands 0 and 1 have a fixed layout, so the
  /// last three parameters do not matter for them.
  package static func byteCount(
    _ command: FrameVersion, tokenByteCount: Int, payloadByteCount: Int, hasIdentifier: Bool, hasExpiration: Bool,
    hasPriority: Bool
  ) -> Int {
    let content = tokenByteCount + payloadByteCount
    switch command {
    case .simple: return 1 + 2 + 2 + content
    case .enhanced: return 1 + 4 + 4 + 2 + 2 + content
    case .framed:
      return 1 + 4 + 3 + 3 + content + (hasIdentifier ? 7 : 0) + (hasExpiration ? 7 : 0) + (hasPriority ? 4 : 0)
    }
  }

  /// Writes one frame and returns its size. The items of command 2 are in the order token, payload,
  /// identifier, expiration, priority.
  ///
  /// Command 0 has no identifier, expiration and priority, and ignores them. Command 1 always has
  /// the first two, writes `nil` as 0, and ignores the priority. `expiration` is in UNIX seconds; 0
  /// means "do not store".
  package static func encode(
    _ command: FrameVersion, token: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, identifier: UInt32?,
    expiration: UInt32?, priority: UInt8?, into destination: UnsafeMutableRawBufferPointer
  ) -> Int {
    let total = byteCount(
      command, tokenByteCount: token.count, payloadByteCount: payload.count, hasIdentifier: identifier != nil,
      hasExpiration: expiration != nil, hasPriority: priority != nil)
    guard total > 0, let base = destination.baseAddress, destination.count >= total else {
      preconditionFailure("the destination is smaller than the frame")
    }
    precondition(token.count <= 0xFFFF && payload.count <= 0xFFFF, "a length exceeds 16 bits")
    var writer = unsafe RawWriter(base)
    switch command {
    case .simple:
      unsafe writer.byte(command.rawValue)
      unsafe writer.counted(token)
      unsafe writer.counted(payload)
    case .enhanced:
      unsafe writer.byte(command.rawValue)
      unsafe writer.word(identifier ?? 0)
      unsafe writer.word(expiration ?? 0)
      unsafe writer.counted(token)
      unsafe writer.counted(payload)
    case .framed:
      unsafe writer.byte(command.rawValue)
      unsafe writer.word(UInt32(truncatingIfNeeded: total - 5))
      unsafe writer.byte(FrameItem.token.rawValue)
      unsafe writer.counted(token)
      unsafe writer.byte(FrameItem.payload.rawValue)
      unsafe writer.counted(payload)
      if let identifier {
        unsafe writer.header(.identifier, byteCount: 4)
        unsafe writer.word(identifier)
      }
      if let expiration {
        unsafe writer.header(.expiration, byteCount: 4)
        unsafe writer.word(expiration)
      }
      if let priority {
        unsafe writer.header(.priority, byteCount: 1)
        unsafe writer.byte(priority)
      }
    }
    return total
  }

  /// Writes a known-bad probe and returns its size, at most 18 bytes.
  ///
  /// The probe has a token of length zero and an empty payload. A gateway must refuse it with "2
  /// missing device token" and the probe's identifier, which settles everything before it
  /// (BinaryProtocol.md, "Known-bad probe"). Command 0 has no identifier and no answer, so it has
  /// no probe and the call traps.
  package static func encodeProbe(
    _ command: FrameVersion, identifier: UInt32, into destination: UnsafeMutableRawBufferPointer
  ) -> Int {
    precondition(command.carriesIdentifier, "command 0 has no probe")
    let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    return unsafe encode(
      command, token: nothing, payload: nothing, identifier: identifier, expiration: nil, priority: nil,
      into: destination)
  }
}

/// A cursor over memory whose size the caller has checked. Big-endian, any alignment.
@unsafe
private struct RawWriter {
  private var cursor: UnsafeMutableRawPointer

  init(_ start: UnsafeMutableRawPointer) { unsafe cursor = start }

  mutating func byte(_ value: UInt8) {
    unsafe cursor.storeBytes(of: value, as: UInt8.self)
    unsafe cursor += 1
  }

  mutating func word(_ value: UInt32) {
    unsafe cursor.storeBytes(of: value.bigEndian, as: UInt32.self)
    unsafe cursor += 4
  }

  mutating func header(_ item: FrameItem, byteCount: UInt16) {
    unsafe byte(item.rawValue)
    unsafe cursor.storeBytes(of: byteCount.bigEndian, as: UInt16.self)
    unsafe cursor += 2
  }

  /// Writes length u16 · bytes.
  mutating func counted(_ bytes: UnsafeRawBufferPointer) {
    unsafe cursor.storeBytes(of: UInt16(truncatingIfNeeded: bytes.count).bigEndian, as: UInt16.self)
    unsafe cursor += 2
    if let base = bytes.baseAddress {
      unsafe cursor.copyMemory(from: base, byteCount: bytes.count)
      unsafe cursor += bytes.count
    }
  }
}
