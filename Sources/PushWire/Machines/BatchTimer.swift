/// Nagle's rule with a deadline: decides when the frames that wait become a write.
///
/// Write at once when the socket has taken everything before; otherwise when the bound is reached, or when the oldest waiting frame is as old as the
/// deadline. The age is that of the *oldest* frame: a timer that every new frame set back would hold a steady trickle up for ever.
package struct BatchTimer: Sendable {
  private let byteCountBound: Int
  private let delay: Duration
  private var oldestSince: Instant?

  /// - Parameters:
  ///   - byteCountBound: of one write. Default 64 KiB.
  ///   - delay: the longest that a frame waits for company. Default 5 ms.
  package init(byteCountBound: Int = 65_536, delay: Duration = .milliseconds(5)) {
    self.byteCountBound = byteCountBound
    self.delay = delay
  }

  package enum Decision: Hashable, Sendable {
    case write
    case wait(until: Instant)
  }

  /// Asked whenever frames wait and the link would take them.
  ///
  /// - Parameters:
  ///   - waiting: bytes of the frames that wait, at least 1; an estimate will do.
  ///   - socketIsIdle: nothing handed over before is still on its way to the socket. Not asked while batches are full, since asking costs a system call's worth.
  package mutating func decide(waiting: Int, socketIsIdle: @autoclosure () -> Bool, now: Instant) -> Decision {
    if waiting >= byteCountBound { return .write }
    let since = oldestSince ?? now
    oldestSince = since
    if since + delay <= now || socketIsIdle() { return .write }
    return .wait(until: since + delay)
  }

  /// Everything that waited, or its first `byteCountBound` bytes, has been written; what is left counts as new.
  package mutating func wrote() {
    oldestSince = nil
  }
}
