internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// Accepted, refused and discarded add up to all that was sent, with any faults.
@Suite(.timeLimit(.minutes(20)))
struct TruthSumTests {
  /// A frame of known length, valid or not.
  private static func frame(_ identifier: UInt32, _ random: inout SeededGenerator) -> [UInt8] {
    let command = FrameVersion.allCases.randomElement(using: &random) ?? .framed
    let token = Frames.token(identifier)
    switch Int.random(in: 0..<60, using: &random) {
    case 0: return Frames.probe(command, identifier)
    case 1: return Frames.frame(command, identifier, token, Array("{".utf8))
    case 2: return Frames.frame(command, identifier, random.bytes(Int.random(in: 1...100, using: &random)))
    case 3: return Frames.frame(command, identifier, token, [])
    case 4: return Frames.frame(command, identifier, token, random.bytes(3000))
    // Larger than a gateway buffers: it is refused before it is complete.
    case 5: return Frames.frame(command, identifier, token, random.bytes(Int.random(in: 8000...20_000, using: &random)))
    case 6: return Frames.framed(identifier, token, Frames.payload, more: Frames.item(9, random.bytes(7)))
    case 7: return Frames.framed(identifier, token, Frames.payload, more: Frames.item(4, [1, 2]))
    case 8: return Frames.framed(nil, nil, nil, more: random.bytes(5))
    default: return Frames.frame(command, identifier, token)
    }
  }

  private static func sum(_ truth: AppTruth) -> Int {
    truth.accepted + truth.refused.values.reduce(0, +) + truth.poisoned + truth.probes + truth.discarded
  }

  @Test(
    "every frame that arrives is counted once, with any faults, however the bytes are cut",
    arguments: 0..<500 as Range<UInt64>)
  func frames(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let frames = (1...UInt32.random(in: 1...120, using: &random)).map { Self.frame($0, &random) }
    let faults = ChunkingTests.faults(&random)
    for limit in [1, 50, 5000] where limit > 1 || frames.joinedBytes.count < 20_000 {
      var driver = Driver(faults: faults)
      for piece in frames.joinedBytes.cut(limit, using: &random) {
        driver.receive(piece)
        if random.chance(2) { driver.pass(.milliseconds(50)) }
      }
      driver.pass(.milliseconds(200))
      driver.peerClosed()
      #expect(Self.sum(driver.ended()) == frames.count, "seed \(seed), pieces up to \(limit)")
    }
  }

  @Test("after a frame that cannot be decoded, later frames are still counted one by one")
  func behindViolation() {
    var driver = Driver(faults: Faults())
    driver.receive(
      FaultTests.frames(1...3) + Frames.framed(4, Frames.token(4), Frames.payload, more: Frames.item(9, [1])))
    driver.receive(FaultTests.frames(5...9) + Frames.framed(10, [1, 2]) + FaultTests.frames(11...12))
    let truth = driver.ended()
    #expect((truth.accepted, truth.refused.values.reduce(0, +), truth.discarded) == (3, 1, 8))
    #expect(driver.visible == [.answer(.protocolError, 4), .halfClose])
  }

  @Test("over TLS with latency, every frame that was sent is counted once", arguments: 0..<6 as Range<UInt64>)
  func overTLS(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    var faults = ChunkingTests.faults(&random)
    // A reset loses bytes in flight, so the simulator cannot count their frames.
    faults.reset = nil
    // Few enough for any socket's buffer: a client drops what it has not written when it hears of
    // the end.
    let frames = (1...UInt32(200)).map { Self.frame($0, &random) }.filter { $0.count < 200 }.prefix(100)
    let bytes = Array(frames.joined())
    try await withSimulator(faults, configure: { $0.rules.latency = .milliseconds(seed < 3 ? 0 : 40) }) {
      simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        client.send(bytes)
        client.close()
        _ = await client.ended()
        try await waitUntil("all frames are counted") {
          Self.sum(simulator.truth().apps["app"] ?? AppTruth()) >= frames.count
        }
      }
      #expect(Self.sum(await simulator.settledTruth()) == frames.count, "seed \(seed)")
    }
  }

  @Test(
    "every complete request that arrives is counted once, with any faults, however the bytes are cut",
    arguments: 0..<300 as Range<UInt64>)
  func requests(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let driver = try ServiceDriver(faults: { Self.change(&$0, &random) })
    let count = Int.random(in: 1...120, using: &random)
    var bytes: [UInt8] = []
    for number in 1...count {
      var fields: [(String, String)] = []
      if random.chance(5) { fields.append(("apns-priority", "7")) }
      if random.chance(3) { fields.append((":method", "GET")) }
      bytes +=
        driver.request(token: Frames.token(UInt32(number)), fields, body: random.chance(3) ? [] : ServiceDriver.payload)
        .bytes
    }
    for piece in bytes.cut([9, 300, 20_000].randomElement(using: &random) ?? 9, using: &random) {
      driver.receive(piece)
      if random.chance(5) { driver.pass(.milliseconds(10)) }
    }
    driver.pass(.seconds(1))
    _ = driver.ended()
    let truth = driver.service.truth().values.reduce(into: ServiceTruth()) { $0.add($1) }
    #expect(
      truth.accepted + truth.broadcasts + truth.refusedCount + truth.dropped + truth.unprocessed == count,
      "seed \(seed): \(truth)")
  }

  private static func change(_ faults: inout ServiceFaults, _ random: inout SeededGenerator) {
    let some = Int.random(in: 1...100, using: &random)
    if random.chance(20) { faults.refuse = [ServiceFaults.Refuse(Faults.Selection(every: some))] }
    if random.chance(10) {
      faults.reset = [ServiceFaults.Reset(Faults.Selection(every: some), code: random.chance(50) ? 7 : 2)]
    }
    if random.chance(10) {
      faults.noAnswer = [ServiceFaults.Silence(Faults.Selection(every: some), isTaken: random.chance(50))]
    }
    if random.chance(25) { faults.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: some), reason: "Shutdown") }
    if random.chance(15) { faults.drain = ServiceFaults.Drain(Faults.Breakpoint(after: some), answers: 5) }
    if random.chance(15) {
      faults.cut = [ServiceFaults.Cut(Faults.Breakpoint(after: some), isTaken: random.chance(50), isReset: false)]
    }
    if random.chance(15) { faults.poison = [ServiceFaults.Poison(Faults.Selection(tokens: [.numbered(UInt32(some))]))] }
    if random.chance(15) { faults.garbage = Faults.Breakpoint(after: some) }
    if random.chance(20) { faults.delay = .fixed(.milliseconds(20)) }
    if random.chance(10) { faults.outage = ServiceFaults.Outage(from: .milliseconds(20), length: .milliseconds(30)) }
  }
}
