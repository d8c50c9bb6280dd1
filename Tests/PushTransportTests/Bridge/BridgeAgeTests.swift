internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// How long the bridge recognises what a client sends again: ten minutes from the answer on.
@Suite("The bridge's memory of what was answered long ago, and of what was not answered")
struct BridgeAgeTests {
  private static let count = 20

  private static func frame(_ number: Int) -> [UInt8] {
    let payload = Array(#"{"aps":{}}"#.utf8)
    let token = [UInt8](repeating: 0, count: 31) + [UInt8(number)]
    return [1, 0, 0, 0, UInt8(number), 0x77, 0, 0, 0, 0, 32] + token + [0, UInt8(payload.count)] + payload
  }

  private static func bridge() -> BridgeModel {
    BridgeModel(BridgeSession.Settings(), memory: ForwardedMemory.Limits())
  }

  private func send(_ numbers: ClosedRange<Int>, _ bridge: inout BridgeModel, _ connection: UInt64) {
    bridge.receive(numbers.flatMap(Self.frame), connection)
  }

  /// Time passes, and memories are looked through every 30 seconds.
  private func wait(_ minutes: Int, _ bridge: inout BridgeModel) {
    for _ in 0..<minutes * 2 {
      bridge.now = bridge.now + .seconds(30)
      bridge.sweep()
    }
  }

  private func answer(_ indices: Range<Int>, _ answer: FrameAnswer, _ bridge: inout BridgeModel) {
    for index in indices {
      if let connection = bridge.answer(bridge.forwarded[index].line, answer) { bridge.deliver(connection) }
    }
  }

  @Test("the service is away for 15 minutes, then refuses the first: what came behind it is not sent twice")
  func lateRefusal() {
    var bridge = Self.bridge()
    let first = bridge.connect("client")
    send(1...Self.count, &bridge, first)
    wait(15, &bridge)
    answer(0..<1, .refused(.invalidToken), &bridge)
    #expect(bridge.connections[first]?.response?.identifier == 1)
    let second = bridge.connect("client")
    send(2...Self.count, &bridge, second)
    #expect(bridge.forwarded.count == Self.count)
    #expect(bridge.recognisedCount == Self.count - 1)
    #expect(bridge.takeAlreadyDelivered() == 0)
    answer(1..<Self.count, .accepted, &bridge)
    #expect(bridge.takeAlreadyDelivered() == Self.count - 1)
    #expect(bridge.connections[second]?.isEnded == false)
  }

  @Test("a connection breaks while the service is away for 15 minutes: nothing is sent twice")
  func brokenWhileAway() {
    var bridge = Self.bridge()
    let first = bridge.connect("client")
    send(1...Self.count, &bridge, first)
    bridge.cut(first)
    wait(15, &bridge)
    answer(0..<10, .accepted, &bridge)
    wait(5, &bridge)
    let second = bridge.connect("client")
    send(1...Self.count, &bridge, second)
    #expect(bridge.forwarded.count == Self.count)
    #expect(bridge.takeAlreadyDelivered() == 10)
    answer(10..<Self.count, .refused(.invalidToken), &bridge)
    #expect(bridge.takeAlreadyDelivered() == 0)
  }

  @Test("after a break, ten minutes from the answer on")
  func fromTheAnswer() {
    for (minutes, isRecognised) in [(9, true), (11, false)] {
      var bridge = Self.bridge()
      let first = bridge.connect("client")
      send(1...Self.count, &bridge, first)
      bridge.cut(first)
      wait(15, &bridge)
      answer(0..<Self.count, .accepted, &bridge)
      wait(minutes, &bridge)
      send(1...Self.count, &bridge, bridge.connect("client"))
      #expect(bridge.forwarded.count == (isRecognised ? 1 : 2) * Self.count, "after \(minutes) min")
      #expect(bridge.takeAlreadyDelivered() == (isRecognised ? Self.count : 0))
    }
  }

  @Test("what was restored keeps its time")
  func restored() throws {
    for (minutes, isRecognised) in [(5, true), (7, false)] {
      var before = Self.bridge()
      before.now = before.now + .seconds(10_000)
      send(1...Self.count, &before, before.connect("client"))
      let records = before.takeRecords()
      var bridge = Self.bridge()
      // The answers were four minutes old.
      bridge.now = before.now + .seconds(240)
      for case .frame(var frame, let line) in records {
        frame.answer = .accepted
        bridge.restore(frame, as: line)
      }
      wait(minutes, &bridge)
      send(1...Self.count, &bridge, bridge.connect("client"))
      #expect(bridge.forwarded.count == (isRecognised ? 0 : Self.count), "after \(minutes) min")
    }
  }

  @Test("a recognised frame counts when its first sending is accepted, also when its client has closed its side")
  func recognisedAndLeft() {
    var bridge = Self.bridge()
    let first = bridge.connect("client")
    send(1...2, &bridge, first)
    bridge.cut(first)
    let second = bridge.connect("client")
    send(1...2, &bridge, second)
    bridge.peerClosed(second)
    #expect(bridge.takeAlreadyDelivered() == 0)
    answer(0..<1, .accepted, &bridge)
    answer(1..<2, .refused(.invalidToken), &bridge)
    #expect(bridge.takeAlreadyDelivered() == 1)
  }
}
