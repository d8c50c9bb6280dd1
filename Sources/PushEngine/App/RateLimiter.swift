internal import PushTransport
internal import PushWire
internal import Synchronization

/// An app's limit of notifications per second, over all its campaigns.
final class RateLimiter: Sendable {
  private struct Rate {
    var perSecond: Double?
    var sending: SendingRate?
  }

  /// The longest wait before a task checks whether the limit has changed.
  private static let longestWait = Duration.seconds(1)

  private let rate: Mutex<Rate>
  private let loop: any Loop

  /// - Parameter perSecond: Nil: no limit.
  init(perSecond: Double?, loop: any Loop) {
    self.loop = loop
    rate = Mutex(Rate(perSecond: perSecond, sending: Self.sending(perSecond, now: loop.now)))
  }

  /// See ``LaneScheduler/Claim``.
  var unconnectedLimit: Int {
    rate.withLock { $0.perSecond }.map { SendingRate.unconnectedLimit(perSecond: $0) } ?? .max
  }

  private static func sending(_ perSecond: Double?, now: Instant) -> SendingRate? {
    perSecond.map { SendingRate(perSecond: $0, now: now) }
  }

  /// Changes the limit from now on.
  func replace(perSecond: Double?) {
    let now = loop.now
    rate.withLock { rate in
      guard rate.perSecond != perSecond else { return }
      rate = Rate(perSecond: perSecond, sending: Self.sending(perSecond, now: now))
    }
  }

  /// The number of notifications, up to `count`, that the limit allows now. Waits until there is at
  /// least one. 0: cancelled.
  func allowance(upTo count: Int, isCancelled: () -> Bool) async -> Int {
    while !isCancelled() {
      let (allowed, nextAt) = allowanceNow(upTo: count)
      if allowed > 0 { return allowed }
      await sleep(until: nextAt)
    }
    return 0
  }

  /// The same without waiting: 0 if the limit allows none now; ask again at `nextAt`.
  func allowanceNow(upTo count: Int) -> (count: Int, nextAt: Instant) {
    let now = loop.now
    return rate.withLock { rate in
      let taken = rate.sending?.take(upTo: count, now: now) ?? count
      return (taken, min(rate.sending?.nextAt(now: now) ?? now, now + Self.longestWait))
    }
  }

  func pause(_ duration: Duration) async {
    await sleep(until: loop.now + duration)
  }

  private func sleep(until deadline: Instant) async {
    await withCheckedContinuation { continuation in
      _ = loop.schedule(at: deadline) { continuation.resume() }
    }
  }
}
