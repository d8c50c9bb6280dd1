internal import Carillon
internal import Logging
internal import NIOCore
internal import PushStore
internal import PushTransport
internal import PushWire

/// The bridge's feedback service for one client: sends what was found since the last time, then
/// closes.
///
/// The list counts as handed out when the client's system has acknowledged all of it and the client
/// has closed in good order. Otherwise the next client gets it again. Used on its channel's event
/// loop only.
final class BridgeFeedbackHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private enum Phase {
    case handshaking
    case sending
    /// All is written. Ends when the client's system has acknowledged it.
    case waiting
    /// The end of the stream is written. Ends when the client closes.
    case acknowledged
    case closed
  }

  private let bridge: Bridge
  private var context: ChannelHandlerContext?
  private var app: BridgeApp?
  private var phase = Phase.handshaking
  private var cursor: Int64 = 0
  private var count = 0
  private var peerHasClosed = false
  private var limit: Scheduled<Void>?

  /// When a client that does not read, or does not close, is disconnected.
  private static let timeLimit = TimeAmount.seconds(60)
  private static let interval = TimeAmount.milliseconds(20)

  init(_ bridge: Bridge) { self.bridge = bridge }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  /// Bytes from the client have no meaning here.
  func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSEvent.handshakeCompleted(let identity):
      phase = .sending
      let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
      limit = context.eventLoop.scheduleTask(in: Self.timeLimit) { bound.value.timeIsOver() }
      guard let identity, let found = bridge.client(identity), found.app.beginFeedback() else {
        // Nothing for it, or somebody else has the list: it is empty.
        phase = .closed
        return context.close(mode: .all, promise: nil)
      }
      app = found.app
      begin(context)
    case TLSEvent.inputClosed:
      peerHasClosed = true
      if case .acknowledged = phase { finish() }
    default:
      context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // After a failed handshake, TLS sends its alert and closes.
    if case .handshaking = phase {
      return bridge.handshakeFailed(context.remoteAddress?.ipAddress ?? "", "\(error)")
    }
    abandon()
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    // With this side closed, nothing but this is heard of the client's close in good order.
    if case .acknowledged = phase, !bridge.isEnding { finish() }
    abandon()
    limit?.cancel()
    bridge.closed()
    context.fireChannelInactive()
  }

  private func timeIsOver() {
    abandon()
    context?.close(promise: nil)
  }

  // MARK: Sending

  private func begin(_ context: ChannelHandlerContext) {
    guard let id = app?.id else { return }
    let store = bridge.store
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    context.eventLoop.makeFutureWithTask { try await store.feedbackCursor(app: id) }.whenComplete { result in
      switch result {
      case .success(let cursor):
        bound.value.cursor = cursor
        bound.value.sendNext()
      case .failure(let error): bound.value.failed(error)
      }
    }
  }

  private func sendNext() {
    guard let id = app?.id, let context, case .sending = phase else { return }
    let (store, cursor) = (bridge.store, cursor)
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    context.eventLoop.makeFutureWithTask {
      try await store.undeliveredFeedback(app: id, after: cursor, limit: FeedbackSession.blockTupleCount)
    }.whenComplete { result in
      switch result {
      case .success(let devices): bound.value.send(devices)
      case .failure(let error): bound.value.failed(error)
      }
    }
  }

  private func send(_ devices: [StoredGoneDevice]) {
    guard let context, case .sending = phase else { return }
    guard let last = devices.last else {
      phase = .waiting
      return awaitAcknowledgement()
    }
    cursor = last.number
    count += devices.count
    var bytes: [UInt8] = []
    for device in devices {
      guard let token = PushWire.DeviceToken(bytes: device.token) else { continue }
      let seconds = (device.since ?? device.foundAt).milliseconds / 1000
      FeedbackTuple(timestamp: UInt32(clamping: seconds), token: token).append(to: &bytes)
    }
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes))).whenSuccess { bound.value.sendNext() }
  }

  private func awaitAcknowledgement() {
    guard let context, case .waiting = phase else { return }
    guard context.channel.unacknowledgedByteCount ?? 0 == 0 else {
      let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
      context.eventLoop.scheduleTask(in: Self.interval) { bound.value.awaitAcknowledgement() }
      return
    }
    phase = .acknowledged
    if peerHasClosed { finish() } else { context.close(mode: .output, promise: nil) }
  }

  // MARK: Ends

  /// The client has everything.
  private func finish() {
    guard let app, case .acknowledged = phase else { return }
    phase = .closed
    let (store, cursor, count) = (bridge.store, cursor, count)
    let loop = context?.eventLoop
    guard let loop else { return app.endFeedback(0) }
    let bound = NIOLoopBound(self, eventLoop: loop)
    let logger = bridge.logger
    loop.makeFutureWithTask { if count > 0 { try await store.setFeedbackCursor(app: app.id, to: cursor) } }
      .whenComplete { result in
        if case .failure(let error) = result {
          logger.error("feedback is handed out again", metadata: ["app": "\(app.id)", "why": "\(error)"])
        }
        app.endFeedback(count)
        bound.value.context?.close(promise: nil)
      }
  }

  private func failed(_ error: any Error) {
    bridge.logger.error("feedback cannot be read", metadata: ["app": "\(app?.id ?? "")", "why": "\(error)"])
    abandon()
    context?.triggerUserOutboundEvent(TLSAbort.reset, promise: nil)
  }

  /// The next client gets the list again.
  private func abandon() {
    if let app {
      switch phase {
      case .sending, .waiting, .acknowledged: app.endFeedback(0)
      case .handshaking, .closed: break
      }
    }
    phase = .closed
  }
}
