internal import Foundation
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushTransport

/// One connection of our client, whose peer is nghttp2's encoder and decoder: what the client says
/// is read by both decoders, and what the peer says by our client and by nghttp2.
@safe
private struct ExchangeConnection: ~Copyable {
  /// What a response says, as the client must tell it.
  struct Answer {
    var status: UInt16
    var identifier: APNSIdentifier?
    var body: [UInt8]
  }

  private var pair: HTTP2Pair
  private var random: SeededGenerator
  private let encoder = HPACKOracleEncoder()
  /// Of what the client says, and of what it is told.
  private let requests = HPACKOracleDecoder()
  private let responses = HPACKOracleDecoder()
  private var decoder = HPACKDecoder()
  /// Sizes of the client's table, which count once it has acknowledged them.
  private var sizes: [[Int]] = []
  private var wanted: [UInt64: [String]] = [:]
  private var tags: [Int32: UInt64] = [:]
  private var answers: [UInt64: Answer] = [:]
  private var isFirst = true
  private let templates: [RequestTemplate]
  private(set) var count = 0
  private(set) var problem: String?

  init(_ random: inout SeededGenerator) throws {
    self.random = SeededGenerator(seed: random.next())
    pair = try HTTP2Pair()
    templates = (0..<3).map { number in
      var headers = ProviderHeaders(topic: "com.example.news\(number)")
      headers.expiration = number == 1 ? 100 : nil
      headers.collapseIdentifier = number == 2 ? "c" : nil
      return RequestTemplate(
        authority: "a", headers: headers, credential: .token, payload: [UInt8](repeating: 65, count: number * 90))
    }
    settings([])
    if self.random.chance(50) { pair.client.setAuthorization("bearer \(self.random.next())") }
  }

  private mutating func settings(_ sizes: [Int]) {
    self.sizes.append(sizes)
    hear(sizes.count == 2 ? Peer.settings((1, UInt32(sizes[0])), (1, UInt32(sizes[1]))) : Peer.settings())
  }

