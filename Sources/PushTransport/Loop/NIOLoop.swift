internal import Glibc
package import NIOCore
package import NIOPosix
package import PushWire

/// A ``Loop`` over a NIO event loop.
package final class NIOLoop: Loop {
  package let eventLoop: any EventLoop
  package let buffers = LoopBuffers()
  private let turns: LoopTurns
  /// Limits the handshakes of the loop's connections.
  let dials: DialThrottle

  package init(_ eventLoop: any EventLoop) {
    self.eventLoop = eventLoop
    turns = LoopTurns(eventLoop)
    dials = DialThrottle(eventLoop)
  }

  package var executor: any SerialExecutor { eventLoop.executor }

  package var now: Instant { Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds) }

  package var unixSeconds: UInt32 { NIOLoop.wallClock }

  /// Seconds since 1970.
  package static var wallClock: UInt32 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return UInt32(clamping: time.tv_sec)
  }

  /// Milliseconds since 1970.
  package static var wallClockMilliseconds: Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  package func execute(_ job: @escaping @Sendable () -> Void) { eventLoop.execute(job) }

  package func takeTurn(_ share: TurnShare?, _ job: @escaping TurnShare.Job) { turns.take(share, job) }

  package func schedule(at deadline: Instant, _ job: @escaping @Sendable () -> Void) -> any LoopTimer {
    // NIO's deadlines are signed inside, so a deadline of "never" becomes the latest possible one.
    let nanoseconds = min(deadline.nanoseconds, UInt64(Int64.max))
    return Timer(scheduled: eventLoop.scheduleTask(deadline: .uptimeNanoseconds(nanoseconds), job))
  }

  private struct Timer: LoopTimer {
    let scheduled: Scheduled<Void>

    func cancel() { scheduled.cancel() }
  }
}

/// A number of threads with one loop each.
package final class LoopGroup: Sendable {
  package let loops: [NIOLoop]
  /// For channels that the caller makes.
  package let eventLoopGroup: any EventLoopGroup
  /// Nil: the threads are somebody else's.
  private let ownThreads: MultiThreadedEventLoopGroup?

  package convenience init(threads count: Int) {
    let threads = MultiThreadedEventLoopGroup(numberOfThreads: count)
    self.init(threads, ownThreads: threads)
  }

  /// Loops on threads that go on when this is shut down.
  package convenience init(_ threads: MultiThreadedEventLoopGroup) { self.init(threads, ownThreads: nil) }

  private init(_ threads: MultiThreadedEventLoopGroup, ownThreads: MultiThreadedEventLoopGroup?) {
    self.ownThreads = ownThreads
    eventLoopGroup = threads
    loops = threads.makeIterator().map { NIOLoop($0) }
  }

  /// The loop of a channel on ``eventLoopGroup``; nil for other channels.
  package func loop(of eventLoop: any EventLoop) -> NIOLoop? { loops.first { $0.eventLoop === eventLoop } }

  /// Ends its own threads. All channels must be closed before.
  package func shutDown() async {
    // It fails only if the threads have already ended.
    try? await ownThreads?.shutdownGracefully()
  }
}
