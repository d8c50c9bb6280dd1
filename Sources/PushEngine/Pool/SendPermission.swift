internal import PushJournal

/// How far a lane may send: up to the last intent that is durable. Asks for more before it is needed, with one question outstanding at a time.
struct SendPermission {
  let lane: UInt64
  /// Everything in the ring before it may be given to TLS.
  private(set) var through: UInt64 = 0
  private let journal: EngineJournal
  /// The last intent that was written, and where.
  private var asked: (through: UInt64, position: JournalPosition)?
  /// The intent whose durability is waited for.
  private var awaited: UInt64?
  private var isWaiting = false

  init(journal: EngineJournal, lane: UInt64) {
    self.journal = journal
    self.lane = lane
  }

  /// Sees to it that what comes before `end` may be sent soon.
  ///
  /// - Parameter answered: called, on any thread, when ``came()`` is to be called and there may be more to send.
  mutating func ask(through end: UInt64, answered: @escaping @Sendable () -> Void) {
    if end > asked?.through ?? 0 {
      if let position = journal.intend(lane: lane, through: end) {
        asked = (end, position)
        if journal.plantedMistake == .intentsAreNotAwaited { through = end }
      } else if !isWaiting, journal.failure == nil {
        isWaiting = true
        journal.whenRoom(answered)
        return
      }
    }
    guard !isWaiting, let asked, asked.through > through else { return }
    isWaiting = true
    awaited = asked.through
    journal.whenDurable(asked.position, answered)
  }

  /// The answer is there.
  mutating func came() {
    isWaiting = false
    // Intents that were written while this one was on its way to the disk have mostly gone with it.
    if let asked, journal.isDurable(asked.position) {
      through = max(through, asked.through)
    } else if let awaited {
      through = max(through, awaited)
    }
    awaited = nil
  }
}
