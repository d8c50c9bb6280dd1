/// What keeps an app from making progress, since when, and when the app must give up.
///
/// A value without a clock. Trouble begins with the first report after the last progress. It ends
/// with progress, or when the app has no work. An app in trouble waits and retries until its
/// patience is over.
package struct ProgressWatchdog: Sendable {
  /// The app makes no progress at present.
  package struct Trouble: Hashable, Sendable {
    /// What says most about it, for example `503 ServiceUnavailable`; see ``Evidence``.
    package var cause: String
    /// When the trouble began, even if its cause has changed.
    package var since: Instant
    /// The next attempt, if one is planned. The time may have passed.
    package var nextTryAt: Instant?
    /// The number of reports since then.
    package var count: Int
  }

  /// How much a cause says. A service that refuses a credential also closes the connection, which
  /// says less. So a cause stays until one that says as much is reported, or until it is old.
  package enum Evidence: Int, Comparable, Sendable {
    /// A connection has ended, and nobody said why.
    case ending
    /// Nothing came in time.
    case silence
    /// The network, TLS or the protocol has failed in a known way.
    case failure
    /// The gateway has said it.
    case answer

    package static func < (left: Evidence, right: Evidence) -> Bool { left.rawValue < right.rawValue }
  }

  /// A local limit makes the app wait. It does not use up patience.
  package struct Delay: Hashable, Sendable {
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
    /// Patience is over; the reason in one sentence.
    case giveUp(String)
  }

  /// How long an app tries without progress.
  package var patience: Duration
  /// A check is planned.
  private var isWatched = false
  package private(set) var trouble: Trouble?
  /// What the trouble's cause says, and when it was last reported.
  private var shown = (evidence: Evidence.ending, at: Instant.start)
  private var lastDelay: Delay?
  package private(set) var notes: [Note] = []
  /// Reports whose cause found no room in ``notes``.
  package private(set) var unlistedCount = 0
  /// Patience was over once.
  package private(set) var hasGivenUp = false
  /// Calls of ``retryPause()`` since the last progress.
  private var retryCount = 0

  /// Further distinct causes are only counted.
  package static let noteLimit = 20
  /// A cause may contain the peer's own text.
  private static let causeLengthLimit = 200
  /// How often an app in trouble is checked.
  private static let checkInterval = Duration.seconds(1)
  /// The longest times after which an app that was suspended tries again, first and later.
  private static let retryPauses = Duration.seconds(60) ... .seconds(900)
  /// A cause that was not reported for this long gives way to one that says less.
  private static let causeAge = Duration.seconds(60)
  /// Delays with less than this between them count as one.
  private static let delayGap = Duration.seconds(2)

  package init(patience: Duration) { self.patience = patience }

  // MARK: Reports

  /// Something kept the app from progress. This may happen many times a second.
  ///
  /// - Returns: when ``check(now:hasWork:)`` must be called; nil if a call is already planned.
  package mutating func troubled(_ cause: String, _ evidence: Evidence, nextTryAt: Instant?, now: Instant) -> Instant? {
    let cause = cause == trouble?.cause ? cause : Self.printable(cause)
    note(cause, now: now)
    guard var trouble else {
      shown = (evidence, now)
      trouble = Trouble(cause: cause, since: now, nextTryAt: nextTryAt, count: 1)
      guard !isWatched else { return nil }
      isWatched = true
      return now + min(patience, Self.checkInterval)
    }
    if evidence >= shown.evidence || now.since(shown.at) > Self.causeAge {
      trouble.cause = cause
      shown = (evidence, now)
    }
    trouble.count += 1
    trouble.nextTryAt = Self.next(trouble.nextTryAt, nextTryAt, now: now)
    self.trouble = trouble
    return nil
  }

  /// The peer's answers have settled notifications.
  package mutating func progressed() {
    trouble = nil
    retryCount = 0
  }

  /// The app has restarted, or must wait: earlier trouble no longer counts.
  package mutating func restarted() { trouble = nil }

  /// How long an app whose patience is over waits until it tries again by itself: as long as its
  /// patience, but a minute at most, and twice as long each time without progress in between, up to
  /// 16 times the first pause and 15 minutes. To be called once for each suspension.
  package mutating func retryPause() -> Duration {
    let first = min(patience, Self.retryPauses.lowerBound)
    defer { retryCount += 1 }
    return min(first * (1 << min(retryCount, 4)), Self.retryPauses.upperBound)
  }

  /// The app has tried again since its patience was over, and nothing has got through yet.
  package var isRetrying: Bool { retryCount > 0 }

  /// A local limit, not the peer, makes the app wait until `until`.
  package mutating func delayed(_ cause: String, until: Instant, now: Instant) {
    note(cause, now: now)
    if let delay = lastDelay, delay.cause == cause, now <= delay.until + Self.delayGap {
      lastDelay = Delay(cause: cause, since: delay.since, until: max(delay.until, until))
    } else {
      lastDelay = Delay(cause: cause, since: now, until: until)
    }
  }

  /// Several lanes try at the same time; the earliest attempt that is still to come counts.
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

  /// The limit that makes the app wait at present.
  package func delay(now: Instant) -> Delay? {
    guard let lastDelay, now <= lastDelay.until + Self.delayGap else { return nil }
    return lastDelay
  }

  /// Must be called when ``troubled(_:_:nextTryAt:now:)`` says, and then when each result says,
  /// until that is ``Check/calm``.
  ///
  /// - Parameter hasWork: a notification waits for its outcome.
  package mutating func check(now: Instant, hasWork: Bool) -> Check {
    guard let trouble, hasWork else {
      self.trouble = nil
      isWatched = false
      return .calm
    }
    let end = max(trouble.since + patience, lastDelay?.until ?? .start)
    if end <= now {
      hasGivenUp = true
      isWatched = false
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
