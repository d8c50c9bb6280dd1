package import PushWire

/// An event loop as the engine sees it: a serial executor with a clock and timers.
///
/// In production it is a NIO event loop. In a simulation it is one object that controls time and
/// picks the next job by a seed.
package protocol Loop: AnyObject, Sendable {
  /// The executor for an actor that is bound to this loop.
  var executor: any SerialExecutor { get }
  /// The monotonic clock.
  var now: Instant { get }
  /// The wall clock in seconds since 1970, for expiration dates.
  var unixSeconds: UInt32 { get }
  /// Buffers that everything on the loop shares. Each use lasts for one call.
  var buffers: LoopBuffers { get }

  /// Runs `job` on the loop soon. Any thread may call this.
  func execute(_ job: @escaping @Sendable () -> Void)
  /// Runs `job` on the loop in its turn: after other jobs of this kind, and only after the loop has
  /// looked at its sockets. For work that may take long and repeats. Must be called on the loop.
  ///
  /// - Parameters:
  ///   - share: the app whose job it is: apps take turns by their weights. Nil: of no app.
  ///   - job: returns how many bytes it has sent.
  func takeTurn(_ share: TurnShare?, _ job: @escaping TurnShare.Job)
  /// Runs `job` on the loop at `deadline` or a little later.
  func schedule(at deadline: Instant, _ job: @escaping @Sendable () -> Void) -> any LoopTimer
}

/// A job of a ``Loop`` that is scheduled for a later time.
package protocol LoopTimer: Sendable {
  /// Cancels the job. Has no effect once it has run.
  func cancel()
}
