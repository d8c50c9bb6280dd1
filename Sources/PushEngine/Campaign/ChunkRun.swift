internal import PushTransport

/// Neighbouring entries of a chunk that go into a ring together, with their size there and in a
/// record of the journal.
struct ChunkRun {
  /// The first entry that can be sent.
  private(set) var first: Int
  /// The index after the last entry.
  private(set) var end: Int
  private(set) var shape = EnqueueShape()
  private(set) var firstBlockCount = 0
  private let chunk: AudienceChunk

  /// How many of the entries can be sent.
  var count: Int { shape.count }
  var blockCount: Int { Int(shape.blockCount) }

  /// Up to `limit` entries from `start` on, as many as fit one record of the journal.
  init(_ chunk: AudienceChunk, from start: Int, limit: Int, recordByteCountLimit: Int?) {
    self.init(
      chunk, from: start, count: limit, blockCount: .max,
      byteCount: recordByteCountLimit.map { $0 - EnqueueHeader.byteCountLimit } ?? .max)
  }

  /// As many of the entries as fit `blockCount`.
  func prefix(blockCount: Int) -> ChunkRun {
    blockCount >= self.blockCount
      ? self : ChunkRun(chunk, from: first, count: count, blockCount: blockCount, byteCount: .max)
  }

  private init(_ chunk: AudienceChunk, from start: Int, count: Int, blockCount: Int, byteCount: Int) {
    self.chunk = chunk
    first = chunk.count
    end = start
    var byteCountLeft = byteCount - EnqueueShape.fixedByteCount
    if chunk.isPlain {
      // A record of the journal has at least one.
      let fitting = max(byteCountLeft / EnqueueShape.plainByteCountLimit, blockCount == .max ? 1 : 0)
      let taken = min(chunk.count - start, count, blockCount, fitting)
      guard taken > 0 else { return }
      (first, firstBlockCount, end) = (start, 1, start + taken)
      shape = EnqueueShape(
        plainCount: taken, firstLine: chunk[start].line, linesFollow: chunk.linesFollow(start..<end),
        fileOffset: chunk.fileOffset.map { $0 + UInt64(start * AudienceReader.bareLineByteCount) })
      return
    }
    while end < chunk.count, shape.count < count {
      let entry = chunk[end]
      if entry.kind == .ready {
        let notification = chunk.notification(entry)
        byteCountLeft -= EnqueueShape.byteCountLimit(of: notification)
        let own = notification.blockCount
        let isOver = Int(truncatingIfNeeded: shape.blockCount &+ own) > blockCount || byteCountLeft < 0
        if shape.count > 0 || blockCount < .max, isOver { break }
        if shape.count == 0 { (first, firstBlockCount) = (end, Int(own)) }
        shape.add(notification, blockCount: own)
      }
      end += 1
    }
  }

  func entries(of chunk: AudienceChunk) -> Entries { Entries(chunk: chunk, range: first..<end) }

  struct Entries: EnqueueSource {
    let chunk: AudienceChunk
    let range: Range<Int>

    var plainTokens: UnsafeRawBufferPointer? { unsafe chunk.plainTokens(range) }

    func forEach(_ body: (EnqueuedNotification) -> Void) {
      for index in range {
        let entry = chunk[index]
        if entry.kind == .ready { body(chunk.notification(entry)) }
      }
    }
  }
}

extension AudienceChunk {
  fileprivate func linesFollow(_ range: Range<Int>) -> Bool {
    var follow = true
    for index in range.dropFirst() {
      follow = unsafe entries[index].line == entries[index - 1].line &+ 1 && follow
    }
    return follow
  }

  fileprivate func notification(_ entry: AudienceEntry) -> EnqueuedNotification {
    let token = unsafe token(of: entry)
    return unsafe EnqueuedNotification(
      line: entry.line, token: token, headersCode: entry.headersCode,
      headersStart: token.baseAddress.map { unsafe $0 + token.count }, payload: payload(of: entry))
  }
}
