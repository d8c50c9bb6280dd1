internal import PushGateway
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushTransport

/// Two sessions with random actions of both callers. The bytes between them are cut at random. A
/// model computes the allowed results.
@safe
private struct Exchange {
  struct Sent {
    var token: [UInt8]
    var body: [UInt8]
    var identifier: APNSIdentifier
    var expiration: UInt32?
  }

  enum Answer: Equatable {
    case response(UInt16, [UInt8])
    case reset(HTTP2ErrorCode)
  }

  var pair: HTTP2Pair
  var random: SeededGenerator
  var sent: [UInt64: Sent] = [:]
  /// Bodies stay in place until the stream has ended, as the interface demands.
  var memory: [UInt64: UnsafeMutableRawBufferPointer] = unsafe [:]
  var tagOfStream: [Int32: UInt64] = [:]
  var answers: [UInt64: Answer] = [:]
  var cancelled: Set<UInt64> = []
  var waiting: [Int32] = []
  var ends: [UInt64: HTTP2Pair.Heard] = [:]
  var seen: Set<UInt64> = []
  var goAway: Int32?
  var problems: [String] = []
  private let template: RequestTemplate

  init(seed: UInt64) throws {
    random = SeededGenerator(seed: seed)
    var server = HTTP2ServerSession.Options()
    server.streamLimit = [1, 3, 20, 200].randomElement(using: &random)
    server.windowByteCount = [100, 5000, 65_535].randomElement(using: &random) ?? 65_535
    pair = try HTTP2Pair(server: server)
    template = RequestTemplate(
      authority: "api.example.com", headers: ProviderHeaders(topic: "com.example.news"), credential: .token,
      payload: Array("{}".utf8))
  }

  mutating func run(steps: Int) {
    for _ in 0..<steps { step() }
    pair.server.setStreamLimit(1000)
    for _ in 0..<10_000 where !isQuiet || !waiting.isEmpty {
      while let streamID = takeWaiting() { answer(streamID) }
      carry(.max)
    }
    unsafe memory.values.forEach { unsafe $0.deallocate() }
  }

  private var isQuiet: Bool {
    mutating get {
      pair.takeClientOutput()
      pair.takeServerOutput()
      return pair.toServer.isEmpty && pair.toClient.isEmpty
    }
  }

  private mutating func step() {
    switch Int.random(in: 0..<100, using: &random) {
    case ..<30: submit()
    case ..<45: if let streamID = takeWaiting() { answer(streamID) }
    case ..<47: if let streamID = takeWaiting() { reset(streamID) }
    case ..<49: cancel()
    case ..<51: pair.server.setStreamLimit([0, 1, 2, 10, 300].randomElement(using: &random) ?? 1)
    case ..<52: pair.client.ping(random.next())
    case 52 where random.chance(5): sendGoAway()
    default: carry(Int.random(in: 0..<[2, 40, 400, 20_000][Int.random(in: 0..<4, using: &random)], using: &random))
    }
  }

  private mutating func submit() {
    let tag = UInt64(sent.count)
    let request = Sent(
      token: random.bytes(Int.random(in: 1...100, using: &random)),
      body: random.bytes(Int.random(in: 0..<[3, 300, 6000][Int(tag % 3)], using: &random)),
      identifier: APNSIdentifier(high: random.next(), low: random.next()),
      expiration: [nil, 1_800_000_000, 1_800_000_000, 7, UInt32(truncatingIfNeeded: random.next())].randomElement(
        using: &random) ?? nil)
    let body = UnsafeMutableRawBufferPointer.allocate(byteCount: request.body.count, alignment: 1)
    unsafe body.copyBytes(from: request.body)
    var overrides = RequestOverrides()
    overrides.expiration = request.expiration
    unsafe overrides.payload = UnsafeRawBufferPointer(body)
    let available = pair.client.availableStreamCount
    let submission = pair.submit(
      template, token: request.token, identifier: request.identifier, overrides: overrides, tag: tag)
    guard case .submitted(let streamID) = submission else {
      unsafe body.deallocate()
      if available > 0 { problems.append("\(submission) although \(available) streams were free") }
      return
    }
    if available == 0 { problems.append("submitted although no stream was free") }
    unsafe memory[tag] = unsafe body
    sent[tag] = request
    tagOfStream[streamID] = tag
  }

  private mutating func takeWaiting() -> Int32? {
    waiting.isEmpty ? nil : waiting.remove(at: Int.random(in: 0..<waiting.count, using: &random))
  }

  private mutating func answer(_ streamID: Int32) {
    guard let tag = tagOfStream[streamID] else { return }
    let status = [200, 200, 200, 400, 410, 500, 503].randomElement(using: &random) ?? 200 as UInt16
    let body = status == 200 ? [] : random.bytes(Int.random(in: 0..<1000, using: &random))
    answers[tag] = .response(status, body)
    pair.server.respond(
      streamID, status: status, identifier: sent[tag].map { Array($0.identifier.description.utf8) }, body: body)
  }

