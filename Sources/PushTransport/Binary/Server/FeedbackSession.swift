package import PushWire

/// The feedback service's side of one connection, without the connection (BinaryProtocol.md, "The
/// feedback service").
///
/// It sends all tuples of a topic, a block at a time, and then closes. The next block is taken only
/// when the previous one was passed to the socket. Tuples taken from the list count as delivered,
/// so a block that could not be written is returned.
package struct FeedbackSession {
  /// About one TLS record in 32-byte tokens.
  package static let blockTupleCount = 400

  private var block: [FeedbackTuple] = []

  package init() {}

  /// The bytes to write next. Nil if nothing is left: then the connection must be closed.
  ///
  /// - Parameter take: takes up to that many tuples out of the topic's list.
  package mutating func next(_ take: (Int) -> [FeedbackTuple]) -> [UInt8]? {
    block = take(Self.blockTupleCount)
    guard !block.isEmpty else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(block.reduce(0) { $0 + $1.byteCount })
    for tuple in block { tuple.append(to: &bytes) }
    return bytes
  }

  /// The bytes have gone to the socket. Returns how many tuples they were.
  package mutating func wrote() -> Int {
    defer { block = [] }
    return block.count
  }

  /// The bytes could not be written. Returns the tuples to put back into the list.
  package mutating func failed() -> [FeedbackTuple] {
    defer { block = [] }
    return block
  }
}
