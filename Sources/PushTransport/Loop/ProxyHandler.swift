internal import NIOCore
internal import PushWire

/// Why there is no way through a proxy. One sentence that names it.
struct ProxyFailure: Error {
  let sentence: String
}

/// Asks a proxy for the way to the host, then adds the TLS of the host behind itself. It stays in
/// the pipeline, between the proxy's TLS, if there is one, and the host's.
final class ProxyHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private enum Phase { case connecting, asking, open, closed }

  private let proxy: SocketDialer.Proxy
  private let tls: TLSHandler
  private let timeout: TimeAmount
  private var handshake: ProxyHandshake
  private var phase = Phase.connecting
  private var deadline = NIODeadline.distantFuture
  private var timer: Scheduled<Void>?
  private var extensionCount = 0
  /// The proxy's TLS; nil: it is spoken to in the clear.
  private let proxyTLS: TLSHandler?

  /// What the host's TLS has at least.
  private static let leastTimeout = TimeAmount.seconds(1)

  /// - Parameters:
  ///   - tls: of the host.
  ///   - timeout: for everything after the TCP connection, the host's TLS included.
  init(
    _ proxy: SocketDialer.Proxy, _ request: ProxyRequest, tls: TLSHandler, timeout: TimeAmount, buffers: LoopBuffers
  ) throws(TLSFailure) {
    (self.proxy, self.tls, self.timeout) = (proxy, tls, timeout)
    handshake = ProxyHandshake(proxy.scheme, request)
    if let context = proxy.context {
      let session = try TLSSession(context, host: proxy.host)
      // The host's TLS decides when the connection ends.
      proxyTLS = TLSHandler(session, peerClosePolicy: .report, handshakeTimeout: timeout, buffers: buffers)
    } else {
      proxyTLS = nil
    }
  }

  /// Adds itself and the proxy's TLS in front of everything else.
  func add(to pipeline: ChannelPipeline.SynchronousOperations) throws {
    try pipeline.addHandler(self, position: .first)
    if let proxyTLS { try pipeline.addHandler(proxyTLS, position: .first) }
  }

  func handlerAdded(context: ChannelHandlerContext) {
    deadline = context.eventLoop.now + timeout
    startTimer(context, at: deadline)
    if proxyTLS == nil { ask(context) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { finish(.closed) }

  private func ask(_ context: ChannelHandlerContext) {
    guard phase == .connecting else { return }
    phase = .asking
    write(handshake.opening, context)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch phase {
    case .open: context.fireChannelRead(data)
    case .connecting, .closed: break
    case .asking:
      var output: [UInt8] = []
      let ending = handshake.receive(Array(unwrapInboundIn(data).readableBytesView), output: &output)
      if !output.isEmpty { write(output, context) }
      switch ending {
      case nil: break
      case .open(let rest): open(rest, context)
      case .refused(let text): fail("\(proxy) \(text)", context)
      }
    }
  }

  private func open(_ rest: [UInt8], _ context: ChannelHandlerContext) {
    // A failed write may have closed the channel.
    guard phase == .asking else { return }
    finish(.open)
    tls.handshakeTimeout = max(Self.leastTimeout, deadline - context.eventLoop.now)
    do {
      try context.pipeline.syncOperations.addHandler(tls, position: .after(self))
    } catch {
      context.fireErrorCaught(error)
      return context.close(mode: .all, promise: nil)
    }
    if !rest.isEmpty { context.fireChannelRead(wrapInboundOut(ByteBuffer(bytes: rest))) }
  }

  private func write(_ bytes: [UInt8], _ context: ChannelHandlerContext) {
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
  }

  // MARK: Events of the proxy's TLS and of the socket

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch (event, phase) {
    case (TLSEvent.handshakeCompleted, _): ask(context)
    // Of the stream that the host's TLS is in, this is the bare end.
    case (TLSEvent.inputClosed, .open): context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    case (TLSEvent.inputClosed, _), (ChannelEvent.inputClosed, .connecting), (ChannelEvent.inputClosed, .asking):
      fail("\(proxy) closed the connection without an answer; check scheme and port of its URL", context)
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    fail("\(proxy) closed the connection without an answer; check scheme and port of its URL", context)
    context.fireChannelInactive()
  }

  /// What the proxy's TLS finds says nothing about the host, nor about the credential for it.
  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    switch (error as? TLSFailure, phase) {
    case (let failure?, .open): context.fireErrorCaught(TLSFailure.broken("\(proxy): \(failure)"))
    case (let failure?, _): fail("there is no TLS with \(proxy): \(failure)", context)
    case (nil, .open), (nil, .closed): context.fireErrorCaught(error)
    case (nil, _):
      let reason = (error as? IOError).map { SystemCall.reason($0.errnoCode) } ?? "\(error)"
      fail("\(proxy) broke off without an answer: \(reason)", context)
    }
  }

  // MARK: The end

  private func startTimer(_ context: ChannelHandlerContext, at deadline: NIODeadline) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    timer = context.eventLoop.scheduleTask(deadline: deadline) { bound.value.0.timePassed(bound.value.1) }
  }

  private func timePassed(_ context: ChannelHandlerContext) {
    // As in TLSHandler: bytes that wait in the socket are this side's delay.
    if extensionCount < TLSHandler.extensionCountLimit, context.channel.unreadByteCount > 0 {
      extensionCount += 1
      return startTimer(context, at: context.eventLoop.now + timeout)
    }
    fail("\(proxy) has not opened the way within \(timeout.nanoseconds / 1_000_000_000) s", context)
  }

  private func fail(_ sentence: String, _ context: ChannelHandlerContext) {
    guard phase == .connecting || phase == .asking else { return }
    finish(.closed)
    context.fireErrorCaught(ProxyFailure(sentence: sentence))
    context.close(mode: .all, promise: nil)
  }

  private func finish(_ phase: Phase) {
    self.phase = phase
    timer?.cancel()
    timer = nil
  }
}
