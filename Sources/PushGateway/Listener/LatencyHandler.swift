internal import NIOCore
internal import PushWire

/// Adds latency to one connection of a server. What the client sends reaches the later handlers
/// half a round trip after it reached the socket. What they write reaches the socket half a round
/// trip after the write. The order is kept, including ends of stream, closes and resets.
///
/// It stands first in the pipeline, next to the socket, so that the TLS handshake is delayed too.
/// TCP's own handshake is over by then: the kernel of a near client completes it at once. So the
/// client's first bytes count as sent one round trip after the accept. A client that dials sees its
/// TLS 1.3 handshake complete after two round trips, as with a server that is really so far away.
///
/// Each write implies a flush, because TLS flushes all that it writes.
final class LatencyHandler: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private enum Arrival {
    case bytes(ByteBuffer)
    case event(ChannelEvent)
    case failure(any Error)
  }

  private enum Departure {
    case bytes(ByteBuffer, EventLoopPromise<Void>?)
    case close(CloseMode, EventLoopPromise<Void>?)
  }

  /// Reading pauses while more bytes are in flight, both directions together. At a round trip of 50
  /// ms this is more than 10 Gbit/s.
  static let byteCountLimit = 64 << 20

  private let roundTrip: Duration
  private var arrivals: DelayLine<Arrival>
  private var departures: DelayLine<Departure>
  private var arrivalTimer: Timer?
  private var departureTimer: Timer?
  /// A read was requested while ``byteCountLimit`` was reached.
  private var isReadWithheld = false
  private var isDelivering = false
  /// A close of both directions is in flight. The server receives nothing more.
  private var isClosing = false
  private var isInactive = false

  private struct Timer {
    let due: Instant
    let scheduled: Scheduled<Void>
  }

  init(roundTrip: Duration) {
    self.roundTrip = roundTrip
    arrivals = DelayLine(delay: roundTrip / 2)
    departures = DelayLine(delay: roundTrip / 2)
  }

  func handlerAdded(context: ChannelHandlerContext) {
    arrivals = DelayLine(delay: roundTrip / 2, opening: Self.now(context) + roundTrip)
  }

  func handlerRemoved(context: ChannelHandlerContext) { stop() }

  private static func now(_ context: ChannelHandlerContext) -> Instant {
    Instant(nanoseconds: context.eventLoop.now.uptimeNanoseconds)
  }

  /// Copies bytes out of a buffer that is mostly empty. Otherwise thousands of small reads or
  /// writes in flight would hold too much memory.
  private static func compact(_ bytes: ByteBuffer) -> ByteBuffer {
    guard bytes.readableBytes < bytes.storageCapacity / 2 else { return bytes }
    return ByteBuffer(bytes: bytes.readableBytesView)
  }
}

// MARK: - From the client

