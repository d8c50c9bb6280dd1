internal import Foundation
internal import NIOCore
internal import PushGateway
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushTransport

/// A client session over a real link. It keeps as many requests in flight as the peer allows until
/// all have ended.
final class HTTP2TestClient: LinkDelegate, @unchecked Sendable {
  // Sync: sessions and counters are used on the link's loop only; what a test reads is in the
  // mutex.
  struct Result: Sendable {
    var statuses: [UInt16: Int] = [:]
    var bodies: Set<[UInt8]> = []
    var wrongIdentifiers = 0
    var ended: [UInt64: HTTP2ErrorCode] = [:]
    var largestStreamCount = 0
    var failure: HTTP2Failure?
    var closure: LinkClosure?
    var hasPong = false
  }

  private let session: HTTP2ClientSession
  private let template: RequestTemplate
  private let total: UInt64
  private let batch: Int
  private var submitted: UInt64 = 0
  private var finished: UInt64 = 0
  private var result = Result()
  private let identifiers = APNSIdentifierSequence(IdentifierSeed(high: 1, low: 2))
  private let outcome = Mutex<(result: Result?, waiting: CheckedContinuation<Result, Never>?)>((nil, nil))

  init(
    total: UInt64, template: RequestTemplate, options: HTTP2ClientSession.Options = .init(), batch: Int = .max
  ) {
    session = HTTP2ClientSession(options: options)
    self.total = total
    self.template = template
    self.batch = batch
  }

  /// Returns when all requests have ended, or the link has.
  func wait() async -> Result {
    await withCheckedContinuation { continuation in
      let known = outcome.withLock { outcome -> Result? in
        if let result = outcome.result { return result }
        outcome.waiting = continuation
        return nil
      }
      if let known { continuation.resume(returning: known) }
    }
  }

  func linkOpened(_ link: any Link) { act(link) }
  func link(_ link: any Link, isWritable: Bool) { if isWritable { act(link) } }

  func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) {
    unsafe session.receive(bytes)
    act(link)
  }

  func linkClosed(_ link: any Link, reason: LinkClosure) {
    result.closure = reason
    session.forEachOpenRequest { tag, _, _ in self.result.ended[tag] = .internalError }
    tell()
  }

  private func act(_ link: any Link) {
    repeat {
      takeEvents()
      submit()
      while true {
        let bytes = unsafe session.output()
        guard bytes.count > 0 else { break }
        unsafe link.send(bytes)
      }
      takeEvents()
      // Without a flush of everything at once, each batch is a write.
    } while batch != .max && submitted < total && session.availableStreamCount > 0
    if finished == total, !result.hasPong { return }
    if session.failure != nil || session.isFinished || finished == total && result.hasPong { link.close() }
  }

  private func submit() {
    var count = 0
    while submitted < total, session.availableStreamCount > 0, count < batch {
      let tag = submitted
      let token =
        unsafe TokenBytes(
          bytes: withUnsafeBytes(of: tag.bigEndian) { unsafe Array($0) } + [UInt8](repeating: 7, count: 24))?.bytes
        ?? []
      let submission = unsafe token.withUnsafeBytes { token in
        session.submitting { unsafe $0.submit(template, token: token, identifier: identifiers[tag], tag: tag) }
      }
      guard case .submitted = submission else { break }
      submitted += 1
      count += 1
    }
    result.largestStreamCount = max(result.largestStreamCount, session.openStreamCount)
  }

  private func takeEvents() {
    while let event = session.nextEvent() {
      switch event {
      case .response(let response):
        result.statuses[response.status, default: 0] += 1
        if response.apnsID != nil, response.apnsID != identifiers[response.tag] { result.wrongIdentifiers += 1 }
        if unsafe response.body.count > 0 { result.bodies.insert(unsafe Array(response.body)) }
        ended()
      case .ended(let end):
        result.ended[end.tag] = end.errorCode
        ended()
      case .pong: result.hasPong = true
      case .settings, .goAway: break
      }
    }
  }

  private func ended() {
    finished += 1
    // Each test ends with a ping and its answer.
    if finished == total { session.ping(42) }
  }

  private func tell() {
    result.failure = session.failure
    let waiting = outcome.withLock { outcome in
      outcome.result = result
      return outcome.waiting.take()
    }
    waiting?.resume(returning: result)
  }
}

/// A server session in a channel. It answers every request at once and records what it saw.
final class HTTP2TestServer: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  struct Seen: Sendable {
    var requests = 0
    var paths: Set<String> = []
    var last: HTTP2Pair.Seen?
    var failures: [HTTP2Failure] = []
    var protocols: [String?] = []
  }

  private let session: HTTP2ServerSession
  private let tls: TLSHandler
  private let seen: SharedSeen

  /// Shared by all connections of a listener.
  final class SharedSeen: Sendable {
    private let state = Mutex(Seen())
    var value: Seen { state.withLock { $0 } }
    func change(_ body: (inout sending Seen) -> Void) { state.withLock { body(&$0) } }
  }

  init(_ tls: TLSHandler, seen: SharedSeen, options: HTTP2ServerSession.Options = .init()) throws {
    session = try HTTP2ServerSession(options: options)
    self.tls = tls
    self.seen = seen
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard let event = event as? TLSEvent, case .handshakeCompleted = event else { return }
    let name = tls.applicationProtocol
    seen.change { $0.protocols.append(name) }
    flush(context)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    unsafe unwrapInboundIn(data).withUnsafeReadableBytes { unsafe session.receive($0) }
    while let event = session.nextEvent() {
      guard case .request(let request) = event else { continue }
      let copy = HTTP2Pair.Seen(request)
      seen.change { seen in
        seen.requests += 1
        seen.paths.insert(copy[":path"] ?? "")
        seen.last = copy
      }
      unsafe session.respond(request.streamID, status: 200, identifier: request.value(of: "apns-id"))
    }
    flush(context)
  }

  private func flush(_ context: ChannelHandlerContext) {
    while true {
      let bytes = unsafe session.output()
      guard bytes.count > 0 else { break }
      unsafe tls.send(bytes)
    }
    if let failure = session.failure { seen.change { $0.failures.append(failure) } }
    if session.isFinished { context.close(promise: nil) }
  }
}
