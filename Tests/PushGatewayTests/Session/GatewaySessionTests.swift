internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Testing

/// Clients with and without faults at a gateway without fault rules.
struct GatewaySessionTests {
  @Test("valid frames of every command are accepted without a response", arguments: FrameVersion.allCases)
  func silence(command: FrameVersion) {
    var driver = Driver()
    for identifier in 1...100 as ClosedRange<UInt32> {
      driver.receive(Frames.frame(command, identifier, Frames.token(identifier)))
    }
    #expect(driver.visible == [])
    #expect(driver.ended().accepted == 100)
    #expect(
      driver.memory.accepted(topic: "app") == Dictionary(uniqueKeysWithValues: (1...100).map { (.numbered($0), 1) }))
  }

  struct Fault: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let bytes: [UInt8]
    let status: GatewayStatus
    var identifier: UInt32 = 7
    /// False: the connection is closed without an error response.
    var answers = true
  }

  static let faults: [Fault] = [
    Fault(testDescription: "unknown command", bytes: [9, 1, 2, 3], status: .protocolError, identifier: 0),
    Fault(testDescription: "unknown item", bytes: Frames.framed(7, more: Frames.item(9, [1])), status: .protocolError),
    Fault(
      testDescription: "duplicate item", bytes: Frames.framed(7, more: Frames.item(1, Frames.token(2))),
      status: .protocolError),
    Fault(
      testDescription: "priority of length 4 with one byte", bytes: Frames.framed(7, more: [5, 0, 4, 10]),
      status: .protocolError),
    Fault(testDescription: "frame above the limit", bytes: [2, 0, 1, 0, 0], status: .protocolError, identifier: 0),
    Fault(testDescription: "no token", bytes: Frames.framed(7, nil), status: .missingDeviceToken),
    Fault(
      testDescription: "token of 31 bytes", bytes: Frames.framed(7, Array(repeating: 1, count: 31)),
      status: .invalidTokenSize),
    Fault(
      testDescription: "token of 31 bytes, command 1", bytes: Frames.enhanced(7, Array(repeating: 1, count: 31)),
      status: .invalidTokenSize),
    Fault(testDescription: "no payload", bytes: Frames.framed(7, Frames.token(1), nil), status: .missingPayload),
    Fault(
      testDescription: "empty payload, command 1", bytes: Frames.enhanced(7, Frames.token(1), []),
      status: .missingPayload),
    Fault(
      testDescription: "payload above 2048", bytes: Frames.framed(7, Frames.token(1), json(2049)),
      status: .invalidPayloadSize),
    Fault(
      testDescription: "payload above 256, command 1", bytes: Frames.enhanced(7, Frames.token(1), json(257)),
      status: .invalidPayloadSize),
    Fault(
      testDescription: "payload cut off", bytes: Frames.framed(7, Frames.token(1), Array(#"{"aps":{"al"#.utf8)),
      status: .processingError),
    Fault(
      testDescription: "payload an array", bytes: Frames.enhanced(7, Frames.token(1), Array("[1]".utf8)),
      status: .processingError),
    Fault(
      testDescription: "command 0: payload above 256", bytes: Frames.simple(Frames.token(1), json(257)),
      status: .invalidPayloadSize, answers: false),
    Fault(
      testDescription: "command 0: no token", bytes: Frames.simple([]), status: .missingDeviceToken, answers: false),
    Fault(
      testDescription: "command 0: not JSON", bytes: Frames.simple(Frames.token(1), [1, 2]), status: .processingError,
      answers: false),
  ]

  static func json(_ byteCount: Int) -> [UInt8] {
    Array(#"{"a":""#.utf8) + Array(repeating: 0x78, count: byteCount - 8) + Array(#""}"#.utf8)
  }

  @Test("a frame that breaks a rule gets its status and identifier, and later frames are discarded", arguments: faults)
  func violation(fault: Fault) {
    var driver = Driver()
    driver.receive(Frames.enhanced(5) + Frames.framed(6) + fault.bytes + Frames.framed(8))
    driver.receive(Frames.framed(9))
    driver.peerClosed()
    let isProbe = fault.status == .missingDeviceToken && fault.answers
    #expect(driver.visible == (fault.answers ? [.answer(fault.status, fault.identifier)] : []) + [.halfClose, .close])
    let truth = driver.ended()
    #expect(truth.accepted == 2)
    #expect(truth.refused == (isProbe ? [:] : [fault.status: 1]))
    #expect(truth.probes == (isProbe ? 1 : 0))
  }

  @Test("payloads at the limit, items in any order and payloads that differ are accepted")
  func goodFrames() {
    var driver = Driver()
    driver.receive(Frames.framed(1, Frames.token(1), Self.json(2048)))
    driver.receive(Frames.enhanced(2, Frames.token(2), Self.json(256)))
    var items = Frames.item(3, Frames.u32(3)) + Frames.item(5, [10]) + Frames.item(4, Frames.u32(0))
    items += Frames.item(2, Frames.payload) + Frames.item(1, Frames.token(3))
    driver.receive([2] + Frames.u32(UInt32(items.count)) + items)
    driver.receive(Frames.framed(nil, Frames.token(4), Array(#"{"mdm":"x"}"#.utf8)))
    #expect(driver.visible == [])
    #expect(driver.memory.frames.map(\.identifier) == [1, 2, 3, nil])
    #expect(driver.memory.frames.map(\.priority) == [nil, nil, 10, nil])
    #expect(driver.memory.frames[0].payload == Self.json(2048))
    #expect(driver.memory.frames[3].payload == Array(#"{"mdm":"x"}"#.utf8))
  }

  @Test(
    "a known-bad probe is answered with status 2 and its identifier, and does not count as a notification",
    arguments: [FrameVersion.enhanced, .framed])
  func probe(command: FrameVersion) {
    var driver = Driver()
    driver.receive(Frames.frame(command, 1) + Frames.probe(command, 0x8000_0001))
    #expect(driver.visible == [.answer(.missingDeviceToken, 0x8000_0001), .halfClose])
    driver.peerClosed()
    #expect(driver.visible.last == .close)
    let truth = driver.ended()
    #expect((truth.accepted, truth.probes, truth.refused) == (1, 1, [:]))
  }

  @Test("the client's end of stream closes the connection; an incomplete frame is not accepted")
  func endOfStream() {
    var driver = Driver()
    driver.receive(Frames.framed(1) + Frames.framed(2).dropLast())
    driver.peerClosed()
    driver.receive(Frames.framed(3))
    #expect(driver.visible == [.close])
    #expect(driver.ended().accepted == 1)
  }

  @Test(
    "the gateway's own shutdown names the last frame accepted, 0 when there is none", arguments: [0, 3] as [UInt32])
  func shutdown(count: UInt32) {
    var driver = Driver()
    for identifier in 0..<count { driver.receive(Frames.framed(identifier + 1)) }
    driver.shutDown()
    driver.shutDown()
    driver.receive(Frames.framed(9))
    #expect(driver.visible == [.answer(.shutdown, count), .halfClose])
    let truth = driver.ended()
    #expect((truth.accepted, truth.discarded) == (Int(count), 1))
  }

  @Test("draining has a time limit")
  func drainTime() {
    var driver = Driver()
    driver.receive(Frames.probe(.framed, 1))
    #expect(driver.actions.last == .wake(at: driver.now + .seconds(10)))
    driver.pass(.seconds(9))
    #expect(driver.visible.last == .halfClose)
    driver.pass(.seconds(1))
    #expect(driver.visible.last == .close)
  }

  @Test("draining has a byte limit")
  func drainBytes() {
    var session = GatewaySession(GatewaySession.Settings())
    var policy = FrameFaultInjector(Faults(), connection: 1)
    var actions = session.opened(now: .start, policy: &policy)
    actions += receive(Frames.probe(.framed, 1), &session, &policy)
    let block = [UInt8](repeating: 2, count: 1 << 20)
    for _ in 0..<64 { actions += receive(block, &session, &policy) }
    #expect(actions.visible == [.answer(.missingDeviceToken, 1), .halfClose])
    #expect(receive([1], &session, &policy) == [.close])
    let isClosed = session.isClosed
    #expect(isClosed)
    #expect(receive(block, &session, &policy) == [])
  }

  private func receive(
    _ bytes: [UInt8], _ session: inout GatewaySession, _ policy: inout FrameFaultInjector
  ) -> [GatewayAction] {
    unsafe bytes.withUnsafeBytes { unsafe session.received($0, now: .start, policy: &policy) }
  }

  @Test("an idle connection is closed after two hours, one with traffic is not")
  func idle() {
    var driver = Driver()
    for _ in 0..<200 {
      driver.pass(.seconds(60))
      driver.receive(Frames.framed(1))
    }
    #expect(driver.visible == [])
    for _ in 0..<119 { driver.pass(.seconds(60)) }
    #expect(driver.visible == [])
    driver.pass(.seconds(60))
    #expect(driver.visible == [.halfClose])
  }

  @Test("a frame that is never completed ends its connection, even if bytes keep arriving")
  func trickle() {
    var driver = Driver()
    driver.receive(Frames.framed(1))
    for byte in Frames.framed(2).prefix(11) {
      driver.receive([byte])
      driver.pass(.seconds(6))
    }
    #expect(driver.visible == [.halfClose])
  }

  @Test("many frames that are incomplete for a short time do not end the connection")
  func steadyCuts() {
    var driver = Driver()
    let frame = Frames.framed(1)
    driver.receive(Array(frame.prefix(20)))
    for _ in 0..<50 {
      driver.pass(.seconds(30))
      driver.receive(Array(frame.dropFirst(20) + frame.prefix(20)))
    }
    #expect(driver.visible == [])
    #expect(driver.ended().accepted == 50)
  }
}
