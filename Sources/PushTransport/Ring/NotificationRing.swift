internal import Glibc
internal import Synchronization

/// The bounded, lock-free queue between an app's producers and one lane. It is also the lane's
/// resend window.
///
/// Memory is fixed: `blockCount` blocks of 64 bytes. It is mapped lazily, so a ring that was never
/// full costs only what it used. A notification takes one block if its token has up to 32 bytes and
/// its payload is the campaign's, otherwise more (see ``RingRecord``).
///
/// Four cursors count blocks from the ring's beginning. They only move forward, except that a
/// resend sets *sent* back:
/// ```
///   settled ≤ sent ≤ published ≤ reserved ≤ settled + blockCount
/// ```
/// - *reserved*: claimed by producers, a chunk at a time, by compare-and-swap.
/// - *published*: readable. A producer stamps the first block of its chunk with the chunk's end.
///   Each stamping producer moves the cursor over all chunks stamped so far, so no producer waits
///   for another.
/// - *sent* and *settled*: the consumer's own. Between them is the resend window.
///
/// With a ``RingBudget``, a ring may at times hold less than its size. Memory behind *settled* then
/// returns to the system.
@safe
package final class NotificationRing: @unchecked Sendable {
  // Sync: a block belongs to the producer that reserved it until that producer stores the stamp
  // (releasing). It belongs to the consumer from reading the stamp through `published` (acquiring)
  // until storing `settled` (releasing), which producers read in `claim` (acquiring).

  package static let blockByteCount = 64

  package let blockCount: Int
  private let mask: UInt64
  private let storage: UnsafeMutableRawPointer
  private let stamps: UnsafeMutablePointer<Atomic<UInt64>>

  // The padding keeps what producers write and what the consumer writes on different cache lines.
  private let reserved = Atomic<UInt64>(0)
  private let padding1 = InlineArray<15, UInt64>(repeating: 0)
  private let publishedCursor = Atomic<UInt64>(0)
  private let padding2 = InlineArray<15, UInt64>(repeating: 0)
  private let settledCursor = Atomic<UInt64>(0)
  private let sentCursor = Atomic<UInt64>(0)
  private let padding3 = InlineArray<15, UInt64>(repeating: 0)
  /// A new ring's consumer sleeps, so the first claim wakes it.
  private let consumerSleeps = Atomic<Bool>(true)
  private let budget: RingBudget?
  /// Whether the ring counts as busy in the budget: from a claim until its memory has been
  /// returned.
  private let busy = Atomic<Bool>(false)
  /// How many blocks the ring may hold by its need. It starts small, and grows when everything in
  /// the ring is sent and still fills more than half of it.
  private let grant = Atomic<Int>(NotificationRing.blockCountAlwaysAllowed)

  /// A bit in *reserved*: the consumer is returning memory, and nothing can be claimed.
  private static let isClosed: UInt64 = 1 << 63
  /// Memory returns in regions of this many blocks: 64 KiB of records.
  static let regionBlockCount = 1024
  /// Every ring may hold this many blocks, however many rings are busy: 256 KiB.
  package static let blockCountAlwaysAllowed = 4 * regionBlockCount

  /// - Parameters:
  ///   - blockCount: a power of two, at least twice ``RingRecord/blockCountLimit``. A smaller ring,
  ///     though empty, could lack room for the padding before its wrap and the largest record after
  ///     it.
  ///   - budget: nil: all blocks may be used at any time. Ignored if the ring is hardly larger than
  ///     what is always allowed.
  package init(blockCount: Int, budget: RingBudget? = nil) {
    precondition(
      blockCount >= 2 * RingRecord.blockCountLimit && blockCount & (blockCount - 1) == 0, "ring size \(blockCount)")
    self.blockCount = blockCount
    self.budget = blockCount >= 2 * Self.blockCountAlwaysAllowed ? budget : nil
    mask = UInt64(blockCount - 1)
    unsafe storage = Self.map(byteCount: blockCount * Self.blockByteCount)
    // Zeroed memory is a valid array of atomics with value zero. Zero is not a stamp, because a
    // stamp is the end of a chunk.
    unsafe stamps = Self.map(byteCount: blockCount * MemoryLayout<Atomic<UInt64>>.stride).bindMemory(
      to: Atomic<UInt64>.self, capacity: blockCount)
  }

  deinit {
    if isBusy { budget?.becameIdle() }
    unsafe munmap(storage, blockCount * Self.blockByteCount)
    unsafe munmap(stamps, blockCount * MemoryLayout<Atomic<UInt64>>.stride)
  }

  /// Maps address space only. Pages are allocated at their first use.
  private static func map(byteCount: Int) -> UnsafeMutableRawPointer {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
    guard let memory = unsafe mmap(nil, byteCount, PROT_READ | PROT_WRITE, flags, -1, 0), unsafe memory != MAP_FAILED
    else {
      preconditionFailure("no address space for a ring of \(byteCount) bytes")
    }
    return unsafe memory
  }
}

