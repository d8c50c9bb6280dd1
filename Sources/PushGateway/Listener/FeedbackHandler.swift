internal import NIOCore
internal import PushTransport
internal import PushWire

/// The feedback service for one client (BinaryProtocol.md, "The feedback service").
///
/// It sends all tuples of a topic, a block at a time, and then closes. The next block is taken only
/// when the previous one was passed to the socket. Tuples taken from the list count as delivered,
/// so a block that could not be written is returned.
final class FeedbackHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// When a client that does not read, or does not close, is disconnected.
  private static let timeLimit = TimeAmount.seconds(60)

  private let gateway: SimulatedGateway
  private var servedCount = 0
  private var handshake: CountedHandshake
  private var timer: Scheduled<Void>?

  init(_ gateway: SimulatedGateway, registry: ConnectionRegistry) {
    self.gateway = gateway
    handshake = CountedHandshake(registry, failed: { gateway.handshakeFailed() })
  }

  /// Bytes from the client have no meaning here.
  func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSEvent.handshakeCompleted(let identity):
      handshake.ended(succeeded: true, context)
      let channel = context.channel
      timer = context.eventLoop.scheduleTask(in: Self.timeLimit) { channel.close(promise: nil) }
      serve(Topic.of(identity), context)
    case TLSEvent.inputClosed, is StopRequest: context.close(promise: nil)
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    handshake.ended(succeeded: false, context)
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    handshake.ended(succeeded: false, context)
    timer?.cancel()
    context.fireChannelInactive()
  }

  private func serve(_ topic: String, _ context: ChannelHandlerContext) {
    let cut = gateway.rules.faults(forTopic: topic).feedbackCut
    let room = cut.map { max(0, $0 - servedCount) } ?? .max
    let block = gateway.feedback.take(min(FeedbackTuple.blockTupleCount, room), topic: topic)
    guard !block.isEmpty else {
      if cut == nil { return context.close(mode: .output, promise: nil) }
      return context.triggerUserOutboundEvent(TLSAbort.close, promise: nil)
    }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(block.reduce(0) { $0 + $1.byteCount })
    for tuple in block { tuple.append(to: &bytes) }
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes))).whenComplete { result in
      let (handler, context) = bound.value
      switch result {
      case .success:
        handler.servedCount += block.count
        handler.gateway.feedbackServed(block.count, topic: topic)
        handler.serve(topic, context)
      case .failure: handler.gateway.feedback.giveBack(block, topic: topic)
      }
    }
  }
}
