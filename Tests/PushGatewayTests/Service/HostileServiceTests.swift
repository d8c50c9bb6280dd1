internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushGateway

/// Bytes cut anywhere, and bytes that no valid client sends.
struct HostileServiceTests {
  @Test("the same bytes cut in any way give the same responses and the same truth", arguments: 0..<20)
  func chunking(round: Int) throws {
    var random = SeededGenerator.fresh()
    func make() throws -> ServiceDriver {
      try ServiceDriver { faults in
        faults.refuse = [ServiceFaults.Refuse(Faults.Selection(every: 7))]
        faults.reset = [ServiceFaults.Reset(Faults.Selection(every: 11))]
        faults.noAnswer = [ServiceFaults.Silence(Faults.Selection(every: 13), isTaken: true)]
        faults.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 40))
      }
    }
    let whole = try make()
    let requests = (1...50 as ClosedRange<UInt32>).map { whole.request(token: Frames.token($0)) }
    whole.receive(requests.flatMap(\.bytes))
    let cut = try make()
    for piece in requests.flatMap(\.bytes).cut(200, using: &random) { cut.receive(piece) }
    #expect(requests.map { whole.answer($0.stream) } == requests.map { cut.answer($0.stream) }, "seed \(random.seed)")
    #expect(requests.map { whole.reset($0.stream) } == requests.map { cut.reset($0.stream) }, "seed \(random.seed)")
    #expect(whole.memory.requests == cut.memory.requests, "seed \(random.seed)")
    var (first, second) = (whole.ended(), cut.ended())
    // Requests after the GOAWAY has left are counted by reads, so this count depends on the cut.
    (first.unprocessed, second.unprocessed) = (0, 0)
    #expect(first == second, "seed \(random.seed)")
  }

  @Test("random bytes after a valid beginning give a response, a GOAWAY or nothing, and never trap", arguments: 0..<200)
  func noise(round: Int) throws {
    var random = SeededGenerator.fresh()
    let driver = try ServiceDriver { _ in }
    var bytes = (1...5 as ClosedRange<UInt32>).flatMap { driver.request(token: Frames.token($0)).bytes }
    for _ in 0..<Int.random(in: 1...20, using: &random) {
      let place = Int.random(in: 0..<bytes.count, using: &random)
      switch Int.random(in: 0..<3, using: &random) {
      case 0: bytes[place] = UInt8.random(in: 0 ... .max, using: &random)
      case 1: bytes.remove(at: place)
      default: bytes.insert(contentsOf: random.bytes(Int.random(in: 1...30, using: &random)), at: place)
      }
    }
    for piece in bytes.cut(64, using: &random) {
      unsafe withExactBytes(piece) { unsafe driver.connection.received($0, now: driver.now) }
    }
    driver.pass(.seconds(1))
    let truth = driver.ended()
    #expect(truth.accepted <= 5, "seed \(random.seed)")
    #expect(
      driver.memory.requests.count { $0.refusal == nil }
        == driver.service.truth().values.reduce(0) { $0 + $1.accepted }, "seed \(random.seed)")
  }

  @Test("header values of all kinds get a response", arguments: 0..<300)
  func values(round: Int) throws {
    var random = SeededGenerator.fresh()
    let driver = try ServiceDriver { _ in }
    let names = [
      "apns-id", "apns-topic", "apns-push-type", "apns-priority", "apns-expiration", "apns-collapse-id",
      "apns-channel-id", "authorization", "apns-request-id",
    ]
    let alphabet = Array("0123456789abcdefABCDEF-. /bearer={}\"\\éß😀+")
    func text(_ limit: Int) -> String {
      // Spaces at the ends are refused by the HTTP/2 session already.
      "x"
        + String(
          (0..<Int.random(in: 0...limit, using: &random)).map { _ in alphabet.randomElement(using: &random) ?? "x" })
        + "y"
    }
    for _ in 0..<20 {
      let name = names.randomElement(using: &random) ?? "apns-id"
      let paths = ["/3/device/" + text(90), "/4/broadcasts/apps/" + text(30), "/" + text(20), nil].map {
        $0?.filter { $0 != " " }
      }
      driver.send(path: paths.randomElement(using: &random) ?? nil, [(name, text(100))])
    }
    #expect(driver.answer(driver.send()) == "200", "seed \(random.seed)")
    _ = driver.ended()
  }

  @Test("a client that never acknowledges SETTINGS cannot open an unlimited number of streams")
  func neverAcknowledges() throws {
    let (service, memory) = ServiceDriver.service()
    let driver = try ServiceDriver((service, memory), client: ServiceClient(topics: [ServiceDriver.topic]))
    let silent = try service.connect(ServiceClient(topics: [ServiceDriver.topic]), now: driver.now)
    func receive(_ bytes: [UInt8]) {
      unsafe bytes.withUnsafeBytes { unsafe silent.received($0, now: driver.now) }
      while unsafe silent.output().count > 0 {}
    }
    receive(HTTP2Wire.preface + HTTP2Wire.settings)
    var most = 0
    for index in 0..<10_000 {
      // Headers that never end their stream.
      receive(
        HTTP2Wire.frame(
          1, 4, Int32(index * 2 + 1),
          HTTP2Wire.block([(":method", "POST"), (":path", "/"), (":scheme", "https"), (":authority", "x")])))
      most = max(most, silent.session.openStreamCount)
    }
    #expect((1000..<3000).contains(most), "\(most), then \(silent.session.openStreamCount)")
    #expect(silent.session.openStreamCount == 0, "\(most), then \(silent.session.openStreamCount)")
    silent.ended()
  }

  @Test("invented topics do not make the truth grow without limit")
  func topics() throws {
    let key = try ProviderKey.make(keyIdentifier: "K", teamIdentifier: "T")
    let (service, memory) = ServiceDriver.service(keys: [
      ServiceKey(keyIdentifier: "K", teamIdentifier: "T", key: key.publicKey)
    ])
    let token = ("authorization", "bearer " + (try key.token(issuedAt: ServiceDriver.epoch)))
    for connection in 0..<6 {
      let driver = try ServiceDriver((service, memory), client: ServiceClient())
      for index in 0..<1100 { driver.send([token, ("apns-topic", "com.example.a\(connection).b\(index)")]) }
      driver.connection.ended()
    }
    #expect(service.truth().count <= 4097)
    #expect(service.truth().values.reduce(0) { $0 + $1.accepted } == 6600)
  }
}
