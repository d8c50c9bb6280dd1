internal import NIOCore
internal import NIOPosix
internal import PushTransport
internal import PushWire

/// Connects a ``SimulatedConnection`` to TLS: passes received bytes to it and carries out its
/// actions. Used on its channel's event loop only.
final class GatewayHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let gateway: SimulatedGateway
  /// Nil before the handshake and after the connection's end.
  private var connection: SimulatedConnection?
  private var handshake: CountedHandshake
  private var wakeUp: Scheduled<Void>?
  private var resumption: Scheduled<Void>?

  init(_ gateway: SimulatedGateway, registry: ConnectionRegistry) {
    self.gateway = gateway
    handshake = CountedHandshake(registry, failed: { gateway.handshakeFailed() })
  }

  private static var now: Instant { Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds) }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = unwrapInboundIn(data)
    perform(unsafe bytes.withUnsafeReadableBytes { unsafe connection?.received($0, now: Self.now) ?? [] }, context)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSEvent.handshakeCompleted(let identity):
      handshake.ended(succeeded: true, context)
      connection = gateway.connect(
        topic: Topic.of(identity),
        isForOtherEnvironment: gateway.rules.isForOtherEnvironment(identity?.environments ?? []))
      perform(connection?.opened(now: Self.now) ?? [], context)
    case TLSEvent.inputClosed: perform(connection?.peerClosed(now: Self.now) ?? [], context)
    case let request as StopRequest: stop(request, context)
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    handshake.ended(succeeded: false, context)
    // For any error the connection is lost. The ground truth holds what was accepted before.
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    handshake.ended(succeeded: false, context)
    connection?.ended()
    connection = nil
    wakeUp?.cancel()
    resumption?.cancel()
    context.fireChannelInactive()
  }

  private func stop(_ request: StopRequest, _ context: ChannelHandlerContext) {
    guard connection != nil, request.grace > .zero else { return context.close(promise: nil) }
    perform(connection?.shutDown(now: Self.now) ?? [], context)
    schedule(at: Self.now + request.grace, context) { _, context in context.close(promise: nil) }
  }
}

// MARK: - Actions

extension GatewayHandler {
  private func perform(_ actions: [GatewayAction], _ context: ChannelHandlerContext) {
    for action in actions {
      switch action {
      case .send(let response):
        // One write makes one TLS record and one segment.
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: response.bytes)), promise: nil)
      case .halfClose: context.close(mode: .output, promise: nil)
      case .close: context.close(mode: .all, promise: nil)
      case .reset: reset(context)
      case .stopReading(let until):
        setReading(false, context)
        resumption = schedule(at: until, context) { handler, context in handler.setReading(true, context) }
      case .wake(let time):
        wakeUp?.cancel()
        wakeUp = schedule(at: time, context) { handler, context in
          handler.perform(handler.connection?.woken(now: Self.now) ?? [], context)
        }
      }
    }
  }

  private func setReading(_ reads: Bool, _ context: ChannelHandlerContext) {
    context.triggerUserOutboundEvent(reads ? ReadingEvent.resume : .pause, promise: nil)
  }

  /// Closes with a RST, by a linger time of zero. The close bypasses TLS, which would send
  /// close_notify first.
  private func reset(_ context: ChannelHandlerContext) {
    if let options = context.channel as? any SocketOptionProvider {
      _ = options.setSoLinger(linger(l_onoff: 1, l_linger: 0))
    }
    do {
      try context.pipeline.syncOperations.context(handlerType: TLSHandler.self).close(mode: .all, promise: nil)
    } catch { context.close(mode: .all, promise: nil) }
  }
}

/// The topic of a client certificate.
enum Topic {
  static let anonymous = "anonymous"

  static func of(_ identity: PeerIdentity?) -> String {
    identity?.topics.first ?? identity?.commonName ?? anonymous
  }
}
