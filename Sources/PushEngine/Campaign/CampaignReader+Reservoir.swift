internal import PushTransport
internal import PushWire

/// Reading an audience that never waits for a gateway: what no lane has room for goes into the
/// journal, and from there into the lanes as soon as they have room.
extension CampaignReader {
  /// How long a chunk waits for room before it is written into the journal without a lane. Lanes
  /// that work make room within this time, and then nothing is written twice.
  private static let roomWait = Duration.milliseconds(100)

  var isReservoirEmpty: Bool { reservoir?.isEmpty ?? true }

  /// The campaign was cancelled: the reservoir stays in the journal.
  mutating func leaveReservoir() {
    guard let reservoir else { return }
    let (rest, takenCount) = reservoir.rest
    leave(rest, behind: takenCount)
    for run in rest { reservoir.gauge.remove(count: run.count, byteCount: run.memoryByteCount) }
    reservoir.gauge.add(count: takenCount, byteCount: 0)
  }

  // MARK: Into lanes

  /// Takes in a chunk: into a lane as long as one has room and nothing older waits, otherwise into
  /// the reservoir. Returns the first entry that was not taken in.
  mutating func submitOrStore(_ chunk: AudienceChunk, of audience: some AudienceSource) async -> Int {
    var next = firstNew(in: chunk)
    var origin: UInt64 = 0
    var deadline: Instant?
    var recordedCount = 0
    while next < chunk.count, !ledger.isCancelled {
      defer {
        if next > recordedCount { audience.recorded(through: chunk[next - 1].line) }
        recordedCount = next
      }
      guard isReservoirEmpty else {
        await store(chunk, from: &next)
        continue
      }
      if let room = roomNow(for: chunk.count - next) {
        await fill(room, from: chunk, next: &next, origin: &origin)
      } else if mayWait(since: &deadline) {
        await waitForRoom(until: deadline)
      } else {
        await store(chunk, from: &next)
      }
    }
    return next
  }

  /// Whether lanes will probably make room soon.
  private func mayWait(since deadline: inout Instant?) -> Bool {
    let now = shared.loop.now
    let end = deadline ?? now + Self.roomWait
    deadline = end
    return now < end && !shared.isHalted && shared.status.trouble == nil
  }

  /// Moves as much as the lanes have room for, without waiting for room.
  mutating func moveOutOfReservoir(through chunk: AudienceChunk) async {
    while !isReservoirEmpty, !ledger.isCancelled, let room = roomNow(for: chunk.entryLimit) {
      reservoir?.fill(chunk, limit: room.limit)
      var next = 0
      var origin = chunk.origin?.position ?? 0
      let count = await fill(room, from: chunk, next: &next, origin: &origin)
      reservoir?.took(count)
    }
  }

  private struct AllowedRoom {
    let lane: Lane
    /// How many notifications to write at most.
    let limit: Int
  }

  /// A lane with room, as far as the rate limit allows.
  private mutating func roomNow(for count: Int) -> AllowedRoom? {
    allowedAt = nil
    // What the rate limit allows is not for a reader that has to wait for another one.
    guard shared.scheduler.permits(ledger.rank) else { return nil }
    if allowedCount == 0 {
      let allowance = shared.rate.allowanceNow(upTo: count)
      allowedCount = allowance.count
      guard allowedCount > 0 else {
        allowedAt = allowance.nextAt
        return nil
      }
    }
    guard let room = shared.scheduler.roomNow(for: claim) else { return nil }
    wantsNoRoom()
    return AllowedRoom(lane: room.lane, limit: min(count, allowedCount, max(room.blockCount, Self.smallestClaim)))
  }

  @discardableResult
  private mutating func fill(
    _ room: AllowedRoom, from chunk: AudienceChunk, next: inout Int, origin: inout UInt64
  ) async -> Int {
    switch fill(room.lane, from: chunk, next: &next, origin: &origin, limit: room.limit) {
    case .took(let count):
      allowedCount -= count
      return count
    case .journalIsFull:
      await shared.journal?.room()
      return 0
    }
  }

  // MARK: Into the reservoir

  /// Writes entries of a chunk into the journal.
  private mutating func store(_ chunk: AudienceChunk, from next: inout Int) async {
    guard let journal = shared.journal, let campaign = ledger.journalNumber, let lane = reservoir?.lane,
      let end = reservoir?.end
    else {
      preconditionFailure("a reservoir without a journal")
    }
    let run = ChunkRun(
      chunk, from: next, limit: chunk.count - next, recordByteCountLimit: journal.recordByteCountLimit)
    guard run.count > 0 else {
      next = chunk.count
      return
    }
    let range = end..<(end + UInt64(run.blockCount))
    let taken = JournalledRun(lane: lane, range: range, campaign: campaign, count: run.count)
    guard let content = EnqueueContent(run.entries(of: chunk), shape: run.shape, run: taken),
      let stored = RecoveredRun(
        lane: lane, campaign: campaign, fate: .unsent, range: range, content: content, runStart: range.lowerBound)
    else { preconditionFailure("a record that cannot be read") }
    guard record(run, of: chunk, taken, { journal.store($0, content) }) else { return await journal.room() }
    ledger.submitted(run.count)
    reservoir?.append(stored)
    next = run.end
  }

  // MARK: Waiting

  /// Waits until there may be room, or something else has happened, at most until `deadline`.
  mutating func waitForRoom(until deadline: Instant?) async {
    if !wantsRoom {
      wantsRoom = true
      shared.scheduler.wanted(ledger.rank)
    }
    var end = deadline
    if let allowedAt {
      end = min(deadline ?? allowedAt, allowedAt)
    } else {
      shared.scheduler.signalRoom(ledger.readerSignal, for: claim)
    }
    let timer = end.map { [signal = ledger.readerSignal] in shared.loop.schedule(at: $0) { signal.set() } }
    await ledger.readerSignal.wait()
    timer?.cancel()
  }

  mutating func wantsNoRoom() {
    guard wantsRoom else { return }
    wantsRoom = false
    shared.scheduler.unwanted(ledger.rank)
  }
}
