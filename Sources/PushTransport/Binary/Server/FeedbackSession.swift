package import PushWire

/// The feedback service's side of one connection, without the connection (BinaryProtocol.md, "The
/// feedback service").
///
/// It sends all tuples of a topic, a block at a time, and then closes. The next block is taken only
/// when the one before has gone to the socket. A block that could not be written is given back: what
/// was taken out of the list has been handed out.
package struct FeedbackSession {
  /// About one TLS record in 32-byte tokens.
  package static let blockTupleCount = 400

  private var block: [FeedbackTuple] = []

  package init() {}

  /// The bytes to write next; nil when there is nothing left, and the connection is to be closed.
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

  /// The bytes could not be written. Returns the tuples that belong back into the list.
  package mutating func failed() -> [FeedbackTuple] {
    defer { block = [] }
    return block
  }
}
