internal import PushJournal
internal import PushWire

/// How far a lane may send: up to the last intent that is durable.
///
/// After a crash everything that an intent covers may have arrived, so an intent runs ahead of what is
/// sent by one step at most. The next one is asked for when half of the present one is used up, and the
/// journal is hurried where the lane would otherwise have to wait for it.
struct IntentGate {
  /// What the lane could send, if the journal let it.
  struct Backlog {
    /// Where a record begins: everything before it has been sent.
    var sent: UInt64
    var published: UInt64
    /// So many notifications ahead of `sent` an intent may reach.
    var step: Int
  }

  private struct Intent {
    var through: UInt64
    var position: JournalPosition
    var isHurried = false
  }

  private enum Doubt {
    case durable
    /// The record of it is written; one more must follow whose position is known.
    case written
    /// It is durable when this is.
    case awaited(JournalPosition)
  }

  let lane: UInt64
  /// Everything in the ring that begins before it may be given to TLS.
  private(set) var through: UInt64 = 0
  /// Where the last intent that was written ends; nil: none counts.
  var askedThrough: UInt64? { asked?.through }
  private let journal: EngineJournal
  /// The last intent that was written.
  private var asked: Intent?
  /// The intent whose durability is waited for.
  private var awaited: Intent?
  private var isWaiting = false
  /// The next intent is asked for when no more than this is left of the last one, in blocks.
  private var lowBlockCount: UInt64 = 0
  /// The lane has nothing to send with until the next intent is durable, however little that is.
  private var wasRewound = false
  /// See ``doubted()``.
  private var doubt = Doubt.durable

  /// So much is worth a commit of its own. What is less comes so slowly that it can wait for the end of
  /// the journal's interval: otherwise each notification of a trickle would cost a sync.
  private static let urgentBlockCount: UInt64 = 256

  init(journal: EngineJournal, lane: UInt64) {
    self.journal = journal
    self.lane = lane
  }

  /// Sees to it that the next step of the backlog may be sent soon.
  ///
  /// - Parameter answered: called, on any thread, when ``granted()`` is to be called and there may be more to send.
  mutating func ask(_ backlog: Backlog, walk: some RecordWalk, answered: @escaping @Sendable () -> Void) {
    guard writeIntent(backlog, walk: walk) else {
      guard !isWaiting, journal.failure == nil else { return }
      isWaiting = true
      journal.whenRoom(answered)
      return
    }
    guard let asked, asked.through > through else { return }
    takeDurable()
    guard asked.through > through else { return }
    hurry(backlog)
    guard !isWaiting else { return }
    isWaiting = true
    awaited = asked
    journal.whenDurable(asked.position, answered)
  }

  /// Writes the next intent, if it is time for one. False: there is no room for it.
  private mutating func writeIntent(_ backlog: Backlog, walk: some RecordWalk) -> Bool {
    let last = max(asked?.through ?? through, backlog.sent)
    guard backlog.published > last, last - backlog.sent <= max(lowBlockCount, UInt64(backlog.step / 2)) else {
      return true
    }
    let end = Self.end(of: backlog, walk: walk)
    guard end > last else { return true }
    guard let position = journal.intend(lane: lane, through: end) else { return false }
    asked = Intent(through: end, position: position)
    lowBlockCount = (end - backlog.sent) / 2
    if journal.plantedMistake == .intentsAreNotAwaited { through = end }
    return true
  }

  /// Where a step ends: behind no more than its number of notifications. Possibly within a record, which
  /// is then covered as a whole, since it begins before that.
  private static func end(of backlog: Backlog, walk: some RecordWalk) -> UInt64 {
    let step = UInt64(backlog.step)
    // No notification takes less than a block. Where they take just that, counting them would be a look
    // at each for nothing.
    if backlog.published - backlog.sent <= step { return backlog.published }
    if walk.position(after: 1, from: backlog.sent, limit: backlog.published) == backlog.sent + 1 {
      return backlog.sent + step
    }
    return walk.position(after: backlog.step, from: backlog.sent, limit: backlog.published)
  }

  /// Has the journal commit at once where the step is what the lane waits for.
  private mutating func hurry(_ backlog: Backlog) {
    guard let asked, !asked.isHurried else { return }
    let isCut = asked.through < backlog.published
    guard isCut || wasRewound || asked.through - max(through, backlog.sent) >= Self.urgentBlockCount else { return }
    journal.hurry(asked.position)
    self.asked?.isHurried = true
    wasRewound = false
  }

  /// The answer is there.
  mutating func granted() {
    isWaiting = false
    takeDurable()
    awaited = nil
  }

  /// Intents that were written while the awaited one was on its way to the disk have mostly gone with it.
  private mutating func takeDurable() {
    if let asked, journal.isDurable(asked.position) {
      through = max(through, asked.through)
    } else if let awaited, journal.isDurable(awaited.position) {
      through = max(through, awaited.through)
    }
  }

  /// The journal has a new record of notifications that may have arrived and will be sent again.
  ///
  /// They may be sent again when that record is durable: otherwise a crash could hide that there
  /// are two copies. However many notifications there are, this costs one commit.
  mutating func doubted() {
    doubt = .written
  }

  /// Whether what is in doubt may be sent again.
  ///
  /// - Parameter answered: called, on any thread, when ``granted()`` is to be called; then ask again.
  mutating func mayResend(answered: @escaping @Sendable () -> Void) -> Bool {
    if case .written = doubt {
      // The same intent once more: it is durable after the doubt.
      guard let position = journal.intend(lane: lane, through: asked?.through ?? through) else {
        guard !isWaiting, journal.failure == nil else { return false }
        isWaiting = true
        journal.whenRoom(answered)
        return false
      }
      journal.hurry(position)
      doubt = .awaited(position)
    }
    guard case .awaited(let position) = doubt else { return true }
    if journal.isDurable(position) {
      doubt = .durable
      return true
    }
    guard !isWaiting else { return false }
    isWaiting = true
    journal.whenDurable(position, answered)
    return false
  }

  /// What was sent from `position` on was certainly discarded: after a crash it has not arrived from here.
  /// It needs an intent again.
  mutating func rewind(to position: UInt64) {
    guard max(through, asked?.through ?? 0) > position else { return }
    journal.record(.rewound(lane: lane, to: position))
    // Intents that are on their way to the disk lie before that record: they say nothing any more.
    asked = nil
    awaited = nil
    lowBlockCount = 0
    wasRewound = true
    if journal.plantedMistake != .rewindKeepsIntent { through = min(through, position) }
  }
}
