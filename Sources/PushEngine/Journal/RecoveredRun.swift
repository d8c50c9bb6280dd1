internal import PushWire

/// Neighbouring notifications that an earlier process took in and left without an outcome, all in
/// the same state.
package struct RecoveredRun: Hashable, Sendable, EnqueueSource {
  package enum Fate: UInt8, Hashable, Sendable {
    /// No intent covers them, or they were returned unsent: they have certainly not arrived.
    case unsent = 0
    /// They may have arrived.
    case unknown = 1
    /// They may have arrived, and count as possible duplicates already, because they were sent
    /// again before.
    case doubted = 2

    /// The outcome of a notification that is not sent by this process either.
    var outcomeUnsent: Outcome { self == .unsent ? .cancelled : .unknown }
  }

  package let lane: UInt64
  package let campaign: UInt64
  package let fate: Fate
  /// Their positions in that lane's ring.
  package let range: Range<UInt64>
  /// How many notifications.
  package let count: Int
  let content: EnqueueContent
  /// Where `content` begins in the ring.
  let runStart: UInt64
  /// The first of them in `content`.
  let start: EnqueueContent.Cursor

  /// Nil if no notification of the content lies in `range`.
  init?(lane: UInt64, campaign: UInt64, fate: Fate, range: Range<UInt64>, content: EnqueueContent, runStart: UInt64) {
    var start = EnqueueContent.Cursor()
    var position = runStart
    content.walk(&start) { notification in
      guard position < range.lowerBound else { return false }
      position += notification.blockCount
      return true
    }
    var count = 0
    var end = start
    content.walk(&end) { notification in
      guard position < range.upperBound else { return false }
      position += notification.blockCount
      count += 1
      return true
    }
    guard count > 0 else { return nil }
    (self.lane, self.campaign, self.fate) = (lane, campaign, fate)
    self.range = (runStart + start.blockOffset)..<(runStart + end.blockOffset)
    (self.count, self.content, self.runStart, self.start) = (count, content, runStart, start)
  }

  /// Its size in a record of its own.
  var shape: EnqueueShape {
    if let place = content.placeInFile(start) {
      return EnqueueShape(plainCount: count, firstLine: place.line, linesFollow: true, fileOffset: place.offset)
    }
    var shape = EnqueueShape()
    forEach { shape.add($0) }
    return shape
  }

  /// In its campaign.
  package var lines: [UInt64] {
    var lines: [UInt64] = []
    forEach { lines.append($0.line) }
    return lines
  }

  /// Not nil: nobody has read its tokens, so it cannot be sent.
  var outcomeWithoutTokens: Outcome? { content.lacksTokens ? fate.outcomeUnsent : nil }

  /// The same with its tokens.
  func withTokens(_ read: TokenReading) throws(AudienceError) -> RecoveredRun? {
    RecoveredRun(
      lane: lane, campaign: campaign, fate: fate, range: range, content: try content.withTokens(read),
      runStart: runStart)
  }

  /// Calls `body` with each of them; with an empty token, if its record lacks the tokens.
  func forEach(_ body: (EnqueuedNotification) -> Void) {
    var cursor = start
    var left = count
    content.walk(&cursor) { notification in
      guard left > 0 else { return false }
      left -= 1
      body(notification)
      return true
    }
  }

  /// Reports each of them, except for the first few, and then flushes the listener, because the
  /// journal is about to record them as settled.
  func report(_ outcome: Outcome, to listener: any OutcomeListener, skipping skipped: Int = 0) {
    var index = 0
    forEach { notification in
      defer { index += 1 }
      guard index >= skipped else { return }
      listener.notAccepted(
        line: notification.line, token: unsafe TokenBytes(bytes: notification.token)?.description ?? "",
        outcome: outcome, goneSince: nil, isDoubted: fate == .doubted)
    }
    listener.flush()
  }
}

extension JournalledLane.Run {
  /// Its valid part, as a run and content of its own. Nil if that is empty, or in the memory of a
  /// lane.
  var part: (run: JournalledRun, content: EnqueueContent)? {
    guard let content else { return nil }
    if start..<end == run.range { return (run, content) }
    let range = start..<end
    guard
      let rest = RecoveredRun(
        lane: run.lane, campaign: run.campaign, fate: .unsent, range: range, content: content,
        runStart: run.range.lowerBound)
    else {
      return nil
    }
    let shape = rest.shape
    let part = JournalledRun(lane: run.lane, range: rest.range, campaign: run.campaign, count: rest.count)
    return EnqueueContent(rest, shape: shape, run: part).map { (part, $0) }
  }
}
