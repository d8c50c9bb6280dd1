internal import Synchronization

/// Chunks that several readers use in turn. A reader that waits for its source holds none: a
/// service with many apps has many such readers, and a chunk takes memory for a thousand entries.
package final class ChunkPool: Sendable {
  private let free: Mutex<[AudienceChunk]>
  private let entryLimit: Int
  private let payloadCapacity: Int

  /// About as many as there are threads that read. More are freed when they come back.
  static let freeLimit = 4

  /// - Parameter payloadCapacity: see ``AudienceChunk/init(entryLimit:payloadCapacity:)``.
  package init(payloadCapacity: Int) {
    entryLimit = AudienceChunk.defaultEntryLimit
    self.payloadCapacity = payloadCapacity
    free = Mutex([])
  }

  /// A pool with one chunk, for a reader that has its own.
  init(_ chunk: AudienceChunk) {
    entryLimit = chunk.entryLimit
    payloadCapacity = chunk.payloadCapacity
    free = Mutex([chunk])
  }

  /// An empty chunk.
  func take() -> AudienceChunk {
    free.withLock { $0.popLast() } ?? AudienceChunk(entryLimit: entryLimit, payloadCapacity: payloadCapacity)
  }

  func give(_ chunk: AudienceChunk) {
    chunk.removeAll()
    chunk.mark = AudienceMark(offset: 0, line: 1)
    free.withLock { if $0.count < Self.freeLimit { $0.append(chunk) } }
  }
}
