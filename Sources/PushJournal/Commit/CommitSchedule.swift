/// Decides what the journal's thread does next. A value: time comes in, what to do goes out.
struct CommitSchedule {
  /// How things stand.
  struct Facts: Equatable {
    /// Full blocks wait to be written.
    var hasSealed = false
    /// The block being filled has records in it.
    var isFilling = false
    /// Something has been written, but not synced.
    var isUnsynced = false
    /// Someone waits for records that are not durable.
    var hasWaiters = false
    /// Someone cannot go on before records that are not durable are: an interval is cut short.
    var isUrgent = false
    enum Release { case none, afterCommit, ready }
    /// Segments wait to be deleted; before that, all that was there when it was asked for must be durable.
    var release = Release.none
    var isClosing = false
  }

  enum Step: Equatable {
    /// Write the sealed blocks.
    case write
    /// Write everything there is, and make it durable.
    case commit
    /// Delete segments that are not needed.
    case release
    /// Close the last segment in good order.
    case finish
    /// Nothing until this time, or until something happens.
    case rest(until: Duration?)
  }

  let sync: JournalSync
  /// When the oldest record that is not durable was first seen.
  private var dirtySince: Duration?

  init(sync: JournalSync) { self.sync = sync }

  /// How long records that nobody waits for may stay in memory.
  private var delay: Duration {
    guard case .interval(let delay) = sync else { return .milliseconds(10) }
    return delay
  }

  private var servesWaitersAtOnce: Bool {
    if case .interval = sync { return false }
    return true
  }

  mutating func next(now: Duration, _ facts: Facts) -> Step {
    if facts.release == .ready { return .release }
    guard facts.hasSealed || facts.isFilling || facts.isUnsynced else {
      dirtySince = nil
      return facts.isClosing ? .finish : .rest(until: nil)
    }
    let since = dirtySince ?? now
    dirtySince = since
    // A commit comes before full blocks, or producers that never pause would put it off for ever.
    if isDue(facts) || since + delay <= now { return .commit }
    return facts.hasSealed ? .write : .rest(until: since + delay)
  }

  private func isDue(_ facts: Facts) -> Bool {
    facts.isClosing || facts.isUrgent || facts.release == .afterCommit || (facts.hasWaiters && servesWaitersAtOnce)
  }

  /// A commit begins: what comes after it waits from now on.
  mutating func commitBegan() { dirtySince = nil }
}
