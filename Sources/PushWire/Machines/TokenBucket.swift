/// A rate with a burst. It limits what is sent per second, and an app's new connections per minute.
package struct TokenBucket: Sendable {
  private var perSecond: Double
  private var burst: Double
  /// What may be sent now. Negative after more was sent than the bucket had.
  private var tokens: Double
  private var refilledAt: Instant

  /// - Parameters:
  ///   - perSecond: the rate, above zero.
  ///   - burst: how many may be taken at once after a pause, at least 1.
  ///   - initial: how many may be taken at once in the beginning. Default: a burst.
  package init(perSecond: Double, burst: Double, initial: Double? = nil, now: Instant) {
    precondition(perSecond > 0 && burst >= 1, "the rate must be above zero and the burst at least one")
    (self.perSecond, self.burst) = (perSecond, burst)
    tokens = min(burst, initial ?? burst)
    refilledAt = now
  }

  /// Another rate from now on. What the bucket has stays, as far as it may have it.
  package mutating func change(perSecond: Double, burst: Double, now: Instant) {
    precondition(perSecond > 0 && burst >= 1, "the rate must be above zero and the burst at least one")
    refill(now: now)
    (self.perSecond, self.burst) = (perSecond, burst)
    tokens = min(burst, tokens)
  }

  /// The time before `now` has filled nothing.
  package mutating func startRefilling(now: Instant) { refilledAt = max(now, refilledAt) }

  /// Takes as many as there are now, at most `count`.
  package mutating func take(upTo count: Int, now: Instant) -> Int {
    refill(now: now)
    let taken = max(0, min(count, Int(tokens)))
    tokens -= Double(taken)
    return taken
  }

  /// Takes `count`, whether or not there are as many. What is missing must come before the next one
  /// can be taken.
  package mutating func spend(_ count: Int, now: Instant) {
    refill(now: now)
    tokens -= Double(count)
  }

  /// When the next ones can be taken, at most a burst.
  package func nextAt(_ count: Double = 1, now: Instant) -> Instant {
    let missing = count - tokens
    guard missing > 0 else { return now }
    // One nanosecond more, so that rounding never makes the caller return a moment too early.
    return refilledAt + .nanoseconds(Int64(missing / perSecond * 1e9) + 1)
  }

  private mutating func refill(now: Instant) {
    tokens = min(burst, tokens + now.since(refilledAt).inSeconds * perSecond)
    refilledAt = max(now, refilledAt)
  }
}
