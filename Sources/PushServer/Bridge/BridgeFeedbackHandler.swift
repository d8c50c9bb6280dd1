internal import Carillon
internal import Logging
internal import NIOCore
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire

/// The bridge's feedback service for one client: sends what is new, then closes.
///
/// The list counts as handed out when the client's system has acknowledged all of it and the client
/// has closed in good order. Otherwise the next client gets it again. A client that reads slowly
/// has all the time it needs; one that takes nothing more is disconnected. A list that breaks off
/// ends with a reset, so that no client takes it for the whole one. Used on its channel's event
/// loop only.
final class BridgeFeedbackHandler: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = ByteBuffer
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

  private struct ReadingState: Equatable {
    var writtenBlockCount = 0
    /// By the client's system.
    var unacknowledgedByteCount = 0
    /// All is written and acknowledged: the client is to close.
    var hasEnded = false
  }

  private let bridge: Bridge
  private var context: ChannelHandlerContext?
  private var app: BridgeApp?
  private var phase = Phase.handshaking
  private var cursor: Int64 = 0
  private var count = 0
  private var peerHasClosed = false
  /// The number of the last device of this list.
  private var end: Int64 = 0
  private var isReadingStore = false
  private var writtenBlockCount = 0
  private var progress: ReadingProgress<ReadingState>
  private var check: RepeatedTask?

  private static let interval = TimeAmount.milliseconds(20)

  init(_ bridge: Bridge) {
    self.bridge = bridge
    progress = ReadingProgress(limit: bridge.configuration.stallTime, ReadingState(), now: bridge.clock.uptime)
  }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  /// Bytes from the client have no meaning here.
  func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSEvent.handshakeCompleted(let identity):
      phase = .sending
      beginChecks(context)
      guard let identity, let found = bridge.client(identity), found.app.beginFeedback() else {
        // Nothing is listed, or another client has the list: the answer is empty.
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
    if case .handshaking = phase { return bridge.handshakeFailed(context.remoteAddress?.ipAddress ?? "", "\(error)") }
    abandon()
    context.triggerUserOutboundEvent(TLSAbort.reset, promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    // With this side closed, this is the only sign of the client's close in good order.
    if case .acknowledged = phase, !bridge.isEnding { finish() }
    abandon()
    check?.cancel()
    bridge.closed()
    context.fireChannelInactive()
  }

  /// The service ends, whatever its connections do.
  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    switch phase {
    case .sending, .waiting:
      abandon()
      context.triggerUserOutboundEvent(TLSAbort.reset, promise: promise)
    case .handshaking, .acknowledged, .closed: context.close(mode: mode, promise: promise)
    }
  }

  // MARK: Progress

  private func beginChecks(_ context: ChannelHandlerContext) {
    progress = ReadingProgress(limit: bridge.configuration.stallTime, ReadingState(), now: bridge.clock.uptime)
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    let interval = TimeAmount(bridge.configuration.stallTime / 20)
    check = context.eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in
      bound.value.checkProgress()
    }
  }

  private func checkProgress() {
    guard let context else { return }
    let hasEnded = if case .acknowledged = phase { true } else { false }
    let state = ReadingState(
      writtenBlockCount: writtenBlockCount, unacknowledgedByteCount: context.channel.unacknowledgedByteCount ?? 0,
      hasEnded: hasEnded)
    guard progress.isStalled(state, isBusy: isReadingStore, now: bridge.clock.uptime) else { return }
    bridge.logger.notice("a reader of feedback takes nothing more", metadata: ["app": "\(app?.id ?? "")"])
    abandon()
    context.triggerUserOutboundEvent(TLSAbort.reset, promise: nil)
  }

  // MARK: Sending

  private func begin(_ context: ChannelHandlerContext) {
    guard let id = app?.id else { return }
    let store = bridge.store
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    isReadingStore = true
    context.eventLoop.makeFutureWithTask {
      (try await store.feedbackCursor(app: id), try await store.lastFeedback(app: id))
    }
    .whenComplete { result in
      bound.value.isReadingStore = false
      switch result {
      case .success(let (cursor, end)):
        (bound.value.cursor, bound.value.end) = (cursor, end)
        bound.value.sendNext()
      case .failure(let error): bound.value.failed(error)
      }
    }
  }

  private func sendNext() {
    guard let id = app?.id, let context, case .sending = phase else { return }
    let (store, cursor, end) = (bridge.store, cursor, end)
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    isReadingStore = true
    context.eventLoop.makeFutureWithTask {
      try await store.undeliveredFeedback(app: id, after: cursor, through: end, limit: FeedbackTuple.blockTupleCount)
    }.whenComplete { result in
      bound.value.isReadingStore = false
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
      // Devices behind the last one came back.
      cursor = max(cursor, end)
      return awaitAcknowledgement()
    }
    cursor = last.number
    count += devices.count
    var bytes: [UInt8] = []
    for device in devices {
      guard let token = TokenBytes(bytes: device.token) else { continue }
      let seconds = (device.since ?? device.foundAt).milliseconds / 1000
      FeedbackTuple(timestamp: UInt32(clamping: seconds), token: token).append(to: &bytes)
    }
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes))).whenSuccess {
      bound.value.writtenBlockCount += 1
      bound.value.sendNext()
    }
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
    guard let loop = context?.eventLoop else { return app.endFeedback(0) }
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
