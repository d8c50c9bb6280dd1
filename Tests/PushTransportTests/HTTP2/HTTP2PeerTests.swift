internal import PushGateway
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushTransport

/// Frames of a peer, written byte by byte after RFC 9113.
@Suite("A peer's frames")
struct HTTP2PeerTests {
  /// A client with requests on streams 1, 3 and 5, whose peer has sent SETTINGS.
  private func connection(_ settings: [UInt8] = Peer.settings()) throws -> HTTP2Pair {
    var pair = try HTTP2Pair()
    pair.toClient = settings
    pair.carryToClient()
    for tag in 0..<3 as Range<UInt64> { pair.submit(tag: tag) }
    pair.takeClientOutput()
    pair.takeClientEvents()
    pair.heard = []
    pair.toServer = []
    return pair
  }

  private func hear(_ bytes: [UInt8], _ pair: inout HTTP2Pair) {
    pair.toClient = bytes
    pair.carryToClient()
    pair.takeClientEvents()
    pair.takeClientOutput()
  }

  static let violations: [(String, [UInt8], HTTP2ErrorCode)] = [
    ("SETTINGS on a stream", Peer.frame(4, 0, 1), .protocolError),
    ("SETTINGS of five bytes", Peer.frame(4, 0, 0, [0, 3, 0, 0, 0]), .frameSizeError),
    ("an acknowledgement with a payload", Peer.frame(4, 1, 0, [0, 3, 0, 0, 0, 0]), .frameSizeError),
    ("two acknowledgements", Peer.frame(4, 1) + Peer.frame(4, 1), .protocolError),
    ("push enabled by a server", Peer.settings((2, 1)), .protocolError),
    ("a window of 2^31", Peer.settings((4, 1 << 31)), .flowControlError),
    (
      "windows that are too large together",
      Peer.frame(8, 0, 1, Peer.word(1 << 30)) + Peer.settings((4, UInt32(Int32.max))), .flowControlError
    ),
    ("frames that are too small", Peer.settings((5, 16_383)), .protocolError),
    ("frames that are too large", Peer.settings((5, 1 << 24)), .protocolError),
    ("PING on a stream", Peer.frame(6, 0, 1, [1, 2, 3, 4, 5, 6, 7, 8]), .protocolError),
    ("PING of seven bytes", Peer.frame(6, 0, 0, [1, 2, 3, 4, 5, 6, 7]), .frameSizeError),
    ("WINDOW_UPDATE by nothing", Peer.frame(8, 0, 0, [0, 0, 0, 0]), .protocolError),
    ("WINDOW_UPDATE of three bytes", Peer.frame(8, 0, 0, [0, 0, 1]), .frameSizeError),
    ("WINDOW_UPDATE of an idle stream", Peer.frame(8, 0, 7, [0, 0, 0, 1]), .protocolError),
    ("a window that is too large", Peer.frame(8, 0, 0, Peer.word(UInt32(Int32.max))), .flowControlError),
    ("DATA on no stream", Peer.frame(0, 1, 0, [1]), .protocolError),
    ("DATA on an idle stream", Peer.frame(0, 1, 7, [1]), .protocolError),
    ("more padding than DATA", Peer.headers(1, Peer.ok, flags: 4) + Peer.frame(0, 9, 1, [2, 0]), .protocolError),
    ("padding that is missing", Peer.headers(1, Peer.ok, flags: 4) + Peer.frame(0, 9, 1), .protocolError),
    ("HEADERS on no stream", Peer.headers(0, Peer.ok), .protocolError),
    ("HEADERS on an idle stream", Peer.headers(9, Peer.ok), .protocolError),
    ("HEADERS on a stream of the server", Peer.headers(2, Peer.ok), .protocolError),
    ("HEADERS without the priority that they have", Peer.headers(1, [0, 0], flags: 0x25), .frameSizeError),
    ("more padding than HEADERS", Peer.headers(1, [3, 0x88], flags: 0x0D), .protocolError),
    ("CONTINUATION alone", Peer.frame(9, 4, 1, Peer.ok), .protocolError),
    ("PING within a block", Peer.headers(1, Peer.ok, flags: 0) + Peer.frame(6, 0, 0, Peer.ok), .protocolError),
    (
      "CONTINUATION of another stream", Peer.headers(1, Peer.ok, flags: 0) + Peer.frame(9, 4, 3, Peer.ok),
      .protocolError
    ),
    ("PUSH_PROMISE", Peer.frame(5, 4, 1, [0, 0, 0, 2, 0x88]), .protocolError),
    ("a block with index 0", Peer.headers(1, [0x80]), .compressionError),
    ("a block that is cut", Peer.headers(1, [0x88, 0, 5]), .compressionError),
    ("a bad block on a closed stream", Peer.headers(1, Peer.ok) + Peer.headers(1, [0x80]), .compressionError),
    ("RST_STREAM of an idle stream", Peer.frame(3, 0, 7, [0, 0, 0, 8]), .protocolError),
    ("RST_STREAM of three bytes", Peer.frame(3, 0, 1, [0, 0, 8]), .frameSizeError),
    ("GOAWAY on a stream", Peer.frame(7, 0, 1, [0, 0, 0, 1, 0, 0, 0, 0]), .protocolError),
    ("GOAWAY of seven bytes", Peer.frame(7, 0, 0, [0, 0, 0, 1, 0, 0, 0]), .frameSizeError),
    (
      "GOAWAY with a higher last stream",
      Peer.frame(7, 0, 0, [0, 0, 0, 1, 0, 0, 0, 0]) + Peer.frame(7, 0, 0, [0, 0, 0, 3, 0, 0, 0, 0]), .protocolError
    ),
    ("PRIORITY on no stream", Peer.frame(2, 0, 0, [0, 0, 0, 0, 1]), .protocolError),
    ("PRIORITY of four bytes", Peer.frame(2, 0, 1, [0, 0, 0, 0]), .frameSizeError),
    ("a frame that is too large", [0, 0x40, 1, 0, 0, 0, 0, 0, 1], .frameSizeError),
  ]

