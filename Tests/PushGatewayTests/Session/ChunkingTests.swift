internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// Properties of a session for bytes of any kind, cut in any way.
struct ChunkingTests {
  /// Valid frames of all commands, with some faults and probes, and sometimes random bytes.
  static func stream(_ random: inout SeededGenerator) -> [UInt8] {
    var bytes: [UInt8] = []
    for identifier in 1...UInt32.random(in: 1...60, using: &random) {
      let command = FrameVersion.allCases.randomElement(using: &random) ?? .framed
      let payload = random.chance(50) ? Frames.payload : Array(#"{"n":\#(identifier)}"#.utf8)
      switch Int.random(in: 0..<100, using: &random) {
      case 0: bytes += Frames.probe(command, identifier)
      case 1: bytes += Frames.frame(command, identifier, Frames.token(identifier), Array("{".utf8))
      case 2: bytes += Frames.frame(command, identifier, random.bytes(Int.random(in: 1...100, using: &random)))
      case 3: bytes += random.bytes(20)
      default: bytes += Frames.frame(command, identifier, Frames.token(identifier), payload)
      }
    }
    return bytes
  }

  static func faults(_ random: inout SeededGenerator) -> Faults {
    var faults = Faults()
    let some = Int.random(in: 0...40, using: &random)
    if random.chance(20) { faults.refuse = [Faults.Refuse(Faults.Selection(tokens: [.numbered(UInt32(some + 1))]))] }
    if random.chance(10) {
      faults.refuse.append(Faults.Refuse(Faults.Selection(every: some + 1), status: .processingError))
    }
    if random.chance(10) {
      faults.poison = [
        Faults.Selection(prefixes: [String(repeating: "ab", count: 28) + "000000" + (random.chance(50) ? "1" : "2a")])
      ]
    }
    if random.chance(10) { faults.shutDown = Faults.Breakpoint(after: some) }
    if random.chance(10) { faults.close = Faults.Breakpoint(after: some) }
    if random.chance(10) { faults.reset = Faults.Breakpoint(after: some) }
    if random.chance(20) { faults.stopReading = Faults.Pause(Faults.Breakpoint(after: some), duration: .seconds(1)) }
    if random.chance(30) { faults.answerDelay = .milliseconds(200) }
    faults.namesRefusedFrame = random.chance(80)
    return faults
  }

  @Test("the same bytes cut in any way give the same actions, counts and record", arguments: 0..<400 as Range<UInt64>)
  func chunking(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let bytes = Self.stream(&random)
    let faults = Self.faults(&random)
    var whole = Driver(faults: faults)
    whole.receive(bytes)
    whole.pass(.milliseconds(200))
    whole.peerClosed()
    let expected = whole.ended()
    for limit in [1, 7, 60, 500] {
      var pieces = Driver(faults: faults)
      for piece in bytes.cut(limit, using: &random) { pieces.receive(piece) }
      pieces.pass(.milliseconds(200))
      pieces.peerClosed()
      #expect(pieces.actions == whole.actions, "seed \(seed), pieces up to \(limit)")
      var truth = pieces.ended()
      // After a reset nothing is read, so later bytes count only if they came with the same read.
      truth.bytes = expected.bytes
      #expect(truth == expected, "seed \(seed), pieces up to \(limit)")
      #expect(pieces.memory.frames == whole.memory.frames, "seed \(seed), pieces up to \(limit)")
    }
  }

  @Test(
    "random bytes never crash a session and are never accepted without being a frame",
    arguments: 0..<200 as Range<UInt64>)
  func randomBytes(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var driver = Driver()
    var first = [UInt8(truncatingIfNeeded: seed % 4)]
    for piece in random.bytes(2000).cut(100, using: &random) {
      driver.receive(first + piece)
      first = []
    }
    driver.peerClosed()
    #expect(driver.actions.last == .close, "seed \(seed)")
    #expect(driver.ended().accepted == 0, "seed \(seed)")
  }

  @Test(
    "frames changed at random never crash a session; accepted ones have a 32-byte token and a JSON object",
    arguments: 0..<300 as Range<UInt64>)
  func mutations(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var bytes = Self.stream(&random)
    for _ in 0..<Int.random(in: 1...20, using: &random) {
      bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8(truncatingIfNeeded: random.next())
    }
    var driver = Driver()
    for piece in bytes.cut(300, using: &random) { driver.receive(piece) }
    for frame in driver.memory.frames where frame.refusal == nil {
      #expect(frame.token?.byteCount == 32, "seed \(seed)")
      #expect(frame.payload.first == 0x7B, "seed \(seed)")
      #expect(frame.payload.last == 0x7D, "seed \(seed)")
    }
    #expect(driver.actions.count < 10, "seed \(seed)")
  }
}
