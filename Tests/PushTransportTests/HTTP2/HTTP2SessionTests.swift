internal import PushGateway
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushTransport

@Suite("HTTP/2 sessions without IO")
struct HTTP2SessionTests {
  private let identifier = APNSIdentifier(high: 0x1122_3344_5566_4788, low: 0x99AA_BBCC_DDEE_FF00)

  @Test("a request arrives with every header, and its answer with status, apns-id and body")
  func exchange() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.client.setAuthorization("bearer abc")
    #expect(pair.submit(identifier: identifier, tag: 7) == .submitted(streamID: 1))
    pair.settle()
    let request = try #require(pair.requests.first)
    #expect(
      request.fields == [
        ":method: POST", ":scheme: https", ":authority: api.example.com",
        ":path: /3/device/\(TokenBytes(bytes: HTTP2Pair.token)?.description ?? "")",
        "apns-topic: com.example.news", "apns-push-type: alert", "authorization: bearer abc",
        "apns-id: \(identifier.description)",
      ])
    #expect(request.body == #"{"aps":{"alert":"Hello"}}"#)
    pair.server.respond(
      1, status: 410, identifier: Array(identifier.description.utf8), body: Array(#"{"reason":"Unregistered"}"#.utf8))
    pair.settle()
    #expect(
      pair.heard == [
        .settings, .response(tag: 7, status: 410, identifier: identifier, body: #"{"reason":"Unregistered"}"#),
      ])
    #expect(pair.client.openStreamCount == 0)
    #expect(pair.server.openStreamCount == 0)
  }

  @Test("path and authorization are never indexed; from the second request on, the others cost a byte each")
  func indexing() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.client.setAuthorization("bearer \(String(repeating: "x", count: 200))")
    var sizes: [Int] = []
    for tag in 0..<4 as Range<UInt64> {
      pair.submit(identifier: APNSIdentifier(high: tag &* 0x1234_5678_9ABC_DEF1, low: ~tag), tag: tag)
      pair.takeClientOutput()
      // HEADERS: length, type 1, flags, stream; then the block.
      let block = Array(pair.toServer[9..<9 + Int(pair.toServer[1]) << 8 + Int(pair.toServer[2])])
      sizes.append(block.count)
      if tag > 0 {
        // :method and :scheme are static; :authority, topic and push type are dynamic by now.
        // "0x1_" with a static name is never indexed.
        #expect(block[0] == 0x83)
        #expect(block[1] == 0x87)
        #expect(block[2] & 0x80 != 0)
        #expect(block[3] & 0xF0 == 0x10, "the path must be a literal that is never indexed")
        let path = 2 + Int(block[4] & 0x7F)
        #expect(block[3 + path] & 0x80 != 0, "topic and push type must be indexed")
        #expect(block[4 + path] & 0x80 != 0, "topic and push type must be indexed")
        #expect(block[5 + path] & 0xF0 == 0x10, "authorization must be a literal that is never indexed")
      }
      pair.settle()
    }
    #expect(sizes[0] > sizes[1])
    #expect(sizes[1] - sizes[2] < 10)
    #expect(sizes[2] - sizes[3] < 10)
  }

  @Test("an expiration that comes again costs a byte, and one that does not leaves the table alone")
  func expirations() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    func size(_ expiration: UInt32?) -> Int {
      var overrides = RequestOverrides()
      overrides.expiration = expiration
      pair.submit(overrides: overrides, tag: 1)
      pair.takeClientOutput()
      defer { pair.settle() }
      return Int(pair.toServer[1]) << 8 + Int(pair.toServer[2])
    }
    _ = size(nil)
    let none = size(nil)
    #expect(size(1_800_000_000) - none > 12, "the name and the value")
    #expect(size(1_800_000_000) - none == 1)
    let other = size(1_800_000_001) - none
    #expect((3..<12).contains(other), "the value alone")
    #expect(size(1_800_000_000) - none == 1, "the first one is still in the table")
    #expect(size(1_800_000_002) - none == other)
    #expect((3...other).contains(size(1_800_000_002) - none), "the second in a row goes into the table")
    #expect(size(1_800_000_002) - none == 1)
    #expect(size(nil) == none)
    let seen = pair.requests.map { $0["apns-expiration"] }
    #expect(
      seen == [
        nil, nil, "1800000000", "1800000000", "1800000001", "1800000000", "1800000002", "1800000002", "1800000002", nil,
      ])
  }

  @Test("a notification's own headers replace the campaign's for that notification only")
  func overrides() throws {
    var headers = ProviderHeaders(topic: "com.example.news")
    headers.priority = 10
    headers.expiration = 100
    let template = RequestTemplate(authority: "a", headers: headers, credential: .token, payload: Array("{}".utf8))
    var pair = try HTTP2Pair()
    pair.settle()
    let own = Array(#"{"own":1}"#.utf8)
    let collapse = Array("match-1".utf8)
    unsafe own.withUnsafeBytes { own in
      unsafe collapse.withUnsafeBytes { collapse in
        var overrides = RequestOverrides()
        overrides.expiration = 4_294_967_295
        overrides.priority = 5
        unsafe overrides.collapseIdentifier = unsafe collapse
        unsafe overrides.payload = unsafe own
        pair.submit(template, overrides: overrides, tag: 1)
        pair.submit(template, tag: 2)
        pair.submit(template, overrides: overrides, tag: 3)
        pair.settle()
      }
    }
    #expect(pair.requests.map { $0["apns-expiration"] } == ["4294967295", "100", "4294967295"])
    #expect(pair.requests.map { $0["apns-priority"] } == ["5", "10", "5"])
    #expect(pair.requests.map { $0["apns-collapse-id"] } == ["match-1", nil, "match-1"])
    #expect(pair.requests.map(\.body) == [#"{"own":1}"#, "{}", #"{"own":1}"#])
  }

  @Test("many requests of one flush are one piece of output")
  func oneWrite() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    for tag in 0..<200 as Range<UInt64> { pair.submit(tag: tag) }
    let first = unsafe Array(pair.client.output())
    #expect(unsafe pair.client.output().count == 0)
    pair.toServer = first
    pair.settle()
    #expect(pair.requests.count == 200)
  }

  @Test("before the first SETTINGS one request may be in flight, then as many as the peer allows")
  func streamLimit() throws {
    var server = HTTP2ServerSession.Options()
    server.streamLimit = 3
    var pair = try HTTP2Pair(server: server)
    #expect(pair.client.streamLimit == 1)
    #expect(pair.client.availableStreamCount == 1)
    pair.submit(tag: 0)
    #expect(pair.submit(tag: 1) == .full)
    pair.settle()
    #expect(pair.client.streamLimit == 3)
    #expect(pair.client.availableStreamCount == 2)
    pair.submit(tag: 1)
    pair.submit(tag: 2)
    #expect(pair.submit(tag: 3) == .full)
    pair.server.setStreamLimit(1)
    pair.settle()
    #expect(pair.client.streamLimit == 1)
    #expect(pair.client.availableStreamCount == 0)
    for request in pair.requests { pair.server.respond(request.streamID, status: 200, identifier: nil, body: []) }
    pair.settle()
    #expect(pair.client.availableStreamCount == 1)
    pair.server.setStreamLimit(0)
    pair.settle()
    #expect(pair.submit(tag: 9) == .full)
    pair.server.setStreamLimit(.max)
    pair.settle()
    #expect(pair.client.availableStreamCount == 1000)
    #expect(pair.heard.count { $0 == .settings } == 4)
    #expect(!pair.noticed.contains { if case .overLimit = $0 { true } else { false } })
  }

  @Test("a client that opens more streams than allowed is reported, and its connection stays open")
  func overLimit() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.server.setStreamLimit(2)
    // The client learns the limit only after three requests, and the server must accept that.
    for tag in 0..<3 as Range<UInt64> { pair.submit(tag: tag) }
    pair.takeClientOutput()
    pair.carryToServer()
    pair.takeServerEvents()
    #expect(pair.requests.count == 3)
    #expect(pair.noticed.count == 3)
    pair.settle()
    // This client does not know the limit.
    var rude = try HTTP2Pair()
    rude.settle()
    rude.server.setStreamLimit(2)
    rude.takeServerOutput()
    // It acknowledges the SETTINGS without having read them.
    rude.toClient = []
    rude.toServer = [0, 0, 0, 4, 1, 0, 0, 0, 0]
    rude.carryToServer()
    for tag in 0..<3 as Range<UInt64> { rude.submit(tag: tag) }
    rude.settle()
    #expect(rude.noticed.contains(.overLimit(5, open: 3, limit: 2)))
    #expect(rude.requests.count == 3)
    rude.server.sendGoAway(
      lastStreamID: 3, code: .refusedStream, debugData: Array("Maximum active streams violated for this endpoint".utf8))
    rude.settle()
    #expect(rude.client.goAway?.errorCode.rawValue == 7)
    #expect(rude.client.goAway?.lastStreamID == 3)
    #expect(rude.heard.contains(.ended(tag: 2, code: .refusedStream, isUnprocessed: true)))
  }

  @Test("GOAWAY ends the streams above its last one as not processed; the others are answered")
  func goAway() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    for tag in 0..<5 as Range<UInt64> { pair.submit(tag: tag) }
    pair.settle()
    pair.server.sendGoAway(lastStreamID: 5, code: .noError, debugData: Array(#"{"reason":"Shutdown"}"#.utf8))
    pair.settle()
    #expect(
      pair.client.goAway
        == HTTP2GoAway(lastStreamID: 5, errorCode: .noError, debugData: Array(#"{"reason":"Shutdown"}"#.utf8)))
    #expect(
      Set(pair.heard.dropFirst()) == [
        .goAway, .ended(tag: 3, code: .refusedStream, isUnprocessed: true),
        .ended(tag: 4, code: .refusedStream, isUnprocessed: true),
      ])
    #expect(pair.submit(tag: 9) == .finished)
    #expect(!pair.client.acceptsRequests)
    #expect(Set(pair.noticed.suffix(2)) == [.ended(7, .refusedStream), .ended(9, .refusedStream)])
    for streamID in [1, 3, 5] as [Int32] { pair.server.respond(streamID, status: 200, identifier: nil, body: []) }
    pair.settle()
    #expect(pair.heard.suffix(3) == (0..<3).map { .response(tag: $0, status: 200, identifier: nil, body: "") })
    #expect(pair.client.isFinished)
    #expect(pair.client.failure == nil)
  }

  @Test("requests that are not in the output when a GOAWAY arrives were never sent")
  func goAwayBeforeFlush() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.submit(tag: 1)
    pair.settle()
    pair.server.sendGoAway(lastStreamID: 1, code: .noError)
    pair.submit(tag: 2)
    pair.takeServerOutput()
    pair.carryToClient()
    pair.settle()
    #expect(pair.heard.contains(.ended(tag: 2, code: .refusedStream, isUnprocessed: true)))
    #expect(pair.requests.count == 1)
  }

  @Test("RST_STREAM ends one stream: REFUSED_STREAM as not processed, anything else as unknown")
  func reset() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    for tag in 0..<3 as Range<UInt64> { pair.submit(tag: tag) }
    pair.settle()
    pair.server.reset(1, .refusedStream)
    pair.server.reset(3, .internalError)
    pair.server.respond(5, status: 200, identifier: nil, body: [])
    pair.settle()
    #expect(
      Set(pair.heard.dropFirst()) == [
        .ended(tag: 0, code: .refusedStream, isUnprocessed: true),
        .ended(tag: 1, code: .internalError, isUnprocessed: false),
        .response(tag: 2, status: 200, identifier: nil, body: ""),
      ])
  }

  @Test("a cancelled stream ends on both sides, and its answer is not waited for")
  func cancel() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.submit(tag: 1)
    pair.settle()
    pair.client.cancel(1)
    pair.settle()
    #expect(pair.heard.last == .ended(tag: 1, code: .cancel, isUnprocessed: false))
    #expect(pair.noticed.last == .ended(1, .cancel))
    pair.server.respond(1, status: 200, identifier: nil, body: [])
    pair.settle()
    #expect(pair.heard.count == 2)
  }

  @Test("a ping is answered once, unless the server ignores pings")
  func ping() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.client.ping(0xFEDC_BA98_7654_3210)
    pair.settle()
    #expect(pair.heard.last == .pong(0xFEDC_BA98_7654_3210))
    // An acknowledgement without a ping.
    pair.toClient = [0, 0, 8, 6, 1, 0, 0, 0, 0] + [UInt8](repeating: 9, count: 8)
    pair.settle()
    #expect(pair.heard.count == 2)
    var options = HTTP2ServerSession.Options()
    options.answersPings = false
    var dead = try HTTP2Pair(server: options)
    dead.settle()
    dead.client.ping(1)
    dead.settle()
    #expect(dead.heard == [.settings])
  }

  @Test("bodies larger than the peer's window wait for it and arrive whole", arguments: [1, 100, 65_535])
  func flowControl(window: UInt32) throws {
    var options = HTTP2ServerSession.Options()
    options.windowByteCount = window
    options.limits.bodyByteCount = 1 << 20
    var pair = try HTTP2Pair(server: options)
    pair.settle()
    let payload = (0..<50_000).map { UInt8(ascii: "a") + UInt8($0 % 26) }
    let template = RequestTemplate(
      authority: "a", headers: ProviderHeaders(topic: "t"), credential: .token,
      payload: window == 1 ? Array(payload[..<300]) : payload)
    for tag in 0..<5 as Range<UInt64> { pair.submit(template, tag: tag) }
    pair.settle()
    #expect(pair.requests.count == 5)
    #expect(pair.requests.allSatisfy { Array($0.body.utf8) == (window == 1 ? Array(payload[..<300]) : payload) })
  }

  @Test("an answer before the end of the body counts, and the rest of the body is not read")
  func earlyAnswer() throws {
    var options = HTTP2ServerSession.Options()
    options.windowByteCount = 10
    var pair = try HTTP2Pair(server: options)
    pair.settle()
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 100_000, alignment: 1)
    unsafe memory.initializeMemory(as: UInt8.self, repeating: 0x61)
    var overrides = RequestOverrides()
    unsafe overrides.payload = UnsafeRawBufferPointer(memory)
    pair.submit(overrides: overrides, tag: 4)
    pair.takeClientOutput()
    pair.carryToServer()
    pair.server.respond(1, status: 413, identifier: nil, body: [])
    pair.takeServerOutput()
    pair.carryToClient()
    pair.takeClientEvents()
    #expect(pair.heard.last == .response(tag: 4, status: 413, identifier: nil, body: ""))
    // The owner may free the body now. AddressSanitizer would report a later read.
    unsafe memory.deallocate()
    pair.settle()
    #expect(pair.client.openStreamCount == 0)
    #expect(pair.client.failure == nil)
  }

  @Test("bodies and headers are kept within their limits")
  func bounds() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.submit(tag: 1)
    pair.submit(tag: 2)
    pair.submit(tag: 3)
    pair.settle()
    pair.server.respond(1, status: 400, identifier: nil, body: [UInt8](repeating: 0x7A, count: 5000))
    let many = ResponseFields((0..<20).map { HTTP2Field("x-\($0)", String(repeating: "v", count: 1000)) })
    pair.server.respond(3, status: 400, identifier: nil, fields: many, body: [])
    pair.server.respond(5, status: 200, identifier: nil, body: [])
    pair.settle()
    #expect(
      pair.heard.contains(.response(tag: 1, status: 400, identifier: nil, body: String(repeating: "z", count: 1024))))
    #expect(pair.heard.contains(.ended(tag: 2, code: .internalError, isUnprocessed: false)))
    #expect(pair.heard.contains(.response(tag: 3, status: 200, identifier: nil, body: "")))
  }

  @Test("a reply that is requested as a whole has its fields and its body, of any length")
  func reply() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    let template = RequestTemplate(
      method: "GET", authority: "a", path: "/1/apps/com.example.news/all-channels",
      fields: [HTTP2Field("apns-request-id", "x")], payload: [])
    guard case .submitted(let streamID) = pair.client.submit(template, tag: 5) else {
      Issue.record("not submitted")
      return
    }
    pair.settle()
    #expect(
      pair.requests.first?.fields.prefix(4) == [
        ":method: GET", ":scheme: https", ":authority: a", ":path: /1/apps/com.example.news/all-channels",
      ])
    let body = [UInt8](repeating: 0x31, count: 100_000)
    pair.server.respond(
      streamID, status: 201, identifier: nil, fields: ResponseFields([HTTP2Field("apns-channel-id", "abc=")]),
      body: body)
    pair.settle()
    #expect(pair.heard.last == .response(tag: 5, status: 201, identifier: nil, body: ""))
    let reply = try #require(pair.client.takeReply(streamID))
    #expect(reply.status == 201)
    #expect(reply["apns-channel-id"] == "abc=")
    #expect(reply.body == body)
    #expect(pair.client.takeReply(streamID) == nil)
  }

  @Test("the requests that are open when a connection ends are known, and whether they were sent")
  func openRequests() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.submit(tag: 1)
    pair.submit(tag: 2)
    pair.takeClientOutput()
    pair.submit(tag: 3)
    var open: [UInt64: Bool] = [:]
    pair.client.forEachOpenRequest { tag, _, wasSent in open[tag] = wasSent }
    #expect(open == [1: true, 2: true, 3: false])
  }

  @Test("a peer that breaks the rules, or does not use HTTP/2, ends the session with a reason")
  func violations() throws {
    var pair = try HTTP2Pair()
    pair.toClient = Array("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".utf8)
    pair.carryToClient()
    pair.takeClientOutput()
    let failure = try #require(pair.client.failure)
    #expect(failure.errorCode == .protocolError, "\(failure)")
    #expect(failure.description.contains("SETTINGS"), "\(failure)")
    #expect(pair.client.isFinished)
    #expect(pair.submit(tag: 1) == .finished)

    var other = try HTTP2Pair()
    other.toServer = Array("GET / HTTP/1.1\r\n\r\n".utf8) + [UInt8](repeating: 0, count: 40)
    other.carryToServer()
    #expect(other.server.failure != nil)

    var pushing = try HTTP2Pair()
    pushing.settle()
    // PUSH_PROMISE on stream 1, which the client has forbidden.
    pushing.toClient = [0, 0, 4, 5, 4, 0, 0, 0, 1, 0, 0, 0, 2]
    pushing.settle()
    #expect(pushing.client.failure?.errorCode == .protocolError)
  }

  @Test("leaving sends a GOAWAY without an error, and is not a failure")
  func leaving() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.client.close()
    pair.settle()
    #expect(pair.noticed.last == .goAway)
    #expect(pair.server.goAway?.errorCode == .noError)
    #expect(pair.client.isFinished)
    #expect(pair.client.failure == nil)
  }
}