// MARK: - Producers, from any thread

extension NotificationRing {
  /// How many blocks may be claimed and not settled now.
  ///
  /// With a budget this is always a region less than the ring's size. So no producer writes into
  /// the region of *settled* one lap later, and the part of it that is behind *settled* can be
  /// returned together with the rest.
  package var blockCountLimit: Int {
    guard let budget else { return blockCount }
    return min(
      blockCount - Self.regionBlockCount,
      max(Self.blockCountAlwaysAllowed, min(grant.load(ordering: .relaxed), budget.share)))
  }

  private var reservedCount: UInt64 { reserved.load(ordering: .relaxed) & ~Self.isClosed }

  /// Blocks that a producer could claim now. Only a hint, because other producers claim too.
  package var freeBlockCount: Int {
    let settled = settledCursor.load(ordering: .acquiring)
    return max(0, blockCountLimit - Int(clamping: reservedCount &- settled))
  }

  /// Blocks that are published and not sent. Only a hint, for choosing a ring.
  package var backlogBlockCount: Int {
    let sent = sentCursor.load(ordering: .relaxed)
    let reserved = reservedCount
    return reserved > sent ? Int(clamping: reserved - sent) : 0
  }

  /// Reserves between `minimum` and `maximum` neighbouring blocks, or returns nil if the ring has
  /// no room.
  ///
  /// The caller must call ``takeWakeUp()`` after the claim has ended, even if it was not used.
  package func claim(minimum: Int, maximum: Int) -> RingClaim? {
    precondition(
      minimum > 0 && minimum <= RingRecord.blockCountLimit && maximum >= minimum,
      "claim of \(minimum)...\(maximum) blocks")
    while true {
      let start = reserved.load(ordering: .relaxed)
      guard start & Self.isClosed == 0 else { return nil }
      let settled = settledCursor.load(ordering: .acquiring)
      // `start` is outdated, so the compare-and-swap would fail
      guard settled <= start else { continue }
      let free = blockCountLimit - Int(start - settled)
      let beforeWrap = blockCount - Int(start & mask)
      // A record never wraps. A rest before the end of the memory that is too short becomes
      // padding, as part of the claim. As a chunk of its own, it could make another producer's
      // chunk readable at a moment when no producer would wake the consumer.
      let padding = beforeWrap < minimum ? beforeWrap : 0
      guard free >= padding + minimum else { return nil }
      let count = padding > 0 ? padding + min(maximum, free - padding) : min(maximum, free, beforeWrap)
      let (exchanged, _) = reserved.compareExchange(
        expected: start, desired: start + UInt64(count), ordering: .acquiring)
      guard exchanged else { continue }
      // Counted now and not when the consumer first looks: a thousand producers are faster than it.
      becameBusy()
      return RingClaim(ring: self, start: start, paddingBlockCount: padding, end: start + UInt64(count))
    }
  }

  /// Makes a whole claim readable. The caller must then call ``takeWakeUp()``.
  fileprivate func publish(from start: UInt64, to end: UInt64) {
    unsafe stamps[Int(start & mask)].store(end, ordering: .releasing)
    // If two producers stamp neighbouring chunks at the same time, at least one must see the
    // other's stamp. Each stores and then loads, which needs a full fence.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    var from = publishedCursor.load(ordering: .acquiring)
    while true {
      var to = from
      while to - from < UInt64(blockCount) {
        // A stamp of an earlier lap is at most `to`, because no chunk is longer than the ring.
        let stamp = unsafe stamps[Int(to & mask)].load(ordering: .acquiring)
        guard stamp > to else { break }
        to = stamp
      }
      guard to > from else { return }
      let (exchanged, current) = publishedCursor.compareExchange(
        expected: from, desired: to, ordering: .acquiringAndReleasing)
      from = exchanged ? to : current
    }
  }

  /// Returns true once after the consumer has gone to sleep. The caller that gets true must wake
  /// the consumer.
  package func takeWakeUp() -> Bool {
    // Pairs with the fence in `sleep`: either the consumer sees the published blocks, or this
    // thread sees that it sleeps.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    return consumerSleeps.load(ordering: .relaxed) && consumerSleeps.exchange(false, ordering: .acquiringAndReleasing)
  }

