internal import PushWire

/// For how long nothing of a campaign has got an outcome, as far as looks at it tell. A campaign
/// has its own pace, so the age of its notifications says nothing; that none of them gets through
/// does.
struct StallClock: Sendable {
  private var seen: (settledCount: Int, at: Instant)?

  /// - Parameters:
  ///   - settledCount: how many of its notifications have an outcome.
  ///   - isPaused: it sends nothing because it was paused, or because it is held.
  /// - Returns: the time since the first look that found this number.
  mutating func look(settledCount: Int, isPaused: Bool, now: Instant) -> Duration {
    if !isPaused, let seen, seen.settledCount == settledCount {
      return seen.at < now ? now.since(seen.at) : .zero
    }
    seen = isPaused ? nil : (settledCount, now)
    return .zero
  }
}
