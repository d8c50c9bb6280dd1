/// A rate with a burst: the limit on an app's notifications per second and on its new connections per minute.
package struct TokenBucket: Sendable {
  private let perSecond: Double
  private let burst: Double
  private var tokens: Double
  private var refilledAt: Instant

  /// - Parameters:
  ///   - perSecond: the rate, above zero.
  ///   - burst: what may be taken at once after a pause, at least 1.
  package init(perSecond: Double, burst: Double, now: Instant) {
    precondition(perSecond > 0 && burst >= 1, "a rate above zero and a burst of at least one")
    self.perSecond = perSecond
    self.burst = burst
    tokens = burst
    refilledAt = now
  }

  /// Takes up to `count`, as many as there are now.
  package mutating func take(upTo count: Int, now: Instant) -> Int {
    refill(now: now)
    let taken = min(count, Int(tokens))
    tokens -= Double(taken)
    return taken
  }

  /// When the next one will be there.
  package func nextAt(now: Instant) -> Instant {
    let missing = 1 - tokens
    guard missing > 0 else { return now }
    // A nanosecond more than computed, so that rounding never makes the waiter come a moment too early and wait again for nothing.
    return refilledAt + .nanoseconds(Int64(missing / perSecond * 1e9) + 1)
  }

  private mutating func refill(now: Instant) {
    tokens = min(burst, tokens + now.since(refilledAt).inSeconds * perSecond)
    refilledAt = max(now, refilledAt)
  }
}
