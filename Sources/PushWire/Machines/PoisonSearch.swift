/// The search for the notification that makes the gateway close without a word (BinaryProtocol.md, "Poison
/// search").
///
/// All that was in flight on a connection that ended so is a range of suspects. It is sent again in
/// stages, each confirmed before the next. A stage whose connection dies is divided in turn, until
/// one notification is alone. The search is bounded in copies: no notification is in flight on more
/// than ``Limits/copies`` connections that die, so the sizes of stages follow from how many
/// connections their notifications have seen die already.
struct PoisonSearch {
  /// How a search may go, depending on how stages are confirmed.
  struct Limits {
    /// How often one notification may be sent in all.
    var copies: Int
    /// Into how many stages a range is divided at most, where the copies allow it.
    var fanOut: Int

    /// A probe confirms a stage within a round trip, so stages may be many and copies few: 64³ is a
    /// whole window.
    static let withProbes = Limits(copies: 5, fanOut: 64)

    /// A quiet period for each stage that lives: few stages, and copies up to log₂ of what was in
    /// flight.
    static func withoutProbes(_ count: Int) -> Limits {
      Limits(copies: max(withProbes.copies, Int.bitWidth - 1 - max(1, count).leadingZeroBitCount), fanOut: 8)
    }
  }

  /// Neighbours with the same history.
  private struct Suspects {
    var end: UInt64
    /// So many connections have died with these in flight.
    var failures: Int
    /// How many were in flight on the last connection that died, if it was these: their number
    /// decides how large the stages are. Nil for a range that lay beside them: its stages are as
    /// large as possible, since the connection died of another.
    var count: Int?
  }

  /// A notification that was alone on a connection that died, or is to be sent alone for the last
  /// time.
  struct Suspect {
    /// Where it ends: once that is settled, whatever stands at the front is another.
    var end: UInt64
    var failures: Int
    /// A connection without it has lived since the last one died. Only then is it sent again.
    var controlSucceeded: Bool
    /// Its campaign, once it has died after such a connection. It is condemned when another
    /// connection without it has lived. If that one dies, an outage had begun, and the death of the
    /// suspect proves nothing.
    var accusedIn: UInt32?
  }

  /// In order, the first from *settled* on.
  private var ranges: [Suspects] = []
  /// The most that was in flight on a connection that died.
  private var largestCount = 0
  /// Where the present stage ends, once it is known.
  private(set) var stageEnd: UInt64?
  /// A connection died with a probe outstanding, and this gateway has never answered one: perhaps
  /// the probe is what it dies of. The next connection carries a probe alone.
  var isProbeOnTrial = false
  var suspect: Suspect?
  /// Something has been confirmed since the last connection died.
  var hasSucceeded = false

  /// There is nothing left to search.
  var isOver: Bool { ranges.isEmpty }

  /// A connection has died with `count` notifications in flight, all of the window up to `end`.
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

  /// A new connection: what is left of a stage is measured anew.
  mutating func connectionOpened() {
    stageEnd = nil
  }

  /// Sees to it that there is a stage, which begins at `settled`.
  mutating func prepareStage(from settled: UInt64, hasProbes: Bool, walk: any RecordWalk) {
    guard stageEnd == nil, let first = ranges.first else { return }
    let limits = limits(hasProbes: hasProbes)
    let stage: (end: UInt64, count: Int)
    if let count = first.count {
      // Measured anew for each, since probes may turn out not to work.
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

  /// As much as can still be told apart if its connection dies after all.
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
  /// How many of `count` suspects to send at once, after so many connections that died with them.
  func stageCount(of count: Int, failures: Int) -> Int {
    // The last copy is kept for the second death of the one that is found, if the others suffice.
    let spared = copies - 1 - failures
    let levels = spared >= 1 && Self.power(fanOut, spared) >= count ? spared : max(1, copies - failures)
    guard levels > 1, count > 1 else { return 1 }
    let half = (count + 1) / 2
    // Most connections that end without a word have not died of a notification: the first stages
    // are few.
    if failures == 1 { return min(half, Self.power(fanOut, levels - 1)) }
    var parts = 2
    while Self.power(parts, levels) < count { parts += 1 }
    return min(half, (count + parts - 1) / parts)
  }

  /// How many can be told apart after so many failures.
  func capacity(failures: Int) -> Int { Self.power(fanOut, max(0, copies - failures)) }

  private static func power(_ base: Int, _ exponent: Int) -> Int {
    var result = 1
    for _ in 0..<exponent where result < 1 << 32 { result *= base }
    return result
  }
}
