internal import PushWire
internal import Support
internal import Testing

@Suite("Decoders with random cuts and random bytes")
struct DecodingPropertyTests {
  /// A stream of mostly good frames. Some have one changed byte, some are cut, and some have random
  /// bytes between them.
  private func stream(_ generator: inout SeededGenerator, limits: DecoderLimits) -> [UInt8] {
    var bytes: [UInt8] = []
    for _ in 0..<Int.random(in: 1...12, using: &generator) {
      let command = FrameVersion.allCases.randomElement(using: &generator) ?? .framed
      let tokenByteCount = generator.chance(90) ? 32 : Int.random(in: 0...120, using: &generator)
      var record = FrameRecord(command: command, token: generator.bytes(tokenByteCount))
      record.payload = generator.bytes(Int.random(in: 0...(generator.chance(80) ? 200 : 2100), using: &generator))
      record.identifier = generator.chance(70) ? .random(in: 0 ... .max, using: &generator) : nil
      record.expiration = generator.chance(50) ? .random(in: 0 ... .max, using: &generator) : nil
      record.priority = generator.chance(50) ? .random(in: 0 ... .max, using: &generator) : nil
      var frame = record.encoded
      if generator.chance(15) {
        // A wrong byte near the beginning changes lengths and item ids.
        frame[Int.random(in: 0..<min(frame.count, 60), using: &generator)] = UInt8.random(
          in: 0 ... .max, using: &generator)
      }
      if generator.chance(5) { frame.removeLast(Int.random(in: 0...frame.count, using: &generator)) }
      if generator.chance(5) { frame += generator.bytes(Int.random(in: 1...30, using: &generator)) }
      bytes += frame
    }
    return bytes
  }

  @Test("any cutting of any stream gives the same frames, violation and remainder")
  func cuts() {
    var generator = SeededGenerator.fresh()
    var refused = 0
    for round in 0..<1500 {
      var limits = DecoderLimits()
      if generator.chance(50) { limits.tokenByteCount = nil }
      if generator.chance(30) { limits.frameByteCount = Int.random(in: 0...300, using: &generator) }
      let bytes = stream(&generator, limits: limits)
      let whole = decode(bytes, limits: limits)
      let context: Comment = "seed \(generator.seed), round \(round)"
      #expect(decode(generator.cut(bytes), limits: limits) == whole, context)
      #expect(decode(bytes.map { [$0] }, limits: limits) == whole, context)
      #expect(whole.pendingByteCount <= limits.frameByteCount + 5, context)
      #expect(whole.frames.dropLast().allSatisfy { $0.violation == nil }, context)
      refused += whole.isStopped ? 1 : 0
    }
    // The test shows something only if the generator makes both good and bad streams.
    #expect(refused > 200, "seed \(generator.seed): \(refused) refused")
    #expect(refused < 1450, "seed \(generator.seed): \(refused) refused")
  }

  @Test("random bytes never crash a decoder, nor make it read outside its input")
  func noise() {
    var generator = SeededGenerator.fresh()
    for round in 0..<3000 {
      var bytes = generator.bytes(Int.random(in: 0...120, using: &generator))
      if !bytes.isEmpty, generator.chance(80) { bytes[0] = UInt8.random(in: 0...2, using: &generator) }
      if bytes.count > 5, bytes[0] == 2 {
        bytes.replaceSubrange(1..<5, with: be32(Int.random(in: 0...bytes.count, using: &generator)))
        if bytes.count > 8 { bytes.replaceSubrange(5..<7, with: [UInt8.random(in: 0...6, using: &generator), 0]) }
      }
      let whole = decode(bytes)
      #expect(decode(bytes.map { [$0] }) == whole, "seed \(generator.seed), round \(round)")

      var feedback = FeedbackDecoder()
      var response = ErrorResponseDecoder()
      unsafe withExactBytes(bytes) { view in
        _ = unsafe feedback.consume(view)
        _ = unsafe response.consume(view)
      }
    }
  }

  @Test("a frame's views are inside the input if the whole frame is")
  func viewsNotCopies() throws {
    let record = FrameRecord(command: .framed, token: [UInt8](0..<32), payload: [1, 2, 3])
    let bytes = record.encoded + record.encoded
    var decoder = FrameDecoder()
    var inside = 0
    unsafe withExactBytes(bytes) { view in
      decoder.consume(unsafe Span(_unsafeBytes: view)) { frame in
        let isInside = unsafe frame.token.withUnsafeBytes { token in
          guard let base = view.baseAddress, let start = token.baseAddress else { return false }
          return unsafe start >= base && start < base + view.count
        }
        inside += isInside ? 1 : 0
        return true
      }
    }
    #expect(inside == 2)
  }
}
