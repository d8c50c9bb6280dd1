/// How long to wait before the next connection. There is no delay after a connection that settled
/// something. After each one that settled nothing, the delay grows exponentially, with jitter.
package struct Backoff: Sendable {
  private let base: Duration
  private let limit: Duration
  private var jitter: Jitter
  /// Connections in a row that settled nothing.
  package private(set) var failures = 0

  /// - Parameters:
  ///   - base: the delay after the first failure; default 100 ms.
  ///   - limit: the longest delay; default 30 s.
  ///   - seed: for the jitter.
  package init(base: Duration = .milliseconds(100), limit: Duration = .seconds(30), seed: UInt64) {
    (self.base, self.limit) = (base, limit)
    jitter = Jitter(seed: seed)
  }

  package mutating func succeeded() { failures = 0 }

  /// Counts a failure and returns the delay before the next attempt: between half and all of
  /// `base`·2^(failures−1), at most `limit`.
  package mutating func failed() -> Duration {
    failures += 1
    let full = min(limit, base * (1 << min(failures - 1, 20)))
    return jitter.apply(to: full)
  }
}

/// The random part of delays, so that connections that failed together do not retry together.
package struct Jitter: Sendable {
  private var random: SplitMix64

  package init(seed: UInt64) { random = SplitMix64(seed: seed) }

  /// Returns between half and all of `duration`.
  package mutating func apply(to duration: Duration) -> Duration { duration / 2 + duration / 2 * random.fraction() }
}
