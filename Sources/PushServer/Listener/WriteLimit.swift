internal import NIOCore
internal import PushTransport
internal import PushWire

/// Whether a client still takes what is written to it.
struct WriteProgress {
  /// How long nothing may leave while something waits.
  let limit: Duration
  private var flushedByteCount = 0
  private var changedAt: Instant

  init(limit: Duration, now: Instant) {
    self.limit = limit
    changedAt = now
  }

  /// - Parameters:
  ///   - written: bytes that were written since the connection began.
  ///   - waiting: those of them that the system has not taken.
  mutating func isStalled(written: Int, waiting: Int, now: Instant) -> Bool {
    if waiting == 0 || written - waiting != flushedByteCount {
      (flushedByteCount, changedAt) = (written - waiting, now)
    }
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

  private var progress: WriteProgress
  private var writtenByteCount = 0
  private var check: RepeatedTask?

  init(_ limit: Duration) { progress = WriteProgress(limit: limit, now: .now) }

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
    if progress.isStalled(written: writtenByteCount, waiting: waiting, now: .now) {
      check?.cancel()
      context.close(promise: nil)
    }
  }
}
