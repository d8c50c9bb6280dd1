package import PushStore

/// When the feedback service of an app is read next.
package enum FeedbackSchedule {
  /// The first reading, and one that is overdue, comes within this time of the start. So the
  /// services of many apps are not all read at once.
  private static let spread = Duration.seconds(600)
  /// The pause after a failure.
  private static let pause = Duration.seconds(1800)

  /// - Parameters:
  ///   - last: when the list was last read to its end.
  ///   - chance: from 0 to 1, by chance.
  package static func next(
    after last: StoreInstant?, every interval: Duration, now: StoreInstant, chance: Double
  ) -> StoreInstant {
    let soon = now.advanced(by: min(spread, interval) * chance)
    guard let last else { return soon }
    // A tenth earlier or later.
    return max(last.advanced(by: interval * (0.9 + 0.2 * chance)), soon)
  }

  package static func afterFailure(every interval: Duration, now: StoreInstant, chance: Double) -> StoreInstant {
    now.advanced(by: min(pause, interval) * (0.5 + 0.5 * chance))
  }
}

extension StoreInstant {
  package func advanced(by duration: Duration) -> StoreInstant {
    let (seconds, attoseconds) = duration.components
    return StoreInstant(milliseconds: milliseconds + seconds * 1000 + attoseconds / 1_000_000_000_000_000)
  }
}
