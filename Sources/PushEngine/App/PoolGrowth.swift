internal import PushWire
internal import Synchronization

/// What an app's lanes have seen that speaks for more lanes, or against them. Read by the app's actor,
/// and by new lanes.
final class PoolGrowth: Sendable {
  private let heldUntil = Atomic<UInt64>(0)
  private let searchingLaneCount = Atomic<Int>(0)
  private let surplusUntil = Atomic<UInt64>(0)
  private let surplusLaneCount = Atomic<Int>(0)
  private let statistics = Mutex(RefusalStatistics())

  private static let holdTime = Duration.seconds(1)
  /// Longer than most connections live that end in refusals.
  private static let surplusTime = Duration.milliseconds(300)

  /// The service has put something off, or given no answer: more connections would not help.
  ///
  /// - Parameter nextTryAt: when a lane tries again, if that is later than now.
  func hold(nextTryAt: Instant?, now: Instant) {
    let end = max(now, nextTryAt ?? now) + Self.holdTime
    // Lanes on other loops may report an earlier end.
    heldUntil.max(end.nanoseconds, ordering: .relaxed)
  }

  /// One lane more, or less, searches for a notification that ends connections.
  fileprivate func searching(_ change: Int) { searchingLaneCount.add(change, ordering: .relaxed) }

  func isAllowed(now: Instant) -> Bool {
    searchingLaneCount.load(ordering: .relaxed) == 0 && heldUntil.load(ordering: .relaxed) <= now.nanoseconds
  }

  /// A lane has more to send again than it can in a few hundred milliseconds: other lanes could help.
  ///
  /// - Parameter laneCount: so many could send it soon.
  func foundSurplus(for laneCount: Int, now: Instant) {
    surplusLaneCount.store(laneCount, ordering: .relaxed)
    surplusUntil.store((now + Self.surplusTime).nanoseconds, ordering: .relaxed)
  }

  /// How many lanes would help with what lanes have lately had to send again.
  func surplus(now: Instant) -> Int {
    surplusUntil.load(ordering: .relaxed) > now.nanoseconds ? surplusLaneCount.load(ordering: .relaxed) : 0
  }

  /// How often connections end in refusals, as the lanes have seen it lately. New lanes begin with it.
  var refusalStatistics: RefusalStatistics {
    get { statistics.withLock { $0 } }
    set { statistics.withLock { $0 = newValue } }
  }
}

/// A lane's part in ``PoolGrowth``: there is no growth while it searches for a notification that ends
/// connections.
struct GrowthHold {
  private var isHeld = false

  mutating func update(_ isSearching: Bool, of growth: PoolGrowth) {
    guard isSearching != isHeld else { return }
    isHeld = isSearching
    growth.searching(isSearching ? 1 : -1)
  }
}