  @Test("a violation ends the connection with its code, in whatever pieces it arrives", arguments: violations)
  func violation(name: String, bytes: [UInt8], code: HTTP2ErrorCode) throws {
    for piece in [Int.max, 1, 7] {
      var pair = try connection()
      pair.toClient = bytes
      while !pair.toClient.isEmpty { pair.carryToClient(piece) }
      #expect(pair.client.failure?.errorCode == code, "\(name): \(String(describing: pair.client.failure))")
      pair.takeClientOutput()
      // GOAWAY is the last frame: its code, after the last stream.
      let frames = pair.toServer
      let goAway = frames.indices.last { index in
        frames.count - index >= 17 && frames[index + 3] == 7 && Array(frames[index + 9..<index + 13]) == [0, 0, 0, 0]
          && Array(frames[index + 13..<index + 17]) == Peer.word(code.rawValue)
      }
      #expect(goAway != nil, "\(name)")
      #expect(pair.client.isFinished)
      #expect(pair.submit(tag: 9) == .finished)
    }
  }

  static let malformed: [(String, [UInt8])] = [
    ("no status", Peer.headers(1, Peer.field("a", "b"))),
    ("two statuses", Peer.headers(1, Peer.ok + Peer.ok)),
    ("a status behind a field", Peer.headers(1, Peer.field("a", "b") + Peer.ok)),
    ("a pseudo-header of requests", Peer.headers(1, Peer.ok + [0x84])),
    ("a name in upper case", Peer.headers(1, Peer.ok + Peer.field("Date", "x"))),
    ("an empty name", Peer.headers(1, Peer.ok + Peer.field("", "x"))),
    ("a value with a line's end", Peer.headers(1, Peer.ok + Peer.field("a", "x\r"))),
    ("a value that begins with a space", Peer.headers(1, Peer.ok + Peer.field("a", " x"))),
    ("a field about the connection", Peer.headers(1, Peer.ok + Peer.field("connection", "close"))),
    ("DATA before HEADERS", Peer.frame(0, 1, 1, [1])),
    ("trailers that do not end the stream", Peer.headers(1, Peer.ok, flags: 4) + Peer.headers(1, [], flags: 4)),
    ("a status in trailers", Peer.headers(1, Peer.ok, flags: 4) + Peer.headers(1, Peer.ok)),
    ("100 as the end", Peer.headers(1, Peer.field(":status", "100"))),
    ("less body than announced", Peer.headers(1, Peer.ok + Peer.field("content-length", "2"))),
    ("two lengths", Peer.headers(1, Peer.ok + Peer.field("content-length", "0") + Peer.field("content-length", "1"))),
  ]

