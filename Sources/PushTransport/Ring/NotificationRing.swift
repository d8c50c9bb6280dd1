internal import Glibc
internal import Synchronization

/// The bounded, lock-free queue between an app's producers and one lane, and at the same time the lane's resend window.
///
/// Memory is fixed: `blockCount` blocks of 64 bytes, mapped lazily, so that a ring that was never filled costs only what it used.
/// A notification takes one block when its token has up to 32 bytes and its payload is the campaign's, more otherwise (see ``RingRecord``).
///
/// Four cursors count blocks from the beginning of time and only move forward, except that a resend sets *sent* back:
/// ```
///   settled ≤ sent ≤ published ≤ reserved ≤ settled + blockCount
/// ```
/// - *reserved*: claimed by producers, by compare-and-swap, a chunk at a time;
/// - *published*: readable. A producer stamps the first block of its chunk with the chunk's end; whoever stamps moves the cursor over all
///   chunks stamped so far, so no producer ever waits for another one;
/// - *sent* and *settled*: the consumer's own. What lies between them is the resend window.
@safe
package final class NotificationRing: @unchecked Sendable {
  // Sync: a block belongs to the producer that reserved it until its stamp is stored (releasing) and to the consumer from the moment it
  // reads the stamp through `published` (acquiring) until it stores `settled` (releasing), which producers read (acquiring) in `claim`.

  package static let blockByteCount = 64

  package let blockCount: Int
  private let mask: UInt64
  private let storage: UnsafeMutableRawPointer
  private let stamps: UnsafeMutablePointer<Atomic<UInt64>>

  // The padding keeps what producers write and what the consumer writes on cache lines of their own.
  private let reserved = Atomic<UInt64>(0)
  private let padding1 = InlineArray<15, UInt64>(repeating: 0)
  private let publishedCursor = Atomic<UInt64>(0)
  private let padding2 = InlineArray<15, UInt64>(repeating: 0)
  private let settledCursor = Atomic<UInt64>(0)
  private let sentCursor = Atomic<UInt64>(0)
  private let padding3 = InlineArray<15, UInt64>(repeating: 0)
  /// A ring begins with its consumer asleep: the first claim wakes it.
  private let consumerSleeps = Atomic<Bool>(true)

  /// - Parameter blockCount: a power of two, at least twice ``RingRecord/blockCountLimit``: a smaller ring, though empty, could lack room for
  ///   the padding before its wrap and the largest record after it.
  package init(blockCount: Int) {
    precondition(blockCount >= 2 * RingRecord.blockCountLimit && blockCount & (blockCount - 1) == 0, "ring size \(blockCount)")
    self.blockCount = blockCount
    mask = UInt64(blockCount - 1)
    unsafe storage = Self.map(byteCount: blockCount * Self.blockByteCount)
    // Zeroed memory is a valid array of atomics that hold zero, and zero is no stamp (a stamp is the end of a chunk).
    unsafe stamps = Self.map(byteCount: blockCount * MemoryLayout<Atomic<UInt64>>.stride).bindMemory(to: Atomic<UInt64>.self, capacity: blockCount)
  }

  deinit {
    unsafe munmap(storage, blockCount * Self.blockByteCount)
    unsafe munmap(stamps, blockCount * MemoryLayout<Atomic<UInt64>>.stride)
  }

  /// Address space only: pages come with their first use.
  private static func map(byteCount: Int) -> UnsafeMutableRawPointer {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
    guard let memory = unsafe mmap(nil, byteCount, PROT_READ | PROT_WRITE, flags, -1, 0), unsafe memory != MAP_FAILED else {
      preconditionFailure("no address space for a ring of \(byteCount) bytes")
    }
    return unsafe memory
  }
}

// MARK: - Producers, from any thread

extension NotificationRing {
  /// Blocks that a producer could claim now; only a hint, since others claim too.
  package var freeBlockCount: Int {
    let settled = settledCursor.load(ordering: .acquiring)
    let reserved = reserved.load(ordering: .relaxed)
    return max(0, blockCount - Int(clamping: reserved &- settled))
  }

  /// Blocks published but not yet sent; only a hint for whoever chooses between rings.
  package var backlogBlockCount: Int {
    let sent = sentCursor.load(ordering: .relaxed)
    let reserved = reserved.load(ordering: .relaxed)
    return reserved > sent ? Int(clamping: reserved - sent) : 0
  }

  /// Reserves between `minimum` and `maximum` neighbouring blocks, or nothing when the ring has no room.
  ///
  /// However the claim is given up, even unused, ask ``takeWakeUp()`` after it.
  package func claim(minimum: Int, maximum: Int) -> RingClaim? {
    precondition(minimum > 0 && minimum <= RingRecord.blockCountLimit && maximum >= minimum, "claim of \(minimum)...\(maximum) blocks")
    while true {
      let start = reserved.load(ordering: .relaxed)
      let settled = settledCursor.load(ordering: .acquiring)
      guard settled <= start else { continue }  // `start` is already old; the compare-and-swap would fail
      let free = blockCount - Int(start - settled)
      let beforeWrap = blockCount - Int(start & mask)
      // A record never wraps: too short a rest before the end of the memory becomes padding, as part of the claim. As a chunk of its own it could
      // make another producer's chunk readable at a moment when nobody would go on to wake the consumer.
      let padding = beforeWrap < minimum ? beforeWrap : 0
      guard free >= padding + minimum else { return nil }
      let count = padding > 0 ? padding + min(maximum, free - padding) : min(maximum, free, beforeWrap)
      let (exchanged, _) = reserved.compareExchange(expected: start, desired: start + UInt64(count), ordering: .relaxed)
      guard exchanged else { continue }
      return RingClaim(ring: self, start: start, paddingBlockCount: padding, end: start + UInt64(count))
    }
  }

