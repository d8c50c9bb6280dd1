internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushEngine

@Suite("Runs of a chunk")
struct ChunkRunTests {
  /// The same entries twice, in chunks of which only the first knows that they are plain.
  private static func twins(_ random: inout SeededGenerator) -> (plain: AudienceChunk, other: AudienceChunk) {
    let (plain, other) = (AudienceChunk(entryLimit: 200), AudienceChunk(entryLimit: 200))
    var line: UInt64 = .random(in: 1...1000, using: &random)
    for _ in 0..<Int.random(in: 1...3, using: &random) {
      let count = Int.random(in: 1...60, using: &random)
      let bytes = random.bytes(32 * count)
      let lines = (0..<count).map { _ in
        line += random.chance(3) ? 2 : 1
        return line
      }
      unsafe bytes.withUnsafeBytes { unsafe plain.append(count: count, tokens: $0) { lines[$0] } }
      for index in 0..<count {
        guard let token = TokenBytes(bytes: bytes[(32 * index)..<(32 * index + 32)]) else { continue }
        other.append(line: lines[index], token: token)
      }
    }
    return (plain, other)
  }

  private static func record(_ run: ChunkRun, of chunk: AudienceChunk) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: run.shape.byteCount) { memory, count in
      var record = unsafe RecordWriter(UnsafeMutableRawBufferPointer(memory))
      run.shape.write(run.entries(of: chunk), to: &record)
      count = record.byteCount
    }
  }

  @Test("a chunk of plain entries gives the same runs and the same records of the journal", arguments: 0..<200)
  func plain(seed: Int) {
    var random = SeededGenerator(seed: UInt64(seed))
    let (plain, other) = Self.twins(&random)
    #expect(plain.isPlain)
    #expect(!other.isPlain)
    let start = Int.random(in: 0...plain.count, using: &random)
    let limit = Int.random(in: 0...200, using: &random)
    let byteCount = random.chance(50) ? Int.random(in: 0...6000, using: &random) : nil
    let blockCount = Int.random(in: 0...200, using: &random)
    let runs = [plain, other].map { ChunkRun($0, from: start, limit: limit, recordByteCountLimit: byteCount) }
    let parts = runs.map { $0.prefix(blockCount: blockCount) }
    for pair in [runs, parts] {
      let (one, two) = (pair[0], pair[1])
      #expect(one.count == two.count, "seed \(seed)")
      #expect(one.blockCount == two.blockCount, "seed \(seed)")
      #expect(one.end == two.end, "seed \(seed)")
      guard one.count > 0 else { continue }
      #expect(one.first == two.first, "seed \(seed)")
      #expect(one.firstBlockCount == two.firstBlockCount, "seed \(seed)")
      #expect(Self.record(one, of: plain) == Self.record(two, of: other), "seed \(seed)")
    }
  }

  @Test("one entry that is not plain, or must not be sent, makes the chunk one of any entries")
  func mixed() {
    let token = TokenBytes(bytes: [UInt8](repeating: 7, count: 32))
    let bytes = [UInt8](repeating: 9, count: 96)
    for change in 0..<4 {
      let chunk = AudienceChunk(payloadCapacity: 100)
      unsafe bytes.withUnsafeBytes { unsafe chunk.append(count: 3, tokens: $0) { UInt64($0) + 1 } }
      #expect(chunk.isPlain)
      switch change {
      case 0: chunk.mark(lastAs: .suppressed)
      case 1: chunk.appendUnusable(line: 4, token: token, .capped)
      case 2: TokenBytes(bytes: [1, 2]).map { chunk.append(line: 4, token: $0) }
      default: token.map { chunk.append(line: 4, token: $0, payload: [1]) }
      }
      #expect(!chunk.isPlain, "change \(change)")
      #expect(ChunkRun(chunk, from: 0, limit: 9, recordByteCountLimit: nil).count == [2, 3, 4, 4][change])
      chunk.removeAll()
      unsafe bytes.withUnsafeBytes { unsafe chunk.append(count: 3, tokens: $0) { UInt64($0) + 1 } }
      #expect(chunk.isPlain, "change \(change)")
    }
  }
}
