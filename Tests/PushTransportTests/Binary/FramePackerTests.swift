internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@Suite("FramePacker")
struct FramePackerTests {
  /// One frame as a gateway reads it.
  private struct Read: Hashable {
    var command: FrameVersion?
    var token: [UInt8]
    var payload: [UInt8]
    var identifier: UInt32?
    var expiration: UInt32?
    var priority: UInt8?
    var violation: GatewayStatus?
  }

  private typealias Run = FramePacker.Run
  private let payload = Array(#"{"aps":{"alert":"x"}}"#.utf8)
  private let token = Array(1...32) as [UInt8]

  private func decode(_ bytes: UnsafeRawBufferPointer) -> [Read] {
    var limits = DecoderLimits()
    limits.tokenByteCount = nil
    limits.simplePayload = 5120
    limits.enhancedPayload = 5120
    limits.framedPayload = 5120
    var decoder = FrameDecoder(limits: limits)
    var frames: [Read] = []
    decoder.consume(unsafe Span(_unsafeBytes: bytes)) { frame in
      frames.append(
        Read(
          command: frame.command, token: Array(frame.token), payload: Array(frame.payload),
          identifier: frame.identifier, expiration: frame.expiration,
          priority: frame.priority, violation: frame.violation))
      return true
    }
    #expect(decoder.pendingByteCount == 0, "a batch ends with a whole frame")
    return frames
  }

  private func frames(
    _ campaign: UInt32 = 1, _ command: FrameVersion = .framed, expiration: UInt32? = nil, priority: UInt8? = nil
  ) -> CampaignFrames {
    CampaignFrames(campaign: campaign, command: command, payload: payload, expiration: expiration, priority: priority)
  }

  private func sample(
    _ ordinal: UInt64, campaign: UInt32 = 1, expiration: UInt32? = nil, payload: [UInt8] = []
  ) -> Sample {
    Sample(ordinal: ordinal, campaign: campaign, expiration: expiration, token: token, payload: payload)
  }

  @Test("a frame that is larger than the buffer ends the process and is not written behind it")
  func tooLarge() async {
    // With the template's token size and with another.
    await #expect(processExitsWith: .failure) { FramePackerTests.packTooLarge(tokenByteCount: 32) }
    await #expect(processExitsWith: .failure) { FramePackerTests.packTooLarge(tokenByteCount: 100) }
  }

  private static func packTooLarge(tokenByteCount: Int) {
    let ring = NotificationRing(blockCount: 1024)
    // Such a campaign does not pass the earlier checks.
    let payload = [UInt8](repeating: 0x20, count: 65_000)
    let frames = CampaignFrames(campaign: 1, command: .framed, payload: payload, expiration: nil, priority: nil)
    guard ring.add(Sample(ordinal: 0, token: [UInt8](repeating: 1, count: tokenByteCount))) else { return }
    var packer = FramePacker(byteCountBound: 1024, buffers: LoopBuffers())
    packer.clear()
    _ = packer.pack(from: 0, to: ring.published, ring: ring, frames: frames, now: 0)
  }

  @Test(
    "a batch has exactly the frames of its notifications, byte for byte as FrameEncoder writes them",
    arguments: FrameVersion.allCases,
    1...8 as ClosedRange<UInt64>)
  func sameAsEncoder(_ command: FrameVersion, _ seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let common = frames(
      7, command, expiration: [nil, 0, 2_000_000_000].randomElement(using: &random) ?? nil,
      priority: [nil, 5, 10].randomElement(using: &random) ?? nil)
    let ring = NotificationRing(blockCount: 1024)
    var expected: [UInt8] = []
    var expectedReads: [Read] = []
    for ordinal in 0..<60 as Range<UInt64> {
      if random.chance(20) { ring.addPadding(Int.random(in: 1...5, using: &random)) }
      let own = Sample(
        ordinal: ordinal, campaign: 7, expiration: random.chance(20) ? 1_900_000_000 : nil,
        priority: random.chance(20) ? 5 : nil,
        token: random.bytes(random.chance(50) ? 32 : Int.random(in: 1...100, using: &random)),
        payload: random.chance(30) ? random.bytes(Int.random(in: 1...300, using: &random)) : [])
      #expect(ring.add(own))
      var starts: [UInt64] = []
      ring.forEachNotification(from: 0, to: ring.published) { position, _ in starts.append(position) }
      let identifier = ResendWindow.identifier(at: starts.last ?? .max)
      let content = own.payload.isEmpty ? payload : own.payload
      let size = FrameEncoder.byteCount(
        command, tokenByteCount: own.token.count, payloadByteCount: content.count, hasIdentifier: true,
        hasExpiration: true, hasPriority: true)
      let expiration = own.expiration ?? common.expiration
      let priority = own.priority ?? common.priority
      expected += unsafe writingExactBytes(size) { memory in
        unsafe own.token.withUnsafeBytes { token in
          unsafe content.withUnsafeBytes { payload in
            unsafe FrameEncoder.encode(
              command, token: token, payload: payload, identifier: identifier, expiration: expiration,
              priority: priority, into: memory)
          }
        }
      }
      expectedReads.append(
        Read(
          command: command, token: own.token, payload: content, identifier: command == .simple ? nil : identifier,
          expiration: command == .simple ? nil : command == .enhanced ? expiration ?? 0 : expiration,
          priority: command == .framed ? priority : nil))
    }
    var packer = FramePacker(byteCountBound: 1 << 20, buffers: LoopBuffers())
    packer.clear()
    let run = packer.pack(from: 0, to: ring.published, ring: ring, frames: common, now: 1_700_000_000)
    #expect(run?.count == 60, "seed \(seed)")
    #expect(run?.end == ring.published, "seed \(seed)")
    #expect(run?.kind == .packed, "seed \(seed)")
    let bytes = unsafe Array(packer.bytes)
    #expect(bytes == expected, "seed \(seed)")
    #expect(unsafe decode(packer.bytes) == expectedReads, "seed \(seed)")
  }

  @Test("a notification's own payload, expiration and priority replace the campaign's; the rest is the campaign's")
  func personalised() {
    let ring = NotificationRing(blockCount: 256)
    let own = Array(#"{"aps":{"badge":2}}"#.utf8)
    #expect(ring.add(Sample(ordinal: 1, campaign: 1, token: [9])))
    #expect(ring.add(Sample(ordinal: 2, campaign: 1, expiration: 0, priority: 5, token: token, payload: own)))
    var packer = FramePacker(byteCountBound: 4096, buffers: LoopBuffers())
    packer.clear()
    let run = packer.pack(
      from: 0, to: ring.published, ring: ring, frames: frames(1, .framed, expiration: 1_800_000_000, priority: 10),
      now: 1_700_000_000)
    #expect(run == Run(kind: .packed, end: 3, lastStart: 1, count: 2))
    #expect(
      unsafe decode(packer.bytes) == [
        Read(command: .framed, token: [9], payload: payload, identifier: 1, expiration: 1_800_000_000, priority: 10),
        Read(command: .framed, token: token, payload: own, identifier: 2, expiration: 0, priority: 5),
      ])
  }

  @Test("identifiers are those of the window, and skip 0 where they wrap")
  func identifiersWrap() {
    let ring = NotificationRing(blockCount: 1 << 20)
    let wrap = UInt64(ResendWindow.identifierCount)
    while ring.published < wrap - 2 {
      ring.addPadding(Int(min(wrap - 2 - ring.published, 1 << 20)))
      ring.settleEverything()
    }
    for ordinal in 1...4 as ClosedRange<UInt64> { #expect(ring.add(sample(ordinal))) }
    var packer = FramePacker(byteCountBound: 4096, buffers: LoopBuffers())
    packer.clear()
    let run = packer.pack(from: wrap - 2, to: ring.published, ring: ring, frames: frames(), now: 0)
    #expect(run == Run(kind: .packed, end: wrap + 2, lastStart: wrap + 1, count: 4))
    #expect(unsafe decode(packer.bytes).map(\.identifier) == [0x7FFF_FFFE, 0x7FFF_FFFF, 1, 2])
    #expect((wrap - 2..<wrap + 2).map { ResendWindow.identifier(at: $0) } == [0x7FFF_FFFE, 0x7FFF_FFFF, 1, 2])
  }

  @Test("no batch exceeds the bound, except a single frame that is larger", arguments: [1, 88, 89, 90, 500, 65_536])
  func bound(_ bound: Int) {
    let ring = NotificationRing(blockCount: 1024)
    for ordinal in 0..<1024 as Range<UInt64> { #expect(ring.add(sample(ordinal))) }
    let common = frames()
    var packer = FramePacker(byteCountBound: bound, buffers: LoopBuffers())
    packer.clear()
    var position: UInt64 = 0
    while position < 1024 {
      packer.clear()
      #expect(packer.byteCount == 0)
      #expect(packer.isFull == false)
      guard let run = packer.pack(from: position, to: 1024, ring: ring, frames: common, now: 0) else { break }
      let most = max(1, bound / common.frameByteCount)
      #expect(run.count == min(most, 1024 - Int(position)))
      #expect(packer.byteCount == run.count * common.frameByteCount)
      #expect(packer.isFull == (position + UInt64(run.count) < 1024))
      #expect(
        unsafe decode(packer.bytes).map(\.identifier) == (position..<run.end).map { ResendWindow.identifier(at: $0) })
      position = run.end
    }
    #expect(packer.pack(from: 1024, to: 1024, ring: ring, frames: common, now: 0) == nil)
  }

  @Test("a frame that is larger than the bound is a batch of its own")
  func largestFrame() {
    let ring = NotificationRing(blockCount: 256)
    let large = Sample(
      ordinal: 1, campaign: 1, expiration: .max, priority: 10, token: [UInt8](repeating: 1, count: 100),
      payload: [UInt8](repeating: 0x20, count: 5120))
    #expect(ring.add(sample(0)))
    #expect(ring.add(large))
    #expect(ring.add(sample(2)))
    let common = frames()
    var packer = FramePacker(byteCountBound: common.frameByteCount + 1, buffers: LoopBuffers())
    packer.clear()
    var batches: [[Int]] = []
    var position: UInt64 = 0
    while let run = packer.pack(from: position, to: ring.published, ring: ring, frames: common, now: 0) {
      batches.append(unsafe decode(packer.bytes).map(\.payload.count))
      position = run.end
      packer.clear()
    }
    #expect(batches == [[payload.count], [5120], [payload.count]])
    #expect(position == ring.published)
  }

  @Test("another campaign ends a run, and the next call continues in the same buffer")
  func campaigns() {
    let ring = NotificationRing(blockCount: 256)
    for (ordinal, campaign) in [(1, 1), (2, 1), (3, 2), (4, 1)] as [(UInt64, UInt32)] {
      #expect(ring.add(sample(ordinal, campaign: campaign)))
    }
    var packer = FramePacker(byteCountBound: 65_536, buffers: LoopBuffers())
    packer.clear()
    let other = CampaignFrames(campaign: 2, command: .framed, payload: Array("{}".utf8), expiration: nil, priority: nil)
    #expect(
      packer.pack(from: 0, to: 4, ring: ring, frames: frames(), now: 0)
        == Run(kind: .packed, end: 2, lastStart: 1, count: 2))
    #expect(
      packer.pack(from: 2, to: 4, ring: ring, frames: other, now: 0)
        == Run(kind: .packed, end: 3, lastStart: 2, count: 1))
    #expect(
      packer.pack(from: 3, to: 4, ring: ring, frames: frames(), now: 0)
        == Run(kind: .packed, end: 4, lastStart: 3, count: 1))
    #expect(unsafe decode(packer.bytes).map(\.payload) == [payload, payload, Array("{}".utf8), payload])
    #expect(unsafe decode(packer.bytes).map(\.identifier) == [1, 2, 3, 4])
  }

  @Test("padding is skipped in front, between and behind; alone it is a run")
  func padding() {
    let ring = NotificationRing(blockCount: 256)
    ring.addPadding(3)
    #expect(ring.add(sample(1)))
    ring.addPadding(2)
    #expect(ring.add(sample(2)))
    ring.addPadding(4)
    var packer = FramePacker(byteCountBound: 65_536, buffers: LoopBuffers())
    packer.clear()
    #expect(
      packer.pack(from: 0, to: 3, ring: ring, frames: frames(), now: 0)
        == Run(kind: .padding, end: 3, lastStart: 0, count: 0))
    #expect(packer.byteCount == 0)
    #expect(
      packer.pack(from: 0, to: ring.published, ring: ring, frames: frames(), now: 0)
        == Run(kind: .packed, end: 11, lastStart: 6, count: 2))
    #expect(unsafe decode(packer.bytes).map(\.identifier) == [4, 7])
    #expect(
      packer.pack(from: 7, to: 11, ring: ring, frames: frames(), now: 0)
        == Run(kind: .padding, end: 11, lastStart: 7, count: 0))
  }

  @Test(
    "expiration is checked against now: its own before the campaign's, 0 never expires",
    arguments: [
      (nil, nil, false), (nil, 0, false), (nil, 1_000, true), (nil, 1_001, false), (0, 999, false), (1_000, nil, true),
      (999, 0, true), (1_001, 5, false),
    ] as [(UInt32?, UInt32?, Bool)])
  func expiration(_ own: UInt32?, _ common: UInt32?, _ isExpired: Bool) {
    let ring = NotificationRing(blockCount: 256)
    #expect(ring.add(sample(1, expiration: own)))
    var packer = FramePacker(byteCountBound: 65_536, buffers: LoopBuffers())
    packer.clear()
    let run = packer.pack(from: 0, to: 1, ring: ring, frames: frames(1, .framed, expiration: common), now: 1_000)
    #expect(run == Run(kind: isExpired ? .expired : .packed, end: 1, lastStart: 0, count: 1))
    #expect((packer.byteCount == 0) == isExpired)
  }

  @Test("kinds of runs: packed, expired, expired but perhaps delivered")
  func kinds() {
    let ring = NotificationRing(blockCount: 256)
    for (ordinal, expiration) in [(0, nil), (1, 1), (2, 1), (3, 1), (4, nil)] as [(UInt64, UInt32?)] {
      #expect(ring.add(sample(ordinal, expiration: expiration)))
    }
    ring.record(at: 3).mayHaveArrived = true
    ring.record(at: 4).mayHaveArrived = true
    var packer = FramePacker(byteCountBound: 65_536, buffers: LoopBuffers())
    packer.clear()
    var runs: [Run] = []
    var position: UInt64 = 0
    while let run = packer.pack(from: position, to: 5, ring: ring, frames: frames(), now: 1_000), run.end > position {
      runs.append(run)
      position = run.end
    }
    #expect(
      runs == [
        Run(kind: .packed, end: 1, lastStart: 0, count: 1), Run(kind: .expired, end: 3, lastStart: 2, count: 2),
        Run(kind: .expiredInDoubt, end: 4, lastStart: 3, count: 1), Run(kind: .packed, end: 5, lastStart: 4, count: 1),
      ])
    #expect(unsafe decode(packer.bytes).map(\.identifier) == [1, 5])
  }

  @Test(
    "a probe is a frame that must be refused, and the last one of a batch", arguments: [FrameVersion.enhanced, .framed])
  func probe(_ command: FrameVersion) {
    let ring = NotificationRing(blockCount: 256)
    #expect(ring.add(sample(1)))
    var packer = FramePacker(byteCountBound: 64, buffers: LoopBuffers())
    packer.clear()
    #expect(packer.pack(from: 0, to: 1, ring: ring, frames: frames(1, command), now: 0)?.count == 1)
    let isFull = packer.isFull
    #expect(!isFull)
    packer.packProbe(command, identifier: 0x8000_0003)
    let read = unsafe decode(packer.bytes)
    #expect(read.map(\.identifier) == [1, 0x8000_0003])
    #expect(read.map(\.violation) == [nil, .missingDeviceToken])
    #expect(read.last?.token == [])
  }
}
