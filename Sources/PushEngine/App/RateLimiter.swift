internal import PushTransport
internal import PushWire
internal import Synchronization

/// An app's limit of notifications per second, over all its campaigns.
final class RateLimiter: Sendable {
  private let bucket: Mutex<TokenBucket?>
  private let loop: any Loop

  /// - Parameter perSecond: nil for no limit.
  init(perSecond: Double?, loop: any Loop) {
    self.loop = loop
    // A burst of 20 ms keeps the sending even, and the number of wake-ups small.
    bucket = Mutex(perSecond.map { TokenBucket(perSecond: $0, burst: max(1, $0 / 50), now: loop.now) })
  }

  /// Up to `count` notifications that the limit lets through now. Waits until there is at least one;
  /// 0: cancelled.
  func allowance(upTo count: Int, isCancelled: () -> Bool) async -> Int {
    while !isCancelled() {
      let now = loop.now
      let (allowed, nextAt): (Int, Instant) = bucket.withLock { bucket in
        let taken = bucket?.take(upTo: count, now: now) ?? count
        return (taken, bucket?.nextAt(now: now) ?? now)
      }
      if allowed > 0 { return allowed }
      await sleep(until: nextAt)
    }
    return 0
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
