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
///
/// With a ``RingBudget`` it may hold less at times than it has room for; memory that is behind *settled* then goes back to the system.
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
  private let budget: RingBudget?
  /// Whether it counts as busy in the budget: since something was claimed, until its memory has been given back.
  private let busy = Atomic<Bool>(false)
  /// What its need has made of it: it begins small, and grows when what it holds is sent and still fills more than half of it.
  private let grant = Atomic<Int>(NotificationRing.blockCountAlwaysAllowed)

  /// In *reserved*: the consumer is giving memory back, and nothing can be claimed.
  private static let isClosed: UInt64 = 1 << 63
  /// Memory goes back in pieces of so many blocks: 64 KiB of records.
  static let regionBlockCount = 1024
  /// However many rings are busy, each may hold so much: 256 KiB.
  package static let blockCountAlwaysAllowed = 4 * regionBlockCount

  /// - Parameters:
  ///   - blockCount: a power of two, at least twice ``RingRecord/blockCountLimit``: a smaller ring, though empty, could lack room for
  ///     the padding before its wrap and the largest record after it.
  ///   - budget: nil: all of it may be used at any time. Ignored for a ring that is hardly larger than what is always allowed.
  package init(blockCount: Int, budget: RingBudget? = nil) {
    precondition(blockCount >= 2 * RingRecord.blockCountLimit && blockCount & (blockCount - 1) == 0, "ring size \(blockCount)")
    self.blockCount = blockCount
    self.budget = blockCount >= 2 * Self.blockCountAlwaysAllowed ? budget : nil
    mask = UInt64(blockCount - 1)
    unsafe storage = Self.map(byteCount: blockCount * Self.blockByteCount)
    // Zeroed memory is a valid array of atomics that hold zero, and zero is no stamp (a stamp is the end of a chunk).
    unsafe stamps = Self.map(byteCount: blockCount * MemoryLayout<Atomic<UInt64>>.stride).bindMemory(to: Atomic<UInt64>.self, capacity: blockCount)
  }

  deinit {
    if isBusy { budget?.becameIdle() }
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
  /// How many blocks may be claimed and not settled at the same time, now.
  ///
  /// With a budget always a region less than there is: so nobody writes into the region that *settled* lies in, one lap on, and what of it lies behind
  /// *settled* can be given back together with the rest of it.
  package var blockCountLimit: Int {
    guard let budget else { return blockCount }
    return min(blockCount - Self.regionBlockCount, max(Self.blockCountAlwaysAllowed, min(grant.load(ordering: .relaxed), budget.share)))
  }

  private var reservedCount: UInt64 { reserved.load(ordering: .relaxed) & ~Self.isClosed }

  /// Blocks that a producer could claim now; only a hint, since others claim too.
  package var freeBlockCount: Int {
    let settled = settledCursor.load(ordering: .acquiring)
    return max(0, blockCountLimit - Int(clamping: reservedCount &- settled))
  }

  /// Blocks published but not yet sent; only a hint for whoever chooses between rings.
  package var backlogBlockCount: Int {
    let sent = sentCursor.load(ordering: .relaxed)
    let reserved = reservedCount
    return reserved > sent ? Int(clamping: reserved - sent) : 0
  }

  /// Reserves between `minimum` and `maximum` neighbouring blocks, or nothing when the ring has no room.
  ///
  /// However the claim is given up, even unused, ask ``takeWakeUp()`` after it.
  package func claim(minimum: Int, maximum: Int) -> RingClaim? {
    precondition(minimum > 0 && minimum <= RingRecord.blockCountLimit && maximum >= minimum, "claim of \(minimum)...\(maximum) blocks")
    while true {
      let start = reserved.load(ordering: .relaxed)
      guard start & Self.isClosed == 0 else { return nil }
      let settled = settledCursor.load(ordering: .acquiring)
      guard settled <= start else { continue }  // `start` is already old; the compare-and-swap would fail
      let free = blockCountLimit - Int(start - settled)
      let beforeWrap = blockCount - Int(start & mask)
      // A record never wraps: too short a rest before the end of the memory becomes padding, as part of the claim. As a chunk of its own it could
      // make another producer's chunk readable at a moment when nobody would go on to wake the consumer.
      let padding = beforeWrap < minimum ? beforeWrap : 0
      guard free >= padding + minimum else { return nil }
      let count = padding > 0 ? padding + min(maximum, free - padding) : min(maximum, free, beforeWrap)
      let (exchanged, _) = reserved.compareExchange(expected: start, desired: start + UInt64(count), ordering: .acquiring)
      guard exchanged else { continue }
      // At once, and not when the consumer first looks: a thousand producers are faster than it.
      becameBusy()
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

  /// Where `count` neighbouring blocks lie. None of them may be behind the end of the memory, as no record wraps.
  fileprivate func blocks(at position: UInt64, count: Int) -> UnsafeMutableRawPointer {
    let index = Int(position & mask)
    precondition(count > 0 && count <= blockCount - index, "blocks behind the end of a ring")
    return unsafe storage + index * Self.blockByteCount
  }
}

// MARK: - The consumer, on its own loop

extension NotificationRing {
  package var published: UInt64 { publishedCursor.load(ordering: .acquiring) }
  package var sent: UInt64 { sentCursor.load(ordering: .relaxed) }
  package var settled: UInt64 { settledCursor.load(ordering: .relaxed) }
  /// True when nothing is claimed beyond what was published: no producer is writing now.
  package var isFullyPublished: Bool { publishedCursor.load(ordering: .acquiring) == reserved.load(ordering: .acquiring) & ~Self.isClosed }

  /// Everything before `position` has been given to TLS, or, after a rewind, counts as given.
  package func setSent(_ position: UInt64) {
    precondition(position >= settled && position <= published, "sent \(position) outside \(settled)...\(published)")
    sentCursor.store(position, ordering: .relaxed)
    if budget != nil { growIfNeeded() }
  }

  /// Only a ring that is being emptied grows: what waits for a connection, or behind a thousand others, is no need for more.
  private func growIfNeeded() {
    let granted = grant.load(ordering: .relaxed)
    guard granted < blockCount, Int(clamping: reservedCount &- settled) > granted / 2 else { return }
    grant.store(granted * 2, ordering: .relaxed)
  }

  /// Everything before `position` has its outcome; its memory goes back to the producers.
  package func settle(through position: UInt64) {
    precondition(position >= settled && position <= sent, "settled \(position) outside \(settled)...\(sent)")
    // Where the ring may not be filled, it would still use all its memory in turn.
    if budget != nil, blockCountLimit < blockCount - Self.regionBlockCount { giveBack(from: settled, to: position) }
    settledCursor.store(position, ordering: .releasing)
  }

  /// Gives back the regions that end in `from..<to`, before producers hear that they may write there.
  private func giveBack(from: UInt64, to: UInt64) {
    let size = UInt64(Self.regionBlockCount)
    var region = from / size * size
    let end = to / size * size
    while region < end {
      // Up to the end of the memory, then from its beginning.
      let offset = Int(region & mask)
      let count = min(Int(end - region), blockCount - offset)
      giveBack(offset, count)
      region += UInt64(count)
    }
  }

  /// Blocks and their stamps read as zero from now on: zero is no stamp.
  private func giveBack(_ offset: Int, _ count: Int) {
    unsafe madvise(storage + offset * Self.blockByteCount, count * Self.blockByteCount, MADV_DONTNEED)
    let stride = MemoryLayout<Atomic<UInt64>>.stride
    unsafe madvise(UnsafeMutableRawPointer(stamps) + offset * stride, count * stride, MADV_DONTNEED)
  }

  /// Whether it takes part in the budget.
  package var isBusy: Bool { busy.load(ordering: .relaxed) }

  private func becameBusy() {
    guard let budget, !busy.load(ordering: .relaxed), !busy.exchange(true, ordering: .relaxed) else { return }
    budget.becameBusy()
  }

  /// Gives all memory back, if nothing is in the ring. Producers that come meanwhile find no room: tell them after it.
  ///
  /// - Returns: false when there is something in it.
  package func becameIdle() -> Bool {
    guard isBusy else { return true }
    let position = settled
    let (isEmpty, _) = reserved.compareExchange(expected: position, desired: position | Self.isClosed, ordering: .acquiringAndReleasing)
    guard isEmpty else { return false }
    giveBack(0, blockCount)
    grant.store(Self.blockCountAlwaysAllowed, ordering: .relaxed)
    if busy.exchange(false, ordering: .relaxed) { budget?.becameIdle() }
    // Releasing: whoever claims next sees that the ring does not count as busy any more.
    reserved.store(position, ordering: .releasing)
    return true
  }

  /// Takes no claims any more, for good, if nothing is in the ring; otherwise false.
  package func retire() -> Bool {
    let position = settled
    let (isEmpty, _) = reserved.compareExchange(expected: position, desired: position | Self.isClosed, ordering: .acquiringAndReleasing)
    guard isEmpty else { return false }
    giveBack(0, blockCount)
    if busy.exchange(false, ordering: .relaxed) { budget?.becameIdle() }
    return true
  }

  /// Blocks claimed behind `position`: what a lane has still to do, if it has done all before that. Only a hint.
  package func blockCount(behind position: UInt64) -> Int {
    let reserved = reservedCount
    return reserved > position ? Int(clamping: reserved - position) : 0
  }

  /// Turns the records from `start` to `end`, which have not been sent, into padding: their notifications are somewhere else.
  package func withdraw(from start: UInt64, to end: UInt64) {
    precondition(start >= sent && end <= published, "withdrawn \(start)..<\(end) outside \(sent)...\(published)")
    var position = start
    while position < end {
      let count = record(at: position).blockCount
      unsafe RingRecord.writePadding(blockCount: Int(count), to: blocks(at: position, count: Int(count)))
      position += count
    }
  }

  /// The record that starts at `position`, which must be a record's start between *settled* and *published*.
  package func record(at position: UInt64) -> RingRecord {
    let index = Int(position & mask)
    let record = unsafe RingRecord(storage + index * Self.blockByteCount)
    // Memory that was never written says 0.
    precondition(record.blockCount > 0 && record.blockCount <= UInt64(blockCount - index), "no record starts here")
    return record
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
      unsafe RingRecord.writePadding(
        blockCount: paddingBlockCount, to: ring.blocks(at: start, count: paddingBlockCount))
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
    unsafe RingRecord.write(
      header, token: token, payload: payload, blockCount: blocks, to: ring.blocks(at: cursor, count: blocks))
    cursor += UInt64(blocks)
    return true
  }

  /// The same for a notification that has headers of its own.
  package mutating func append(
    _ header: RingRecord.Header, token: UnsafeRawBufferPointer, headers: RingRecord.OwnHeaders, payload: UnsafeRawBufferPointer
  ) -> Bool {
    let blocks = RingRecord.blockCount(tokenByteCount: token.count, payloadByteCount: headers.byteCount + payload.count)
    guard blocks <= remainingBlockCount else { return false }
    unsafe RingRecord.write(
      header, token: token, headers: headers, payload: payload, blockCount: blocks,
      to: ring.blocks(at: cursor, count: blocks))
    cursor += UInt64(blocks)
    return true
  }

  /// Makes everything appended readable.
  package consuming func publish() {}  // the end of the claim does it

  deinit {
    if cursor < end {
      unsafe RingRecord.writePadding(
        blockCount: Int(end - cursor), to: ring.blocks(at: cursor, count: Int(end - cursor)))
    }
    ring.publish(from: start, to: end)
  }
}
