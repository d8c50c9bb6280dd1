internal import Testing

@testable internal import PushEngine

@Suite("Chunks that readers share")
struct ChunkPoolTests {
  @Test("a chunk that comes back is empty, and the next reader gets it")
  func reuse() {
    let pool = ChunkPool(payloadCapacity: 4096)
    let chunk = pool.take()
    chunk.count = 3
    chunk.payloadEnd = 100
    chunk.mark = AudienceMark(offset: 77, line: 8)
    let other = pool.take()
    #expect(other !== chunk, "a chunk in use")
    pool.give(chunk)
    let again = pool.take()
    #expect(again === chunk)
    #expect(again.count == 0)
    #expect(again.payloadEnd == 0)
    #expect(again.origin == nil)
    #expect(again.mark == AudienceMark(offset: 0, line: 1))
  }

  @Test("after many readers at the same time, only a few chunks are kept")
  func limit() {
    let pool = ChunkPool(payloadCapacity: 0)
    var chunks = (0..<100).map { _ in pool.take() }
    let all = chunks.map { WeakChunk(chunk: $0) }
    for chunk in chunks { pool.give(chunk) }
    chunks = []
    #expect(all.count { $0.chunk != nil } == ChunkPool.freeLimit)
  }

  private struct WeakChunk {
    weak var chunk: AudienceChunk?
  }
}
