internal import HTTPTypes
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import NIOHTTPTypesHTTP1
internal import NIOPosix
internal import PushTransport

/// Sends the command's requests to a running service. Each request has a connection of its own.
///
/// `send` returns an answer, which `decoded` decodes. `events` reads until its closure ends it.
struct APIClient: Sendable {
  let address: ServiceAddress
  private let key: String?
  private let tls: TLSContext?

  /// The most bytes of an answer that is held as a whole.
  private static let replyLimit = 64 << 20

  /// - Parameter key: `car_…`; nil: requests have none.
  init(_ address: ServiceAddress, key: String?) throws(ServiceFailure) {
    (self.address, self.key) = (address, key)
    do throws(CredentialError) { tls = try APIConnection.context(address.proof) } catch {
      throw ServiceFailure("\(error)")
    }
  }

  /// - Returns: an answer with a status from 200 to 299.
  /// - Throws: ``ServiceFailure``.
  func send(_ request: APIRequest) async throws -> ServiceReply {
    try await exchange(request) { reply, parts in
      var reply = reply
      while let bytes = try await parts.next() {
        guard reply.body.count + bytes.count <= Self.replyLimit else {
          throw ServiceFailure(status: reply.status, "The answer has more than \(Self.replyLimit >> 20) MiB.")
        }
        reply.body += bytes
      }
      return reply
    }
  }

  /// Hands on the body of the answer part by part, without holding it.
  ///
  /// - Throws: ``ServiceFailure``, or what `take` throws.
  func download(_ request: APIRequest, _ take: @escaping @Sendable ([UInt8]) async throws -> Void) async throws {
    try await exchange(request) { _, parts in
      while let bytes = try await parts.next() { try await take(bytes) }
    }
  }

  /// Follows an event stream until it ends, or `take` returns false.
  ///
  /// - Returns: whether `take` has ended it.
  /// - Throws: ``ServiceFailure``, or what `take` throws.
  @discardableResult
  func events(
    _ request: APIRequest, _ take: @escaping @Sendable (ServiceEvent) async throws -> Bool
  ) async throws -> Bool {
    var request = request
    request.headers.append(("accept", "text/event-stream"))
    return try await exchange(request) { reply, parts in
      var parser = ServiceEventParser()
      while let bytes = try await parts.next() {
        guard let events = parser.events(in: bytes) else {
          throw ServiceFailure(status: reply.status, "The event stream has a line without end.")
        }
        for event in events where try await !take(event) { return true }
      }
      return false
    }
  }

  private func exchange<Result: Sendable>(
    _ request: APIRequest, _ receive: @escaping @Sendable (ServiceReply, inout ReplyParts) async throws -> Result
  ) async throws -> Result {
    let channel = try await APIConnection.open(to: address, tls)
    return try await channel.executeThenClose { inbound, outbound in
      try await withThrowingTaskGroup(of: Result?.self) { group in
        group.addTask {
          try await write(request, outbound)
          return nil
        }
        group.addTask {
          var parts = ReplyParts(inbound.makeAsyncIterator(), address)
          var reply = try await parts.head()
          guard 200..<300 ~= reply.status else {
            while let bytes = try await parts.next(), reply.body.count < Self.replyLimit { reply.body += bytes }
            throw ServiceFailure(reply, to: request, of: address)
          }
          return try await receive(reply, &parts)
        }
        // The answer may come before the whole request is written, and says why it was not read.
        while let result = try await group.next() {
          guard let result else { continue }
          group.cancelAll()
          return result
        }
        throw ServiceFailure("\(address) has not answered.")
      }
    }
  }

  private func write(_ request: APIRequest, _ outbound: NIOAsyncChannelOutboundWriter<HTTPRequestPart>) async throws {
    var head = HTTPRequest(
      method: .init(rawValue: request.method.rawValue) ?? .get, scheme: address.proof == .none ? "http" : "https",
      authority: "\(address.host.contains(":") ? "[\(address.host)]" : address.host):\(address.port)",
      path: request.target)
    head.headerFields[.connection] = "close"
    if let key { head.headerFields[.authorization] = "Bearer \(key)" }
    for header in request.headers {
      if let name = HTTPField.Name(header.name) { head.headerFields[name] = header.value }
    }
    switch request.body {
    case .none where request.method == .get: break
    case .none: head.headerFields[.contentLength] = "0"
    case .bytes(let bytes): head.headerFields[.contentLength] = String(bytes.count)
    case .file: break
    }
    do {
      try await outbound.write(.head(head))
      switch request.body {
      case .none: break
      case .bytes(let bytes): try await outbound.write(.body(ByteBuffer(bytes: bytes)))
      case .file(let path):
        let file = try UploadedFile(path)
        var byteCount = 0
        while let block = try file.next() {
          try await outbound.write(.body(ByteBuffer(bytes: block)))
          byteCount += block.count
          request.sent?(byteCount)
        }
      }
      try await outbound.write(.end(nil))
    } catch let failure as ServiceFailure {
      throw failure
    } catch {
      // The connection has ended: what the service answered says more.
    }
  }
}

/// The answer of a service, part by part.
struct ReplyParts {
  private var parts: NIOAsyncChannelInboundStream<HTTPResponsePart>.AsyncIterator
  private let address: ServiceAddress

  init(_ parts: NIOAsyncChannelInboundStream<HTTPResponsePart>.AsyncIterator, _ address: ServiceAddress) {
    (self.parts, self.address) = (parts, address)
  }

  mutating func head() async throws -> ServiceReply {
    guard case .head(let head)? = try await part() else {
      throw ServiceFailure("\(address) has ended the connection without an answer.")
    }
    var headers: [String: String] = [:]
    for field in head.headerFields { headers[field.name.canonicalName] = field.value }
    return ServiceReply(status: head.status.code, headers: headers, body: [])
  }

  /// The next piece of the body; nil at its end.
  mutating func next() async throws -> [UInt8]? {
    switch try await part() {
    case .body(let bytes)?: return Array(bytes.readableBytesView)
    case .end?: return nil
    case .head?: throw ServiceFailure("\(address) has answered twice.")
    case nil: throw ServiceFailure("\(address) has ended the connection in the middle of an answer.")
    }
  }

  private mutating func part() async throws -> HTTPResponsePart? {
    do { return try await parts.next(isolation: nil) } catch let failure as ServiceFailure {
      throw failure
    } catch let error as CancellationError {
      throw error
    } catch {
      throw ServiceFailure("\(address): \(APIConnection.describe(error))")
    }
  }
}
