/// What a journal's lock guards.
struct CommitQueue {
  enum Phase { case open, closing, closed }
  /// What whoever runs the journal does. Only someone who rests is woken, so that an append is a system call at most once in a while.
  enum Rest { case working, untilDeadline, idle }

  struct Waiter {
    let position: UInt64
    let run: @Sendable (Result<Void, JournalError>) -> Void
  }

  var schedule: CommitSchedule
  var phase = Phase.open
  var failure: JournalError?
  var rest = Rest.working
  /// Between the beginning and the end of a run by hand.
  var isRunByHand = false

  /// The block that is being filled.
  var current: JournalBlock
  /// Full blocks, the oldest first.
  var sealed: [JournalBlock] = []
  var free: [JournalBlock] = []

  /// The position of the next record.
  var next: UInt64
  /// Everything up to here is in the file, as far as the operating system is concerned.
  var written: UInt64
  var durable: UInt64

  /// Records up to here are to be durable as soon as possible, whatever the interval.
  var urgentThrough: UInt64 = 0

  var waiters: [Waiter] = []
  var roomWaiters: [@Sendable () -> Void] = []
  /// See `Journal.willCommit(_:)`.
  var willCommit: (@Sendable () throws(JournalFileError) -> Void)?
  var closeWaiters: [@Sendable (Result<Void, JournalError>) -> Void] = []

  var releaseBefore: UInt64 = 0
  /// What must be durable before anything is released.
  var releaseAfter: UInt64 = 0
  /// Where the last segment begins that was asked for.
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

  /// Why nothing more is taken.
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
      // The present segment ends once this has been written.
      facts.release = .afterCommit
    }
    facts.isClosing = phase == .closing
    return facts
  }

  /// Puts the present block behind the full ones, and takes a free one. False if there is none.
  mutating func sealCurrent() -> Bool {
    guard let block = free.popLast() else { return false }
    sealed.append(current)
    block.first = next
    current = block
    return true
  }

  /// Whether someone has to be woken; if so, the caller does it, once.
  mutating func wake() -> Bool {
    guard rest != .working else { return false }
    rest = .working
    return true
  }
}
