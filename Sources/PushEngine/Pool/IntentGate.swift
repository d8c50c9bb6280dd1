internal import PushJournal
internal import PushWire

/// How far a lane may send: up to the last durable intent.
///
/// After a crash, everything that an intent covers may have arrived. So an intent covers at most
/// one step more than what is sent (``IntentStep``). The next intent is written when half of the
/// present one is used up. The journal commits at once if the lane would otherwise have to wait.
struct IntentGate {
  /// What the lane could send if the journal allowed it.
  struct Backlog {
    /// The position of a record. Everything before it has been sent.
    var sent: UInt64
    var published: UInt64
    /// An intent covers at most this many notifications behind `sent`.
    var largestStep: Int
    /// And it may cover this many, however slowly the lane sends: so many are in flight.
    var inFlightCount = 0
    var now: Instant
    /// The lane waits for answers before it sends more. So an intent is worth a commit of its own
    /// only when half of what was left is used up as well: most become durable by then, with other
    /// records.
    var waitsForAnswers = false
  }

  private struct Intent {
    var through: UInt64
    var position: JournalPosition
    /// There was more to cover.
    var isCut: Bool
    var isHurried = false
  }

  private enum Doubt {
    case durable
    /// The record is written. A later record, whose position is known, must follow.
    case written
    /// The doubt is durable when the record at this position is.
    case awaited(JournalPosition)
  }

  let lane: UInt64
  /// Everything in the ring that begins before it may be given to TLS.
  private(set) var through: UInt64 = 0
  /// Where the last written intent ends; nil: no intent is valid.
  var askedThrough: UInt64? { asked?.through }
  private let journal: EngineJournal
  /// The last intent that was written.
  private var asked: Intent?
  /// The intent that the lane waits for.
  private var awaited: Intent?
  private var isWaiting = false
  private var pace = IntentStep()
  /// The lane may send no more because the last durable intent was cut.
  private var isCut = false
  /// The next intent is written when no more blocks than this are left of the last one.
  private var lowBlockCount: UInt64 = 0
  /// The intent was rewound, so the lane can send nothing before the next one is durable, however
  /// small that is.
  private var wasRewound = false
  /// How durable the last doubt is: see ``doubted()``.
  private var doubt = Doubt.durable

  /// A step of this size is worth a commit of its own. Smaller steps come so slowly that they can
  /// wait for the journal's interval. Otherwise a trickle would cost one sync for each
  /// notification.
  private static let urgentBlockCount: UInt64 = 256

  init(journal: EngineJournal, lane: UInt64) { (self.journal, self.lane) = (journal, lane) }

  /// Requests the next intent, so that the next step of the backlog can be sent soon.
  ///
  /// - Parameter answered: called on any thread when ``granted()`` is to be called and there may be
  ///   more to send.
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

  /// Writes the next intent, if it is due. False: the journal has no room.
  private mutating func writeIntent(_ backlog: Backlog, walk: some RecordWalk) -> Bool {
    let last = max(asked?.through ?? through, backlog.sent)
    if isCut, through <= backlog.sent, backlog.published > backlog.sent { pace.stalled() }
    guard backlog.published > last, last - backlog.sent <= max(lowBlockCount, UInt64(step(for: backlog) / 2)) else {
      return true
    }
    let blockCount = walk.position(after: 1, from: backlog.sent, limit: backlog.published) - backlog.sent
    var pace = pace
    pace.advance(sent: backlog.sent, blockCount: blockCount, largest: backlog.largestStep, now: backlog.now)
    let step = Self.step(pace, for: backlog)
    let end = Self.end(of: backlog, step: step, blockCount: blockCount, walk: walk)
    guard end > last else { return true }
    guard let position = journal.intend(lane: lane, through: end) else { return false }
    self.pace = pace
    asked = Intent(through: end, position: position, isCut: end < backlog.published)
    lowBlockCount = (end - backlog.sent) / 2
    if journal.plantedMistake == .intentsAreNotAwaited { through = end }
    return true
  }

  private func step(for backlog: Backlog) -> Int { Self.step(pace, for: backlog) }

  private static func step(_ pace: IntentStep, for backlog: Backlog) -> Int {
    min(backlog.largestStep, max(pace.count, backlog.inFlightCount))
  }

  /// Where a step ends: behind no more than its number of notifications. The end may lie within a
  /// record. The intent then covers that whole record, since it begins before the end.
  private static func end(of backlog: Backlog, step: Int, blockCount: UInt64, walk: some RecordWalk) -> UInt64 {
    // A notification takes at least one block. If each takes exactly one, counting them would read
    // every header for nothing.
    if backlog.published - backlog.sent <= UInt64(step) { return backlog.published }
    if blockCount == 1 { return backlog.sent + UInt64(step) }
    return walk.position(after: step, from: backlog.sent, limit: backlog.published)
  }

  /// Makes the journal commit at once if the lane waits for this step.
  private mutating func hurry(_ backlog: Backlog) {
    guard let asked, !asked.isHurried else { return }
    let isCut = asked.through < backlog.published
    let left = through - min(through, backlog.sent)
    guard !backlog.waitsForAnswers || left <= lowBlockCount / 2 else { return }
    guard isCut || wasRewound || asked.through - max(through, backlog.sent) >= Self.urgentBlockCount else { return }
    journal.hurry(asked.position)
    self.asked?.isHurried = true
    wasRewound = false
  }

  /// The journal has answered a request.
  mutating func granted() {
    isWaiting = false
    takeDurable()
    awaited = nil
  }

  /// Intents written during a commit have usually become durable with it.
  private mutating func takeDurable() {
    for case let intent? in [asked, awaited] where journal.isDurable(intent.position) {
      if intent.through > through { (through, isCut) = (intent.through, intent.isCut) }
      return
    }
  }

  /// The journal has a new record of notifications that may have arrived and will be sent again.
  ///
  /// They are sent again only when that record is durable. Otherwise a crash could hide that there
  /// are two copies. This costs one commit for any number of notifications.
  mutating func doubted() { doubt = .written }

  /// Whether notifications in doubt may be sent again.
  ///
  /// - Parameter answered: called on any thread when ``granted()`` is to be called; then ask again.
  mutating func mayResend(answered: @escaping @Sendable () -> Void) -> Bool {
    if case .written = doubt {
      // Writes the same intent once more. It becomes durable after the doubt.
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

  /// The gateway has discarded everything from `position` on that the last connection carried. To
  /// send it again needs a new intent.
  mutating func rewind(to position: UInt64) {
    guard max(through, asked?.through ?? 0) > position else { return }
    journal.record(.rewound(lane: lane, to: position))
    // Intents that are not durable yet precede the rewind record, which cancels them.
    asked = nil
    awaited = nil
    lowBlockCount = 0
    wasRewound = true
    if journal.plantedMistake != .rewindKeepsIntent { through = min(through, position) }
  }
}