  /// Makes a whole claim readable. After it, ask ``takeWakeUp()`` whether the consumer must be told.
  fileprivate func publish(from start: UInt64, to end: UInt64) {
    unsafe stamps[Int(start & mask)].store(end, ordering: .releasing)
    // Two producers that stamp neighbouring chunks at once must not both miss the other's stamp (store, then load: needs a full fence).
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    var from = publishedCursor.load(ordering: .acquiring)
    while true {
      var to = from
      while to - from < UInt64(blockCount) {
        // A stamp of an earlier lap is at most `to`, since no chunk is longer than the ring.
        let stamp = unsafe stamps[Int(to & mask)].load(ordering: .acquiring)
        guard stamp > to else { break }
        to = stamp
      }
      guard to > from else { return }
      let (exchanged, current) = publishedCursor.compareExchange(expected: from, desired: to, ordering: .acquiringAndReleasing)
      from = exchanged ? to : current
    }
  }

  /// True once after the consumer has gone to sleep: the caller that gets it wakes the consumer.
  package func takeWakeUp() -> Bool {
    // Pairs with the fence in `sleep`: either the consumer sees what was published or we see that it sleeps.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    return consumerSleeps.load(ordering: .relaxed) && consumerSleeps.exchange(false, ordering: .acquiringAndReleasing)
  }

  fileprivate func block(at position: UInt64) -> UnsafeMutableRawPointer {
    unsafe storage + Int(position & mask) * Self.blockByteCount
  }
}

// MARK: - The consumer, on its own loop

extension NotificationRing {
  package var published: UInt64 { publishedCursor.load(ordering: .acquiring) }
  package var sent: UInt64 { sentCursor.load(ordering: .relaxed) }
  package var settled: UInt64 { settledCursor.load(ordering: .relaxed) }
  /// True when nothing is claimed beyond what was published: no producer is writing now.
  package var isFullyPublished: Bool { publishedCursor.load(ordering: .acquiring) == reserved.load(ordering: .acquiring) }

  /// Everything before `position` has been given to TLS, or, after a rewind, counts as given.
  package func setSent(_ position: UInt64) {
    precondition(position >= settled && position <= published, "sent \(position) outside \(settled)...\(published)")
    sentCursor.store(position, ordering: .relaxed)
  }

  /// Everything before `position` has its outcome; its memory goes back to the producers.
  package func settle(through position: UInt64) {
    precondition(position >= settled && position <= sent, "settled \(position) outside \(settled)...\(sent)")
    settledCursor.store(position, ordering: .releasing)
  }

  /// The record that starts at `position`, which must be a record's start between *settled* and *published*.
  package func record(at position: UInt64) -> RingRecord {
    unsafe RingRecord(block(at: position))
  }

  /// Declares that the consumer will sleep until told; false when something beyond `seen` was published meanwhile (then it must not).
  package func sleep(seen: UInt64) -> Bool {
    consumerSleeps.store(true, ordering: .relaxed)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    guard publishedCursor.load(ordering: .acquiring) == seen else {
      consumerSleeps.store(false, ordering: .relaxed)
      return false
    }
    return true
  }
}

/// A producer's chunk of neighbouring blocks: filled with records, then published as one.
///
/// A claim that goes out of scope is published too, its unused rest as padding: a hole would stop everything behind it.
package struct RingClaim: ~Copyable {
  private let ring: NotificationRing
  private let start: UInt64
  private let end: UInt64
  private var cursor: UInt64

  fileprivate init(ring: NotificationRing, start: UInt64, paddingBlockCount: Int, end: UInt64) {
    self.ring = ring
    self.start = start
    self.end = end
    cursor = start + UInt64(paddingBlockCount)
    if paddingBlockCount > 0 {
      unsafe RingRecord.writePadding(blockCount: paddingBlockCount, to: ring.block(at: start))
    }
  }

  /// Where the next record will begin in the ring.
  package var position: UInt64 { cursor }

  /// Blocks not yet used.
  package var remainingBlockCount: Int { Int(end - cursor) }

  /// Writes one notification; false, with nothing written, when it does not fit into what is left.
  package mutating func append(
    _ header: RingRecord.Header, token: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer
  ) -> Bool {
    let blocks = RingRecord.blockCount(tokenByteCount: token.count, payloadByteCount: payload.count)
    guard blocks <= remainingBlockCount else { return false }
    unsafe RingRecord.write(header, token: token, payload: payload, blockCount: blocks, to: ring.block(at: cursor))
    cursor += UInt64(blocks)
    return true
  }

  /// Makes everything appended readable.
  package consuming func publish() {}  // the end of the claim does it

  deinit {
    if cursor < end {
      unsafe RingRecord.writePadding(blockCount: Int(end - cursor), to: ring.block(at: cursor))
    }
    ring.publish(from: start, to: end)
  }
}
