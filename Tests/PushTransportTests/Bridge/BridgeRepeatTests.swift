internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// Notifications that a provider repeats on purpose, and what the bridge takes for resends.
@Suite("Repeats on purpose, and resends")
struct BridgeRepeatTests {
  private static func frame(_ number: Int) -> [UInt8] { frame(1, number) }

  private static func frame(_ command: UInt8, _ number: Int) -> [UInt8] {
    let payload = Array(#"{"aps":{}}"#.utf8)
    let token = [UInt8](repeating: 0, count: 31) + [UInt8(number)]
    let head: [UInt8] = command == 0 ? [0] : [1, 0, 0, 0, UInt8(number), 0x77, 0, 0, 0]
    return head + [0, 32] + token + [0, UInt8(payload.count)] + payload
  }

  private static func bridge(_ mistake: BridgeModel.Mistake? = nil) -> BridgeModel {
    BridgeModel(BridgeSession.Settings(), memory: ForwardedMemory.Limits(), mistake: mistake)
  }

  private func wait(_ seconds: Int, _ bridge: inout BridgeModel) {
    bridge.now = bridge.now + .seconds(seconds)
    bridge.sweep()
  }

  private func send(_ numbers: some Sequence<Int>, _ bridge: inout BridgeModel, _ connection: UInt64) {
    bridge.receive(numbers.flatMap { Self.frame($0) }, connection)
  }

  /// Everything from an index on is answered; one device is gone.
  private func answer(from index: Int, refusing bad: Int? = nil, _ bridge: inout BridgeModel) {
    for entry in bridge.forwarded[index...] {
      let answer: FrameAnswer = Int(entry.token.bytes[31]) == bad ? .refused(.invalidToken) : .accepted
      if let connection = bridge.answer(entry.line, answer) { bridge.deliver(connection) }
    }
  }

  @Test("a firewall that resets idle connections: six rings, six delivered", arguments: [15, 60, 3_600])
  func ringing(idleSeconds: Int) {
    var bridge = Self.bridge()
    var connection = bridge.connect("door")
    for ring in 1...6 {
      // PyAPNs and node-apn write to the dead connection, open another one, and write it again.
      send([1], &bridge, connection)
      answer(from: bridge.forwarded.count - 1, &bridge)
      #expect(bridge.forwarded.count == ring)
      wait(idleSeconds, &bridge)
      bridge.cut(connection)
      connection = bridge.connect("door")
    }
    #expect(bridge.takeAlreadyDelivered() == 0)
  }

  @Test("a connection that breaks at once: each ring that was delivered stands for one resend, not for more")
  func ringingBrokenAtOnce() {
    var bridge = Self.bridge()
    for _ in 1...6 {
      let connection = bridge.connect("door")
      send([1], &bridge, connection)
      if bridge.connections[connection]?.session.pendingCount == 1 { answer(from: bridge.forwarded.count - 1, &bridge) }
      wait(5, &bridge)
      bridge.cut(connection)
    }
    #expect(bridge.forwarded.count == 3)
    #expect(bridge.takeAlreadyDelivered() == 3)
  }

  @Test(
    "a cron job with a stale token, which sends nothing again: whoever is behind it hears in each run",
    arguments: [1, 30, 300])
  func cronJob(secondsBetweenRuns: Int) {
    var bridge = Self.bridge()
    for run in 1...5 {
      let connection = bridge.connect("cron")
      send(1...20, &bridge, connection)
      answer(from: bridge.forwarded.count - 20, refusing: 10, &bridge)
      #expect(bridge.connections[connection]?.response == ErrorResponse(status: .invalidToken, identifier: 10))
      #expect(bridge.forwarded.count == run * 20)
      wait(secondsBetweenRuns, &bridge)
    }
    #expect(bridge.takeAlreadyDelivered() == 0)
  }

  @Test("a bridge that remembers whatever the client goes on with is found")
  func plantedMistake() {
    var bridge = Self.bridge(.remembersAfterResponses)
    for _ in 1...2 {
      let connection = bridge.connect("cron")
      send(1...20, &bridge, connection)
      let count = bridge.forwarded.count
      answer(from: count > 20 ? 20 : 0, refusing: 10, &bridge)
    }
    #expect(bridge.forwarded.count < 40)
  }

  @Test("a cron job that sends again what is behind the stale token: each hears once in each run")
  func resendingCronJob() {
    var bridge = Self.bridge()
    for run in 1...5 {
      let connection = bridge.connect("cron")
      send(1...20, &bridge, connection)
      answer(from: bridge.forwarded.count - 20, refusing: 10, &bridge)
      let second = bridge.connect("cron")
      send(11...20, &bridge, second)
      #expect(bridge.forwarded.count == run * 20)
      #expect(bridge.takeAlreadyDelivered() == 10)
      // The process is killed, or its connection is reset.
      wait(1, &bridge)
      bridge.cut(second)
    }
  }

  @Test("what is behind an error response is remembered for a minute, and longer while it comes again")
  func quietTime() {
    for (seconds, isRecognised) in [(59, true), (62, false)] {
      var bridge = Self.bridge()
      // A second connection of the client: what it sends does not say that nothing comes again.
      let other = bridge.connect("client")
      send([30], &bridge, other)
      send(1...20, &bridge, bridge.connect("client"))
      answer(from: 0, refusing: 1, &bridge)
      wait(seconds, &bridge)
      send([31], &bridge, bridge.connect("client"))
      let slow = bridge.connect("client")
      let before = bridge.forwarded.count
      send([2], &bridge, slow)
      wait(100, &bridge)
      send([3], &bridge, slow)
      bridge.cut(slow)
      wait(59, &bridge)
      send(4...20, &bridge, bridge.connect("client"))
      #expect(bridge.forwarded.count - before == (isRecognised ? 0 : 19), "after \(seconds) s")
    }
  }

  @Test("a recognised frame keeps the time of its first answer, however often it is behind an error response")
  func firstTime() {
    var bridge = Self.bridge()
    _ = bridge.connect("client")
    send([50, 20], &bridge, bridge.connect("client"))
    answer(from: 0, refusing: 50, &bridge)
    for round in 1...11 {
      wait(55, &bridge)
      let known = bridge.forwarded.count
      let connection = bridge.connect("client")
      send([50, 20], &bridge, connection)
      // Ten minutes have passed at the eleventh.
      #expect(bridge.forwarded.count - known == (round == 11 ? 2 : 1), "round \(round)")
      answer(from: known, refusing: 50, &bridge)
      #expect(bridge.connections[connection]?.response?.identifier == 50)
    }
    #expect(bridge.takeAlreadyDelivered() == 10)
  }

  @Test("behind a frame of command 0 that failed, nothing is remembered")
  func silentClose() {
    var bridge = Self.bridge()
    let connection = bridge.connect("client")
    bridge.receive((1...5).flatMap { Self.frame(0, $0) }, connection)
    answer(from: 0, refusing: 2, &bridge)
    #expect(bridge.connections[connection]?.isEnded == true)
    #expect(bridge.connections[connection]?.response == nil)
    let next = bridge.connect("client")
    bridge.receive((3...5).flatMap { Self.frame(0, $0) }, next)
    #expect(bridge.forwarded.count == 8)
  }
}
