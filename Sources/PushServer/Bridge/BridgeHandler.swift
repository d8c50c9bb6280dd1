internal import Carillon
internal import Logging
internal import NIOCore
internal import PushService
internal import PushTransport
internal import PushWire

/// A channel handler around a ``BridgeConnection``. Used on its channel's event loop only.
final class BridgeHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let bridge: Bridge
  private let tls: TLSHandler
  /// Of who is a client, before this one's handshake.
  private let generation: Int
  private var context: ChannelHandlerContext?
  private var connection: BridgeConnection
  private var isHandshaking = true
  private var isReading = true
  private var timer: (at: Instant, scheduled: Scheduled<Void>)?

  init(_ bridge: Bridge, _ tls: TLSHandler) {
    (self.bridge, self.tls) = (bridge, tls)
    generation = bridge.generation
    connection = BridgeConnection(bridge.configuration.connection, logger: bridge.logger) { [bridge] in
      bridge.hasRoom($0)
    }
  }

  private var now: Instant { bridge.clock.uptime }

  // MARK: Channel

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    perform(connection.received(unwrapInboundIn(data), now: now))
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSEvent.handshakeCompleted(let identity):
      isHandshaking = false
      begin(identity)
    case TLSEvent.inputClosed: perform(connection.peerClosed(now: now))
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // After a failed handshake, TLS sends its alert and closes.
    guard !isHandshaking else { return bridge.handshakeFailed(context.remoteAddress?.ipAddress ?? "", "\(error)") }
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    timer?.scheduled.cancel()
    connection.closed(now: now)
    bridge.closed()
    context.fireChannelInactive()
  }

  private func begin(_ identity: PeerIdentity?) {
    guard let context, let identity, let found = bridge.client(identity) else {
      self.context?.close(promise: nil)
      return
    }
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    let link = BridgeLink(client: identity.fingerprint) { [eventLoop = context.eventLoop] in
      eventLoop.execute { bound.value.perform(bound.value.connection.readMessages(now: bound.value.now)) }
    }
    perform(connection.begin(found.app, found.push, link, isEnding: bridge.isEnding, now: now))
    if bridge.generation != generation { judgeAgain() }
  }

  /// Ends the connection if a new one of this client would be refused, or be another app's.
  private func judgeAgain() {
    guard let app = connection.openApp, let context = bridge.tlsContext,
      let identity = tls.peerIdentity(trustedBy: context)
    else { return }
    let why: String
    switch bridge.answer(for: identity, distrust: identity.distrust) {
    case .app(app, _): return
    case .app(let other, let reason): why = "it is a client of \(other) now: \(reason)"
    case .refused(let reason): why = reason
    }
    bridge.logger.notice(
      "a client of the bridge has to leave",
      metadata: ["app": "\(app)", "certificate": "\(identity.subject)", "why": "\(why)"])
    perform(connection.end(now: now))
  }

  // MARK: Output

  private func perform(_ output: BridgeConnection.Output) {
    for action in output.actions {
      switch action {
      // One write makes one TLS record and one segment.
      case .send(let response):
        context?.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: response.bytes)), promise: nil)
      case .halfClose: context?.close(mode: .output, promise: nil)
      case .close: context?.close(mode: .all, promise: nil)
      case .concluded: break
      }
    }
    guard let context, context.channel.isActive else { return }
    if output.reads != isReading {
      isReading = output.reads
      context.triggerUserOutboundEvent(isReading ? ReadingEvent.resume : .pause, promise: nil)
    }
    if let wake = output.wake { schedule(at: wake, context) }
    if output.mustBeJudged { judgeAgain() }
  }

  /// A timer that is earlier than needed does no harm.
  private func schedule(at time: Instant, _ context: ChannelHandlerContext) {
    if let timer, timer.at <= time { return }
    timer?.scheduled.cancel()
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    let scheduled = context.eventLoop.scheduleTask(
      deadline: .uptimeNanoseconds(min(time.nanoseconds, UInt64(Int64.max)))
    ) {
      bound.value.timer = nil
      bound.value.perform(bound.value.connection.woken(now: bound.value.now))
    }
    timer = (time, scheduled)
  }
}
