/// Which blocks of a ring have their outcome: one bit for each block from *settled*, the first
/// without an outcome, to *sent*.
///
/// Outcomes come in any order, and *settled* moves over what is complete. Memory grows with the
/// distance of the two cursors, 8 KiB for 65,536 blocks, and is kept while it is used. So a steady
/// state allocates nothing.
struct SettledBitmap {
  /// Everything before this position has its outcome.
  private(set) var settled: UInt64 = 0
  /// Nothing from this position on has had its turn.
  private(set) var sent: UInt64 = 0
  /// Circular: the bit of a block is in word `block / 64`, modulo the number of words, a power of
  /// two.
  private var words: [UInt64] = Self.empty

  private static let empty: [UInt64] = [0, 0]

  var isEmpty: Bool { settled == sent }

  /// The blocks up to `end` have had their turn.
  mutating func append(to end: UInt64) {
    precondition(end > sent, "a ring moves forward")
    // The first and the last word may be partly in use, so one more is needed than there are full
    // words.
    if end - (settled & ~63) > UInt64(words.count) * 64 { grow(to: end) }
    sent = end
  }

  /// These blocks have their outcome, each for the first time. *Settled* moves with the next
  /// ``advance()``.
  mutating func mark(_ from: UInt64, _ to: UInt64) {
    precondition(from >= settled && from < to && to <= sent, "the outcome is outside the sent blocks")
    var block = from
    while block < to {
      let count = min(to - block, 64 - (block & 63))
      let bits = Self.bits(count) << (block & 63)
      let index = word(block)
      precondition(words[index] & bits == 0, "a block has a second outcome")
      words[index] |= bits
      block += count
    }
  }

  /// Whether the block has its outcome.
  func isSettled(_ block: UInt64) -> Bool {
    block < settled || block < sent && words[word(block)] >> (block & 63) & 1 == 1
  }

  /// Moves *settled* over everything that is complete.
  mutating func advance() {
    while settled < sent {
      let index = word(settled)
      let run = (~(words[index] >> (settled & 63))).trailingZeroBitCount
      let count = min(UInt64(run), 64 - (settled & 63))
      guard count > 0 else { break }
      words[index] &= ~(Self.bits(count) << (settled & 63))
      settled += count
    }
  }

  /// Frees the memory if all blocks are settled.
  mutating func release() {
    if isEmpty, words.count > Self.empty.count { words = Self.empty }
  }

  /// The lowest `count` bits, 1 to 64.
  private static func bits(_ count: UInt64) -> UInt64 { ~0 >> (64 - count) }

  private func word(_ block: UInt64) -> Int { Int(block / 64) & (words.count - 1) }

  private mutating func grow(to end: UInt64) {
    var count = words.count * 2
    while end - (settled & ~63) > UInt64(count) * 64 { count *= 2 }
    var larger = [UInt64](repeating: 0, count: count)
    var block = settled & ~63
    while block < sent {
      larger[Int(block / 64) & (count - 1)] = words[word(block)]
      block += 64
    }
    words = larger
  }
}
