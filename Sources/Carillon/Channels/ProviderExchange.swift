internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// One request over a connection of its own, to manage channels, where a low rate is enough.
final class ProviderExchange: LinkDelegate {
  private struct State {
    let session: HTTP2ClientSession
    var result: Result<HTTP2Reply, CarillonError>?
    var ending: CheckedContinuation<Result<HTTP2Reply, CarillonError>, Never>?

    /// The first result counts.
    mutating func fail(_ why: String) { result = result ?? .failure(CarillonError(.gateway, why)) }
  }

  /// A reply that lists ten thousand channels has about 300 KiB.
  private static let bodyByteCountLimit = 4 << 20
  private static let tag: UInt64 = 1

  private let endpoint: Endpoint
  private let template: RequestTemplate
  private let state: Mutex<State>

  private init(_ template: RequestTemplate, authorization: String?, endpoint: Endpoint) {
    (self.endpoint, self.template) = (endpoint, template)
    var options = HTTP2ClientSession.Options()
    options.limits.bodyByteCount = Self.bodyByteCountLimit
    let session = HTTP2ClientSession(options: options)
    session.setAuthorization(authorization)
    state = Mutex(State(session: session))
  }

  /// Sends a request and returns the reply.
  ///
  /// - Parameters:
  ///   - authorization: the value of that header, or nil where the dialer shows a certificate.
  ///   - dialer: to the endpoint, as a client that demands h2.
  ///   - timeout: for everything together.
  ///   - loop: nil: a thread of its own.
  static func run(
    _ template: RequestTemplate, authorization: String?, to endpoint: Endpoint, through dialer: SocketDialer,
    timeout: Duration, on loop: (any Loop)?
  ) async throws(CarillonError) -> HTTP2Reply {
    let exchange = ProviderExchange(template, authorization: authorization, endpoint: endpoint)
    let loops = loop == nil ? LoopGroup(threads: 1) : nil
    guard let loop = loop ?? loops?.loops.first else { throw CarillonError(.gateway, "There is no thread") }
    let result = await withCheckedContinuation { continuation in
      exchange.state.withLock { $0.ending = continuation }
      loop.execute {
        let link = dialer.dial(on: loop, delegate: exchange)
        _ = loop.schedule(at: loop.now + timeout) {
          exchange.finish(failure: "\(endpoint) has not answered within \(Quantity.describe(timeout))")
          link.close()
        }
      }
    }
    await loops?.shutDown()
    return try result.get()
  }

  func linkOpened(_ link: any Link) {
    let output: [UInt8]? = state.withLock { state in
      guard case .submitted = state.session.submit(template, tag: Self.tag) else { return nil }
      return Self.output(state.session)
    }
    if let output { return Self.send(output, over: link) }
    finish(failure: "\(endpoint) accepts no requests")
    link.close()
  }

  func link(_ link: any Link, isWritable: Bool) {}

  func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) {
    let copy = unsafe Array(bytes)
    let (isOver, output): (Bool, [UInt8]) = state.withLock { state in
      unsafe copy.withUnsafeBytes { unsafe state.session.receive($0) }
      while let event = state.session.nextEvent() {
        switch event {
        case .response(let response):
          if let reply = state.session.takeReply(response.streamID) { state.result = state.result ?? .success(reply) }
        case .ended(let end):
          state.fail("\(endpoint) ended the request without an answer (\(end.errorCode))")
        case .settings, .goAway, .pong: break
        }
      }
      if state.result == nil, let failure = state.session.failure { state.fail("\(endpoint): \(failure.description)") }
      if state.result != nil { state.session.close() }
      return (state.result != nil, Self.output(state.session))
    }
    Self.send(output, over: link)
    if isOver { link.close() }
  }

  func linkClosed(_ link: any Link, reason: LinkClosure) {
    let sentence =
      switch reason {
      case .byPeer, .truncated, .byUs: "\(endpoint) closed without an answer"
      case .reset: "The connection to \(endpoint) was reset"
      case .unreachable(let why): "\(endpoint) cannot be reached: \(why)"
      case .handshakeFailed(let why): "The TLS handshake with \(endpoint) failed: \(why)"
      case .credentialRefused(let why): "\(endpoint) refused the certificate: \(why)"
      case .failed(let why): "The connection to \(endpoint) broke: \(why)"
      }
    finish(failure: sentence)
    let (result, ending) = state.withLock { state in
      defer { state.ending = nil }
      return (state.result, state.ending)
    }
    if let result { ending?.resume(returning: result) }
  }

  private func finish(failure: String) { state.withLock { $0.fail(failure) } }

  private static func output(_ session: HTTP2ClientSession) -> [UInt8] {
    var bytes: [UInt8] = []
    while true {
      let piece = unsafe session.output()
      guard piece.count > 0 else { return bytes }
      unsafe bytes.append(contentsOf: piece)
    }
  }

  private static func send(_ bytes: [UInt8], over link: any Link) {
    if !bytes.isEmpty { unsafe bytes.withUnsafeBytes { unsafe link.send($0) } }
  }
}