  @Test("a malformed response ends its stream, and the next one counts", arguments: malformed)
  func malformedResponse(name: String, bytes: [UInt8]) throws {
    var pair = try connection()
    hear(bytes + Peer.headers(3, Peer.ok), &pair)
    #expect(
      pair.heard == [
        .ended(tag: 0, code: .protocolError, isUnprocessed: false),
        .response(tag: 1, status: 200, identifier: nil, body: ""),
      ], "\(name)")
    #expect(pair.toServer.suffix(13) == Peer.frame(3, 0, 1, Peer.word(1)), "\(name)")
    #expect(pair.client.failure == nil)
  }

  @Test("what HTTP/2 allows is read alike in whatever pieces it arrives", arguments: [Int.max, 1, 5])
  func allowed(piece: Int) throws {
    var pair = try connection()
    let length = Peer.field("content-length", "2")
    // 1xx, a padded block with a priority in three frames, padded DATA, empty DATA, trailers.
    pair.toClient =
      Peer.headers(1, Peer.field(":status", "103") + Peer.field("link", "x"), flags: 4)
      + Peer.headers(1, [2] + [0, 0, 0, 3, 7] + Peer.field(":status", "400") + [0, 0], flags: 0x28)
      + Peer.frame(9, 0, 1, Array(length.prefix(3))) + Peer.frame(9, 4, 1, Array(length.dropFirst(3)))
      + Peer.frame(0, 8, 1, [3, 0x7B, 0, 0, 0]) + Peer.frame(0, 0, 1) + Peer.frame(0, 0, 1, [0x7D])
      + Peer.headers(1, Peer.field("grpc-status", "0"))
      // Unknown frames, settings and flags, PRIORITY, frames on a stream that has ended.
      + Peer.frame(0xEE, 0xFF, 3, [1, 2]) + Peer.settings((0xAA, 1)) + Peer.frame(2, 0, 3, [0, 0, 0, 1, 4])
      + Peer.frame(3, 0, 1, [0, 0, 0, 0]) + Peer.frame(8, 0, 1, [0, 0, 0, 9]) + Peer.frame(0, 0, 1, [1])
      + Peer.headers(1, Peer.ok) + Peer.headers(3, Peer.ok, flags: 0xC5)
    while !pair.toClient.isEmpty { pair.carryToClient(piece) }
    pair.takeClientEvents()
    #expect(pair.client.failure == nil, "\(String(describing: pair.client.failure))")
    #expect(
      pair.heard.filter { $0 != .settings } == [
        .response(tag: 0, status: 400, identifier: nil, body: "{}"),
        .response(tag: 1, status: 200, identifier: nil, body: ""),
      ])
  }

  @Test(
    "a field of the dynamic table says each time what it said at first, also if it came on a closed stream",
    arguments: [
      ("a", "b", true), ("apns-id", "123e4567-e89b-12d3-a456-426614174000", true), ("a", " x", false),
      ("a", "12345678\r9", false), ("connection", "close", false), ("Date", "x", false),
      ("content-length", "2", false),
    ] as [(String, String, Bool)])
  func tableFields(name: String, value: String, isValid: Bool) throws {
    let added = [0x40] + Peer.field(name, value).dropFirst()
    for isClosed in [false, true] {
      var pair = try connection()
      if isClosed { hear(Peer.headers(1, Peer.ok), &pair) }
      hear(Peer.headers(1, Peer.ok + added), &pair)
      for stream in [3, 5] as [Int32] { hear(Peer.headers(stream, Peer.ok + [0xBE]), &pair) }
      let identifier = name == "apns-id" ? APNSIdentifier(parsing: value) : nil
      for tag in (isClosed ? 1 : 0)..<3 as Range<UInt64> {
        let wanted: HTTP2Pair.Heard =
          isValid
          ? .response(tag: tag, status: 200, identifier: identifier, body: "")
          : .ended(tag: tag, code: .protocolError, isUnprocessed: false)
        #expect(pair.heard.contains(wanted), "\(name), stream \(2 * tag + 1): \(pair.heard)")
      }
      #expect(pair.client.failure == nil)
    }
  }

  static let floods: [(String, [UInt8], [UInt8])] = [
    ("empty DATA", Peer.headers(1, Peer.ok, flags: 4), Peer.frame(0, 0, 1)),
    ("PRIORITY", [], Peer.frame(2, 0, 1, [0, 0, 0, 0, 1])),
    ("unknown frames", [], Peer.frame(0xEE)),
    ("PING", [], Peer.frame(6, 0, 0, [1, 2, 3, 4, 5, 6, 7, 8])),
    ("SETTINGS", [], Peer.settings((3, 100))),
    ("RST_STREAM of a closed stream", Peer.headers(1, Peer.ok), Peer.frame(3, 0, 1, [0, 0, 0, 8])),
    ("100", [], Peer.headers(1, Peer.field(":status", "100"), flags: 4)),
    ("empty CONTINUATION", Peer.headers(1, Peer.ok, flags: 0), Peer.frame(9, 0, 1)),
    ("CONTINUATION", Peer.headers(1, Peer.ok, flags: 0), Peer.frame(9, 0, 1, Peer.ok)),
    ("GOAWAY", [], Peer.frame(7, 0, 0, [0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0])),
  ]

  @Test("a flood ends the connection, although each of its frames is allowed", arguments: floods)
  func flood(name: String, before: [UInt8], frame: [UInt8]) throws {
    var pair = try connection()
    hear(before, &pair)
    var count = 0
    while pair.client.failure == nil, count < 100_000 {
      for _ in 0..<100 { pair.toClient += frame }
      count += 100
      pair.carryToClient()
      pair.takeClientEvents()
      pair.takeClientOutput()
    }
    #expect(pair.client.failure?.errorCode == .enhanceYourCalm, "\(name) after \(count)")
    // Of a block, the bytes are counted too.
    #expect(name == "CONTINUATION" || (10_000...10_200).contains(count), "\(name) after \(count)")
  }

  @Test("a block that unfolds into megabytes ends its stream only")
  func headerBomb() throws {
    var pair = try connection()
    let big = [0x40, 1, 0x61, 0x7F, 0xA1, 0x1E] + [UInt8](repeating: 0x62, count: 4000)
    hear(Peer.headers(1, Peer.ok + big + [UInt8](repeating: 0xBE, count: 10_000)), &pair)
    #expect(pair.heard == [.ended(tag: 0, code: .internalError, isUnprocessed: false)])
    hear(Peer.headers(3, Peer.ok), &pair)
    #expect(pair.heard.last == .response(tag: 1, status: 200, identifier: nil, body: ""))
  }

  @Test("a body beyond the windows ends stream or connection, and what was read is given back")
  func windows() throws {
    var pair = try connection()
    hear(Peer.headers(1, Peer.ok, flags: 4), &pair)
    let piece = Peer.frame(0, 0, 1, [UInt8](repeating: 0x61, count: 16_384))
    hear(piece, &pair)
    #expect(pair.toServer.isEmpty)
    hear(piece, &pair)
    #expect(
      pair.toServer == Peer.frame(8, 0, 0, Peer.word(32_768)) + Peer.frame(8, 0, 1, Peer.word(32_768)))
    hear(Peer.frame(0, 1, 1), &pair)
    #expect(
      pair.heard == [.response(tag: 0, status: 200, identifier: nil, body: String(repeating: "a", count: 1024))])
  }

  @Test("the peer's windows, frame size and table size are obeyed from the acknowledgement on")
  func settings() throws {
    var pair = try connection(Peer.settings((1, 0), (4, 10), (5, 20_000)))
    hear(Peer.settings((5, 16_384)), &pair)
    pair.toServer = []
    pair.submit(tag: 5)
    pair.takeClientOutput()
    // The payload has 25 bytes, and the window 10.
    #expect(pair.toServer.suffix(19).prefix(9) == [0, 0, 10, 0, 0, 0, 0, 0, 7])
    pair.toServer = []
    hear(Peer.frame(8, 0, 7, Peer.word(4)), &pair)
    #expect(pair.toServer.prefix(9) == [0, 0, 4, 0, 0, 0, 0, 0, 7])
    pair.toServer = []
    hear(Peer.settings((4, 5)), &pair)
    // An acknowledgement, and no DATA: the window is negative now.
    #expect(pair.toServer == Peer.frame(4, 1))
    pair.toServer = []
    hear(Peer.frame(8, 0, 7, Peer.word(100)), &pair)
    #expect(pair.toServer.count == 9 + 11)
    #expect(pair.toServer.prefix(9) == [0, 0, 11, 0, 1, 0, 0, 0, 7])
  }

  @Test("under any SETTINGS, nghttp2 decodes every request")
  func requestsBesideNghttp2() throws {
    var random = SeededGenerator.fresh()
    for _ in 0..<30 {
      var pair = try HTTP2Pair()
      let oracle = HPACKOracleDecoder()
      var limits: [[Int]] = []
      var wanted: [[String]] = []
      var seen: [[String]] = []
      pair.toClient = Peer.settings()
      limits.append([])
      pair.carryToClient()
      pair.client.setAuthorization("bearer \(random.next())")
      let templates = (0..<3).map { number in
        var headers = ProviderHeaders(topic: "com.example.news\(number)")
        headers.expiration = number == 1 ? 100 : nil
        headers.collapseIdentifier = number == 2 ? "c" : nil
        return RequestTemplate(authority: "a", headers: headers, credential: .token, payload: [])
      }
      for tag in 0..<200 as Range<UInt64> {
        if random.chance(10) {
          let sizes = (0..<2).map { _ in Int.random(in: 0...5000, using: &random) }
          pair.toClient = Peer.settings((1, UInt32(sizes[0])), (1, UInt32(sizes[1])))
          limits.append(sizes)
          pair.carryToClient()
        }
        let number = Int.random(in: 0..<3, using: &random)
        var overrides = RequestOverrides()
        if random.chance(30) { overrides.expiration = UInt32.random(in: 1...4, using: &random) }
        if random.chance(20) { overrides.priority = 5 }
        let identifier = APNSIdentifier(high: random.next(), low: random.next())
        pair.submit(templates[number], identifier: identifier, overrides: overrides, tag: tag)
        let expiration = overrides.expiration.map(String.init) ?? (number == 1 ? "100" : nil)
        wanted.append(
          [
            "apns-id: \(identifier)", "apns-topic: com.example.news\(number)",
            ":path: /3/device/\(TokenBytes(bytes: HTTP2Pair.token)?.description ?? "")",
          ] + (expiration.map { ["apns-expiration: \($0)"] } ?? []))
        if random.chance(50) { continue }
        pair.takeClientOutput()
        var bytes = pair.toServer[...]
        pair.toServer = []
        if bytes.starts(with: Array("PRI".utf8)) { bytes = bytes.dropFirst(24) }
        while bytes.count >= 9 {
          let start = bytes.startIndex
          let count = Int(bytes[start + 1]) << 8 | Int(bytes[start + 2])
          let payload = Array(bytes[(start + 9)..<(start + 9 + count)])
          if bytes[start + 3] == 4, bytes[start + 4] == 1 { limits.removeFirst().forEach(oracle.setTableLimit) }
          if bytes[start + 3] == 1 { seen.append(oracle.decode(payload) ?? ["nothing"]) }
          bytes = bytes.dropFirst(9 + count)
        }
      }
      for (fields, block) in zip(wanted, seen) {
        #expect(Set(fields).isSubset(of: block), "\(fields) in \(block)")
        #expect(block.count { $0.hasPrefix("apns-expiration") } == fields.count { $0.hasPrefix("apns-expiration") })
      }
      #expect(seen.count > 100)
    }
  }

  @Test("bytes stay until they are sent, however many connections of a loop have some at the same time")
  func manyOutputs() {
    let buffers = LoopBuffers()
    let outputs = (0..<40).map { _ in buffers.takeOutput() }
    for output in outputs {
      buffers.give(output)
      #expect(buffers.takeOutput() === output)
      buffers.give(output)
    }
  }

  @Test("streams that stay open do not keep others from being opened")
  func longStreams() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    var stuck: Set<Int32> = []
    for tag in 0..<20_000 as Range<UInt64> {
      guard case .submitted(let streamID) = pair.submit(tag: tag) else {
        Issue.record("request \(tag) was not taken")
        return
      }
      guard tag % 50 == 0 else { continue }
      pair.settle()
      for request in pair.requests where request.streamID != streamID || stuck.count >= 300 {
        pair.server.respond(request.streamID, status: 200, identifier: nil, body: [])
      }
      if stuck.count < 300 { stuck.insert(streamID) }
      pair.noticed = []
      pair.settle()
    }
    #expect(stuck.count == 300)
    for streamID in stuck { pair.server.respond(streamID, status: 200, identifier: nil, body: []) }
    pair.settle()
    for request in pair.requests { pair.server.respond(request.streamID, status: 200, identifier: nil, body: []) }
    pair.settle()
    #expect(pair.client.openStreamCount == 0)
    #expect(Set(pair.heard).count == 1 + 20_000)
  }
}
