/// What keeps an app from making progress, since when, and when the app must stop trying.
///
/// A value without a clock. Trouble begins with the first report after the last progress. It ends with
/// progress, or when the app has no work left. An app in trouble waits and tries until its patience is
/// over.
package struct TroubleMachine: Sendable {
  /// The app makes no progress at present.
  package struct Trouble: Hashable, Sendable {
    /// What happened last, such as `503 ServiceUnavailable`.
    package var cause: String
    /// When the trouble began, whatever its cause was then.
    package var since: Instant
    /// The next attempt, if one is planned; it may be in the past.
    package var nextTryAt: Instant?
    /// Reports since then.
    package var count: Int
  }

  /// A limit of our own makes the app wait. It costs no patience.
  package struct Hold: Hashable, Sendable {
    package var cause: String
    package var since: Instant
    package var until: Instant
  }

  /// One cause of trouble, for the end of the account.
  package struct Note: Hashable, Sendable {
    package var cause: String
    package var first: Instant
    package var last: Instant
    package var count: Int
  }

  package enum Check: Hashable, Sendable {
    /// There is no trouble, or no work.
    case calm
    case again(at: Instant)
    /// Patience is over: why, in one sentence.
    case giveUp(String)
  }

  private let patience: Duration
  /// A check is planned.
  private var isWatched = false
  package private(set) var trouble: Trouble?
  private var lastHold: Hold?
  package private(set) var notes: [Note] = []
  /// Reports whose cause found no room in ``notes``.
  package private(set) var unlistedCount = 0
  /// Patience was over once.
  package private(set) var hasGivenUp = false

  /// More distinct causes than this are only counted.
  package static let noteLimit = 20
  /// A cause may hold text of the peer's.
  private static let causeLengthLimit = 200
  /// How often an app in trouble is looked at.
  private static let checkInterval = Duration.seconds(1)
  /// Holds that follow each other within this time are one.
  private static let holdGap = Duration.seconds(2)

  package init(patience: Duration) {
    self.patience = patience
  }

  // MARK: Reports

  /// Something kept the app from progress. Trouble may come and go many times a second.
  ///
  /// - Returns: when ``check(now:hasWork:)`` must be called; nil if that is planned already.
  package mutating func troubled(_ cause: String, nextTryAt: Instant?, now: Instant) -> Instant? {
    guard var trouble else {
      let cause = Self.printable(cause)
      note(cause, now: now)
      trouble = Trouble(cause: cause, since: now, nextTryAt: nextTryAt, count: 1)
      guard !isWatched else { return nil }
      isWatched = true
      return now + min(patience, Self.checkInterval)
    }
    if trouble.cause != cause { trouble.cause = Self.printable(cause) }
    trouble.count += 1
    trouble.nextTryAt = Self.next(trouble.nextTryAt, nextTryAt, now: now)
    note(trouble.cause, now: now)
    self.trouble = trouble
    return nil
  }

  /// Notifications have got their outcome by the peer's doing.
  package mutating func progressed() {
    trouble = nil
  }

  /// A limit of our own, not the peer, lets the app go on only at `until`.
  package mutating func held(_ cause: String, until: Instant, now: Instant) {
    note(cause, now: now)
    if let hold = lastHold, hold.cause == cause, now <= hold.until + Self.holdGap {
      lastHold = Hold(cause: cause, since: hold.since, until: max(hold.until, until))
    } else {
      lastHold = Hold(cause: cause, since: now, until: until)
    }
  }

  /// Several lanes try side by side: the earliest of the attempts that are still to come.
  private static func next(_ known: Instant?, _ new: Instant?, now: Instant) -> Instant? {
    guard let known, known > now else { return new }
    guard let new else { return known }
    return min(known, new)
  }

  private mutating func note(_ cause: String, now: Instant) {
    if let index = notes.firstIndex(where: { $0.cause == cause }) {
      notes[index].last = now
      notes[index].count += 1
    } else if notes.count < Self.noteLimit {
      notes.append(Note(cause: cause, first: now, last: now, count: 1))
    } else {
      unlistedCount += 1
    }
  }

  private static func printable(_ cause: String) -> String { cause.escapedForTerminal(atMost: causeLengthLimit) }

  // MARK: Questions

  /// The limit that holds the app back at present.
  package func hold(now: Instant) -> Hold? {
    guard let lastHold, now <= lastHold.until + Self.holdGap else { return nil }
    return lastHold
  }

  /// To be called when ``troubled(_:nextTryAt:now:)`` says, and then when the answer says, until that
  /// is ``Check/calm``.
  ///
  /// - Parameter hasWork: a notification waits for its outcome.
  package mutating func check(now: Instant, hasWork: Bool) -> Check {
    guard let trouble, hasWork else {
      self.trouble = nil
      isWatched = false
      return .calm
    }
    let end = max(trouble.since + patience, lastHold?.until ?? .start)
    if end <= now {
      hasGivenUp = true
      return .giveUp("no progress for \(now.since(trouble.since).spoken): \(trouble.cause)")
    }
    return .again(at: min(end, now + Self.checkInterval))
  }
}

extension Duration {
  /// For messages, rounded down to seconds: `12 s`, `15 min`, `15 min 4 s`, `2 h 5 min`.
  package var spoken: String {
    let seconds = Int(inSeconds)
    let (minutes, hours) = (seconds / 60, seconds / 3_600)
    if minutes == 0 { return "\(seconds) s" }
    if hours == 0 { return seconds % 60 == 0 ? "\(minutes) min" : "\(minutes) min \(seconds % 60) s" }
    return minutes % 60 == 0 ? "\(hours) h" : "\(hours) h \(minutes % 60) min"
  }
}
