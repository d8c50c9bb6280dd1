internal import PushWire
internal import Support
internal import Testing

@Suite("Encoding of notification frames")
struct FrameEncoderTests {
  // Written by hand in the layout of BinaryProtocol.md, "Notification frames".
  static let token: [UInt8] = [0xDE, 0xAD, 0xBE, 0xEF]
  static let payload = Array("{}".utf8)

  @Test("command 0 is a zero byte, then token and payload, each after its length")
  func simple() {
    let record = FrameRecord(
      command: .simple, token: Self.token, payload: Self.payload, identifier: 7, expiration: 8, priority: 9)
    #expect(record.encoded == [0x00, 0x00, 0x04, 0xDE, 0xAD, 0xBE, 0xEF, 0x00, 0x02, 0x7B, 0x7D])
  }

  @Test("command 1 puts identifier and expiry before token and payload")
  func enhanced() {
    let record = FrameRecord(
      command: .enhanced, token: Self.token, payload: Self.payload, identifier: 0x0102_0304, expiration: 0x6543_2100)
    #expect(
      record.encoded == [
        0x01, 0x01, 0x02, 0x03, 0x04, 0x65, 0x43, 0x21, 0x00, 0x00, 0x04, 0xDE, 0xAD, 0xBE, 0xEF, 0x00, 0x02, 0x7B,
        0x7D,
      ]
    )
  }

  @Test("command 1 writes a missing identifier and expiry as zero")
  func enhancedWithoutNumbers() {
    let record = FrameRecord(command: .enhanced, token: Self.token, payload: Self.payload)
    #expect(
      record.encoded == [0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x04, 0xDE, 0xAD, 0xBE, 0xEF, 0x00, 0x02, 0x7B, 0x7D])
  }

  @Test("command 2 writes the items 1 to 5 in order within its frame length")
  func framed() {
    let record = FrameRecord(
      command: .framed,
      token: Self.token,
      payload: Self.payload,
      identifier: 0x8000_0001,
      expiration: 0x0000_00FF,
      priority: 10
    )
    #expect(
      record.encoded == [
        0x02, 0x00, 0x00, 0x00, 0x1E,
        0x01, 0x00, 0x04, 0xDE, 0xAD, 0xBE, 0xEF,
        0x02, 0x00, 0x02, 0x7B, 0x7D,
        0x03, 0x00, 0x04, 0x80, 0x00, 0x00, 0x01,
        0x04, 0x00, 0x04, 0x00, 0x00, 0x00, 0xFF,
        0x05, 0x00, 0x01, 0x0A,
      ]
    )
  }

  @Test("command 2 leaves out the items that are absent")
  func framedWithoutNumbers() {
    let record = FrameRecord(command: .framed, token: Self.token, payload: Self.payload)
    #expect(
      record.encoded == [
        0x02, 0x00, 0x00, 0x00, 0x0C, 0x01, 0x00, 0x04, 0xDE, 0xAD, 0xBE, 0xEF, 0x02, 0x00, 0x02, 0x7B, 0x7D,
      ]
    )
  }

  @Test("a probe has an empty token, an empty payload and its own identifier")
  func probe() {
    let enhanced = unsafe writingExactBytes(13) {
      unsafe FrameEncoder.encodeProbe(.enhanced, identifier: 0x8000_0002, into: $0)
    }
    #expect(enhanced == [0x01, 0x80, 0x00, 0x00, 0x02, 0, 0, 0, 0, 0, 0, 0, 0])
    let framed = unsafe writingExactBytes(18) {
      unsafe FrameEncoder.encodeProbe(.framed, identifier: 0x8000_0002, into: $0)
    }
    #expect(framed == [0x02, 0, 0, 0, 13, 0x01, 0, 0, 0x02, 0, 0, 0x03, 0, 4, 0x80, 0x00, 0x00, 0x02])
  }

  @Test("a probe is refused as missing device token with its identifier", arguments: [FrameVersion.enhanced, .framed])
  func probeIsRefused(_ command: FrameVersion) {
    let bytes = unsafe writingExactBytes(18) {
      unsafe FrameEncoder.encodeProbe(command, identifier: 0xFFFF_FFFF, into: $0)
    }
    let frame = decode(bytes).frames.first
    #expect(frame?.violation == .missingDeviceToken)
    #expect(frame?.identifier == 0xFFFF_FFFF)
  }

  @Test(
    "a template writes what the encoder writes, for every command, token length and set of items",
    arguments: FrameVersion.allCases)
  func template(_ command: FrameVersion) {
    var generator = SeededGenerator.fresh()
    for tokenByteCount in 1...100 {
      let record = FrameRecord(
        command: command,
        token: generator.bytes(tokenByteCount),
        payload: generator.bytes(Int.random(in: 0...300, using: &generator)),
        identifier: UInt32.random(in: 1 ... .max, using: &generator),
        expiration: generator.chance(50) ? 99 : nil,
        priority: generator.chance(50) ? 5 : nil
      )
      let template = FrameTemplate(
        command: command,
        payload: record.payload,
        tokenByteCount: tokenByteCount,
        expiration: record.expiration,
        priority: record.priority
      )
      let written = unsafe writingExactBytes(template.frameByteCount) { destination in
        unsafe withExactBytes(record.token) { token in
          if let start = token.baseAddress, let end = destination.baseAddress {
            unsafe template.encode(token: start, identifier: record.identifier ?? 0, into: end)
          }
        }
        return destination.count
      }
      #expect(written == record.encoded, "seed \(generator.seed), token of \(tokenByteCount) bytes")
    }
  }

  @Test(
    "encoding and decoding returns the same frame, for every command and token length", arguments: FrameVersion.allCases
  )
  func roundTrip(_ command: FrameVersion) {
    var generator = SeededGenerator.fresh()
    var limits = DecoderLimits()
    limits.tokenByteCount = nil
    for tokenByteCount in 1...100 {
      var record = FrameRecord(command: command, token: generator.bytes(tokenByteCount))
      record.payload = generator.bytes(Int.random(in: 1...command.payloadLimitDefault, using: &generator))
      if command == .enhanced || (command == .framed && generator.chance(70)) {
        record.identifier = .random(in: 0 ... .max, using: &generator)
      }
      if command == .enhanced || (command == .framed && generator.chance(70)) {
        record.expiration = .random(in: 0 ... .max, using: &generator)
      }
      if command == .framed, generator.chance(70) { record.priority = .random(in: 0 ... .max, using: &generator) }
      #expect(
        decode(record.encoded, limits: limits) == Decoding(frames: [record]),
        "seed \(generator.seed), token of \(tokenByteCount) bytes")
    }
  }

  @Test("a destination that is too small traps")
  func smallDestination() async {
    await #expect(processExitsWith: .failure) {
      let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
      _ = unsafe writingExactBytes(4) {
        unsafe FrameEncoder.encode(
          .simple, token: nothing, payload: nothing, identifier: nil, expiration: nil, priority: nil, into: $0)
      }
    }
  }

}
