internal import PushWire
internal import Synchronization

/// The reports of an app's lanes for and against more lanes. The app's actor and new lanes read it.
final class PoolGrowth: Sendable {
  private let pausedUntil = Atomic<UInt64>(0)
  private let searchingLaneCount = Atomic<Int>(0)
  private let surplusUntil = Atomic<UInt64>(0)
  private let surplusLaneCount = Atomic<Int>(0)
  private let statistics = Mutex(RefusalStatistics())

  private static let pauseTime = Duration.seconds(1)
  /// Longer than the life of most connections that end in refusals.
  private static let surplusTime = Duration.milliseconds(300)

  /// The service has refused something temporarily, or not answered, and accepted nothing within
  /// the last round trip. More connections would not help.
  ///
  /// - Parameter nextTryAt: When a lane tries again, if that is later than now.
  func pause(nextTryAt: Instant?, now: Instant) {
    let end = max(now, nextTryAt ?? now) + Self.pauseTime
    // Lanes on other loops may report an earlier end, so the latest one counts.
    pausedUntil.max(end.nanoseconds, ordering: .relaxed)
  }

  /// The service answers again.
  func release() {
    if pausedUntil.load(ordering: .relaxed) > 0 { pausedUntil.store(0, ordering: .relaxed) }
  }

  /// A lane has begun a poison search (1) or ended it (-1).
  func searching(_ change: Int) { searchingLaneCount.add(change, ordering: .relaxed) }

  func isAllowed(now: Instant) -> Bool {
    searchingLaneCount.load(ordering: .relaxed) == 0 && pausedUntil.load(ordering: .relaxed) <= now.nanoseconds
  }

  /// A lane has more to resend than it can send in a few hundred milliseconds, so other lanes could
  /// help.
  ///
  /// - Parameter laneCount: How many lanes could send it soon.
  func foundSurplus(for laneCount: Int, now: Instant) {
    surplusLaneCount.store(laneCount, ordering: .relaxed)
    surplusUntil.store((now + Self.surplusTime).nanoseconds, ordering: .relaxed)
  }

  /// How many lanes would help with what lanes have recently had to resend.
  func surplus(now: Instant) -> Int {
    surplusUntil.load(ordering: .relaxed) > now.nanoseconds ? surplusLaneCount.load(ordering: .relaxed) : 0
  }

  /// How often connections have recently ended in refusals. New lanes start with it.
  var refusalStatistics: RefusalStatistics {
    get { statistics.withLock { $0 } }
    set { statistics.withLock { $0 = newValue } }
  }
}
