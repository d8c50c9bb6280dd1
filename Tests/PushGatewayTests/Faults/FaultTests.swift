internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Testing

/// Each fault rule on a session, without sockets.
struct FaultTests {
  /// Frames with these numbers as identifiers and tokens.
  static func frames(_ range: ClosedRange<UInt32>, _ command: FrameVersion = .framed) -> [UInt8] {
    range.flatMap { Frames.frame(command, $0, Frames.token($0)) }
  }

  static let selections: [Faults.Selection] = [
    Faults.Selection(tokens: [.numbered(5)]),
    Faults.Selection(tokens: Set((5...2000).map { .numbered($0) })),
    Faults.Selection(prefixes: [String(repeating: "ab", count: 28) + "00000005"]),
    Faults.Selection(prefixes: ["ffff", String(repeating: "ab", count: 28) + "0000000" + "5"]),
    Faults.Selection(every: 5),
  ]

  @Test(
    "a selected frame is refused with the rule's status; earlier frames are accepted, later ones discarded",
    arguments: selections)
  func refusal(selection: Faults.Selection) {
    var faults = Faults()
    faults.refuse = [Faults.Refuse(selection, status: .missingTopic)]
    var driver = Driver(faults: faults)
    driver.receive(Self.frames(1...9))
    #expect(driver.visible == [.answer(.missingTopic, 5), .halfClose])
    let truth = driver.ended()
    #expect((truth.accepted, truth.discarded, truth.refused) == (4, 4, [.missingTopic: 1]))
    #expect(
      driver.memory.accepted(topic: "app").keys.sorted { $0.description < $1.description }
        == (1...4).map { .numbered($0) })
  }

  @Test("the first matching rule decides, and the default status is 8")
  func firstRule() {
    var faults = Faults()
    faults.refuse = [
      Faults.Refuse(Faults.Selection(tokens: [.numbered(3)])),
      Faults.Refuse(Faults.Selection(every: 3), status: .unknown),
    ]
    var driver = Driver(faults: faults)
    driver.receive(Self.frames(1...3))
    #expect(driver.visible == [.answer(.invalidToken, 3), .halfClose])
  }

  @Test("command 0 is refused by closing without an error response")
  func simple() {
    var faults = Faults()
    faults.refuse = [Faults.Refuse(Faults.Selection(tokens: [.numbered(2)]))]
    var driver = Driver(faults: faults)
    driver.receive(Self.frames(1...3, .simple))
    #expect(driver.visible == [.halfClose])
    let truth = driver.ended()
    #expect((truth.accepted, truth.discarded, truth.refused) == (1, 1, [.invalidToken: 1]))
  }

  @Test("poison ends the connection without an error response, whatever the command", arguments: FrameVersion.allCases)
  func poison(command: FrameVersion) {
    var faults = Faults()
    faults.poison = [Faults.Selection(tokens: [.numbered(2)])]
    var driver = Driver(faults: faults)
    driver.receive(Self.frames(1...3, command))
    #expect(driver.visible == [.halfClose])
    let truth = driver.ended()
    #expect((truth.accepted, truth.discarded, truth.poisoned, truth.refused) == (1, 1, 1, [:]))
  }

  @Test(
    "a delayed error response leaves on time, and frames that arrive until then are discarded",
    arguments: [FrameVersion.simple, .framed])
  func delay(command: FrameVersion) {
    var faults = Faults()
    faults.refuse = [Faults.Refuse(Faults.Selection(tokens: [.numbered(2)]))]
    faults.answerDelay = .milliseconds(200)
    var driver = Driver(faults: faults)
    driver.receive(Self.frames(1...3, command))
    #expect(driver.actions.last == .wake(at: driver.now + .milliseconds(200)))
    driver.pass(.milliseconds(199))
    driver.receive(Self.frames(4...6, command))
    #expect(driver.visible == [])
    driver.pass(.milliseconds(1))
    let answer: [GatewayAction] = command == .simple ? [] : [.answer(.invalidToken, 2)]
    #expect(driver.visible == answer + [.halfClose])
    driver.receive(Self.frames(7...8, command))
    driver.peerClosed()
    #expect(driver.visible == answer + [.halfClose, .close])
    let truth = driver.ended()
    #expect((truth.accepted, truth.discarded) == (1, 6))
  }

  @Test("a client that half-closes before a delayed error response still gets it")
  func delayAfterEnd() {
    var faults = Faults()
    faults.answerDelay = .seconds(1)
    var driver = Driver(faults: faults)
    driver.receive(Frames.probe(.framed, 9))
    driver.peerClosed()
    #expect(driver.visible == [])
    driver.pass(.seconds(1))
    #expect(driver.visible == [.answer(.missingDeviceToken, 9), .close])
  }

  @Test(
    "error responses can carry identifier 0, separately for notifications and probes", arguments: [true, false],
    [true, false])
  func identifierZero(frames: Bool, probes: Bool) {
    var faults = Faults()
    faults.refuse = [Faults.Refuse(Faults.Selection(every: 1))]
    faults.namesRefusedFrame = frames
    faults.namesProbe = probes
    var driver = Driver(faults: faults)
    driver.receive(Frames.framed(7))
    #expect(driver.visible.first == .answer(.invalidToken, frames ? 7 : 0))
    var other = Driver(faults: faults)
    other.receive(Frames.probe(.enhanced, 8))
    #expect(other.visible.first == .answer(.missingDeviceToken, probes ? 8 : 0))
    // A frame that breaks an encoding rule is not a probe.
    var third = Driver(faults: faults)
    third.receive(Frames.framed(9, Frames.token(1), nil))
    #expect(third.visible.first == .answer(.missingPayload, frames ? 9 : 0))
  }

  enum Ending: CaseIterable {
    case shutDown, close, reset

    func faults(_ breakpoint: Faults.Breakpoint) -> Faults {
      var faults = Faults()
      switch self {
      case .shutDown: faults.shutDown = breakpoint
      case .close: faults.close = breakpoint
      case .reset: faults.reset = breakpoint
      }
      return faults
    }

    func actions(_ count: UInt32) -> [GatewayAction] {
      switch self {
      case .shutDown: [.answer(.shutdown, count), .halfClose]
      case .close: [.halfClose]
      case .reset: [.reset]
      }
    }
  }

  @Test("shutdown, close and reset happen after N accepted frames", arguments: Ending.allCases, [0, 1, 4] as [UInt32])
  func ending(ending: Ending, count: UInt32) {
    var driver = Driver(faults: ending.faults(Faults.Breakpoint(after: Int(count))))
    driver.receive(Self.frames(1...9))
    #expect(driver.visible == ending.actions(count))
    #expect(driver.ended().accepted == Int(count))
    #expect(driver.memory.frames.count == Int(count))
  }

  @Test("a delayed status 10 names the last accepted frame, and later frames are discarded")
  func lateShutdown() {
    var faults = Faults()
    faults.shutDown = Faults.Breakpoint(after: 2)
    faults.answerDelay = .seconds(1)
    var driver = Driver(faults: faults)
    driver.receive(Self.frames(1...9))
    driver.pass(.seconds(1))
    #expect(driver.visible == [.answer(.shutdown, 2), .halfClose])
    let truth = driver.ended()
    #expect((truth.accepted, truth.discarded) == (2, 7))
  }

  @Test("reading pauses once and resumes")
  func stopReading() {
    var faults = Faults()
    faults.stopReading = Faults.Pause(Faults.Breakpoint(after: 3), duration: .seconds(2))
    var driver = Driver(faults: faults)
    driver.receive(Self.frames(1...9))
    #expect(driver.visible == [.stopReading(until: driver.now + .seconds(2))])
    driver.pass(.seconds(2))
    driver.receive(Self.frames(10...20))
    #expect(driver.visible.count == 1)
    #expect(driver.ended().accepted == 20)
  }

  @Test("several breakpoints on one connection all happen; at one frame the stronger one wins")
  func several() {
    var faults = Faults()
    faults.stopReading = Faults.Pause(Faults.Breakpoint(after: 2), duration: .seconds(1))
    faults.shutDown = Faults.Breakpoint(after: 4)
    faults.close = Faults.Breakpoint(after: 4)
    var driver = Driver(faults: faults)
    driver.receive(Self.frames(1...9))
    #expect(driver.visible == [.stopReading(until: driver.now + .seconds(1)), .halfClose])
    #expect(driver.ended().accepted == 4)
  }

  @Test("rules for the first K connections affect no others, and count each app's connections separately")
  func firstConnections() {
    var faults = Faults()
    faults.refuse = [Faults.Refuse(Faults.Selection(tokens: [.numbered(1)], connections: 2))]
    faults.reset = Faults.Breakpoint(after: 3, connections: 1)
    var rules = FaultRules()
    rules.common = faults
    let gateway = SimulatedGateway(rules: rules)
    func run(_ topic: String, _ range: ClosedRange<UInt32>) -> [GatewayAction] {
      var driver = Driver(gateway, topic: topic)
      driver.receive(Self.frames(range))
      _ = driver.ended()
      return driver.visible
    }
    #expect(run("app", 2...9) == [.reset])
    #expect(run("other", 2...9) == [.reset])
    #expect(run("app", 1...9) == [.answer(.invalidToken, 1), .halfClose])
    #expect(run("app", 1...9) == [])
    #expect(gateway.truth().apps["app"]?.connections == 3)
    #expect(gateway.truth().apps["app"]?.accepted == 3 + 0 + 9)
  }

  @Test("a certificate is refused by topic, also for the first attempts only")
  func certificates() {
    var rules = FaultRules()
    rules.apps["never"] = Faults()
    rules.apps["never"]?.refuseCertificate = Faults.CertificateRefusal()
    rules.apps["twice"] = Faults()
    rules.apps["twice"]?.refuseCertificate = Faults.CertificateRefusal(connections: 2)
    let gateway = SimulatedGateway(rules: rules)
    #expect((0..<4).map { _ in gateway.refusesCertificate(topic: "never") } == [true, true, true, true])
    #expect((0..<4).map { _ in gateway.refusesCertificate(topic: "twice") } == [true, true, false, false])
    #expect((0..<4).map { _ in gateway.refusesCertificate(topic: "other") } == [false, false, false, false])
    #expect(gateway.truth().apps["twice"]?.certificatesRefused == 2)
  }

  @Test("payload limits and token length follow the app")
  func limits() {
    var rules = FaultRules()
    var faults = Faults()
    faults.limits.simplePayload = 2048
    faults.limits.tokenByteCount = nil
    rules.apps["lenient"] = faults
    let gateway = SimulatedGateway(rules: rules)
    let frame = Frames.simple([1, 2, 3], GatewaySessionTests.json(2048))
    var lenient = Driver(gateway, topic: "lenient")
    lenient.receive(frame)
    #expect(lenient.visible == [])
    var strict = Driver(gateway, topic: "strict")
    strict.receive(frame)
    #expect(strict.visible == [.halfClose])
    _ = (lenient.ended(), strict.ended())
    #expect(gateway.truth().apps["strict"]?.refused == [.invalidTokenSize: 1])
  }

  @Test("a payload limit in the rules raises the frame limit too")
  func largePayloads() throws {
    var driver = Driver(try FaultRules(["payload-limits": ["framed": 60000], "token-length": "any"]))
    let more = Frames.item(4, Frames.u32(0)) + Frames.item(5, [5])
    driver.receive(Frames.framed(1, Array(repeating: 1, count: 100), GatewaySessionTests.json(60000), more: more))
    #expect(driver.visible == [])
    #expect(driver.ended().accepted == 1)
  }

  @Test("feedback is delivered once, and tuples that were put back come first")
  func feedback() {
    let tuples = (1...5).map { FeedbackTuple(timestamp: $0, token: .numbered($0)) }
    var rules = FaultRules()
    rules.common.feedback = tuples
    rules.apps["none"] = Faults()
    let lists = SimulatedGateway(rules: rules).feedback
    #expect(lists.take(10, topic: "none") == [])
    #expect(lists.take(3, topic: "app") == Array(tuples.prefix(3)))
    lists.giveBack(Array(tuples[1...2]), topic: "app")
    #expect(lists.take(10, topic: "app") == Array(tuples.dropFirst()))
    #expect(lists.take(10, topic: "app") == [])
    lists.append(tuples[0], topic: "app")
    #expect(lists.take(10, topic: "app") == [tuples[0]])
    #expect(lists.take(10, topic: "another") == tuples)
  }
}
