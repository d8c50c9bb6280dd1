/// What a gateway writes before it closes: `08` · status u8 · identifier u32, six bytes.
package struct ErrorResponse: Hashable, Sendable {
  /// The command byte that every error response begins with.
  package static let command: UInt8 = 8
  package static let byteCount = 6

  package var status: GatewayStatus
  /// The notification that was refused; for status 10 the last one that was sent successfully. 0 can mean "not known which".
  package var identifier: UInt32

  package init(status: GatewayStatus, identifier: UInt32) {
    self.status = status
    self.identifier = identifier
  }

  /// The six bytes. A gateway must give them to the socket as one write.
  package var bytes: [UInt8] {
    [
      Self.command, status.rawValue, UInt8(truncatingIfNeeded: identifier >> 24), UInt8(truncatingIfNeeded: identifier >> 16),
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

/// Puts an error response together from reads cut anywhere. One decoder serves one connection: the first answer is final, because the gateway closes after it.
package struct ErrorResponseDecoder: Sendable {
  package enum Result: Hashable, Sendable {
    /// Fewer than six bytes so far.
    case needMore
    case response(ErrorResponse)
    /// The first byte was not `08`: this is not a gateway, or not this protocol.
    case malformed(command: UInt8)
  }

  /// The last six bytes at most, the oldest in the highest place.
  private var pending: UInt64 = 0
  private var result = Result.needMore

  /// How many bytes of an incomplete response are held: at end of stream, 1…5 means that it was cut off.
  package private(set) var pendingByteCount = 0

  package init() {}

  /// Takes the next bytes of the connection. Once there is a response (or the first byte was wrong), all later calls return the same and ignore their bytes.
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
          ErrorResponse(status: GatewayStatus(rawValue: UInt8(truncatingIfNeeded: pending >> 32)), identifier: UInt32(truncatingIfNeeded: pending))
        )
        return result
      }
    }
    return .needMore
  }
}
