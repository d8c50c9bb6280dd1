internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import PushService

/// Asks the connection to answer `100 Continue`, if the client waits for that.
struct BodyWanted: Sendable {}

/// Asks the connection to close once its client has closed its side. The answer lasts as long as
/// the client likes, and writes too seldom to notice that it has left.
struct EndsWithInput: Sendable {}

/// What Hummingbird leaves out of HTTP/1.1.
///
/// - `Expect: 100-continue` is answered when the handler reads the body, so a client that is
///   refused sends none.
/// - After an answer that came before the end of the request, the rest is not read: the answer
///   says `Connection: close`, this side is closed, and what still arrives is discarded for a
///   while. Closing at once would make the kernel send a reset, which destroys the answer.
/// - A head that cannot be read is answered with a problem.
final class ExchangeHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// Requests whose head has come, that have come to their end, and that were answered: a client
  /// may send the next one before it has the answer.
  private var begunCount = 0
  private var completeCount = 0
  private var answeredCount = 0
  private var isWaitingForContinue = false
  private var isInputClosed = false
  private var endsWithInput = false
  /// An answer is under way, and the connection ends with it.
  private var closesAfterAnswer = false
  private var lingering: Scheduled<Void>?
  /// Nil once the head of the first request has come.
  private var firstRequest: Scheduled<Void>?
  private let firstRequestTime: TimeAmount
  private var isLingering: Bool { lingering != nil }
  private var discardedByteCount = 0

  /// Enough for the largest default body: many clients read no answer before they have sent all.
  private static let lingerTime = TimeAmount.seconds(10)
  private static let lingerByteCount = 16 << 20

  /// - Parameter firstRequest: how long the head of the first request may take.
  init(firstRequest: TimeAmount) { firstRequestTime = firstRequest }

  func handlerAdded(context: ChannelHandlerContext) {
    let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
    firstRequest = context.eventLoop.scheduleTask(in: firstRequestTime) { bound.value.close(promise: nil) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { firstRequest?.cancel() }

  // MARK: Inbound

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let part = unwrapInboundIn(data)
    if isLingering { return discard(part, context) }
    switch part {
    case .head(let head):
      firstRequest?.cancel()
      firstRequest = nil
      // The first is the request's authority: a proxy and this service could read different names.
      if head.headerFields.contains(.hostField) {
        let problem = Problem(.badRequest, "Bad request", "The request has more than one header Host.")
        return refuse(problem, context)
      }
      begunCount += 1
      isWaitingForContinue = head.headerFields[.expect]?.lowercased() == "100-continue"
    case .body: isWaitingForContinue = false
    case .end: completeCount += 1
    }
    context.fireChannelRead(data)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if isLingering { context.read() } else { context.fireChannelReadComplete() }
  }

  private func discard(_ part: HTTPRequestPart, _ context: ChannelHandlerContext) {
    if case .body(let bytes) = part { discardedByteCount += bytes.readableBytes }
    if discardedByteCount > Self.lingerByteCount { context.close(promise: nil) }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if let event = event as? ChannelEvent, event == .inputClosed {
      isInputClosed = true
      if isLingering || endsWithInput { return context.close(promise: nil) }
    }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    lingering?.cancel()
    firstRequest?.cancel()
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if isLingering { return context.close(promise: nil) }
    // In the middle of a request, the reader of its body gets the error.
    guard let failure = error as? HTTPParserError, begunCount == completeCount, answeredCount == completeCount else {
      return context.fireErrorCaught(error)
    }
    refuse(Problem(failure), context)
  }

  /// Answers what is no request, and ends the connection.
  private func refuse(_ problem: Problem, _ context: ChannelHandlerContext) {
    let (head, body) = problem.bare
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(body)), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    linger(context)
  }

  // MARK: Outbound

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(var head) where head.status.kind != .informational:
      isWaitingForContinue = false
      closesAfterAnswer = completeCount <= answeredCount
      guard closesAfterAnswer else { break }
      head.headerFields[.connection] = "close"
      return context.write(wrapOutboundOut(.head(head)), promise: promise)
    case .end:
      answeredCount += 1
      guard closesAfterAnswer else { break }
      context.writeAndFlush(data, promise: promise)
      return linger(context)
    default: break
    }
    context.write(data, promise: promise)
  }

  func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
    if event is EndsWithInput {
      endsWithInput = true
      if isInputClosed { context.close(promise: nil) }
      promise?.succeed(())
      return
    }
    guard event is BodyWanted else { return context.triggerUserOutboundEvent(event, promise: promise) }
    if isWaitingForContinue {
      isWaitingForContinue = false
      context.writeAndFlush(wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: nil)
    }
    promise?.succeed(())
  }

  private func linger(_ context: ChannelHandlerContext) {
    guard !isLingering else { return }
    let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
    lingering = context.eventLoop.scheduleTask(in: Self.lingerTime) { bound.value.close(promise: nil) }
    context.close(mode: .output, promise: nil)
    context.read()
  }
}

extension HTTPField.Name {
  /// Of a second header `Host`.
  fileprivate static var hostField: HTTPField.Name { HTTPField.Name("host") ?? .date }
}

extension Problem {
  /// Why a request's head cannot be read.
  init(_ failure: HTTPParserError) {
    if failure == .headerOverflow {
      self.init(
        .requestHeaderFieldsTooLarge, "Header too large", "The request's header has more than 32 KiB or 100 fields.")
    } else {
      self.init(.badRequest, "Bad request", "The request is not HTTP/1.1: \(failure).")
    }
  }

  /// The answer without a request that it belongs to.
  fileprivate var bare: (HTTPResponse, ByteBuffer) {
    let body = ByteBuffer(string: text(instance: nil))
    var head = HTTPResponse(status: status)
    head.headerFields[.contentType] = "application/problem+json"
    head.headerFields[.contentLength] = String(body.readableBytes)
    head.headerFields[.connection] = "close"
    return (head, body)
  }
}

/// The body of a request with `Expect: 100-continue`, which is sent when the handler reads it.
struct ContinuedBody: AsyncSequence, Sendable {
  let body: RequestBody
  let channel: any Channel

  struct AsyncIterator: AsyncIteratorProtocol {
    var iterator: RequestBody.AsyncIterator
    /// Nil once the body was asked for.
    var channel: (any Channel)?

    mutating func next() async throws -> ByteBuffer? {
      channel.take()?.triggerUserOutboundEvent(BodyWanted(), promise: nil)
      return try await iterator.next()
    }
  }

  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(iterator: body.makeAsyncIterator(), channel: channel) }
}
