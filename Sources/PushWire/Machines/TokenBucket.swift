/// A rate with a burst. It limits what is sent per second, and an app's new connections per minute.
package struct TokenBucket: Sendable {
  private let perSecond: Double
  private let burst: Double
  /// What may be sent now. Negative after more was sent than the bucket had.
  private var tokens: Double
  private var refilledAt: Instant

  /// - Parameters:
  ///   - perSecond: the rate, above zero.
  ///   - burst: how many may be taken at once after a pause, at least 1.
  ///   - initial: how many may be taken at once in the beginning. Default: a burst.
  package init(perSecond: Double, burst: Double, initial: Double? = nil, now: Instant) {
    precondition(perSecond > 0 && burst >= 1, "the rate must be above zero and the burst at least one")
    self.perSecond = perSecond
    self.burst = burst
    tokens = min(burst, initial ?? burst)
    refilledAt = now
  }

  /// The rate of notifications of a sender that may run late.
  ///
  /// A sender waits until it may send, and a busy event loop wakes it later than that. What it
  /// could have sent meanwhile it sends then, as far as ``lateness`` goes back. So over any time it
  /// sends at most what the rate and that lateness allow. With a shorter burst the time would be
  /// lost, and the rate never reached.
  package static func sending(perSecond: Double, now: Instant) -> TokenBucket {
    // At the beginning no app is late: 20 ms keep the wake-ups few.
    TokenBucket(
      perSecond: perSecond, burst: 1 + perSecond * lateness.inSeconds, initial: max(1, perSecond / 50), now: now)
  }

  /// How late a sender may be without losing anything.
  package static let lateness = Duration.milliseconds(250)

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

  /// When the next one can be taken.
  package func nextAt(now: Instant) -> Instant {
    let missing = 1 - tokens
    guard missing > 0 else { return now }
    // One nanosecond more, so that rounding never makes the caller return a moment too early.
    return refilledAt + .nanoseconds(Int64(missing / perSecond * 1e9) + 1)
  }

  private mutating func refill(now: Instant) {
    tokens = min(burst, tokens + now.since(refilledAt).inSeconds * perSecond)
    refilledAt = max(now, refilledAt)
  }
}