  /// The memory of `count` neighbouring blocks. None may be behind the end of the memory, because
  /// no record wraps.
  fileprivate func blocks(at position: UInt64, count: Int) -> UnsafeMutableRawPointer {
    let index = Int(position & mask)
    precondition(count > 0 && count <= blockCount - index, "the blocks end behind the ring's memory")
    return unsafe storage + index * Self.blockByteCount
  }
}

// MARK: - The consumer, on its own loop

extension NotificationRing {
  package var published: UInt64 { publishedCursor.load(ordering: .acquiring) }
  package var sent: UInt64 { sentCursor.load(ordering: .relaxed) }
  package var settled: UInt64 { settledCursor.load(ordering: .relaxed) }
  /// True when everything claimed is published, so no producer is writing.
  package var isFullyPublished: Bool {
    publishedCursor.load(ordering: .acquiring) == reserved.load(ordering: .acquiring) & ~Self.isClosed
  }

  /// Everything before `position` has been passed to TLS, or counts as passed after a rewind.
  package func setSent(_ position: UInt64) {
    precondition(position >= settled && position <= published, "sent \(position) outside \(settled)...\(published)")
    sentCursor.store(position, ordering: .relaxed)
    if budget != nil { growIfNeeded() }
  }

  /// Only a ring that is being emptied grows. Notifications that wait for a connection, or behind a
  /// thousand others, need no larger ring.
  private func growIfNeeded() {
    let granted = grant.load(ordering: .relaxed)
    guard granted < blockCount, Int(clamping: reservedCount &- settled) > granted / 2 else { return }
    grant.store(granted * 2, ordering: .relaxed)
  }

  /// Everything before `position` has its outcome. Its memory becomes free for the producers.
  package func settle(through position: UInt64) {
    precondition(position >= settled && position <= sent, "settled \(position) outside \(settled)...\(sent)")
    // A ring that may not be filled would otherwise use all its memory in turn.
    if budget != nil, blockCountLimit < blockCount - Self.regionBlockCount { giveBack(from: settled, to: position) }
    settledCursor.store(position, ordering: .releasing)
  }

  /// Returns the memory of regions that end in `from..<to`, before producers may write there.
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

  /// From now on, blocks and stamps read as zero, and zero is not a stamp.
  private func giveBack(_ offset: Int, _ count: Int) {
    unsafe madvise(storage + offset * Self.blockByteCount, count * Self.blockByteCount, MADV_DONTNEED)
    let stride = MemoryLayout<Atomic<UInt64>>.stride
    unsafe madvise(UnsafeMutableRawPointer(stamps) + offset * stride, count * stride, MADV_DONTNEED)
  }

  /// Whether the ring takes part in the budget.
  package var isBusy: Bool { busy.load(ordering: .relaxed) }

  private func becameBusy() {
    guard let budget, !busy.load(ordering: .relaxed), !busy.exchange(true, ordering: .relaxed) else { return }
    budget.becameBusy()
  }

  /// Returns all memory if the ring is empty. Producers find no room meanwhile, so the caller must
  /// resume them afterwards.
  ///
  /// - Returns: false if the ring is not empty.
  package func becameIdle() -> Bool {
    guard isBusy else { return true }
    let position = settled
    let (isEmpty, _) = reserved.compareExchange(
      expected: position, desired: position | Self.isClosed, ordering: .acquiringAndReleasing)
    guard isEmpty else { return false }
    giveBack(0, blockCount)
    grant.store(Self.blockCountAlwaysAllowed, ordering: .relaxed)
    if busy.exchange(false, ordering: .relaxed) { budget?.becameIdle() }
    // Releasing: the next claim sees that the ring no longer counts as busy.
    reserved.store(position, ordering: .releasing)
    return true
  }

  /// Stops accepting claims for good if the ring is empty; otherwise returns false.
  package func retire() -> Bool {
    let position = settled
    let (isEmpty, _) = reserved.compareExchange(
      expected: position, desired: position | Self.isClosed, ordering: .acquiringAndReleasing)
    guard isEmpty else { return false }
    giveBack(0, blockCount)
    if busy.exchange(false, ordering: .relaxed) { budget?.becameIdle() }
    return true
  }

  /// Blocks claimed behind `position`: a lane's remaining work after that position. Only a hint.
  package func blockCount(behind position: UInt64) -> Int {
    let reserved = reservedCount
    return reserved > position ? Int(clamping: reserved - position) : 0
  }

  /// Turns the records from `start` to `end`, which have not been sent, into padding. Their
  /// notifications have moved to another ring.
  package func withdraw(from start: UInt64, to end: UInt64) {
    precondition(start >= sent && end <= published, "withdrawn \(start)..<\(end) outside \(sent)...\(published)")
    var position = start
    while position < end {
      let count = record(at: position).blockCount
      unsafe RingRecord.writePadding(blockCount: Int(count), to: blocks(at: position, count: Int(count)))
      position += count
    }
  }

