/// The search for the notification on which the gateway closes the connection silently
/// (BinaryProtocol.md, "Poison search").
///
/// Everything that was in flight on such a connection is a range of suspects. It is resent in
/// stages, and each stage is confirmed before the next. A stage whose connection closes is divided
/// again, until one notification is alone.
///
/// The search bounds the copies: no notification is in flight on more than ``Limits/copies``
/// connections that close. So the sizes of stages follow from the number of closed connections in
/// their notifications' past.
struct PoisonSearch {
  /// The bounds of a search, which depend on how stages are confirmed.
  struct Limits {
    /// How often one notification may be sent in all.
    var copies: Int
    /// Into how many stages a range is divided at most, if the copies allow it.
    var fanOut: Int

    /// A probe confirms a stage within a round trip, so there may be many stages and few copies.
    /// 64³ is a whole window.
    static let withProbes = Limits(copies: 5, fanOut: 64)

    /// Each stage that succeeds costs a quiet period, so there are few stages. The number of copies
    /// is up to log₂ of what was in flight.
    static func withoutProbes(_ count: Int) -> Limits {
      Limits(copies: max(withProbes.copies, Int.bitWidth - 1 - max(1, count).leadingZeroBitCount), fanOut: 8)
    }
  }

  /// Neighbouring notifications with the same history.
  private struct Suspects {
    var end: UInt64
    /// How many connections have closed with these in flight.
    var failures: Int
    /// How many were in flight on the last closed connection, if it was these. Their number decides
    /// the size of the stages. Nil for a range beside them: its stages are as large as possible,
    /// because another range was the cause.
    var count: Int?
  }

  /// A notification that was alone on a connection that closed, or is to be sent alone for the last
  /// time.
  struct Suspect {
    /// The end of its record. Once it is settled, the notification at the front is another one.
    var end: UInt64
    var failures: Int
    /// A connection without it has succeeded since the last one closed. Only then is it sent again.
    var controlSucceeded: Bool
    /// Its campaign, set when its connection has closed after a successful control. It is rejected
    /// when another control succeeds. If that control fails, an outage had begun, and the suspect's
    /// closed connection proves nothing.
    var rejectionCampaign: UInt32?
  }

  /// Ranges of suspects in order; the first begins at *settled*.
  private var ranges: [Suspects] = []
  /// The most notifications in flight on a connection that closed.
  private var largestCount = 0
  /// Where the present stage ends; nil until it has been computed.
  private(set) var stageEnd: UInt64?
  /// A connection closed with a probe in flight, and this gateway has never answered one. It may
  /// close because of the probe, so the next connection carries only a probe.
  var isProbeOnTrial = false
  var suspect: Suspect?
  /// Something has been confirmed since the last connection closed.
  var hasSucceeded = false

  /// No suspects are left.
  var isOver: Bool { ranges.isEmpty }

  /// A connection has closed with `count` notifications in flight, the whole window up to `end`.
  mutating func failed(through end: UInt64, count: Int) {
    var failures = 0
    while let first = ranges.first {
      failures = max(failures, first.failures)
      if first.end > end {
        ranges[0].count = nil
        break
      }
      ranges.removeFirst()
      if first.end == end { break }
    }
    largestCount = max(largestCount, count)
    ranges.insert(Suspects(end: end, failures: failures + 1, count: count), at: 0)
    stageEnd = nil
    suspect = nil
    hasSucceeded = false
  }

  /// Everything before `position` has its outcome.
  mutating func settled(through position: UInt64) {
    while let first = ranges.first, first.end <= position { ranges.removeFirst() }
    if let end = stageEnd, end <= position { stageEnd = nil }
    if let suspect, suspect.end <= position { self.suspect = nil }
  }

  /// A new connection has opened. The rest of a stage is measured again.
  mutating func connectionOpened() { stageEnd = nil }

  /// Computes the stage that begins at `settled`, if there is none.
  mutating func prepareStage(from settled: UInt64, hasProbes: Bool, walk: any RecordWalk) {
    guard stageEnd == nil, let first = ranges.first else { return }
    let limits = limits(hasProbes: hasProbes)
    let stage: (end: UInt64, count: Int)
    if let count = first.count {
      // Computed again for each stage, because probes may turn out not to work.
      let stageCount = limits.stageCount(of: count, failures: first.failures)
      stage = (walk.position(after: stageCount, from: settled, limit: first.end), stageCount)
    } else {
      stage = joinedStage(from: settled, limits: limits, walk: walk)
    }
    stageEnd = stage.end
    // The last copy must decide.
    if stage.count == 1, suspect == nil, first.failures >= limits.copies - 1 {
      suspect = Suspect(end: stage.end, failures: 1, controlSucceeded: hasSucceeded)
    }
  }

  private func limits(hasProbes: Bool) -> Limits { hasProbes ? .withProbes : .withoutProbes(largestCount) }

  /// The most suspects that can still be distinguished if its connection closes too.
  private func joinedStage(from settled: UInt64, limits: Limits, walk: any RecordWalk) -> (end: UInt64, count: Int) {
    var end = settled
    var count = 0
    var failures = 0
    for range in ranges {
      failures = max(failures, range.failures + 1)
      let capacity = limits.capacity(failures: failures)
      let rangeCount = walk.notificationCount(from: end, to: range.end)
      guard count + rangeCount <= capacity else {
        if count == 0 { return (walk.position(after: capacity, from: end, limit: range.end), capacity) }
        break
      }
      end = range.end
      count += rangeCount
    }
    return (end, count)
  }
}

extension PoisonSearch.Limits {
  /// How many of `count` suspects to send at once, after `failures` connections that closed with
  /// them.
  func stageCount(of count: Int, failures: Int) -> Int {
    // If the other copies suffice, the last one is kept for the second closing on the suspect that
    // is found.
    let spared = copies - 1 - failures
    let levels = spared >= 1 && Self.power(fanOut, spared) >= count ? spared : max(1, copies - failures)
    guard levels > 1, count > 1 else { return 1 }
    let half = (count + 1) / 2
    // Most connections that close silently do not close because of a notification, so there are few
    // first stages.
    if failures == 1 { return min(half, Self.power(fanOut, levels - 1)) }
    var parts = 2
    while Self.power(parts, levels) < count { parts += 1 }
    return min(half, (count + parts - 1) / parts)
  }

  /// How many suspects can be distinguished after this many failures.
  func capacity(failures: Int) -> Int { Self.power(fanOut, max(0, copies - failures)) }

  private static func power(_ base: Int, _ exponent: Int) -> Int {
    var result = 1
    for _ in 0..<exponent where result < 1 << 32 { result *= base }
    return result
  }
}
