/// Decides what the journal's thread does next. Time is a parameter; the next step is the result.
struct CommitSchedule {
  /// The journal's state, as far as the next step depends on it.
  struct Facts: Equatable {
    /// Full blocks are ready to be written.
    var hasSealed = false
    /// The block that is being filled contains records.
    var isFilling = false
    /// Records have been written but not synced.
    var isUnsynced = false
    /// A caller waits for records that are not durable.
    var hasWaiters = false
    /// A caller cannot continue before its records are durable, so the interval is cut short.
    var isUrgent = false
    enum Release { case none, afterCommit, ready }
    /// Segments are to be deleted. First, everything that was appended before the request must
    /// become durable.
    var release = Release.none
    var isClosing = false
  }

  enum Step: Equatable {
    /// Write the full blocks.
    case write
    /// Write all records, and make them durable.
    case commit
    /// Delete segments that are not needed.
    case release
    /// Close the last segment and mark the journal as closed.
    case finish
    /// Wait until this time, or until there is something to do. Nil: no deadline.
    case rest(until: Duration?)
  }

  let sync: JournalSync
  /// When the oldest record that is not durable was first seen.
  private(set) var dirtySince: Duration?
  /// Before this, nothing is written: what must precede it could not be made durable.
  private var notBefore: Duration?

  /// Between two attempts to prepare a group of records.
  static let pause = Duration.milliseconds(100)

  init(sync: JournalSync) { self.sync = sync }

  /// How long records may stay in memory when no caller waits for them.
  private var delay: Duration { if case .interval(let delay) = sync { delay } else { .milliseconds(10) } }

  private var servesWaitersAtOnce: Bool { if case .interval = sync { false } else { true } }

  mutating func next(now: Duration, _ facts: Facts) -> Step {
    if facts.release == .ready { return .release }
    if let notBefore {
      guard notBefore <= now else { return .rest(until: notBefore) }
      self.notBefore = nil
    }
    guard facts.hasSealed || facts.isFilling || facts.isUnsynced else {
      dirtySince = nil
      return facts.isClosing ? .finish : .rest(until: nil)
    }
    let since = dirtySince ?? now
    dirtySince = since
    // Committing precedes writing full blocks. Otherwise steady producers would delay it for ever.
    if isDue(facts) || since + delay <= now { return .commit }
    return facts.hasSealed ? .write : .rest(until: since + delay)
  }

  private func isDue(_ facts: Facts) -> Bool {
    facts.isClosing || facts.isUrgent || facts.release == .afterCommit || (facts.hasWaiters && servesWaitersAtOnce)
  }

  /// A commit begins. The interval of later records starts anew.
  mutating func commitBegan() { dirtySince = nil }

  /// Nothing could be written yet. The records wait since the same time.
  mutating func putOff(now: Duration, since: Duration?) {
    dirtySince = since
    notBefore = now + Self.pause
  }
}
