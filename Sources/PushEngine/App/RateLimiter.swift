internal import PushTransport
internal import PushWire
internal import Synchronization

/// An app's limit of notifications per second, over all its campaigns.
final class RateLimiter: Sendable {
  private let bucket: Mutex<TokenBucket?>
  private let loop: any Loop

  /// - Parameter perSecond: Nil: no limit.
  init(perSecond: Double?, loop: any Loop) {
    self.loop = loop
    // A burst of 20 ms keeps the sending even and the wake-ups few.
    bucket = Mutex(perSecond.map { TokenBucket(perSecond: $0, burst: max(1, $0 / 50), now: loop.now) })
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

  /// The same without waiting: 0 if the limit allows none before `nextAt`.
  func allowanceNow(upTo count: Int) -> (count: Int, nextAt: Instant) {
    let now = loop.now
    return bucket.withLock { bucket in
      let taken = bucket?.take(upTo: count, now: now) ?? count
      return (taken, bucket?.nextAt(now: now) ?? now)
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