extension LatencyHandler {
  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isClosing else { return }
    let bytes = Self.compact(unwrapInboundIn(data))
    arrivals.append(.bytes(bytes), byteCount: bytes.readableBytes, now: Self.now(context))
    scheduleArrivals(context)
  }

  /// Replaced by one read-complete event for each delivery.
  func channelReadComplete(context: ChannelHandlerContext) {}

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    // Other events come from this process and have no latency.
    guard let event = event as? ChannelEvent else { return context.fireUserInboundEventTriggered(event) }
    guard !isClosing else { return }
    arrivals.append(.event(event), now: Self.now(context))
    scheduleArrivals(context)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard !isClosing else { return context.fireErrorCaught(error) }
    arrivals.append(.failure(error), now: Self.now(context))
    scheduleArrivals(context)
  }

  /// The socket is closed and the pipeline is about to be dismantled. What had arrived is delivered
  /// at once, in order.
  func channelInactive(context: ChannelHandlerContext) {
    isInactive = true
    while let departure = departures.removeFirst() {
      switch departure {
      case .bytes(_, let promise): promise?.fail(ChannelError.ioOnClosedChannel)
      case .close(_, let promise): promise?.succeed()
      }
    }
    while let arrival = arrivals.removeFirst() { deliver(arrival, context) }
    stop()
    context.fireChannelInactive()
  }

  private func stop() {
    arrivalTimer.take()?.scheduled.cancel()
    departureTimer.take()?.scheduled.cancel()
    arrivals.removeAll()
  }

  private func deliverArrivals(_ context: ChannelHandlerContext) {
    guard !isDelivering else { return }
    isDelivering = true
    let now = Self.now(context)
    var hasDelivered = false
    while let arrival = arrivals.next(now: now) {
      deliver(arrival, context)
      hasDelivered = true
    }
    isDelivering = false
    if hasDelivered { context.fireChannelReadComplete() }
    readAgain(context)
    scheduleArrivals(context)
  }

  private func deliver(_ arrival: Arrival, _ context: ChannelHandlerContext) {
    switch arrival {
    case .bytes(let bytes): context.fireChannelRead(wrapInboundOut(bytes))
    case .event(let event): context.fireUserInboundEventTriggered(event)
    case .failure(let error): context.fireErrorCaught(error)
    }
  }

  private func scheduleArrivals(_ context: ChannelHandlerContext) {
    guard let due = arrivals.nextDue, !isInactive else { return }
    if let arrivalTimer, arrivalTimer.due <= due { return }
    arrivalTimer?.scheduled.cancel()
    let scheduled = schedule(at: due, context) { handler, context in
      handler.arrivalTimer = nil
      handler.deliverArrivals(context)
    }
    arrivalTimer = Timer(due: due, scheduled: scheduled)
  }
}

// MARK: - To the client

extension LatencyHandler {
  func read(context: ChannelHandlerContext) {
    isReadWithheld = true
    readAgain(context)
  }

  private func readAgain(_ context: ChannelHandlerContext) {
    guard isReadWithheld, arrivals.byteCount + departures.byteCount < Self.byteCountLimit else { return }
    isReadWithheld = false
    context.read()
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard !isInactive else { return context.write(data, promise: promise) }
    guard !isClosing else {
      promise?.fail(ChannelError.outputClosed)
      return
    }
    let bytes = Self.compact(unwrapOutboundIn(data))
    // A write is complete when the kernel has the bytes, not when the client has them. A server
    // that writes block after block must not wait for each to travel.
    let isRoom = departures.byteCount < Self.byteCountLimit
    departures.append(.bytes(bytes, isRoom ? nil : promise), byteCount: bytes.readableBytes, now: Self.now(context))
    if isRoom, let promise { context.eventLoop.execute { promise.succeed() } }
    scheduleDepartures(context)
  }

  func flush(context: ChannelHandlerContext) {}

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    guard !isInactive, mode != .input else { return context.close(mode: mode, promise: promise) }
    guard !isClosing else {
      context.channel.closeFuture.cascade(to: promise)
      return
    }
    departures.append(.close(mode, promise), now: Self.now(context))
    if mode == .all {
      isClosing = true
      arrivals.removeAll()
      arrivalTimer.take()?.scheduled.cancel()
    }
    scheduleDepartures(context)
  }

  private func sendDepartures(_ context: ChannelHandlerContext) {
    let now = Self.now(context)
    var isUnflushed = false
    while let departure = departures.next(now: now) {
      switch departure {
      case .bytes(let bytes, let promise):
        context.write(wrapOutboundOut(bytes), promise: promise)
        isUnflushed = true
      case .close(let mode, let promise):
        if isUnflushed { context.flush() }
        isUnflushed = false
        context.close(mode: mode, promise: promise)
      }
    }
    if isUnflushed { context.flush() }
    readAgain(context)
    scheduleDepartures(context)
  }

  private func scheduleDepartures(_ context: ChannelHandlerContext) {
    guard let due = departures.nextDue, !isInactive else { return }
    if let departureTimer, departureTimer.due <= due { return }
    departureTimer?.scheduled.cancel()
    let scheduled = schedule(at: due, context) { handler, context in
      handler.departureTimer = nil
      handler.sendDepartures(context)
    }
    departureTimer = Timer(due: due, scheduled: scheduled)
  }
}
