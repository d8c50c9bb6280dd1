/// What a gateway writes before it closes: `08` · status u8 · identifier u32, six bytes.
package struct ErrorResponse: Hashable, Sendable {
  /// The first byte of every error response.
  package static let command: UInt8 = 8
  package static let byteCount = 6

  package var status: GatewayStatus
  /// The rejected notification; for status 10 the last one that was sent successfully. 0 can mean
  /// that the gateway does not know which.
  package var identifier: UInt32

  package init(status: GatewayStatus, identifier: UInt32) {
    (self.status, self.identifier) = (status, identifier)
  }

  /// The six bytes. A gateway must pass them to the socket in one write.
  package var bytes: [UInt8] {
    [
      Self.command, status.rawValue, UInt8(truncatingIfNeeded: identifier >> 24),
      UInt8(truncatingIfNeeded: identifier >> 16),
      UInt8(truncatingIfNeeded: identifier >> 8), UInt8(truncatingIfNeeded: identifier),
    ]
  }

  /// Writes the six bytes and returns 6. The destination must have room for them.
  @discardableResult
  package func encode(into destination: UnsafeMutableRawBufferPointer) -> Int {
    precondition(destination.count >= Self.byteCount, "an error response needs 6 bytes")
    unsafe destination.storeBytes(of: Self.command, toByteOffset: 0, as: UInt8.self)
    unsafe destination.storeBytes(of: status.rawValue, toByteOffset: 1, as: UInt8.self)
    unsafe destination.storeBytes(of: identifier.bigEndian, toByteOffset: 2, as: UInt32.self)
    return Self.byteCount
  }
}

/// Assembles an error response from reads of any size. A connection has one decoder. Its first
/// answer is final, because the gateway then closes.
package struct ErrorResponseDecoder: Sendable {
  package enum Result: Hashable, Sendable {
    /// Fewer than six bytes so far.
    case needMore
    case response(ErrorResponse)
    /// The first byte was not `08`: the peer is not a gateway, or uses another protocol.
    case malformed(command: UInt8)
  }

  /// The bytes of an incomplete response, at most six; the oldest is the most significant.
  private var pending: UInt64 = 0
  private var result = Result.needMore

  /// How many bytes of an incomplete response have been read. At end of stream, 1…5 means that the
  /// response was cut off.
  package private(set) var pendingByteCount = 0

  package init() {}

  /// Takes the next bytes of the connection. After a response or a wrong first byte, all later
  /// calls return the same result and ignore their bytes.
  package mutating func consume(_ bytes: UnsafeRawBufferPointer) -> Result {
    guard result == .needMore else { return result }
    for index in 0..<bytes.count {
      let byte = unsafe bytes[index]
      if pendingByteCount == 0, byte != ErrorResponse.command {
        result = .malformed(command: byte)
        return result
      }
      pending = pending << 8 | UInt64(byte)
      pendingByteCount += 1
      if pendingByteCount == ErrorResponse.byteCount {
        pendingByteCount = 0
        result = .response(
          ErrorResponse(
            status: GatewayStatus(rawValue: UInt8(truncatingIfNeeded: pending >> 32)),
            identifier: UInt32(truncatingIfNeeded: pending)))
        return result
      }
    }
    return .needMore
  }
}
