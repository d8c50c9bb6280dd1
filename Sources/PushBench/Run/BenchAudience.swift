internal import Glibc
internal import PushEngine
internal import PushWire
internal import Synchronization

/// The clock of the measurements; the event loops' clock is the same one.
enum MonotonicClock {
  static var now: UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }
}

/// An endless audience in memory. The "line" of each notification is the time at which it was
/// handed over or, in an open loop, due: so the time travels through the ring with the
/// notification, and whoever sees it later can tell its latency.
final class BenchAudience: AudienceSource {
  private struct State {
    var loop: OpenLoop?
    var left: Int
  }

  private let state: Mutex<State>
  /// Nothing is due from this moment on.
  private let end = Atomic<UInt64>(.max)
  /// ``tokenCount`` tokens of 32 bytes, one behind the other; every chunk has them from the first
  /// on.
  private let tokens: [UInt8]
  static let tokenCount = AudienceChunk.defaultEntryLimit

  /// An open loop hands over at most so often, with all that has become due since: at higher rates
  /// a timer each would measure the timers.
  static let pace = Duration.microseconds(250)
  /// So often, at least, it looks whether the end has come.
  private static let longestPause = Duration.seconds(1)

  /// - Parameters:
  ///   - loop: when notifications are due; nil: at once, one after the other.
  ///   - limit: how many there are in all.
  init(tokens: [UInt8], loop: OpenLoop?, limit: Int = .max) {
    precondition(tokens.count == Self.tokenCount * 32, "an audience without tokens")
    self.tokens = tokens
    state = Mutex(State(loop: loop, left: limit))
  }

  /// Notifications are due before `time` only.
  func stop(at time: UInt64) { end.store(time, ordering: .releasing) }

  /// Neighbours of an open loop that were due at about the same time.
  struct Overdue: Hashable, Sendable {
    /// When the first of them was due.
    var due: UInt64
    var count: Int
  }

  /// Those of an open loop that were due before the end and have never been asked for, in at most
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

  /// Random tokens, the same for the same seed.
  static func tokens(seed: UInt64) -> [UInt8] {
    var state = seed
    return (0..<tokenCount * 4).flatMap { _ -> [UInt8] in
      // SplitMix64.
      state &+= 0x9E37_79B9_7F4A_7C15
      var mixed = state
      mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
      mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
      mixed ^= mixed >> 31
      return unsafe withUnsafeBytes(of: mixed) { unsafe Array($0) }
    }
  }
}
