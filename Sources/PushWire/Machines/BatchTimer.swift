/// Nagle's rule with a deadline: decides when waiting frames are written.
///
/// They are written at once if the socket has taken everything before; otherwise when the bound is
/// reached, or when the oldest waiting frame has waited for the delay. The age is that of the
/// *oldest* frame: if every new frame restarted the timer, a slow steady stream would never be
/// written.
package struct BatchTimer: Sendable {
  private let byteCountBound: Int
  private let delay: Duration
  private var oldestSince: Instant?

  /// - Parameters:
  ///   - byteCountBound: the bytes of one write; default 64 KiB.
  ///   - delay: how long a frame waits for more; default 5 ms.
  package init(byteCountBound: Int = 65_536, delay: Duration = .milliseconds(5)) {
    (self.byteCountBound, self.delay) = (byteCountBound, delay)
  }

  package enum Decision: Hashable, Sendable {
    case write
    case wait(until: Instant)
  }

  /// Must be asked while frames wait and the link accepts data.
  ///
  /// - Parameters:
  ///   - waiting: the bytes of the waiting frames, at least 1; an estimate is enough.
  ///   - socketIsIdle: whether the socket has taken everything. Evaluated only while batches are
  ///     not full, because it costs as much as a system call.
  package mutating func decide(waiting: Int, socketIsIdle: @autoclosure () -> Bool, now: Instant) -> Decision {
    if waiting >= byteCountBound { return .write }
    let since = oldestSince ?? now
    oldestSince = since
    if since + delay <= now || socketIsIdle() { return .write }
    return .wait(until: since + delay)
  }

  /// All waiting frames, or their first `byteCountBound` bytes, have been written. The age of the
  /// rest starts now.
  package mutating func wrote() { oldestSince = nil }
}
