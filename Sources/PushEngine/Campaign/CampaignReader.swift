internal import PushTransport
internal import PushWire

/// Moves a campaign from its audience into the rings of its app's lanes, a chunk at a time, as fast as they take it.
struct CampaignReader: Sendable {
  let ledger: CampaignLedger
  let intake: Intake

  /// How long to leave a pipe alone that has nothing to read.
  private static let pause = Duration.milliseconds(10)

  func submit(_ audience: some AudienceSource, chunk: AudienceChunk) async throws(AudienceError) {
    while !ledger.isCancelled {
      switch try audience.fill(chunk) {
      case .end: return
      case .nothingYet: await intake.pause(Self.pause)
      case .nothingFor(let duration): await intake.pause(duration)
      case .entries: await submit(chunk)
      }
    }
  }

  private func submit(_ chunk: AudienceChunk) async {
    rejectMalformed(chunk)
    var next = 0
    while next < chunk.count {
      let isCancelled = { [ledger] in ledger.isCancelled }
      let allowed = await intake.allowance(upTo: chunk.count - next, isCancelled: isCancelled)
      guard allowed > 0 else { return }
      var left = allowed
      while left > 0, next < chunk.count {
        guard let lane = await intake.lane(withRoomFor: RingRecord.blockCountLimit, isCancelled: isCancelled) else { return }
        left -= fill(lane, from: chunk, next: &next, limit: left)
      }
    }
  }

  private func rejectMalformed(_ chunk: AudienceChunk) {
    guard chunk.readyCount < chunk.count else { return }
    for index in 0..<chunk.count {
      let entry = chunk[index]
      guard let reason = entry.kind.rejection else { continue }
      ledger.rejectedAtIntake(line: entry.line, token: chunk.text(of: entry), reason: reason)
    }
  }

  /// Writes up to `limit` of the chunk's entries, from `next` on, into the lane's ring as one claim. Returns how many.
  private func fill(_ lane: Lane, from chunk: AudienceChunk, next: inout Int, limit: Int) -> Int {
    let (blocks, first, smallest) = demand(of: chunk, from: next, limit: limit)
    guard blocks > 0 else {
      next = chunk.count
      return 0
    }
    guard var claim = lane.ring.claim(minimum: smallest, maximum: blocks) else { return 0 }
    // Counted before they can be seen: the books must never show more outcomes than submissions.
    ledger.submitted(limit)
    var written = 0
    var index = first
    while index < chunk.count, written < limit {
      let entry = chunk[index]
      if entry.kind == .ready {
        let header = RingRecord.Header(ordinal: entry.line, campaign: ledger.frames.campaign)
        guard unsafe claim.append(header, token: chunk.token(of: entry), payload: chunk.payload(of: entry)) else { break }
        written += 1
      }
      index += 1
    }
    ledger.withdrew(limit - written)
    next = index
    claim.publish()
    lane.published()
    return written
  }

  /// Blocks that the next `limit` ready entries take, the first of them, and its own need.
  private func demand(of chunk: AudienceChunk, from start: Int, limit: Int) -> (blocks: Int, first: Int, smallest: Int) {
    var blocks = 0
    var count = 0
    var first = chunk.count
    var smallest = 0
    var index = start
    while index < chunk.count, count < limit {
      let entry = chunk[index]
      if entry.kind == .ready {
        let need = unsafe RingRecord.blockCount(tokenByteCount: chunk.token(of: entry).count, payloadByteCount: chunk.payload(of: entry).count)
        if count == 0 { (first, smallest) = (index, need) }
        blocks += need
        count += 1
      }
      index += 1
    }
    return (blocks, first, smallest)
  }
}

extension AudienceEntry.Kind {
  /// The outcome of a line that cannot be sent.
  fileprivate var rejection: Rejection? {
    switch self {
    case .ready: nil
    case .payloadTooLarge: .payloadTooLarge
    case .malformedToken, .malformedRow, .malformedText, .overlongLine: .malformedToken
    }
  }
}