  private mutating func reset(_ streamID: Int32) {
    guard let tag = tagOfStream[streamID] else { return }
    let code = [HTTP2ErrorCode.refusedStream, .internalError, .cancel].randomElement(using: &random) ?? .cancel
    answers[tag] = .reset(code)
    pair.server.reset(streamID, code)
  }

  private mutating func cancel() {
    guard let streamID = tagOfStream.keys.sorted().randomElement(using: &random), let tag = tagOfStream[streamID],
      ends[tag] == nil
    else { return }
    cancelled.insert(tag)
    pair.client.cancel(streamID)
  }

  private mutating func sendGoAway() {
    guard goAway == nil else { return }
    let last = pair.server.lastStreamID
    let chosen = last == 0 ? 0 : Int32.random(in: 0...(last / 2), using: &random) * 2 + 1
    goAway = min(chosen, last)
    pair.server.sendGoAway(
      lastStreamID: min(chosen, last), code: .noError, debugData: Array(#"{"reason":"Shutdown"}"#.utf8))
  }

  private mutating func carry(_ count: Int) {
    let limit = random.chance(30) ? 50 : 1 << 18
    if random.chance(50) {
      pair.takeClientOutput(limit: limit)
      pair.carryToServer(count)
    } else {
      pair.takeServerOutput(limit: limit)
      pair.carryToClient(count)
    }
    pair.takeServerEvents()
    pair.takeClientEvents()
    judge()
  }

  private mutating func judge() {
    for noticed in pair.noticed {
      switch noticed {
      case .request(let request):
        guard let tag = tagOfStream[request.streamID], let wanted = sent[tag] else {
          problems.append("a request that nobody sent")
          continue
        }
        waiting.append(request.streamID)
        if !seen.insert(tag).inserted { problems.append("request \(tag) twice") }
        let path = "/3/device/" + (TokenBytes(bytes: wanted.token)?.description ?? "")
        if request[":path"] != path || request["apns-id"] != wanted.identifier.description
          || request["apns-expiration"] != wanted.expiration.map(String.init)
        {
          problems.append("headers of \(tag)")
        }
        if request.body != String(decoding: wanted.body, as: UTF8.self) { problems.append("body of \(tag)") }
      case .overLimit(let streamID, let open, let limit):
        problems.append("stream \(streamID): \(open) open, \(limit) allowed")
      case .ended(let streamID, _): waiting.removeAll { $0 == streamID }
      case .goAway: problems.append("the client left")
      }
    }
    pair.noticed = []
    for heard in pair.heard {
      switch heard {
      case .response(let tag, _, _, _), .ended(let tag, _, _):
        if ends.updateValue(heard, forKey: tag) != nil { problems.append("two ends for \(tag)") }
        if let body = unsafe memory.removeValue(forKey: tag) {
          // The memory belongs to the caller again. AddressSanitizer would report a later read.
          unsafe body.deallocate()
        }
      case .settings, .goAway, .pong: break
      }
    }
    pair.heard = []
  }

  /// Checks that every request had exactly the end that the other side chose.
  mutating func verdict() -> [String] {
    if let failure = pair.client.failure ?? pair.server.failure { problems.append(failure.description) }
    for tag in sent.keys.sorted() {
      switch (ends[tag], answers[tag]) {
      case (nil, _): problems.append("no end for \(tag)")
      case (.response(_, let status, let identifier, let body), .response(let wanted, let bytes)):
        if status != wanted || identifier != sent[tag]?.identifier || body != String(decoding: bytes, as: UTF8.self) {
          problems.append("answer to \(tag)")
        }
      case (.ended(_, let code, let isUnprocessed), .reset(let wanted)) where code == wanted:
        if isUnprocessed != (wanted == .refusedStream) { problems.append("end of \(tag)") }
      case (.ended(_, let code, let isUnprocessed), let answer):
        let streamID = tagOfStream.first { $0.value == tag }?.key ?? 0
        let isGivenUp = goAway.map { streamID > $0 } ?? false
        // Cancelled by the client, perhaps with the answer on its way, or above the last stream of
        // a GOAWAY.
        if !(cancelled.contains(tag) && code == .cancel) && !(isGivenUp && code == .refusedStream && isUnprocessed) {
          problems.append("\(tag) ended by \(code) instead of \(String(describing: answer))")
        }
        if isUnprocessed, code != .refusedStream, seen.contains(tag) {
          problems.append("\(tag) was seen and called unsent")
        }
      default: problems.append("\(tag): \(String(describing: ends[tag])) for \(String(describing: answers[tag]))")
      }
    }
    return problems
  }
}

@Suite("HTTP/2 sessions with random actions")
struct HTTP2PropertyTests {
  @Test("every request ends exactly once, as its server decided, however the bytes are cut", arguments: 0..<60)
  func exchange(number: Int) throws {
    let seed = SeededGenerator.freshSeed()
    var exchange = try Exchange(seed: seed)
    exchange.run(steps: 800)
    let problems = exchange.verdict()
    #expect(problems.isEmpty, "seed \(seed): \(problems.prefix(5))")
  }

  /// The bytes of both sides in an ordinary exchange.
  private func transcript(_ random: inout SeededGenerator) throws -> (toServer: [UInt8], toClient: [UInt8]) {
    var pair = try HTTP2Pair()
    var (toServer, toClient): ([UInt8], [UInt8]) = ([], [])
    func carry() {
      pair.takeClientOutput()
      pair.takeServerOutput()
      toServer += pair.toServer
      toClient += pair.toClient
      pair.carryToServer()
      pair.carryToClient()
      pair.takeClientEvents()
      pair.takeServerEvents()
    }
    carry()
    carry()
    for tag in 0..<6 as Range<UInt64> { pair.submit(identifier: APNSIdentifier(high: tag, low: tag), tag: tag) }
    carry()
    for request in pair.requests {
      pair.server.respond(
        request.streamID, status: request.streamID == 5 ? 410 : 200, identifier: nil, body: [123, 125])
    }
    pair.client.ping(5)
    carry()
    pair.server.sendGoAway(lastStreamID: 11, code: .noError, debugData: [1, 2, 3])
    carry()
    return (toServer, toClient)
  }

  @Test(
    "bytes that are damaged, missing, repeated or random never trap; they end in a failure or in events",
    arguments: 0..<60)
  func hostile(number: Int) throws {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    let good = try transcript(&random)
    for _ in 0..<20 {
      var pair = try HTTP2Pair()
      pair.takeClientOutput()
      pair.takeServerOutput()
      for tag in 0..<6 as Range<UInt64> { pair.submit(tag: tag) }
      pair.toServer = damaged(good.toServer, &random)
      pair.toClient = damaged(good.toClient, &random)
      while !pair.toServer.isEmpty || !pair.toClient.isEmpty {
        pair.carryToServer(Int.random(in: 1...300, using: &random))
        pair.carryToClient(Int.random(in: 1...300, using: &random))
        pair.takeServerEvents()
        pair.takeClientEvents()
        if let request = pair.requests.randomElement(using: &random) {
          pair.server.respond(request.streamID, status: 200, identifier: nil, body: [1])
        }
        pair.submit(tag: 99)
        _ = unsafe pair.client.output()
        _ = unsafe pair.server.output()
      }
    }
  }

  private func damaged(_ bytes: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
    var bytes = bytes
    for _ in 0..<Int.random(in: 0...4, using: &random) {
      guard !bytes.isEmpty else { break }
      // The client's preface usually stays intact: behind a broken one, nothing is read.
      let place = Int.random(in: min(24, bytes.count - 1)..<bytes.count, using: &random)
      switch Int.random(in: 0..<5, using: &random) {
      case 0: bytes[place] = UInt8.random(in: .min ... .max, using: &random)
      case 1: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1...20, using: &random)))
      case 2: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 40)], at: place)
      case 3: bytes.insert(contentsOf: random.bytes(Int.random(in: 1...60, using: &random)), at: place)
      default: bytes.insert(contentsOf: frame(&random), at: place)
      }
    }
    return bytes
  }

  /// A frame with a valid header and possibly invalid contents.
  private func frame(_ random: inout SeededGenerator) -> [UInt8] {
    let payload = random.bytes(Int.random(in: 0..<40, using: &random))
    return [
      0, 0, UInt8(payload.count), UInt8.random(in: 0...11, using: &random), UInt8.random(in: 0...0x2F, using: &random),
      0, 0, 0,
      UInt8.random(in: 0...13, using: &random),
    ]
      + payload
  }

  @Test("a flood of frames that cost their sender nothing needs bounded memory")
  func flood() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    // Ten thousand SETTINGS, PING acknowledgements and GOAWAYs.
    let settings: [UInt8] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 9]
    let pong: [UInt8] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    let goAway: [UInt8] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    for _ in 0..<500 {
      pair.toClient += settings + pong + goAway
    }
    pair.carryToClient()
    pair.takeClientEvents()
    #expect(pair.heard == [.settings, .settings, .goAway])
    var other = try HTTP2Pair()
    other.settle()
    for _ in 0..<20_000 { other.toClient += settings }
    other.carryToClient()
    #expect(other.client.failure?.errorCode == .enhanceYourCalm, "acknowledgements that pile up end the session")
  }

  @Test("requests that come and go take no more memory than those that were open at once")
  func steadyState() throws {
    var pair = try HTTP2Pair()
    pair.settle()
    pair.client.setAuthorization("bearer \(String(repeating: "y", count: 220))")
    var counts: [Int] = []
    var tag: UInt64 = 0
    for _ in 0..<6 {
      for _ in 0..<5 {
        for _ in 0..<100 {
          pair.submit(identifier: APNSIdentifier(high: tag &* 77, low: tag), tag: tag)
          tag += 1
        }
        pair.settle()
        for request in pair.requests {
          pair.server.respond(
            request.streamID, status: 200, identifier: Array((request["apns-id"] ?? "").utf8), body: [])
        }
        pair.noticed = []
        pair.settle()
      }
      counts.append(pair.server.allocationCount)
    }
    #expect(counts[1] == counts[5], "\(counts)")
    #expect(pair.heard.count == 1 + 3000)
  }
}
