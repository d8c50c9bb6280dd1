/// One entry of the feedback service: timestamp u32 · token length u16 · token (BinaryProtocol,
/// "The feedback service").
package struct FeedbackTuple: Hashable, Sendable {
  /// UNIX seconds at which the gateway found that the device no longer has the app.
  package var timestamp: UInt32
  package var token: TokenBytes

  package init(timestamp: UInt32, token: TokenBytes) { (self.timestamp, self.token) = (timestamp, token) }

  /// How many tuples a server sends at a time: about one TLS record in 32-byte tokens.
  package static let blockTupleCount = 400

  /// The size of the tuple on the wire in bytes: 7…106.
  package var byteCount: Int { 6 + token.byteCount }

  package var bytes: [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(byteCount)
    append(to: &result)
    return result
  }

  /// Appends the tuple in wire format, so that a feedback server can put many into one write.
  package func append(to bytes: inout [UInt8]) {
    for shift in [24, 16, 8, 0] as [UInt32] { bytes.append(UInt8(truncatingIfNeeded: timestamp >> shift)) }
    bytes.append(0)
    bytes.append(UInt8(truncatingIfNeeded: token.byteCount))
    bytes.append(contentsOf: token.bytes)
  }
}

/// Reads feedback tuples from reads of any size, with tokens of any size. Assuming tuples of 38
/// bytes is a known bug of other readers.
package struct FeedbackDecoder: Sendable {
  /// The number of tuples with an empty token or one of more than 100 bytes. Their end is known, so
  /// they are skipped and the rest of the list stays readable.
  package private(set) var unusableTupleCount = 0
  /// The beginning of a tuple, at most 105 bytes.
  private var pending: [UInt8] = []
  /// The bytes of an unusable tuple's token that are still to come.
  private var skipByteCount = 0

  private static let headerByteCount = 6

  package init() {}

  /// False if the bytes so far end inside a tuple. At end of stream that means that the list was
  /// cut off.
  package var isAtTupleBoundary: Bool { pending.isEmpty && skipByteCount == 0 }

  /// Takes the next bytes and returns the tuples that they complete, in order. Reading clears the
  /// list at the service, so the caller must make these tuples durable before it reads more.
  package mutating func consume(_ bytes: UnsafeRawBufferPointer) -> [FeedbackTuple] {
    var tuples: [FeedbackTuple] = []
    var offset = 0
    while true {
      let skipped = min(skipByteCount, bytes.count - offset)
      skipByteCount -= skipped
      offset += skipped

      let missing = neededByteCount - pending.count
      let taken = min(missing, bytes.count - offset)
      unsafe pending.append(contentsOf: bytes[offset..<offset + taken])
      offset += taken
      guard taken == missing else { return tuples }
      finishHeaderOrTuple(&tuples)
    }
  }

  /// How many bytes of the current tuple are needed for the next decision: first its header, then
  /// all of it.
  private var neededByteCount: Int {
    pending.count < Self.headerByteCount ? Self.headerByteCount : Self.headerByteCount + tokenByteCount
  }

  /// Valid once the header is complete.
  private var tokenByteCount: Int { Int(pending[4]) << 8 | Int(pending[5]) }

  private mutating func finishHeaderOrTuple(_ tuples: inout [FeedbackTuple]) {
    guard (1...TokenBytes.byteCountLimit).contains(tokenByteCount) else {
      unusableTupleCount += 1
      skipByteCount = tokenByteCount
      pending.removeAll(keepingCapacity: true)
      return
    }
    guard pending.count == Self.headerByteCount + tokenByteCount else { return }
    let timestamp = pending[..<4].reduce(0) { $0 << 8 | UInt32($1) }
    if let token = TokenBytes(bytes: pending[Self.headerByteCount...]) {
      tuples.append(FeedbackTuple(timestamp: timestamp, token: token))
    }
    pending.removeAll(keepingCapacity: true)
  }
}
