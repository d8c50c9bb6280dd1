internal import NIOCore
internal import PushTransport
internal import PushWire

/// Connects a ``ServiceConnection`` to TLS: passes bytes in both directions, keeps its timer and
/// ends the connection. Used on its channel's event loop only.
final class ServiceHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  /// How long a client may take to close after the service has finished, and how much it may send
  /// meanwhile. Its bytes are read so that no RST destroys the last responses on their way, and so
  /// that its requests are counted.
  private static let drainTimeLimit = Duration.seconds(5)
  private static let drainByteLimit = 64 << 20

  private let service: SimulatedService
  private let purpose: ServiceConnection.Purpose
  private let tls: TLSHandler
  private let memories: HTTP2ServerMemories
  /// Nil before the handshake and after the connection's end.
  private var connection: ServiceConnection?
  private var handshake: CountedHandshake
  private var isEnding = false
  private var isInputClosed = false
  private var drainBytesLeft = ServiceHandler.drainByteLimit
  private var timer: (time: Instant, scheduled: Scheduled<Void>)?

  init(
    _ service: SimulatedService, purpose: ServiceConnection.Purpose, tls: TLSHandler, memories: HTTP2ServerMemories,
    registry: ConnectionRegistry, handshakeFailed: @escaping @Sendable () -> Void
  ) {
    (self.service, self.purpose, self.tls, self.memories) = (service, purpose, tls, memories)
    handshake = CountedHandshake(registry, failed: handshakeFailed)
  }

  private static var now: Instant { Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds) }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard let connection, connection.end != .reset else { return }
    let bytes = unwrapInboundIn(data)
    unsafe bytes.withUnsafeReadableBytes { unsafe connection.received($0, now: Self.now) }
    if isEnding {
      drainBytesLeft -= bytes.readableBytes
      if drainBytesLeft <= 0 { context.close(promise: nil) }
    }
    act(context)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSEvent.handshakeCompleted(let identity):
      handshake.ended(succeeded: true, context)
      do {
        let client = ServiceClient(identity, applicationProtocol: tls.applicationProtocol)
        connection = try service.connect(client, for: purpose, now: Self.now, memory: memories.memory(of: tls.buffers))
      } catch { context.close(promise: nil) }
      act(context)
    case TLSEvent.inputClosed:
      isInputClosed = true
      if isEnding { return context.close(promise: nil) }
      connection?.peerClosed(now: Self.now)
      act(context)
    case let request as StopRequest: stop(request, context)
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  /// While a client does not read, the service does not read from it either.
  func channelWritabilityChanged(context: ChannelHandlerContext) {
    setReading(context.channel.isWritable, context)
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    handshake.ended(succeeded: false, context)
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    handshake.ended(succeeded: false, context)
    connection?.ended()
    connection = nil
    timer?.scheduled.cancel()
    context.fireChannelInactive()
  }

  private func stop(_ request: StopRequest, _ context: ChannelHandlerContext) {
    guard let connection, request.grace > .zero else { return context.close(promise: nil) }
    connection.shutDown(now: Self.now)
    act(context)
    schedule(at: Self.now + request.grace, context) { _, context in context.close(promise: nil) }
  }

  // MARK: Output of the connection

  private func act(_ context: ChannelHandlerContext) {
    guard let connection, !isEnding else { return }
    if connection.end != .reset {
      while true {
        let bytes = unsafe connection.output()
        guard bytes.count > 0 else { break }
        unsafe tls.send(bytes)
      }
    }
    switch connection.end {
    case nil: scheduleWakeUp(connection, context)
    case .close:
      isEnding = true
      finish(context)
    case .reset:
      isEnding = true
      context.triggerUserOutboundEvent(TLSAbort.reset, promise: nil)
    }
  }

  private func finish(_ context: ChannelHandlerContext) {
    timer?.scheduled.cancel()
    // The client sends nothing more.
    guard !isInputClosed else { return context.close(promise: nil) }
    setReading(true, context)
    context.close(mode: .output, promise: nil)
    timer = (
      .start, schedule(at: Self.now + Self.drainTimeLimit, context) { _, context in context.close(promise: nil) }
    )
  }

  private func scheduleWakeUp(_ connection: ServiceConnection, _ context: ChannelHandlerContext) {
    guard let wake = connection.nextWake else { return }
    if let timer, timer.time <= wake { return }
    timer?.scheduled.cancel()
    let scheduled = schedule(at: wake, context) { handler, context in
      handler.timer = nil
      handler.connection?.woken(now: Self.now)
      handler.act(context)
    }
    timer = (wake, scheduled)
  }

  private func setReading(_ reads: Bool, _ context: ChannelHandlerContext) {
    // While the connection ends, bytes are read and discarded.
    context.triggerUserOutboundEvent(reads || isEnding ? ReadingEvent.resume : .pause, promise: nil)
  }
}
