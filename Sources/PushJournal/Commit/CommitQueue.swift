/// The state of a journal that its lock guards.
struct CommitQueue {
  enum Phase { case open, closing, closed }
  /// What the thread that runs the journal does. It is signalled only while it rests, so appending
  /// seldom costs a system call.
  enum Rest { case working, untilDeadline, idle }

  struct Waiter {
    let position: UInt64
    let run: @Sendable (Result<Void, JournalError>) -> Void
  }

  var schedule: CommitSchedule
  var phase = Phase.open
  var failure: JournalError?
  var rest = Rest.working
  /// True from the beginning to the end of ``Journal/run(now:)``.
  var isRunByHand = false

  /// The block that is being filled.
  var current: JournalBlock
  /// Full blocks, the oldest first.
  var sealed: [JournalBlock] = []
  var free: [JournalBlock] = []

  /// The position of the next record.
  var next: UInt64
  /// All records before this position are in the file, though perhaps not durable.
  var written: UInt64
  var durable: UInt64

  /// Records before this position are to become durable at once, whatever the interval is.
  var urgentThrough: UInt64 = 0

  var waiters: [Waiter] = []
  var roomWaiters: [@Sendable () -> Void] = []
  /// See `Journal.willCommit(_:)`.
  var willCommit: (@Sendable (Preparation) throws(JournalFileError) -> Bool)?
  /// See `Journal.didCommit(_:)`.
  var didCommit: (@Sendable (JournalCommit) -> Void)?
  var closeWaiters: [@Sendable (Result<Void, JournalError>) -> Void] = []

  var releaseBefore: UInt64 = 0
  /// All records before this position must be durable before a segment is deleted.
  var releaseAfter: UInt64 = 0
  /// The position at which the last segment that a caller requested begins.
  var segmentStart: UInt64?
  /// See `SegmentWriter.oldestEnd`.
  var oldestEnd: UInt64?
  var size = JournalSize(segmentCount: 0, byteCount: 0)

  init(options: JournalOptions, next: UInt64) {
    schedule = CommitSchedule(sync: options.sync)
    self.next = next
    written = next - 1
    durable = next - 1
    current = JournalBlock(byteCount: options.blockByteCount)
    current.first = next
    free = (1..<options.blockCount).map { _ in JournalBlock(byteCount: options.blockByteCount) }
    sealed.reserveCapacity(options.blockCount)
  }

  /// Why the journal accepts no more records; nil if it does accept them.
  var refusal: JournalError? { failure ?? (phase == .open ? nil : .closed) }

  var facts: CommitSchedule.Facts {
    var facts = CommitSchedule.Facts()
    facts.hasSealed = !sealed.isEmpty
    facts.isFilling = !current.isEmpty
    facts.isUnsynced = written > durable
    facts.hasWaiters = !waiters.isEmpty
    facts.isUrgent = urgentThrough > durable
    if let oldestEnd, oldestEnd <= releaseBefore {
      facts.release = durable >= releaseAfter ? .ready : .afterCommit
    } else if let segmentStart, segmentStart <= releaseBefore, durable < releaseAfter {
      // The present segment ends when this has been written.
      facts.release = .afterCommit
    }
    facts.isClosing = phase == .closing
    return facts
  }

  /// Moves the present block behind the full ones and takes a free one. Returns false if none is
  /// free.
  mutating func sealCurrent() -> Bool {
    guard let block = free.popLast() else { return false }
    sealed.append(current)
    block.first = next
    current = block
    return true
  }

  /// Whether the thread must be signalled. If it returns true, the caller signals, once.
  mutating func wake() -> Bool {
    guard rest != .working else { return false }
    rest = .working
    return true
  }
}
