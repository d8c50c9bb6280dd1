internal import PushTransport
internal import PushWire

extension Workload {
  /// A request until its bytes are there, and its response until it is an event.
  static let http2 = [
    Workload("HTTP2.certificate", HTTP2Exchange.count, "requests") {
      try HTTP2Exchange.iteration(.certificate(userIdentifier: nil, topics: []))
    },
    Workload("HTTP2.tokenKey", HTTP2Exchange.count, "requests") { try HTTP2Exchange.iteration(.token) },
  ]
}

/// The client's side of a connection; the peer's frames are bytes that are there.
private final class HTTP2Exchange {
  static let count = 100

  private let session = HTTP2ClientSession(options: HTTP2ClientSession.Options())
  private let template: RequestTemplate
  private let token = RawMemory(Samples.tokens(1))
  private var responses: [UInt8] = []
  /// Where the first response begins: behind WINDOW_UPDATE.
  private static let firstResponse = 13
  private var tag: UInt64 = 0

  /// As long as the service's are.
  private static let authorization = "bearer " + String(repeating: "eyJhbGciOiJFUzI1NiIs", count: 10)
  /// SETTINGS that allow 1,000 streams.
  private static let settings: [UInt8] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 3, 0xE8]
  /// `:status: 200`, and an `apns-id` that is not indexed.
  private static let block: [UInt8] =
    [0x88, 0, 7] + Array("apns-id".utf8) + [36] + Array("123e4567-e89b-12d3-a456-426614174000".utf8)

  init(_ credential: ProviderCredentialKind) {
    template = RequestTemplate(
      authority: "api.push.example.com", headers: ProviderHeaders(topic: "com.example.news"), credential: credential,
      payload: Samples.payload)
    if credential == .token { session.setAuthorization(Self.authorization) }
    unsafe Self.settings.withUnsafeBytes { unsafe session.receive($0) }
    while session.nextEvent() != nil {}
    // What is sent is read.
    responses = [0, 0, 4, 8, 0, 0, 0, 0, 0]
    let byteCount = Self.count * Samples.payload.count
    responses += (0..<4).map { UInt8(truncatingIfNeeded: byteCount >> (24 - 8 * $0)) }
    for _ in 0..<Self.count {
      responses += [0, 0, UInt8(Self.block.count), 1, 5, 0, 0, 0, 0] + Self.block
    }
  }

  static func iteration(_ credential: ProviderCredentialKind) throws -> Iteration {
    let exchange = HTTP2Exchange(credential)
    return Iteration { try exchange.run() }
  }

  private func run() throws {
    let size = 9 + Self.block.count
    let first = tag
    let (template, token) = unsafe (template, token.readable)
    var responses: [UInt8] = []
    swap(&responses, &self.responses)
    defer { swap(&responses, &self.responses) }
    // As a lane does: all of a batch at once.
    let submittedCount = session.submitting { requests in
      for index in 0..<Self.count {
        let tag = first + UInt64(index)
        let submission = unsafe requests.submit(
          template, token: token, identifier: APNSIdentifier(high: tag, low: ~tag), tag: tag)
        guard case .submitted(let streamID) = submission else { return index }
        let place = Self.firstResponse + index * size + 5
        for byte in 0..<4 { responses[place + byte] = UInt8(truncatingIfNeeded: streamID >> (24 - 8 * byte)) }
      }
      return Self.count
    }
    tag += UInt64(Self.count)
    try WorkloadFailure.check(submittedCount == Self.count, "a request was not taken")
    var byteCount = 0
    while case let bytes = unsafe session.output(), bytes.count > 0 { byteCount += bytes.count }
    unsafe responses.withUnsafeBytes { unsafe session.receive($0) }
    var answeredCount = 0
    session.takeAccepted { _ in answeredCount += 1 }
    while session.nextEvent() != nil {}
    try WorkloadFailure.check(
      answeredCount == Self.count && byteCount > 200 * Self.count, "\(answeredCount) answers, \(byteCount) bytes")
  }
}
