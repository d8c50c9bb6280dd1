internal import PushGateway
internal import PushWire
internal import Support

@testable internal import PushTransport

/// A client, a server and the bytes between them, which are delivered in pieces of any size.
struct HTTP2Pair {
  enum Heard: Hashable {
    case response(tag: UInt64, status: UInt16, identifier: APNSIdentifier?, body: String)
    case ended(tag: UInt64, code: HTTP2ErrorCode, isUnprocessed: Bool)
    case settings
    case goAway
    case pong(UInt64)
  }

  /// A request as the server received it.
  struct Seen: Hashable {
    var streamID: Int32
    var fields: [String]
    var body: String

    subscript(name: String) -> String? {
      fields.first { $0.hasPrefix(name + ": ") }.map { String($0.dropFirst(name.count + 2)) }
    }
  }

  enum Noticed: Hashable {
    case request(Seen)
    case overLimit(Int32, open: Int, limit: Int)
    case ended(Int32, HTTP2ErrorCode)
    case goAway
  }

  let client: HTTP2ClientSession
  let server: HTTP2ServerSession
  var toServer: [UInt8] = []
  var toClient: [UInt8] = []
  var heard: [Heard] = []
  var noticed: [Noticed] = []

  init(
    client: HTTP2ClientSession.Options = .init(), server: HTTP2ServerSession.Options = .init(),
    serverMemory: HTTP2ServerMemory = HTTP2ServerMemory()
  ) throws {
    self.client = HTTP2ClientSession(options: client)
    self.server = try HTTP2ServerSession(options: server, memory: serverMemory)
  }

  static let template = RequestTemplate(
    authority: "api.example.com", headers: ProviderHeaders(topic: "com.example.news"), credential: .token,
    payload: Array(#"{"aps":{"alert":"Hello"}}"#.utf8))

  static let token = [UInt8]((0..<32).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 5) })

  var requests: [Seen] {
    noticed.compactMap { if case .request(let seen) = $0 { seen } else { nil } }
  }

  @discardableResult
  func submit(
    _ template: RequestTemplate = template, token: [UInt8] = token, identifier: APNSIdentifier? = nil,
    overrides: RequestOverrides = .init(), tag: UInt64
  ) -> HTTP2ClientSession.Submission {
    unsafe token.withUnsafeBytes { token in
      client.submitting {
        unsafe $0.submit(template, token: token, identifier: identifier, overrides: overrides, tag: tag)
      }
    }
  }

  mutating func takeClientOutput(limit: Int = 1 << 18) {
    while true {
      let bytes = unsafe client.output(limit: limit)
      guard bytes.count > 0 else { return }
      unsafe toServer += Array(bytes)
    }
  }

  mutating func takeServerOutput(limit: Int = 1 << 18) {
    while true {
      let bytes = unsafe server.output(limit: limit)
      guard bytes.count > 0 else { return }
      unsafe toClient += Array(bytes)
    }
  }

  mutating func takeClientEvents() {
    while let event = client.nextEvent() {
      switch event {
      case .response(let response):
        let body = unsafe String(decoding: response.body, as: UTF8.self)
        heard.append(.response(tag: response.tag, status: response.status, identifier: response.apnsID, body: body))
      case .ended(let end): heard.append(.ended(tag: end.tag, code: end.errorCode, isUnprocessed: end.isUnprocessed))
      case .settings: heard.append(.settings)
      case .goAway: heard.append(.goAway)
      case .pong(let number): heard.append(.pong(number))
      }
    }
  }

  mutating func takeServerEvents() {
    while let event = server.nextEvent() {
      switch event {
      case .request(let request): noticed.append(.request(Seen(request)))
      case .streamLimitExceeded(let streamID, let openCount, let limit):
        noticed.append(.overLimit(streamID, open: openCount, limit: limit))
      case .ended(let streamID, let code): noticed.append(.ended(streamID, code))
      case .goAway: noticed.append(.goAway)
      }
    }
  }

  mutating func carryToServer(_ count: Int = .max) {
    let piece = Array(toServer.prefix(count))
    toServer.removeFirst(piece.count)
    unsafe withExactBytes(piece) { unsafe server.receive($0) }
  }

  mutating func carryToClient(_ count: Int = .max) {
    let piece = Array(toClient.prefix(count))
    toClient.removeFirst(piece.count)
    unsafe withExactBytes(piece) { unsafe client.receive($0) }
  }

  /// Runs until neither side has output.
  mutating func settle() {
    while true {
      takeClientOutput()
      takeClientEvents()
      takeServerOutput()
      takeServerEvents()
      guard !toServer.isEmpty || !toClient.isEmpty else { return }
      carryToServer()
      takeServerEvents()
      carryToClient()
      takeClientEvents()
    }
  }
}

extension HTTP2Pair.Seen {
  init(_ request: HTTP2Request) {
    streamID = request.streamID
    fields = (0..<request.fieldCount).map {
      let name = unsafe String(decoding: request.name($0), as: UTF8.self)
      return unsafe "\(name): \(String(decoding: request.value($0), as: UTF8.self))"
    }
    body = unsafe String(decoding: request.body, as: UTF8.self)
  }
}
