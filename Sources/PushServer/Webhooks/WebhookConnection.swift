internal import Carillon
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Why a delivery was not acknowledged.
struct WebhookFailure: Error, Hashable {
  /// The rest of a sentence that begins with the receiver.
  var reason: String
  /// What the receiver asked for.
  var pause: Duration?
  /// The connection had been used before, and ended without an answer: the receiver may have closed
  /// it in the meantime.
  var isOfOldConnection = false

  init(_ reason: String) { self.reason = reason }
}

/// A connection to a receiver, for deliveries one after the other.
final class WebhookConnection: Sendable {
  private let channel: any Channel
  private let exchanges: NIOLoopBound<WebhookExchanges>
  private let host: String

  /// For each address: the end of the service may have to wait for one.
  private static let connectTimeout = TimeAmount.seconds(5)
  private static let addressLimit = 4

  private init(_ channel: any Channel, _ exchanges: NIOLoopBound<WebhookExchanges>, host: String) {
    (self.channel, self.exchanges, self.host) = (channel, exchanges, host)
  }

  /// - Parameter addresses: what the receiver's name leads to.
  /// - Throws: ``WebhookFailure``.
  static func open(to webhook: Webhook, addresses: [String]) async throws(WebhookFailure) -> WebhookConnection {
    let context: TLSContext
    do throws(CredentialError) { context = try webhook.context() } catch {
      throw WebhookFailure("gets nothing, because \(error)")
    }
    guard !addresses.isEmpty else { throw WebhookFailure("cannot be found: there is no address for that name") }
    let usable = addresses.filter { webhook.isPrivate || !OwnNetwork.contains(HostAddresses.bytes($0) ?? []) }
    guard !usable.isEmpty else {
      throw WebhookFailure(
        "is at \(addresses[0]), in a network of one's own; write \"private: true\" if that is meant")
    }
    var failure = WebhookFailure("cannot be reached")
    for address in usable.prefix(addressLimit) where !Task.isCancelled {
      do throws(WebhookFailure) { return try await open(to: webhook, at: address, context) } catch { failure = error }
    }
    throw failure
  }

  private static func open(
    to webhook: Webhook, at address: String, _ context: TLSContext
  ) async throws(WebhookFailure) -> WebhookConnection {
    let endpoint = webhook.endpoint
    do {
      let socket = try SocketAddress(ipAddress: address, port: endpoint.port)
      return try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connectTimeout(connectTimeout)
        .channelOption(.tcpOption(.tcp_nodelay), value: 1)
        .channelOption(.allowRemoteHalfClosure, value: true)
        .connect(to: socket)
        .flatMap { channel in
          channel.eventLoop.makeCompletedFuture {
            let pipeline = channel.pipeline.syncOperations
            let exchanges = WebhookExchanges()
            try pipeline.addHandler(TLSHandler(TLSSession(context, host: endpoint.host)))
            try pipeline.addHTTPClientHandlers()
            try pipeline.addHandler(exchanges)
            let host = endpoint.host.contains(":") ? "[\(endpoint.host)]" : endpoint.host
            return WebhookConnection(
              channel, NIOLoopBound(exchanges, eventLoop: channel.eventLoop),
              host: endpoint.port == 443 ? host : "\(host):\(endpoint.port)")
          }
        }.get()
    } catch {
      throw WebhookFailure("cannot be reached at \(address): \(WebhookExchanges.describe(error))")
    }
  }

  var isOpen: Bool { channel.isActive }

  func close() { channel.close(promise: nil) }

