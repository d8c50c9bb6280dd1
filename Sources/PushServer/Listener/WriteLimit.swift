internal import NIOCore
internal import PushService
internal import PushTransport
internal import PushWire

/// Whether a client still takes what is sent to it, however slowly.
struct ReadingProgress<State: Equatable> {
  /// How long nothing may change.
  let limit: Duration
  private var state: State
  private var changedAt: Instant

  init(limit: Duration, _ state: State, now: Instant) {
    (self.limit, self.state) = (limit, state)
    changedAt = now
  }

  /// - Parameters:
  ///   - new: what the client's reading changes.
  ///   - isBusy: the client waits for this side.
  mutating func isStalled(_ new: State, isBusy: Bool, now: Instant) -> Bool {
    if isBusy || new != state { (state, changedAt) = (new, now) }
    return now.since(changedAt) >= limit
  }
}

/// Closes a connection whose client takes nothing of what waits for it within the idle time-out.
///
/// The time-out for reading does not count while an answer is under way.
final class WriteLimit: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = IOData
  typealias OutboundOut = IOData

  /// Of the bytes that the system has taken.
  private var progress: ReadingProgress<Int>
  private let clock: any ServiceClock
  private var writtenByteCount = 0
  private var check: RepeatedTask?

  init(_ limit: Duration, clock: any ServiceClock) {
    self.clock = clock
    progress = ReadingProgress(limit: limit, 0, now: clock.uptime)
  }

  func handlerAdded(context: ChannelHandlerContext) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let interval = TimeAmount(progress.limit / 4)
    check = context.eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in
      let (handler, context) = bound.value
      handler.checkProgress(context)
    }
  }

  func handlerRemoved(context: ChannelHandlerContext) { check?.cancel() }

  func channelInactive(context: ChannelHandlerContext) {
    check?.cancel()
    context.fireChannelInactive()
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    writtenByteCount += unwrapOutboundIn(data).readableBytes
    context.write(data, promise: promise)
  }

  private func checkProgress(_ context: ChannelHandlerContext) {
    let waiting = (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    if progress.isStalled(writtenByteCount - waiting, isBusy: waiting == 0, now: clock.uptime) {
      check?.cancel()
      context.close(promise: nil)
    }
  }
}
