/// What the machines need to know about a ring's content: walks notifications by position.
package protocol RecordWalk {
  /// The number of notifications (without padding) that start in `from..<to`. Both must be record
  /// starts.
  func notificationCount(from: UInt64, to: UInt64) -> Int
  /// Where the notification after `count` notifications from `from` starts, at most `limit`.
  func position(after count: Int, from: UInt64, limit: UInt64) -> UInt64
  /// The end of the notification that starts exactly at `position`; nil if none starts there.
  /// `from` is a record start at or before it.
  func end(ofNotificationAt position: UInt64, from: UInt64) -> UInt64?
}

/// A run of neighbouring notifications of one campaign that were settled together.
package struct Settlement: Hashable, Sendable {
  package var from: UInt64
  package var to: UInt64
  package var count: Int
  package var campaign: UInt32
  package var outcome: Outcome
}

/// What one lane has passed to its connection and not settled, in order: runs of ring positions,
/// not notifications.
///
/// Apple does not answer accepted notifications. So a notification leaves the window only when an
/// answer proves its outcome or the quiet period has passed. Positions are the ring's. On the wire,
/// a notification is identified by its position (``identifier(at:)``).
package struct ResendWindow: ~Copyable {
  /// What happened to a run at its turn.
  package enum Fate: Hashable, Sendable {
    case sent
    /// Its expiration date had passed; nothing was sent.
    case expired
    /// Its campaign was cancelled; nothing was sent.
    case cancelled
    /// Cancelled or expired too, but an earlier connection that closed silently may have delivered
    /// it.
    case abandoned
  }

  /// The notifications of one campaign in one batch.
  private struct Run {
    var end: UInt64
    /// Where its last notification starts.
    var lastStart: UInt64
    var count: Int
    var campaign: UInt32
    var fate: Fate
    /// When it was passed to the connection.
    var sentAt: Instant
    /// Where its bytes end in the connection's stream; nil until they have been passed to the link.
    var streamEnd: UInt64?
    /// When the peer's system was seen to have acknowledged its bytes.
    var deliveredAt: Instant?

    /// Runs that were not sent count as delivered.
    func isDelivered(by streamOffset: UInt64) -> Bool { fate != .sent || streamEnd.map { $0 <= streamOffset } ?? false }
  }

  /// Everything before this position has its outcome.
  package private(set) var settled: UInt64 = 0
  /// Everything before this position has had its turn on the present connection.
  package private(set) var sent: UInt64 = 0
  /// Everything before this position has had its turn on some connection. Packing below it is a
  /// resend.
  package private(set) var highWater: UInt64 = 0
  /// Notifications in the window that were actually sent.
  package private(set) var sentCount = 0
  /// Where the last notification starts that was settled as sent on its present connection, if that
  /// is known.
  package private(set) var lastSettledStart: UInt64?
  private var runs = Queue<Run>()
  /// How many runs at the front have been delivered.
  private var deliveredRuns = 0

  package init() {}

  package var isEmpty: Bool { settled == sent }

  /// The end of the first run that is not settled.
  package var frontEnd: UInt64? { runs.first?.end }

  /// The campaign of that run.
  package var frontCampaign: UInt32? { runs.first?.campaign }

  /// The parts of the window that were actually sent. The rest cannot have arrived from this
  /// connection.
  package var sentRanges: [Range<UInt64>] {
    var ranges: [Range<UInt64>] = []
    var start = settled
    for index in 0..<runs.count {
      let run = runs[index]
      if run.fate == .sent {
        if let last = ranges.last, last.upperBound == start {
          ranges[ranges.count - 1] = last.lowerBound..<run.end
        } else {
          ranges.append(start..<run.end)
        }
      }
      start = run.end
    }
    return ranges
  }

  /// A new connection has opened. Its answers cannot name what the last one settled.
  package mutating func connectionOpened() { lastSettledStart = nil }

  /// Records that `count` notifications of one campaign have had their turn, up to `end`, the last
  /// one from `lastStart`.
  package mutating func append(
    to end: UInt64, lastStart: UInt64, count: Int, campaign: UInt32, fate: Fate, now: Instant
  ) {
    precondition(end > sent && lastStart >= sent && lastStart < end, "a run must move forward")
    runs.append(Run(end: end, lastStart: lastStart, count: count, campaign: campaign, fate: fate, sentAt: now))
    if fate == .sent { sentCount += count }
    sent = end
    highWater = max(highWater, end)
  }

  /// Settles everything before `position`, which must be a record start in the window. What was
  /// sent gets `outcome`, the rest the outcome of its fate.
  package mutating func settle(
    through position: UInt64, as outcome: Outcome, walk: any RecordWalk, into settlements: inout [Settlement]
  ) {
    precondition(position >= settled && position <= sent, "settling outside the window")
    while settled < position, var run = runs.first {
      let end = min(run.end, position)
      let count = end == run.end ? run.count : walk.notificationCount(from: settled, to: end)
      settlements.append(
        Settlement(
          from: settled, to: end, count: count, campaign: run.campaign, outcome: run.fate.outcome(ifSent: outcome)))
      if run.fate == .sent { sentCount -= count }
      if end == run.end {
        if run.fate == .sent { lastSettledStart = run.lastStart }
        removeFirstRun()
      } else {
        lastSettledStart = nil
        run.count -= count
        runs.replaceFirst(with: run)
      }
      settled = end
    }
  }

  /// Settles runs at the front that were not sent, because they need no answer.
  package mutating func settleUnsentFront(into settlements: inout [Settlement]) {
    while let run = runs.first, run.fate != .sent {
      settlements.append(
        Settlement(
          from: settled, to: run.end, count: run.count, campaign: run.campaign,
          outcome: run.fate.outcome(ifSent: .unknown)))
      removeFirstRun()
      settled = run.end
    }
  }

  /// Settles one notification that has had its turn before and is not resent. The window must be
  /// empty.
  package mutating func settleUnsent(
    to end: UInt64, campaign: UInt32, as outcome: Outcome, into settlements: inout [Settlement]
  ) {
    precondition(isEmpty && end > settled && end <= highWater, "only what was sent before can have an outcome")
    settlements.append(Settlement(from: settled, to: end, count: 1, campaign: campaign, outcome: outcome))
    settled = end
    sent = end
  }

  private mutating func removeFirstRun() {
    runs.removeFirst()
    deliveredRuns = max(0, deliveredRuns - 1)
  }

  /// Sets *sent* back to *settled*. Everything in the window gets its turn again.
  package mutating func rewind() {
    runs.removeAll()
    deliveredRuns = 0
    sentCount = 0
    sent = settled
  }

  /// Everything in the window has been passed to the link. `streamEnd` is the length of its stream.
  package mutating func handedOver(through streamEnd: UInt64) {
    var index = runs.count - 1
    while index >= 0, runs[index].streamEnd == nil {
      runs.update(at: index) { $0.streamEnd = streamEnd }
      index -= 1
    }
  }

  /// The peer's system has acknowledged this much of the stream.
  package mutating func acknowledged(through streamOffset: UInt64, now: Instant) {
    while deliveredRuns < runs.count, runs[deliveredRuns].isDelivered(by: streamOffset) {
      runs.update(at: deliveredRuns) { $0.deliveredAt = now }
      deliveredRuns += 1
    }
  }

  /// Whether the peer's system has acknowledged everything.
  package var isDelivered: Bool { deliveredRuns == runs.count }

  /// The end of the last run whose quiet period has passed, measured from its delivery or, if
  /// later, from `drainedAt`.
  package func quietEnd(now: Instant, quiet: Duration, drainedAt: Instant) -> UInt64? {
    guard drainedAt + quiet <= now else { return nil }
    var end: UInt64?
    for index in 0..<deliveredRuns {
      guard let deliveredAt = runs[index].deliveredAt, deliveredAt + quiet <= now else { break }
      end = runs[index].end
    }
    return end
  }

  /// When ``quietEnd(now:quiet:drainedAt:)`` next has a result; nil while the first run is not
  /// delivered.
  package func quietDeadline(quiet: Duration, drainedAt: Instant) -> Instant? {
    guard let deliveredAt = runs.first?.deliveredAt else { return nil }
    return max(deliveredAt, drainedAt) + quiet
  }

  /// The position and end of the notification that `identifier` names, if it was sent and is still
  /// in the window.
  package func notification(named identifier: UInt32, walk: any RecordWalk) -> (position: UInt64, end: UInt64)? {
    guard identifier > 0, identifier <= Self.identifierCount else { return nil }
    let count = UInt64(Self.identifierCount)
    let position = settled + (UInt64(identifier - 1) + count - settled % count) % count
    guard position < sent else { return nil }
    var start = settled
    for index in 0..<runs.count {
      if position < runs[index].end {
        guard runs[index].fate == .sent, let end = walk.end(ofNotificationAt: position, from: start) else { return nil }
        return (position, end)
      }
      start = runs[index].end
    }
    return nil
  }

  /// The position before which everything was sent at least `age` ago, and when it moves next; nil
  /// if nothing in the window is left.
  package func end(sentFor age: Duration, now: Instant) -> (position: UInt64, nextAt: Instant?) {
    // Runs are in the order in which they were sent.
    var (low, high) = (0, runs.count)
    while low < high {
      let middle = (low + high) / 2
      if runs[middle].sentAt + age <= now { low = middle + 1 } else { high = middle }
    }
    return (low == 0 ? settled : runs[low - 1].end, low < runs.count ? runs[low].sentAt + age : nil)
  }

  /// When the run that contains `position` was passed to the connection; nil outside the window.
  package func sentAt(_ position: UInt64) -> Instant? {
    guard position >= settled, position < sent else { return nil }
    for index in 0..<runs.count where position < runs[index].end { return runs[index].sentAt }
    return nil
  }

  /// Identifiers 1…0x7FFF_FFFF are for notifications and the upper half for probes. 0 is never
  /// used, because a gateway answers 0 for "not known which" (BinaryProtocol.md, "The error
  /// response").
  package static let identifierCount: UInt32 = 0x7FFF_FFFF

  /// The identifier of the notification at a ring position. Unique within any ring; wraps past 0.
  package static func identifier(at position: UInt64) -> UInt32 {
    UInt32(truncatingIfNeeded: position % UInt64(identifierCount)) + 1
  }
}

extension ResendWindow.Fate {
  fileprivate func outcome(ifSent outcome: Outcome) -> Outcome {
    switch self {
    case .sent: outcome
    case .expired: .expired
    case .cancelled: .cancelled
    case .abandoned: .unknown
    }
  }
}
