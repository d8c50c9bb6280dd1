internal import PushWire

/// Bounds the new connections of each address in a second: some old clients connect again hundreds
/// of times a second, without a pause, when something is wrong.
///
/// A connection above the rate is delayed until its turn. One that is closed instead loses what its
/// client has written, and many clients do not notice.
struct HandshakeLimit: Sendable {
  enum Turn: Hashable {
    case now
    /// It is delayed, and nothing is read from it until then.
    case at(Instant)
    /// It is closed: too many of its address are delayed.
    case never
  }

  private struct Bucket {
    /// Negative: so many connections are delayed.
    var tokens: Double
    var at: Instant
  }

  /// How long a connection is delayed at most.
  static let longestWait = Duration.seconds(30)
  /// At this number of addresses, those that are full again are dropped.
  private static let addressLimit = 4096

  private let rate: Double
  private var buckets: [String: Bucket] = [:]

  init(rate: Int) { self.rate = Double(rate) }

  /// When a new connection of this address may begin its handshake.
  mutating func turn(_ address: String, now: Instant) -> Turn {
    if buckets.count >= Self.addressLimit, buckets[address] == nil {
      buckets = buckets.filter { tokens($0.value, now: now) < burst }
      if buckets.count >= Self.addressLimit { return .never }
    }
    let available = tokens(buckets[address] ?? Bucket(tokens: burst, at: now), now: now)
    let isDelayedTooLong = available - 1 < -rate * Self.longestWait.inSeconds
    let left = isDelayedTooLong ? available : available - 1
    buckets[address] = Bucket(tokens: left, at: now)
    if isDelayedTooLong { return .never }
    return left >= 0 ? .now : .at(now + .seconds(-left / rate))
  }

  /// A pool of connections may begin at once.
  private var burst: Double { rate * 5 }

  private func tokens(_ bucket: Bucket, now: Instant) -> Double {
    min(burst, bucket.tokens + now.since(bucket.at).inSeconds * rate)
  }
}

/// Delayed and closed connections of addresses that open too many: one line of the log a minute.
struct HandshakeEpisodes: Sendable {
  private(set) var delayedCount = 0
  private(set) var turnedAwayCount = 0
  private var loggedAt: Instant?

  private static let silence = Duration.seconds(60)

  /// - Returns: whether a line of the log is due.
  mutating func add(_ turn: HandshakeLimit.Turn, now: Instant) -> Bool {
    switch turn {
    case .now: return false
    case .at: delayedCount += 1
    case .never: turnedAwayCount += 1
    }
    if let loggedAt, now.since(loggedAt) < Self.silence { return false }
    loggedAt = now
    return true
  }
}
