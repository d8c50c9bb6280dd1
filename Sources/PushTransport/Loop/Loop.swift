package import PushWire

/// An event loop as the engine sees it: a serial executor with a clock and timers.
///
/// In production it is a NIO event loop; in a simulation it is one object that owns time and picks the next job by a seed.
package protocol Loop: AnyObject, Sendable {
  /// What an actor bound to this loop names as its executor.
  var executor: any SerialExecutor { get }
  /// The monotonic clock.
  var now: Instant { get }
  /// The wall clock, in seconds since 1970 (for expiration dates).
  var unixSeconds: UInt32 { get }
  /// Shared by everything on the loop, for the time of one call each.
  var buffers: LoopBuffers { get }

  /// Runs `job` on the loop, soon, from any thread.
  func execute(_ job: @escaping @Sendable () -> Void)
  /// Runs `job` on the loop in its turn: after other jobs of this kind, and only when sockets have been looked at. For work that may take long, and comes again and
  /// again. Called on the loop.
  func takeTurn(_ job: @escaping @Sendable () -> Void)
  /// Runs `job` on the loop at `deadline` or a little later.
  func schedule(at deadline: Instant, _ job: @escaping @Sendable () -> Void) -> any LoopTimer
}

/// A job that waits for its time on a ``Loop``.
package protocol LoopTimer: Sendable {
  /// Takes the job back; without effect once it has run.
  func cancel()
}
