internal import Glibc
internal import PushEngine
internal import PushWire
internal import Synchronization

/// The clock of the measurements, which is also the event loops' clock.
enum MonotonicClock {
  static var now: UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }
}

/// An endless audience in memory. The "line" of each notification is the time at which it was
/// handed over or, in an open loop, due. So the time travels through the ring with the
/// notification, and its latency can be computed later.
final class BenchAudience: AudienceSource {
  private struct State {
    var loop: OpenLoop?
    var left: Int
  }

  private let state: Mutex<State>
  /// No notification is due at or after this time.
  private let end = Atomic<UInt64>(.max)
  /// ``tokenCount`` tokens of 32 bytes without gaps. Every chunk starts with the first.
  private let tokens: [UInt8]
  static let tokenCount = AudienceChunk.defaultEntryLimit

  /// The shortest interval between two chunks of an open loop; each chunk has all that has become
  /// due. With a timer for every notification, high rates would measure the timers.
  static let pace = Duration.microseconds(250)
  /// The longest interval between two checks for the end.
  private static let longestPause = Duration.seconds(1)

  /// - Parameters:
  ///   - loop: When notifications are due; nil: at once, one after the other.
  ///   - limit: The number of notifications in all.
  init(tokens: [UInt8], loop: OpenLoop?, limit: Int = .max) {
    precondition(tokens.count == Self.tokenCount * 32, "an audience without tokens")
    self.tokens = tokens
    state = Mutex(State(loop: loop, left: limit))
  }

  /// No notification is due at or after `time`.
  func stop(at time: UInt64) { end.store(time, ordering: .releasing) }

  /// Consecutive notifications of an open loop that were due at about the same time.
  struct Overdue: Hashable, Sendable {
    /// When the first of them was due.
    var due: UInt64
    var count: Int
  }

  /// The notifications of an open loop that were due before the end and never requested, in at most
  /// some thousand groups.
  var overdue: [Overdue] {
    let end = end.load(ordering: .acquiring)
    return state.withLock { state in
      guard let loop = state.loop, end < .max else { return [] }
      let count = min(loop.count(before: end) - loop.taken, state.left)
      guard count > 0 else { return [] }
      let size = max(1, count / 4096)
      return stride(from: 0, to: count, by: size).map {
        Overdue(due: loop.time(of: loop.taken + $0), count: min(size, count - $0))
      }
    }
  }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    let now = MonotonicClock.now
    let end = end.load(ordering: .acquiring)
    return state.withLock { state in
      let limit = min(chunk.entryLimit, Self.tokenCount, state.left)
      guard limit > 0 else { return .end }
      guard var loop = state.loop else {
        guard now < end else { return .end }
        unsafe tokens.withUnsafeBytes { unsafe chunk.append(count: limit, tokens: $0) { _ in now } }
        state.left -= limit
        return .entries
      }
      let due = loop.take(upTo: limit, now: now, end: end)
      unsafe tokens.withUnsafeBytes {
        unsafe chunk.append(count: due.count, tokens: $0) { loop.time(of: due.lowerBound + $0) }
      }
      state.loop = loop
      state.left -= due.count
      if !due.isEmpty { return .entries }
      let next = loop.time(of: loop.taken)
      guard next < end else { return .end }
      return .nothingFor(min(max(.nanoseconds(next - min(next, now)), Self.pace), Self.longestPause))
    }
  }

  /// Random tokens. The same seed gives the same tokens.
  static func tokens(seed: UInt64) -> [UInt8] {
    var random = SplitMix64(seed: seed)
    return (0..<tokenCount * 4).flatMap { _ in unsafe withUnsafeBytes(of: random.next()) { unsafe Array($0) } }
  }
}