  /// The record that starts at `position`, which must be the start of a record between *settled*
  /// and *published*.
  package func record(at position: UInt64) -> RingRecord {
    let index = Int(position & mask)
    let record = unsafe RingRecord(storage + index * Self.blockByteCount)
    // Memory that was never written reads as 0.
    precondition(record.blockCount > 0 && record.blockCount <= UInt64(blockCount - index), "no record starts here")
    return record
  }

  /// How many of the records from `position` on are plain (``RingRecord/isPlain(of:)``), up to the
  /// end of the memory. The first must be the start of a record.
  ///
  /// - Parameter firstOrdinal: those with a lower one do not count.
  func plainCount(from position: UInt64, limit: Int, campaign: UInt32, firstOrdinal: UInt64) -> Int {
    let index = Int(position & mask)
    let limit = min(limit, blockCount - index)
    var count = 0
    while count < limit {
      let record = unsafe RingRecord(storage + (index &+ count) &* Self.blockByteCount)
      guard record.isPlain(of: campaign), record.ordinal >= firstOrdinal else { break }
      count &+= 1
    }
    return count
  }

  /// The token of a plain record. That of the next one lies a block further.
  func plainToken(at position: UInt64) -> UnsafeRawPointer { unsafe record(at: position).usualToken }

  /// Declares that the consumer sleeps until it is woken. Returns false if blocks beyond `seen`
  /// have been published, and then it must not sleep.
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

/// A producer's chunk of neighbouring blocks. It is filled with records and then published at once.
///
/// A claim that goes out of scope is published too, with its unused rest as padding: a hole would
/// block everything behind it.
package struct RingClaim: ~Copyable {
  private let ring: NotificationRing
  private let start: UInt64
  private let end: UInt64
  private var cursor: UInt64

  fileprivate init(ring: NotificationRing, start: UInt64, paddingBlockCount: Int, end: UInt64) {
    (self.ring, self.start, self.end) = (ring, start, end)
    cursor = start + UInt64(paddingBlockCount)
    if paddingBlockCount > 0 {
      unsafe RingRecord.writePadding(
        blockCount: paddingBlockCount, to: ring.blocks(at: start, count: paddingBlockCount))
    }
  }

  /// The ring position of the next record.
  package var position: UInt64 { cursor }

  /// Blocks that are not used yet.
  package var remainingBlockCount: Int { Int(end - cursor) }

  /// Writes one notification. Returns false and writes nothing if it does not fit.
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

  /// Writes as many notifications as there are tokens of 32 bytes in `tokens`, without anything of
  /// their own. Returns false and writes nothing if they do not fit.
  ///
  /// - Parameters:
  ///   - ordinals: where the first one's ordinal lies; each next one lies `stride` bytes further.
  package mutating func append(
    campaign: UInt32, mayHaveArrived: Bool, tokens: UnsafeRawBufferPointer, ordinals: UnsafeRawPointer, stride: Int
  ) -> Bool {
    let count = tokens.count / 32
    guard count <= remainingBlockCount, let token = tokens.baseAddress else { return count == 0 }
    let start = unsafe ring.blocks(at: cursor, count: count)
    for index in 0..<count {
      let header = RingRecord.Header(
        ordinal: unsafe ordinals.loadUnaligned(fromByteOffset: index &* stride, as: UInt64.self), campaign: campaign,
        mayHaveArrived: mayHaveArrived)
      unsafe RingRecord.writePlain(
        header, token: token + index &* 32, to: start + index &* NotificationRing.blockByteCount)
    }
    cursor += UInt64(count)
    return true
  }

  /// Writes a notification with headers of its own.
  package mutating func append(
    _ header: RingRecord.Header, token: UnsafeRawBufferPointer, headers: RingRecord.OwnHeaders,
    payload: UnsafeRawBufferPointer
  ) -> Bool {
    let blocks = RingRecord.blockCount(tokenByteCount: token.count, payloadByteCount: headers.byteCount + payload.count)
    guard blocks <= remainingBlockCount else { return false }
    unsafe RingRecord.write(
      header, token: token, headers: headers, payload: payload, blockCount: blocks,
      to: ring.blocks(at: cursor, count: blocks))
    cursor += UInt64(blocks)
    return true
  }

  /// Makes all appended records readable.
  package consuming func publish() {}  // deinit publishes

  deinit {
    if cursor < end {
      unsafe RingRecord.writePadding(
        blockCount: Int(end - cursor), to: ring.blocks(at: cursor, count: Int(end - cursor)))
    }
    ring.publish(from: start, to: end)
  }
}
