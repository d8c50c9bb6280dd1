internal import Glibc
package import NIOCore

extension Channel {
  /// How many bytes of this TCP connection the peer has not acknowledged (SIOCOUTQ); nil if the
  /// system does not report it.
  package var unacknowledgedByteCount: Int? {
    // The value is 0x5411. Its own macro is not visible in Swift; this one has the same value.
    let siocOutQ = UInt(TIOCOUTQ)
    return try? pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
      descriptor -> Int? in
      var count: Int32 = 0
      return unsafe ioctl(descriptor, siocOutQ, &count) == 0 ? Int(count) : nil
    } ?? nil
  }
}

/// A ``Link`` over TLS and TCP.
///
/// The delegate is never called during a call to the link. Events of such a call are delivered
/// right after it, in order.
final class SocketLink: Link, @unchecked Sendable {
  // Sync: every member is used on the event loop of `loop` only, as the protocol demands; init only
  // stores.
  private enum State {
    case connecting
    case handshaking(any Channel)
    case open(any Channel, TLSHandler)
    /// ``close()`` was called. Earlier writes and close_notify are being sent.
    case closing
    case closed
  }

  private enum Event {
    case opened
    case received(ByteBuffer)
    case writability(Bool)
    case closed(LinkClosure)
  }

  private let loop: NIOLoop
  private var delegate: (any LinkDelegate)?
  private var state = State.connecting
  private var reason: LinkClosure?
  private(set) var isWritable = false
  /// A call to the link is under way, so the delegate must not be called.
  private var isInCall = false
  private var deferred: [Event] = []
  /// The dialer's callback for the end of connecting.
  private var decided: (@Sendable (_ isOpen: Bool) -> Void)?

  init(loop: NIOLoop, delegate: any LinkDelegate) { (self.loop, self.delegate) = (loop, delegate) }

  // MARK: Link

  func send(_ bytes: UnsafeRawBufferPointer) {
    guard case .open(_, let tls) = state else { return }
    isInCall = true
    unsafe tls.send(bytes)
    noticeWritability()
    isInCall = false
  }

  var isIdle: Bool {
    guard case .open(let channel, _) = state else { return false }
    // A socket channel always has this option. Without it, frames would only wait for their
    // deadline.
    return (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) == 0
  }

  var handedOverByteCount: UInt64 {
    guard case .open(_, let tls) = state else { return 0 }
    return tls.ciphertextByteCount
  }

