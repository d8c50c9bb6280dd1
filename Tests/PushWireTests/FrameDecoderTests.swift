internal import PushWire
internal import Support
internal import Testing

/// The rules are those of BinaryProtocol.md, "Decoding rules". Frames are written by hand in the
/// layout given there.
@Suite("Decoding of notification frames")
struct FrameDecoderTests {
  static let token = [UInt8](0..<32)
  static let payload = Array(#"{"aps":{}}"#.utf8)
  static let good = FrameRecord(
    command: .framed, token: token, payload: payload, identifier: 5, expiration: 6, priority: 10)

  static let tokenItem = item(1, token)
  static let payloadItem = item(2, payload)
  static let identifierItem = item(3, be32(5))
  static let expirationItem = item(4, be32(6))
  static let priorityItem = item(5, [10])

  @Test("items may come in any order")
  func anyOrder() {
    let items = [Self.tokenItem, Self.payloadItem, Self.identifierItem, Self.expirationItem, Self.priorityItem]
    for order in permutations([0, 1, 2, 3, 4]) {
      let bytes = framed(order.flatMap { items[$0] })
      #expect(decode(bytes) == Decoding(frames: [Self.good]), "order \(order)")
    }
  }

  @Test("identifier, expiration and priority may be absent")
  func optionalItems() {
    let frame = FrameRecord(command: .framed, token: Self.token, payload: Self.payload)
    #expect(decode(framed(Self.tokenItem, Self.payloadItem)) == Decoding(frames: [frame]))
  }

  /// A frame, the status that refuses it, and the identifier that can be read.
  struct Fault: CustomTestStringConvertible {
    var testDescription: String
    var bytes: [UInt8]
    var status: GatewayStatus
    var identifier: UInt32?

    init(_ name: String, _ bytes: [UInt8], _ status: GatewayStatus, identifier: UInt32? = nil) {
      (testDescription, self.bytes, self.status, self.identifier) = (name, bytes, status, identifier)
    }
  }

  static let faults: [Fault] = [
    Fault("token twice", framed(identifierItem, tokenItem, tokenItem, payloadItem), .protocolError, identifier: 5),
    Fault(
      "token twice, identifier last", framed(tokenItem, tokenItem, payloadItem, identifierItem), .protocolError,
      identifier: 5),
    Fault("payload twice", framed(tokenItem, payloadItem, payloadItem), .protocolError),
    Fault(
      "identifier twice names the first", framed(identifierItem, tokenItem, item(3, be32(9)), payloadItem),
      .protocolError, identifier: 5),
    Fault("expiration twice", framed(expirationItem, expirationItem, tokenItem, payloadItem), .protocolError),
    Fault("priority twice", framed(priorityItem, priorityItem, tokenItem, payloadItem), .protocolError),
    Fault("empty token twice", framed(item(1, []), item(1, []), payloadItem), .protocolError),
    Fault("unknown item", framed(tokenItem, payloadItem, item(6, [1]), identifierItem), .protocolError, identifier: 5),
    Fault("item 0", framed(item(0, []), tokenItem, payloadItem), .protocolError),
    Fault("item 255", framed(tokenItem, payloadItem, item(255, [])), .protocolError),
    Fault("item 129, which is 1 in its low bits", framed(item(129, token), payloadItem), .protocolError),
    Fault(
      "item longer than its frame", framed(identifierItem, item(1, token, length: 33)), .protocolError, identifier: 5),
    Fault("item of 65535 bytes", framed(identifierItem, item(1, token, length: 65535)), .protocolError, identifier: 5),
    Fault(
      "header of an item cut off by the frame", framed(identifierItem, tokenItem, payloadItem, [5, 0]), .protocolError,
      identifier: 5),
    Fault(
      "go-libapns: priority of length 4 with one byte",
      framed(tokenItem, payloadItem, identifierItem, expirationItem, item(5, [10], length: 4)),
      .protocolError, identifier: 5),
    Fault(
      "priority of 4 bytes", framed(item(5, be32(10)), tokenItem, payloadItem, identifierItem), .protocolError,
      identifier: 5),
    Fault("priority of 0 bytes", framed(tokenItem, payloadItem, item(5, [])), .protocolError),
    Fault("identifier of 3 bytes", framed(tokenItem, payloadItem, item(3, [0, 0, 1])), .protocolError),
    Fault("identifier of 5 bytes", framed(tokenItem, payloadItem, item(3, [0, 0, 0, 0, 1])), .protocolError),
    Fault(
      "expiration of 8 bytes", framed(tokenItem, payloadItem, item(4, be32(0) + be32(1)), identifierItem),
      .protocolError, identifier: 5),
    Fault("frame length above the bound", [2] + be32(8193), .protocolError),
    Fault("frame length of 4 GB", [2, 255, 255, 255, 255], .protocolError),
    Fault("frame length with the top bit set", [2, 128, 0, 0, 0], .protocolError),
    Fault("unknown command 3", [3], .protocolError),
    Fault("unknown command 255", [255] + framed(tokenItem, payloadItem), .protocolError),
    Fault("a TLS record in clear", [0x16, 3, 1, 2, 0], .protocolError),
    Fault("empty frame", framed(), .missingDeviceToken),
    Fault("no token", framed(payloadItem, identifierItem), .missingDeviceToken, identifier: 5),
    Fault("empty token", framed(item(1, []), payloadItem, identifierItem), .missingDeviceToken, identifier: 5),
    Fault(
      "empty token in command 1", [1] + be32(5) + be32(0) + be16(0) + be16(10) + payload, .missingDeviceToken,
      identifier: 5),
    Fault("empty token in command 0", [0] + be16(0) + be16(10) + payload, .missingDeviceToken),
    Fault("no payload", framed(tokenItem, identifierItem), .missingPayload, identifier: 5),
    Fault("empty payload", framed(tokenItem, item(2, []), identifierItem), .missingPayload, identifier: 5),
    Fault(
      "empty payload in command 1", [1] + be32(5) + be32(0) + be16(32) + token + be16(0), .missingPayload, identifier: 5
    ),
    Fault("empty payload in command 0", [0] + be16(32) + token + be16(0), .missingPayload),
    Fault(
      "token of 31 bytes", framed(item(1, Array(token.dropLast())), payloadItem, identifierItem), .invalidTokenSize,
      identifier: 5),
    Fault(
      "token of 33 bytes", framed(item(1, token + [0]), payloadItem, identifierItem), .invalidTokenSize, identifier: 5),
    Fault(
      "token of 33 bytes in command 1", [1] + be32(5) + be32(0) + be16(33) + token + [0] + be16(10) + payload,
      .invalidTokenSize, identifier: 5),
    Fault(
      "payload of 2049 bytes", framed(tokenItem, item(2, [UInt8](repeating: 32, count: 2049)), identifierItem),
      .invalidPayloadSize, identifier: 5),
    Fault(
      "payload of 257 bytes in command 1",
      [1] + be32(5) + be32(0) + be16(32) + token + be16(257) + [UInt8](repeating: 32, count: 257), .invalidPayloadSize,
      identifier: 5),
    Fault(
      "payload of 257 bytes in command 0", [0] + be16(32) + token + be16(257) + [UInt8](repeating: 32, count: 257),
      .invalidPayloadSize),
    Fault(
      "payload length above the frame bound in command 1, nothing of it there",
      [1] + be32(5) + be32(0) + be16(32) + token + be16(65535), .invalidPayloadSize,
      identifier: 5),
    Fault(
      "payload length above the frame bound in command 0", [0] + be16(32) + token + be16(9000), .invalidPayloadSize),
    Fault("payload length above the frame bound and no token", [0] + be16(0) + be16(9000), .missingDeviceToken),
    Fault(
      "token length above the frame bound in command 1", [1] + be32(5) + be32(0) + be16(65535), .protocolError,
      identifier: 5),
    Fault("token length above the frame bound in command 0", [0] + be16(8190), .protocolError),
    // Precedence: 128 before 2, 4, 5, 7.
    Fault("128 before 2", framed(payloadItem, item(9, [])), .protocolError),
    Fault("128 before 7", framed(tokenItem, item(2, [UInt8](repeating: 32, count: 3000)), item(5, [])), .protocolError),
    Fault("2 before 4", framed(item(1, []), item(2, [])), .missingDeviceToken),
    Fault("2 before 7", framed(item(2, [UInt8](repeating: 32, count: 3000))), .missingDeviceToken),
    Fault("4 before 5", framed(item(1, [1])), .missingPayload),
    Fault("5 before 7", framed(item(1, [1]), item(2, [UInt8](repeating: 32, count: 3000))), .invalidTokenSize),
  ]

  @Test(
    "a frame that breaks a rule is refused with its status, and everything after it is discarded", arguments: faults)
  func refusal(_ fault: Fault) {
    let stream = Self.good.encoded + fault.bytes + Self.good.encoded
    let decoding = decode(stream)
    #expect(decoding.isStopped)
    #expect(decoding.frames.count == 2)
    #expect(decoding.frames.first == Self.good)
    #expect(decoding.frames.last?.violation == fault.status)
    #expect(decoding.frames.last?.identifier == fault.identifier)
    #expect(decode(stream.map { [$0] }) == decoding, "one byte at a time")
  }

  @Test("the bytes after a refusal are not kept, in this call and in later ones")
  func discard() {
    let decoding = decode([[3, 1, 2, 3], Self.good.encoded[...], Self.good.encoded.dropLast()])
    #expect(decoding.frames.count == 1)
    #expect(decoding.pendingByteCount == 0)
  }

  @Test(
    "a length above the bound is refused without waiting for more bytes",
    arguments: [
      [2] + be32(8193), [1] + be32(5) + be32(0) + be16(32) + token + be16(9000), [0] + be16(9000),
    ])
  func earlyRefusal(_ header: [UInt8]) {
    #expect(!decode(Array(header.dropLast())).isStopped)
    #expect(decode(header).isStopped)
  }

  @Test("a frame of exactly the bound is accepted")
  func atTheBound() {
    var limits = DecoderLimits()
    limits.framedPayload = 8192
    limits.simplePayload = 8192
    let framedPayload = [UInt8](repeating: 32, count: 8192 - 35 - 3)
    #expect(decode(framed(Self.tokenItem, item(2, framedPayload)), limits: limits).frames.first?.violation == nil)
    let simplePayload = [UInt8](repeating: 32, count: 8192 - 37)
    #expect(
      decode([0] + be16(32) + Self.token + be16(8192 - 37) + simplePayload, limits: limits).frames.first?.violation
        == nil)
    #expect(
      decode([0] + be16(32) + Self.token + be16(8192 - 36), limits: limits).frames.first?.violation == .protocolError)
  }

  @Test("payload limits and token size are settings")
  func settings() {
    var limits = DecoderLimits()
    limits.simplePayload = 2048
    limits.tokenByteCount = nil
    let bytes = [0] + be16(100) + [UInt8](repeating: 1, count: 100) + be16(2048) + [UInt8](repeating: 32, count: 2048)
    #expect(decode(bytes, limits: limits).frames.first?.violation == nil)
    let longToken = [0] + be16(101) + [UInt8](repeating: 1, count: 101) + be16(10) + Self.payload
    #expect(decode(longToken, limits: limits).frames.first?.violation == .invalidTokenSize)
  }

  @Test("commands may alternate on one connection")
  func mixture() {
    var simple = Self.good
    (simple.command, simple.identifier, simple.expiration, simple.priority) = (.simple, nil, nil, nil)
    var enhanced = Self.good
    (enhanced.command, enhanced.priority) = (.enhanced, nil)
    let frames = [simple, Self.good, enhanced, enhanced, simple]
    #expect(decode(frames.flatMap(\.encoded)) == Decoding(frames: frames))
  }

  @Test("body returning false stops at once, also at a frame that arrived in pieces")
  func stopping() {
    let bytes = Self.good.encoded + Self.good.encoded + Self.good.encoded
    let expected = Decoding(frames: [Self.good, Self.good], isStopped: true)
    #expect(decode(bytes, stopAfter: 2) == expected)
    #expect(decode(bytes.map { [$0] }, stopAfter: 2) == expected)
  }

  @Test("no bytes decode to no frames")
  func empty() {
    #expect(decode([] as [UInt8]) == Decoding())
    #expect(decode([[], [], []]) == Decoding())
  }

  @Test("a frame that is cut off at its end is kept, every byte of it")
  func cutOff() {
    let bytes = Self.good.encoded
    for count in 0..<bytes.count {
      #expect(decode(Array(bytes.prefix(count))) == Decoding(pendingByteCount: count))
    }
  }

  private func permutations(_ values: [Int]) -> [[Int]] {
    guard let first = values.first else { return [[]] }
    return permutations(Array(values.dropFirst())).flatMap { rest in
      (0...rest.count).map { rest[..<$0] + [first] + rest[$0...] }
    }
  }
}
