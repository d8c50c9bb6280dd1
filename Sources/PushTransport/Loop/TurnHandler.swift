internal import NIOCore

/// An outbound event from a server's handler to ``TurnHandler``.
package enum ReadingEvent: Sendable {
  /// Nothing is delivered, and nothing more is read from the socket.
  case pause
  case resume
}

/// Makes the bytes of an open connection wait for a turn on the event loop
/// (``Loop/takeTurn(_:_:)``).
///
/// A server that serves a thousand busy connections as it reads them would reach a new handshake
/// only after all of them. Here handshakes do not wait, and each turn serves 64 KiB of one
/// connection. While bytes wait, nothing more is read from that socket.
///
/// A server that takes nothing more for a while says so with ``ReadingEvent``. The channel's
/// `autoRead` would not do: when it is set it reads from the socket at once, past the handlers.
/// Bytes that wait here would stay here if the socket has no more.
///
/// Its place is before TLS in a server's pipeline. Used on the channel's event loop.
final class TurnHandler: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let loop: NIOLoop
  private let tls: TLSHandler
  /// What has been read and not served, in order.
  private var waiting: [ByteBuffer] = []
  private var isTurnTaken = false
  private var isReadWithheld = false
  private var isPaused = false

  private static let turnByteCount = 64 * 1024

  init(_ tls: TLSHandler, loop: NIOLoop) { (self.tls, self.loop) = (tls, loop) }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard tls.isOpen || !waiting.isEmpty else { return context.fireChannelRead(data) }
    waiting.append(unwrapInboundIn(data))
    takeTurn(context)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if waiting.isEmpty { context.fireChannelReadComplete() }
  }

  func read(context: ChannelHandlerContext) {
    guard !waiting.isEmpty || isPaused else { return context.read() }
    isReadWithheld = true
  }

  func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
    guard let event = event as? ReadingEvent else {
      return context.triggerUserOutboundEvent(event, promise: promise)
    }
    isPaused = event == .pause
    promise?.succeed()
    guard !isPaused else { return }
    if !waiting.isEmpty {
      takeTurn(context)
    } else if isReadWithheld {
      isReadWithheld = false
      context.read()
    }
  }

  private func takeTurn(_ context: ChannelHandlerContext) {
    guard !isTurnTaken else { return }
    isTurnTaken = true
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    loop.takeTurn(nil) {
      bound.value.0.isTurnTaken = false
      bound.value.0.serve(bound.value.1, byteCount: Self.turnByteCount)
      return 0
    }
  }

  private func serve(_ context: ChannelHandlerContext, byteCount: Int) {
    var left = byteCount
    while left > 0, !waiting.isEmpty, !isPaused {
      // Takes all of the buffer unless the slice is shorter.
      let bytes = waiting[0].readSlice(length: min(left, waiting[0].readableBytes)) ?? ByteBuffer()
      if waiting[0].readableBytes == 0 { waiting.removeFirst() }
      left -= bytes.readableBytes
      context.fireChannelRead(wrapInboundOut(bytes))
    }
    guard waiting.isEmpty else {
      if !isPaused { takeTurn(context) }
      return
    }
    context.fireChannelReadComplete()
    guard isReadWithheld, !isPaused else { return }
    isReadWithheld = false
    context.read()
  }

  // MARK: The end of the stream follows the bytes that wait

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is ChannelEvent { serveAll(context) }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    serveAll(context)
    context.fireErrorCaught(error)
  }

  func channelInactive(context: ChannelHandlerContext) {
    serveAll(context)
    context.fireChannelInactive()
  }

  func handlerRemoved(context: ChannelHandlerContext) { waiting.removeAll() }

  private func serveAll(_ context: ChannelHandlerContext) {
    while !waiting.isEmpty { context.fireChannelRead(wrapInboundOut(waiting.removeFirst())) }
  }
}
