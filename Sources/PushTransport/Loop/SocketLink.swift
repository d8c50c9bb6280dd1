internal import Glibc
internal import NIOCore

extension Channel {
  /// What the kernel holds of this TCP connection that the peer has not acknowledged (SIOCOUTQ); nil if it does not say.
  fileprivate var unacknowledgedByteCount: Int? {
    // Also 0x5411, and named by a macro that Swift does not see.
    let siocOutQ = UInt(TIOCOUTQ)
    return try? pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { descriptor -> Int? in
      var count: Int32 = 0
      return unsafe ioctl(descriptor, siocOutQ, &count) == 0 ? Int(count) : nil
    } ?? nil
  }
}

/// A ``Link`` over TLS and TCP.
///
/// The delegate is never called from within a call to the link: what happens during such a call is told right after it, in order.
final class SocketLink: Link, @unchecked Sendable {
  // Sync: every member is used on the event loop of `loop` alone, as the protocol demands; init only stores.
  private enum State {
    case connecting
    case handshaking(any Channel)
    case open(any Channel, TLSHandler)
    /// close() was called; close_notify and what was written before it are on their way.
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
  /// A call to the link is under way: the delegate must not be called.
  private var isInCall = false
  private var deferred: [Event] = []
  /// Whoever waits to hear whether the connection opens.
  private var decided: (@Sendable (_ isOpen: Bool) -> Void)?

  init(loop: NIOLoop, delegate: any LinkDelegate) {
    self.loop = loop
    self.delegate = delegate
  }

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
    // An option that a socket channel always has; without it, every frame would wait for its deadline, no more.
    return (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) == 0
  }

  var handedOverByteCount: UInt64 {
    guard case .open(_, let tls) = state else { return 0 }
    return tls.ciphertextByteCount
  }

  var unacknowledgedByteCount: Int {
    guard case .open(let channel, _) = state else { return 0 }
    // Both are always there for a TCP socket; should they not be, the quiet period begins with the write.
    let buffered = (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    return buffered + (channel.unacknowledgedByteCount ?? 0)
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

  // MARK: What the dialer says

  var isConnecting: Bool {
    if case .connecting = state { return true }
    return false
  }

  /// Calls `decided` once, when the connection has opened or never will; at once if that has happened.
  func onceDecided(_ decided: @escaping @Sendable (_ isOpen: Bool) -> Void) {
    guard isConnecting else { return decided(false) }
    self.decided = decided
  }

  func failedToConnect(_ reason: LinkClosure) {
    guard isConnecting else { return }
    closed(reason)
  }

  func connected(_ channel: any Channel, tls: TLSHandler) {
    guard isConnecting else { return channel.close(mode: .all, promise: nil) }
    state = .handshaking(channel)
    do {
      let pipeline = channel.pipeline.syncOperations
      // The link's handler first in time, so that it hears of a failure while the handshake's first message is written.
      try pipeline.addHandler(Handler(self, tls: tls))
      try pipeline.addHandler(tls, position: .first)
      try channel.syncOptions?.setOption(.autoRead, value: true)
    } catch {
      reason = .failed("\(error)")
      channel.close(mode: .all, promise: nil)
      closed(.reset)
    }
  }

  // MARK: What the channel says

  fileprivate func handshakeCompleted(tls: TLSHandler) {
    guard case .handshaking(let channel) = state else { return }
    state = .open(channel, tls)
    isWritable = channel.isWritable
    decided.take()?(true)
    deliver(.opened)
  }

  fileprivate func received(_ bytes: ByteBuffer) {
    deliver(.received(bytes))
  }

  fileprivate func writabilityChanged() {
    // A batch larger than the high-water mark that the socket takes at once makes the channel unwritable and writable again: that is no news, and told
    // as such it would let whoever sends at every such word keep the loop for itself.
    if !isInCall { noticeWritability() }
  }

  private func noticeWritability() {
    guard case .open(let channel, _) = state, channel.isWritable != isWritable else { return }
    isWritable = channel.isWritable
    deliver(.writability(isWritable))
  }

  /// Remembers why the channel is about to close; the first reason is the one.
  fileprivate func noticed(_ reason: LinkClosure) {
    self.reason = self.reason ?? reason
  }

  fileprivate func caught(_ error: any Error) {
    switch error {
    case TLSFailure.credentialRefused(let sentence): noticed(.credentialRefused(sentence))
    case TLSFailure.peerNotTrusted(let sentence), TLSFailure.handshakeFailed(let sentence): noticed(.handshakeFailed(sentence))
    case TLSFailure.broken(let sentence): noticed(.failed(sentence))
    case let error as IOError where [ECONNRESET, EPIPE, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH].contains(error.errnoCode): noticed(.reset)
    default: noticed(.failed("\(error)"))
    }
  }

  /// The last thing: the channel is closed. Without an error and without the end of the stream it was a write that failed: a reset.
  fileprivate func closed(_ fallback: LinkClosure) {
    if case .closed = state { return }
    state = .closed
    isWritable = false
    decided.take()?(false)
    deliver(.closed(reason ?? fallback))
  }

  // MARK: Towards the delegate

  private func deliver(_ event: Event) {
    guard isInCall || !deferred.isEmpty else { return call(event) }
    deferred.append(event)
    if deferred.count == 1 { loop.eventLoop.execute { self.deliverDeferred() } }
  }

  private func deliverDeferred() {
    // The delegate may call the link and so add to the queue; what it adds comes after what is there.
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

    init(_ link: SocketLink, tls: TLSHandler) {
      self.link = link
      self.tls = tls
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { link.received(unwrapInboundIn(data)) }
    func channelWritabilityChanged(context: ChannelHandlerContext) { link.writabilityChanged() }
    func channelInactive(context: ChannelHandlerContext) { link.closed(.reset) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { link.caught(error) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      switch event {
      case TLSEvent.handshakeCompleted: link.handshakeCompleted(tls: tls)
      case TLSEvent.inputClosed(let clean):
        // Told at once, not when our own side has been flushed and closed: a peer that has gone is not a quiet one.
        link.closed(clean ? .byPeer : .truncated)
      default: break
      }
    }
  }
}
