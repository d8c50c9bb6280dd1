internal import Glibc
package import NIOCore

/// Events of a ``TLSHandler`` for the handlers after it, besides the plaintext.
package enum TLSEvent: Sendable, Hashable {
  /// The handshake is complete. On the server's side, with the client's identity if it presented a
  /// certificate.
  case handshakeCompleted(PeerIdentity?)
  /// The peer sends nothing more, after close_notify (`clean`) or at the bare end of the stream.
  /// Everything it sent has been delivered.
  case inputClosed(clean: Bool)
}

/// Outbound user event that closes the connection at once without close_notify, as a crash would.
package enum TLSAbort: Sendable {
  /// The end of the stream, if everything received has been read.
  case close
  /// A TCP reset.
  case reset
}

/// TLS in a channel's pipeline, for either side: plaintext for the later handlers, ciphertext for
/// the socket.
///
/// Writes are collected until the flush, then encrypted together and written as one buffer.
/// Failures are passed as ``TLSFailure`` to `errorCaught`, and then the channel is closed. The
/// channel should allow remote half-closure.
package final class TLSHandler: ChannelDuplexHandler {
  package typealias InboundIn = ByteBuffer
  package typealias InboundOut = ByteBuffer
  package typealias OutboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  /// What happens when the peer has closed its side.
  package enum PeerClosePolicy: Sendable {
    /// This side closes too, at once.
    case close
    /// Later handlers decide. They receive ``TLSEvent/inputClosed(clean:)`` and can still write.
    case report
  }

  private enum Phase {
    case handshaking, open
    /// A server has refused its client, and has sent the end of the stream. What arrives is counted
    /// against the limit and discarded.
    case draining(byteCountLeft: Int)
    case closed
  }

  private let session: TLSSession
  private let peerClosePolicy: PeerClosePolicy
  /// Counts when the handshake begins.
  var handshakeTimeout: TimeAmount
  private var phase = Phase.handshaking
  private var context: ChannelHandlerContext?
  private var isStarted = false
  private var isInputClosed = false
  private var timer: Scheduled<Void>?
  /// How often the handshake got more time, because bytes of the peer had arrived and were not read
  /// yet.
  private var extensionCount = 0
  /// Bytes that are not flushed, or were flushed before the handshake was complete.
  private var waiting = ByteBuffer()
  private var waitingPromise: EventLoopPromise<Void>?
  private var flushesWhenOpen = false
  private var isTakingIn = false
  /// Ciphertext that arrived while other ciphertext was being processed.
  private var postponed: [ByteBuffer] = []
  private var isInactivePostponed = false
  /// Ciphertext bytes passed to the channel so far, including the handshake.
  package private(set) var ciphertextByteCount: UInt64 = 0
  package let buffers: LoopBuffers

  /// The limit ends a handshake with a peer that sends a byte now and then.
  static let extensionCountLimit = 20

  /// How much of a client is read after its handshake has failed, and for how long.
  private static let refusedByteCountLimit = 256 << 10
  private static let refusedTimeout = TimeAmount.seconds(1)

  /// How long closing waits for earlier writes to reach the socket.
  private static let closeTimeout = TimeAmount.seconds(2)

  /// - Parameter buffers: those of the channel's event loop if it has any; otherwise the handler's
  ///   own.
  package init(
    _ session: TLSSession, peerClosePolicy: PeerClosePolicy = .close, handshakeTimeout: TimeAmount = .seconds(15),
    buffers: LoopBuffers = LoopBuffers()
  ) {
    (self.buffers, self.session) = (buffers, session)
    (self.peerClosePolicy, self.handshakeTimeout) = (peerClosePolicy, handshakeTimeout)
  }

  /// The negotiated version; nil before the end of the handshake.
  package var version: TLSVersion? { session.version }
  /// The handshake is complete, or the session has ended.
  var isOpen: Bool { if case .handshaking = phase { false } else { true } }
  /// The protocol that ALPN selected; nil before the end of the handshake.
  package var applicationProtocol: String? { session.applicationProtocol }

  /// The identity of a server's client, with the trust that it would have in a handshake of another
  /// context: the authorities may have changed since its own.
  package func peerIdentity(trustedBy context: TLSContext) -> PeerIdentity? {
    session.peerIdentity(trustedBy: context)
  }

  /// Encrypts `bytes` and writes them to the socket at once, around the pipeline, for large
  /// batches. Ignored unless the session is open.
  package func send(_ bytes: UnsafeRawBufferPointer) {
    guard case .open = phase, !session.isOutputClosed, let context else { return }
    unsafe encryptAndWrite(bytes, context: context, promise: nil)
  }

  // MARK: Lifecycle

  package func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    if context.channel.isActive { start(context) }
  }

  package func handlerRemoved(context: ChannelHandlerContext) {
    finish(ChannelError.ioOnClosedChannel)
    self.context = nil
  }

  package func channelActive(context: ChannelHandlerContext) {
    start(context)
    context.fireChannelActive()
  }

  package func channelInactive(context: ChannelHandlerContext) {
    guard !isTakingIn else {
      isInactivePostponed = true
      return
    }
    if case .handshaking = phase { noticeInputClosed(clean: false, context: context) }
    finish(ChannelError.ioOnClosedChannel)
    context.fireChannelInactive()
  }

  private func start(_ context: ChannelHandlerContext) {
    guard !isStarted else { return }
    isStarted = true
    startHandshakeTimer(context)
    buffers.ciphertext.clear()
    let progress = session.start(output: &buffers.ciphertext)
    // A client's time-out starts with its first message, because the peer answers only that.
    let written = buffers.ciphertext.readableBytes == 0 ? nil : context.eventLoop.makePromise(of: Void.self)
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    written?.futureResult.whenSuccess {
      if case .handshaking = bound.value.0.phase { bound.value.0.startHandshakeTimer(bound.value.1) }
    }
    writeCiphertext(context: context, promise: written)
    act(on: progress, received: ByteBuffer(), context: context)
  }

  private func startHandshakeTimer(_ context: ChannelHandlerContext) {
    schedule(after: handshakeTimeout, context) { handler, context in handler.handshakeTimePassed(context) }
  }

  private func handshakeTimePassed(_ context: ChannelHandlerContext) {
    guard case .handshaking = phase else { return }
    // Unread bytes in the socket are this side's delay: on a busy loop, timers may run before a
    // socket is read.
    if extensionCount < Self.extensionCountLimit, context.channel.unreadByteCount > 0 {
      extensionCount += 1
      return startHandshakeTimer(context)
    }
    fail(
      .handshakeFailed("the TLS handshake was not complete after \(handshakeTimeout.nanoseconds / 1_000_000_000) s"),
      context: context)
  }

  // MARK: Inbound

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let received = unwrapInboundIn(data)
    // When a write fails, NIO reads the rest of the input inside that write. This input waits until
    // the write is done.
    guard !isTakingIn else {
      postponed.append(received)
      return
    }
    isTakingIn = true
    takeIn(received, context)
    while !postponed.isEmpty { takeIn(postponed.removeFirst(), context) }
    isTakingIn = false
    if isInactivePostponed { channelInactive(context: context) }
  }

  private func takeIn(_ received: ByteBuffer, _ context: ChannelHandlerContext) {
    switch phase {
    case .closed: return
    case .draining(let left):
      let left = left - received.readableBytes
      phase = .draining(byteCountLeft: left)
      if left <= 0 { closeNow(context) }
      return
    case .handshaking, .open: break
    }
    buffers.plaintext.clear()
    buffers.ciphertext.clear()
    let progress = unsafe received.withUnsafeReadableBytes {
      unsafe session.receive($0, plaintext: &buffers.plaintext, output: &buffers.ciphertext)
    }
    let decrypted = buffers.plaintext
    if buffers.plaintext.capacity > LoopBuffers.byteCountKept { buffers.plaintext = ByteBuffer() }
    if buffers.ciphertext.readableBytes > 0 { writeCiphertext(context: context, promise: nil) }
    act(on: progress, received: decrypted, context: context)
  }

  /// In the order of events: handshake, plaintext, end.
  private func act(on progress: TLSSession.Progress, received: ByteBuffer, context: ChannelHandlerContext) {
    if progress.becameEstablished {
      timer?.cancel()
      phase = .open
      context.fireUserInboundEventTriggered(TLSEvent.handshakeCompleted(session.peerIdentity))
      if flushesWhenOpen { flush(context: context) }
    }
    if received.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(received)) }
    switch progress.end {
    case nil: break
    case .closeNotify: noticeInputClosed(clean: true, context: context)
    case .failed(let failure): fail(failure, context: context)
    }
  }

  package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if let event = event as? ChannelEvent, event == .inputClosed {
      if case .draining = phase {
        closeNow(context)
      } else {
        noticeInputClosed(clean: false, context: context)
      }
      return
    }
    context.fireUserInboundEventTriggered(event)
  }

  private func noticeInputClosed(clean: Bool, context: ChannelHandlerContext) {
    guard !isInputClosed else { return }
    switch phase {
    case .handshaking:
      isInputClosed = true
      fail(.handshakeFailed("the peer closed the connection in the middle of the TLS handshake"), context: context)
    case .open:
      isInputClosed = true
      context.fireUserInboundEventTriggered(TLSEvent.inputClosed(clean: clean))
      guard case .open = phase, peerClosePolicy == .close else { return }
      buffers.ciphertext.clear()
      session.closeOutput(&buffers.ciphertext)
      writeCiphertext(context: context, promise: nil)
      closeNow(context)
    case .draining, .closed: break
    }
  }

  package func errorCaught(context: ChannelHandlerContext, error: any Error) { context.fireErrorCaught(error) }

  private func fail(_ failure: TLSFailure, context: ChannelHandlerContext) {
    if case .closed = phase { return }
    let mayWrite = session.isServer && !isInputClosed
    let wasHandshaking = if case .handshaking = phase { true } else { false }
    context.fireErrorCaught(failure)
    guard wasHandshaking, mayWrite, case .handshaking = phase else { return closeNow(context) }
    // A client that has sent something behind its handshake would get a reset instead of the alert.
    phase = .draining(byteCountLeft: Self.refusedByteCountLimit)
    context.close(mode: .output, promise: nil)
    schedule(after: Self.refusedTimeout, context) { handler, context in handler.closeNow(context) }
  }

  // MARK: Outbound

  package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard acceptsWrites else {
      promise?.fail(ChannelError.outputClosed)
      return
    }
    var written = unwrapOutboundIn(data)
    if waiting.readableBytes == 0 { waiting = written } else { waiting.writeBuffer(&written) }
    guard let promise else { return }
    if let first = waitingPromise { first.futureResult.cascade(to: promise) } else { waitingPromise = promise }
  }

  private var acceptsWrites: Bool {
    switch phase {
    case .handshaking, .open: !session.isOutputClosed
    case .draining, .closed: false
    }
  }

  package func flush(context: ChannelHandlerContext) {
    guard case .open = phase else {
      flushesWhenOpen = true
      return
    }
    let promise = waitingPromise.take()
    guard waiting.readableBytes > 0 else {
      promise?.succeed(())
      context.flush()
      return
    }
    let gathered = waiting
    waiting = ByteBuffer()
    unsafe gathered.withUnsafeReadableBytes { unsafe encryptAndWrite($0, context: context, promise: promise) }
  }

  package func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    switch mode {
    case .input: context.close(mode: .input, promise: promise)
    case .output:
      flush(context: context)
      buffers.ciphertext.clear()
      session.closeOutput(&buffers.ciphertext)
      writeCiphertext(context: context, promise: nil)
      context.close(mode: .output, promise: promise)
    case .all:
      guard case .open = phase, !session.isOutputClosed else {
        phase = .closed
        context.close(mode: .all, promise: promise)
        return
      }
      flush(context: context)
      closeAfterWriting(context)
      if let promise { context.channel.closeFuture.cascade(to: promise) }
    }
  }

  package func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
    guard let abort = event as? TLSAbort else { return context.triggerUserOutboundEvent(event, promise: promise) }
    // Closing a socket with a linger time of zero makes a reset.
    if abort == .reset, let socket = context.channel as? any SocketOptionProvider {
      _ = socket.setSoLinger(linger(l_onoff: 1, l_linger: 0))
    }
    closeNow(context)
    promise?.succeed(())
  }

  private func encryptAndWrite(
    _ bytes: UnsafeRawBufferPointer, context: ChannelHandlerContext, promise: EventLoopPromise<Void>?
  ) {
    buffers.ciphertext.clear()
    do throws(TLSFailure) {
      try unsafe session.write(bytes, output: &buffers.ciphertext)
      writeCiphertext(context: context, promise: promise)
    } catch {
      promise?.fail(error)
      fail(error, context: context)
    }
  }

  private func writeCiphertext(context: ChannelHandlerContext, promise: EventLoopPromise<Void>?) {
    let output = buffers.ciphertext
    ciphertextByteCount += UInt64(output.readableBytes)
    if buffers.ciphertext.capacity > LoopBuffers.byteCountKept { buffers.ciphertext = ByteBuffer() }
    context.writeAndFlush(wrapOutboundOut(output), promise: promise)
  }

  /// Sends close_notify and closes. Earlier writes get some time to reach the socket.
  private func closeAfterWriting(_ context: ChannelHandlerContext) {
    let written = context.eventLoop.makePromise(of: Void.self)
    buffers.ciphertext.clear()
    session.closeOutput(&buffers.ciphertext)
    writeCiphertext(context: context, promise: written)
    schedule(after: Self.closeTimeout, context) { handler, context in handler.closeNow(context) }
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    written.futureResult.whenComplete { _ in bound.value.0.closeNow(bound.value.1) }
  }

  private func closeNow(_ context: ChannelHandlerContext) {
    if case .closed = phase { return }
    finish(ChannelError.ioOnClosedChannel)
    context.close(mode: .all, promise: nil)
  }

  private func finish(_ error: any Error) {
    phase = .closed
    timer?.cancel()
    timer = nil
    waiting = ByteBuffer()
    waitingPromise.take()?.fail(error)
  }

  /// Sets the only timer: for the handshake, then for draining or closing.
  private func schedule(
    after delay: TimeAmount, _ context: ChannelHandlerContext,
    _ body: @escaping @Sendable (TLSHandler, ChannelHandlerContext) -> Void
  ) {
    timer?.cancel()
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    timer = context.eventLoop.scheduleTask(in: delay) { body(bound.value.0, bound.value.1) }
  }
}

extension Channel {
  /// How many bytes the kernel has received for this connection that were not read; 0 if it does
  /// not report it.
  var unreadByteCount: Int {
    let count = try? pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
      descriptor -> Int32 in
      var count: Int32 = 0
      return unsafe ioctl(descriptor, UInt(FIONREAD), &count) == 0 ? count : 0
    }
    return Int(count ?? 0)
  }
}
