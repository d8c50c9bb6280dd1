internal import PushWire

/// Bounds the new connections of each address in a second: some old clients connect again hundreds
/// of times a second, without a pause, when something is wrong.
struct HandshakeLimit: Sendable {
  private struct Bucket {
    var tokens: Double
    var at: Instant
  }

  /// At this number of addresses, those that are full again are dropped.
  private static let addressLimit = 4096

  private let rate: Double
  private var buckets: [String: Bucket] = [:]

  init(rate: Int) { self.rate = Double(rate) }

  /// Whether a new connection of this address may begin its handshake now.
  mutating func admits(_ address: String, now: Instant) -> Bool {
    if buckets.count >= Self.addressLimit, buckets[address] == nil {
      buckets = buckets.filter { tokens($0.value, now: now) < burst }
      if buckets.count >= Self.addressLimit { return false }
    }
    var bucket = buckets[address] ?? Bucket(tokens: burst, at: now)
    bucket.tokens = tokens(bucket, now: now)
    bucket.at = now
    let admits = bucket.tokens >= 1
    if admits { bucket.tokens -= 1 }
    buckets[address] = bucket
    return admits
  }

  /// A pool of connections may begin at once.
  private var burst: Double { rate * 5 }

  private func tokens(_ bucket: Bucket, now: Instant) -> Double {
    min(burst, bucket.tokens + now.since(bucket.at).inSeconds * rate)
  }
}
