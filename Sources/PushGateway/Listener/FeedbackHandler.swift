internal import NIOCore
internal import PushTransport
internal import PushWire

/// The feedback service for one client: a channel handler around a ``FeedbackSession``.
final class FeedbackHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// When a client that does not read, or does not close, is disconnected.
  private static let timeLimit = TimeAmount.seconds(60)

  private let gateway: SimulatedGateway
  private let registry: ConnectionRegistry
  private var session = FeedbackSession()
  private var servedCount = 0
  private var isHandshaking = true
  private var timer: Scheduled<Void>?

  init(_ gateway: SimulatedGateway, registry: ConnectionRegistry) {
    self.gateway = gateway
    self.registry = registry
  }

  /// Bytes from the client have no meaning here.
  func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSEvent.handshakeCompleted(let identity):
      handshakeEnded(succeeded: true, context)
      let channel = context.channel
      timer = context.eventLoop.scheduleTask(in: Self.timeLimit) { channel.close(promise: nil) }
      serve(Topic.of(identity), context)
    case TLSEvent.inputClosed, is StopRequest:
      context.close(promise: nil)
    default:
      context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    handshakeEnded(succeeded: false, context)
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    handshakeEnded(succeeded: false, context)
    timer?.cancel()
    context.fireChannelInactive()
  }

  private func handshakeEnded(succeeded: Bool, _ context: ChannelHandlerContext) {
    guard isHandshaking else { return }
    isHandshaking = false
    registry.handshakeEnded(
      context.channel, succeeded: succeeded, now: Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds))
    if !succeeded { gateway.handshakeFailed() }
  }

  private func serve(_ topic: String, _ context: ChannelHandlerContext) {
    let cut = gateway.rules.faults(forTopic: topic).feedbackCut
    let room = cut.map { max(0, $0 - servedCount) } ?? .max
    guard let bytes = session.next({ gateway.feedback.take(min($0, room), topic: topic) }) else {
      if cut == nil { return context.close(mode: .output, promise: nil) }
      return context.triggerUserOutboundEvent(TLSAbort.close, promise: nil)
    }
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes))).whenComplete { result in
      let (handler, context) = bound.value
      switch result {
      case .success:
        let count = handler.session.wrote()
        handler.servedCount += count
        handler.gateway.feedbackServed(count, topic: topic)
        handler.serve(topic, context)
      case .failure:
        handler.gateway.feedback.giveBack(handler.session.failed(), topic: topic)
      }
    }
  }
}