  /// Delivers a body.
  ///
  /// - Returns: the status, from 200 to 299.
  /// - Throws: ``WebhookFailure``.
  @discardableResult
  func post(_ body: [UInt8], to target: String, signature: String) async throws(WebhookFailure) -> UInt {
    let headers = HTTPHeaders([
      ("Host", host), ("User-Agent", "carillon/\(ProgramFacts.version)"), ("Content-Type", MediaType.json.rawValue),
      ("Content-Length", "\(body.count)"), (WebhookSignature.header, signature), ("Accept", "*/*"),
    ])
    let head = HTTPRequestHead(version: .http1_1, method: .POST, uri: target, headers: headers)
    let answer: WebhookExchanges.Answer
    do {
      answer = try await withTaskCancellationHandler {
        try await channel.eventLoop.flatSubmit { [exchanges, channel] in
          exchanges.value.begin(head, body, on: channel)
        }.get()
      } onCancel: {
        channel.close(promise: nil)
      }
    } catch let failure as WebhookFailure {
      throw failure
    } catch {
      throw WebhookFailure(WebhookExchanges.describe(error))
    }
    guard 200..<300 ~= answer.status else {
      let why = 300..<400 ~= answer.status ? ", and redirects are not followed" : ""
      var failure = WebhookFailure("answered \(answer.status)\(why)")
      failure.pause = answer.pause
      throw failure
    }
    return answer.status
  }
}

/// Writes requests, and finds out what is answered, one after the other.
private final class WebhookExchanges: ChannelInboundHandler {
  typealias InboundIn = HTTPClientResponsePart
  typealias OutboundOut = HTTPClientRequestPart

  struct Answer: Sendable {
    var status: UInt
    var pause: Duration?
  }

  private var promise: EventLoopPromise<Answer>?
  private var answer: Answer?
  private var isKeptAlive = true
  /// Of the body of an answer: nobody reads it.
  private var byteCount = 0
  private var timer: Scheduled<Void>?
  private var count = 0
  private var failure: (any Error)?

  private static let byteCountLimit = 64 << 10
  private static let timeout = TimeAmount.seconds(30)

  /// - Parameter channel: the handler's.
  func begin(_ head: HTTPRequestHead, _ body: [UInt8], on channel: any Channel) -> EventLoopFuture<Answer> {
    let promise = channel.eventLoop.makePromise(of: Answer.self)
    count += 1
    guard channel.isActive, failure == nil else {
      promise.fail(ended(failure))
      return promise.futureResult
    }
    self.promise = promise
    (answer, byteCount) = (nil, 0)
    timer = channel.eventLoop.scheduleTask(in: Self.timeout) {
      [bound = NIOLoopBound(self, eventLoop: channel.eventLoop)] in
      bound.value.end(WebhookFailure("has not answered within \(Self.timeout.nanoseconds / 1_000_000_000) s"))
      channel.close(promise: nil)
    }
    // A write that fails closes the channel.
    channel.write(HTTPClientRequestPart.head(head), promise: nil)
    channel.write(HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(bytes: body))), promise: nil)
    channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
    return promise.futureResult
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      isKeptAlive = head.isKeepAlive
      let seconds = head.headers.first(name: "retry-after").flatMap { Int($0) }
      answer = Answer(status: head.status.code, pause: seconds.map { .seconds($0) })
    case .body(let bytes):
      byteCount += bytes.readableBytes
      if byteCount > Self.byteCountLimit {
        end(nil)
        context.close(promise: nil)
      }
    case .end:
      end(nil)
      if !isKeptAlive { context.close(promise: nil) }
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    failure = failure ?? error
    context.close(promise: nil)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case ChannelEvent.inputClosed? = event as? ChannelEvent { context.close(promise: nil) }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    end(failure)
    context.fireChannelInactive()
  }

  /// A status that has come counts, whatever happens behind it.
  private func end(_ failure: (any Error)?) {
    timer?.cancel()
    timer = nil
    guard let promise else { return }
    self.promise = nil
    if let answer { promise.succeed(answer) } else { promise.fail(ended(failure)) }
  }

  private func ended(_ failure: (any Error)?) -> WebhookFailure {
    if let failure = failure as? WebhookFailure { return failure }
    var ended = WebhookFailure(failure.map(Self.describe) ?? "has ended the connection without an answer")
    ended.isOfOldConnection = count > 1
    return ended
  }

  static func describe(_ error: any Error) -> String {
    switch error {
    case let error as IOError: SystemCall.reason(error.errnoCode)
    case ChannelError.connectTimeout: "it does not answer"
    case let error as TLSFailure: "there is no TLS: \(error)"
    case is HTTPParserError: "its answer is not HTTP/1.1"
    case is CancellationError: "the delivery was given up"
    default: "\(error)"
    }
  }
}