  private mutating func hear(_ bytes: [UInt8]) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let piece = random.chance(70) ? rest.count : Int.random(in: 1...rest.count, using: &random)
      pair.toClient = Array(rest.prefix(piece))
      pair.carryToClient()
      rest = rest.dropFirst(piece)
    }
  }

  /// Some requests and their responses.
  mutating func exchange() {
    if random.chance(4) { settings((0..<2).map { _ in Int.random(in: 0...4096, using: &random) }) }
    if random.chance(2) { pair.client.setAuthorization("bearer \(random.next())") }
    if random.chance(4) { encoder.setTableLimit(Int.random(in: 0...4096, using: &random)) }
    for _ in 0..<Int.random(in: 1...20, using: &random) { submit() }
    pair.takeClientOutput()
    takeRequests()
    answer()
    pair.takeClientEvents()
    judge()
  }

  private mutating func submit() {
    let tag = UInt64(count)
    let number = Int.random(in: 0..<3, using: &random)
    var overrides = RequestOverrides()
    switch Int.random(in: 0..<10, using: &random) {
    case 0: overrides.expiration = UInt32.random(in: 1...4, using: &random)
    case 1: overrides.expiration = UInt32(truncatingIfNeeded: random.next())
    default: break
    }
    if random.chance(20) { overrides.priority = 5 }
    let identifier = APNSIdentifier(high: random.next(), low: random.next())
    let token = random.bytes(Int.random(in: 1...40, using: &random))
    guard
      case .submitted(let streamID) = pair.submit(
        templates[number], token: token, identifier: identifier, overrides: overrides, tag: tag)
    else { return }
    count += 1
    tags[streamID] = tag
    let expiration = overrides.expiration.map(String.init) ?? (number == 1 ? "100" : nil)
    let path = TokenBytes(bytes: token)?.description ?? ""
    wanted[tag] =
      ["apns-id: \(identifier)", "apns-topic: com.example.news\(number)", ":path: /3/device/\(path)"]
      + (expiration.map { ["apns-expiration: \($0)"] } ?? []) + (number == 2 ? ["apns-collapse-id: c"] : [])
  }

  private mutating func takeRequests() {
    if isFirst { pair.toServer.removeFirst(HTTP2Frame.preface.utf8CodeUnitCount) }
    isFirst = false
    var byteCount = 0
    for frame in Peer.frames(pair.toServer) {
      switch frame.kind {
      case 0: byteCount += frame.payload.count
      case 1:
        let (theirs, ours) = (requests.decode(frame.payload), HPACKOracleTests.decode(frame.payload, &decoder))
        guard let tag = tags[frame.streamID], let wanted = wanted.removeValue(forKey: tag), let theirs else {
          problem = "a request that nobody can read, or nobody made: \(frame.payload)"
          return
        }
        let isRight =
          theirs == ours && wanted.allSatisfy(theirs.contains)
          && theirs.contains { $0.hasPrefix("apns-expiration") } == wanted.contains { $0.hasPrefix("apns-expiration") }
        if !isRight { problem = "\(wanted) was sent, \(theirs) by nghttp2, \(String(describing: ours)) by ours" }
      case 4 where frame.flags == 1: sizes.removeFirst().forEach(requests.setTableLimit)
      default: break
      }
    }
    pair.toServer = []
    if byteCount > 0 { hear(Peer.frame(8, 0, 0, Peer.word(UInt32(byteCount)))) }
  }

  private mutating func answer() {
    var bytes: [UInt8] = []
    for (streamID, tag) in tags.sorted(by: { $0.key < $1.key }) {
      let status = [200, 200, 200, 200, 200, 400, 403, 410, 429, 503].randomElement(using: &random) ?? 200 as UInt16
      var answer = Answer(status: status, body: [])
      if status != 200, random.chance(80) {
        answer.body = random.bytes(Int.random(in: 1...200, using: &random)).map { $0 & 0x7F }
      }
      if random.chance(5) { bytes += frames(streamID, [(":status", "103"), ("link", "</a>")], endsStream: false) }
      var fields = [(":status", "\(status)")]
      if random.chance(80) {
        answer.identifier = APNSIdentifier(high: random.next(), low: random.chance(30) ? 7 : random.next())
        fields.append(("apns-id", "\(answer.identifier.map(\.description) ?? "")"))
      }
      if random.chance(30) { fields.append(("apns-unique-id", "\(APNSIdentifier(high: random.next(), low: 1))")) }
      if status >= 429, random.chance(50) {
        fields.append(("retry-after", "\(Int.random(in: 0...3, using: &random))"))
      }
      if random.chance(10) { fields.append(("x-\(random.next() % 50)", "\(random.next())")) }
      if random.chance(10) { fields.append(("server", String(repeating: "s", count: Int(random.next() % 300)))) }
      bytes += frames(streamID, fields, endsStream: answer.body.isEmpty)
      if !answer.body.isEmpty {
        let hasTrailers = random.chance(10)
        bytes += Peer.frame(0, hasTrailers ? 0 : 1, streamID, answer.body)
        if hasTrailers { bytes += frames(streamID, [("x-trailer", "\(random.next() % 9)")], endsStream: true) }
      }
      answers[tag] = answer
    }
    tags = [:]
    hear(bytes)
  }

  /// A header block of nghttp2's, in one frame or in two, padded or not.
  private mutating func frames(_ streamID: Int32, _ fields: [(String, String)], endsStream: Bool) -> [UInt8] {
    let block = encoder.encode(
      fields.map {
        HPACKOracleTests.Field(name: Array($0.0.utf8), value: Array($0.1.utf8), isSecret: random.chance(20))
      })
    if responses.decode(block) != fields.map({ "\($0.0): \($0.1)" }) { problem = "nghttp2 does not read its own block" }
    let end: UInt8 = endsStream ? 1 : 0
    if random.chance(10), block.count > 1 {
      let cut = Int.random(in: 0..<block.count, using: &random)
      return Peer.frame(1, end, streamID, Array(block[..<cut]))
        + Peer.frame(9, 4, streamID, Array(block[cut...]))
    }
    if random.chance(10) {
      let padding = [UInt8](repeating: 0, count: Int.random(in: 0...9, using: &random))
      return Peer.frame(1, 12 | end, streamID, [UInt8(padding.count)] + block + padding)
    }
    return Peer.frame(1, 4 | end, streamID, block)
  }

  private mutating func judge() {
    if let failure = pair.client.failure { problem = failure.description }
    for heard in pair.heard {
      switch heard {
      case .response(let tag, let status, let identifier, let body):
        guard let answer = answers.removeValue(forKey: tag) else {
          problem = "an answer to \(tag), which nobody gave"
          continue
        }
        let text = String(decoding: answer.body, as: UTF8.self)
        if status != answer.status || identifier != answer.identifier || body != text {
          problem = "\(heard) of \(answer)"
        }
      case .ended: problem = "\(heard)"
      case .settings, .goAway, .pong: break
      }
    }
    pair.heard = []
    if !answers.isEmpty { problem = "\(answers.count) without an answer" }
    if !wanted.isEmpty { problem = "\(wanted.count) were not sent" }
  }
}

@Suite("Requests and responses beside nghttp2")
struct HTTP2ExchangeTests {
  /// `CARILLON_EXCHANGES` runs more.
  private static let count = ProcessInfo.processInfo.environment["CARILLON_EXCHANGES"].flatMap { Int($0) } ?? 20_000

  @Test("each request and each response says the same to nghttp2 and to us, under any table size and cut")
  func exchanges() throws {
    var random = SeededGenerator.fresh()
    var left = Self.count
    while left > 0 {
      var connection = try ExchangeConnection(&random)
      for _ in 0..<100 {
        connection.exchange()
        if let problem = connection.problem {
          Issue.record("\(problem)")
          return
        }
      }
      #expect(connection.count > 100)
      left -= connection.count
    }
  }
}
