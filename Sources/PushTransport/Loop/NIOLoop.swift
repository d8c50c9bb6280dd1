internal import Glibc
package import NIOCore
internal import NIOPosix
package import PushWire

/// A ``Loop`` that is a NIO event loop.
package final class NIOLoop: Loop {
  package let eventLoop: any EventLoop
  package let buffers = LoopBuffers()
  private let turns: LoopTurns
  /// Paces the handshakes of the loop's connections.
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

  package func execute(_ job: @escaping @Sendable () -> Void) {
    eventLoop.execute(job)
  }

  package func takeTurn(_ job: @escaping @Sendable () -> Void) { turns.take(job) }

  package func schedule(at deadline: Instant, _ job: @escaping @Sendable () -> Void) -> any LoopTimer {
    // NIO's deadlines are signed on the inside: one that is never is as good as the last one it can say.
    let nanoseconds = min(deadline.nanoseconds, UInt64(Int64.max))
    return Timer(scheduled: eventLoop.scheduleTask(deadline: .uptimeNanoseconds(nanoseconds), job))
  }

  private struct Timer: LoopTimer {
    let scheduled: Scheduled<Void>

    func cancel() { scheduled.cancel() }
  }
}

/// A number of threads with a loop each.
package final class LoopGroup: Sendable {
  package let loops: [NIOLoop]
  /// For channels of one's own.
  package let eventLoopGroup: any EventLoopGroup
  private let threads: MultiThreadedEventLoopGroup

  package init(threads count: Int) {
    threads = MultiThreadedEventLoopGroup(numberOfThreads: count)
    eventLoopGroup = threads
    loops = threads.makeIterator().map { NIOLoop($0) }
  }

  /// The one that a channel of ``eventLoopGroup`` lives on; nil for others.
  package func loop(of eventLoop: any EventLoop) -> NIOLoop? { loops.first { $0.eventLoop === eventLoop } }

  /// Ends the threads. Everything on them should have been closed before.
  package func shutDown() async {
    // It fails only if it has been shut down before, which is what is wanted.
    try? await threads.shutdownGracefully()
  }
}
