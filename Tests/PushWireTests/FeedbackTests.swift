internal import PushWire
internal import Support
internal import Testing

@Suite("Feedback tuples")
struct FeedbackTests {
  private func decode(_ pieces: [ArraySlice<UInt8>]) -> (tuples: [FeedbackTuple], decoder: FeedbackDecoder) {
    var decoder = FeedbackDecoder()
    let tuples = pieces.flatMap { piece in unsafe withExactBytes(piece) { unsafe decoder.consume($0) } }
    return (tuples, decoder)
  }

  private func token(_ bytes: [UInt8]) throws -> TokenBytes { try #require(TokenBytes(bytes: bytes)) }

  @Test("a tuple is timestamp, token length and token")
  func golden() throws {
    let tuple = FeedbackTuple(timestamp: 0x5F00_0001, token: try token([0xAB, 0xCD]))
    #expect(tuple.bytes == [0x5F, 0x00, 0x00, 0x01, 0x00, 0x02, 0xAB, 0xCD])
    #expect(tuple.byteCount == 8)
    #expect(decode([tuple.bytes[...]]).tuples == [tuple])
  }

  @Test("tuples of every token length are read, however they are cut")
  func cuts() throws {
    var generator = SeededGenerator.fresh()
    for round in 0..<100 {
      let tuples = try (0..<40).map { _ in
        FeedbackTuple(
          timestamp: .random(in: 0 ... .max, using: &generator),
          token: try token(generator.bytes(generator.chance(50) ? 32 : Int.random(in: 1...100, using: &generator)))
        )
      }
      let bytes = tuples.flatMap(\.bytes)
      for pieces in [[bytes[...]], bytes.map { [$0] }, generator.cut(bytes)] {
        let result = decode(pieces)
        #expect(result.tuples == tuples, "seed \(generator.seed), round \(round)")
        #expect(result.decoder.isAtTupleBoundary)
        #expect(result.decoder.unusableTupleCount == 0)
      }
    }
  }

  @Test("a tuple is delivered with the byte that completes it")
  func promptness() throws {
    let tuple = FeedbackTuple(timestamp: 1, token: try token([1, 2, 3]))
    let first = decode([tuple.bytes.dropLast()])
    #expect(first.tuples.isEmpty)
    #expect(!first.decoder.isAtTupleBoundary)
    let both = decode([(tuple.bytes + tuple.bytes).dropLast()])
    #expect(both.tuples == [tuple])
    #expect(!both.decoder.isAtTupleBoundary)
  }

  @Test(
    "a tuple without a token or with one that is too long is counted, and later tuples are read",
    arguments: [0, 101, 256, 65535])
  func unusable(_ byteCount: Int) throws {
    let tuple = FeedbackTuple(timestamp: 7, token: try token([9]))
    let bytes = tuple.bytes + be32(1) + be16(byteCount) + [UInt8](repeating: 0, count: byteCount) + tuple.bytes
    for pieces in [[bytes[...]], bytes.map { [$0] }] {
      let result = decode(pieces)
      #expect(result.tuples == [tuple, tuple])
      #expect(result.decoder.unusableTupleCount == 1)
      #expect(result.decoder.isAtTupleBoundary)
    }
  }
}