  var unacknowledgedByteCount: Int {
    guard case .open(let channel, _) = state else { return 0 }
    // Both values exist for every TCP socket. Without them, the quiet period would begin with the
    // write.
    let buffered = (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    return buffered + (channel.unacknowledgedByteCount ?? 0)
  }

  func setReading(_ reads: Bool) {
    guard case .open(let channel, _) = state else { return }
    isInCall = true
    // Fails only when the channel is closed.
    try? channel.syncOptions?.setOption(.autoRead, value: reads)
    isInCall = false
  }

  func close() {
    isInCall = true
    defer { isInCall = false }
    switch state {
    case .connecting: closed(.byUs)
    case .handshaking(let channel), .open(let channel, _):
      reason = reason ?? .byUs
      state = .closing
      isWritable = false
      channel.close(mode: .all, promise: nil)
    case .closing, .closed: break
    }
  }

  // MARK: Calls of the dialer

  var isConnecting: Bool {
    if case .connecting = state { return true }
    return false
  }

  /// Calls `decided` once, when the connection has opened or never will; at once if that is known.
  func onceDecided(_ decided: @escaping @Sendable (_ isOpen: Bool) -> Void) {
    guard isConnecting else { return decided(false) }
    self.decided = decided
  }

  func failedToConnect(_ reason: LinkClosure) {
    guard isConnecting else { return }
    closed(reason)
  }

  /// - Parameter proxy: adds `tls` when the way to the host is open; nil: it is.
  func connected(_ channel: any Channel, tls: TLSHandler, proxy: ProxyHandler?) {
    guard isConnecting else { return channel.close(mode: .all, promise: nil) }
    state = .handshaking(channel)
    do {
      let pipeline = channel.pipeline.syncOperations
      // The link's handler is added first, so that it learns of a failure while the handshake's
      // first message is written.
      try pipeline.addHandler(Handler(self, tls: tls))
      if let proxy { try proxy.add(to: pipeline) } else { try pipeline.addHandler(tls, position: .first) }
      try channel.syncOptions?.setOption(.autoRead, value: true)
    } catch {
      reason = .failed("\(error)")
      channel.close(mode: .all, promise: nil)
      closed(.reset)
    }
  }

  // MARK: Events of the channel

  fileprivate func handshakeCompleted(tls: TLSHandler) {
    guard case .handshaking(let channel) = state else { return }
    state = .open(channel, tls)
    isWritable = channel.isWritable
    decided.take()?(true)
    deliver(.opened)
  }

  fileprivate func received(_ bytes: ByteBuffer) { deliver(.received(bytes)) }

  fileprivate func writabilityChanged() {
    // A batch above the high-water mark that the socket takes at once makes the channel unwritable
    // and writable again. That is not reported: a sender that continues at each such report would
    // block the loop.
    if !isInCall { noticeWritability() }
  }

  private func noticeWritability() {
    guard case .open(let channel, _) = state, channel.isWritable != isWritable else { return }
    isWritable = channel.isWritable
    deliver(.writability(isWritable))
  }

  /// Records why the channel is about to close. The first reason counts.
  fileprivate func noticed(_ reason: LinkClosure) { self.reason = self.reason ?? reason }

  fileprivate func caught(_ error: any Error) {
    switch error {
    case let failure as ProxyFailure: noticed(.unreachable(failure.sentence))
    case TLSFailure.credentialRefused(let sentence): noticed(.credentialRefused(sentence))
    case TLSFailure.peerNotTrusted(let sentence), TLSFailure.handshakeFailed(let sentence):
      noticed(.handshakeFailed(sentence))
    case TLSFailure.broken(let sentence): noticed(.failed(sentence))
    case let error as IOError where [ECONNRESET, EPIPE, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH].contains(error.errnoCode):
      noticed(.reset)
    default: noticed(.failed("\(error)"))
    }
  }

  /// The channel has closed. If neither an error nor the end of the stream came before, a write has
  /// failed: a reset.
  fileprivate func closed(_ fallback: LinkClosure) {
    if case .closed = state { return }
    state = .closed
    isWritable = false
    decided.take()?(false)
    deliver(.closed(reason ?? fallback))
  }

  // MARK: Calls to the delegate

  private func deliver(_ event: Event) {
    guard isInCall || !deferred.isEmpty else { return call(event) }
    deferred.append(event)
    if deferred.count == 1 { loop.eventLoop.execute { self.deliverDeferred() } }
  }

  private func deliverDeferred() {
    // The delegate may call the link and so append events, which are delivered behind the earlier
    // ones.
    while let event = deferred.first {
      call(event)
      deferred.removeFirst()
    }
  }

  private func call(_ event: Event) {
    guard let delegate else { return }
    switch event {
    case .opened: delegate.linkOpened(self)
    case .received(let bytes): unsafe bytes.withUnsafeReadableBytes { unsafe delegate.link(self, received: $0) }
    case .writability(let isWritable): delegate.link(self, isWritable: isWritable)
    case .closed(let reason):
      self.delegate = nil
      delegate.linkClosed(self, reason: reason)
    }
  }

  /// The last handler of the channel's pipeline.
  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let link: SocketLink
    private let tls: TLSHandler

    init(_ link: SocketLink, tls: TLSHandler) { (self.link, self.tls) = (link, tls) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { link.received(unwrapInboundIn(data)) }
    func channelWritabilityChanged(context: ChannelHandlerContext) { link.writabilityChanged() }
    func channelInactive(context: ChannelHandlerContext) { link.closed(.reset) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { link.caught(error) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      switch event {
      case TLSEvent.handshakeCompleted: link.handshakeCompleted(tls: tls)
      case TLSEvent.inputClosed(let clean):
        // Reported at once, before this side is flushed and closed: a peer that has closed is not
        // merely quiet.
        link.closed(clean ? .byPeer : .truncated)
      default: break
      }
    }
  }
}
