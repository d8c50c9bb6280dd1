internal import PushWire

/// How often each key may ask. A key that has not asked for a second may ask as often as the rate
/// at once.
struct KeyRates: Sendable {
  private let perSecond: Double
  /// By the key's id. Only keys that exist are counted, so these are few.
  private var buckets: [String: TokenBucket] = [:]

  /// - Parameter perSecond: requests of one key, above zero.
  init(perSecond: Double) { self.perSecond = perSecond }

  /// - Returns: nil if the key may ask now, which is counted; otherwise when it may.
  mutating func admit(_ key: String, now: Instant) -> Instant? {
    // Retry-After has whole seconds: a client that retries up to a second late loses nothing.
    var bucket =
      buckets[key]
      ?? TokenBucket(perSecond: perSecond, burst: 1 + perSecond, initial: max(1, perSecond), now: now)
    defer { buckets[key] = bucket }
    return bucket.take(upTo: 1, now: now) == 1 ? nil : bucket.nextAt(now: now)
  }
}
