internal import PushTransport
internal import PushWire

/// Reading an audience that never waits for a gateway: what no lane has room for goes into the
/// journal, and from there into the lanes as soon as they have room.
extension CampaignReader {
  /// How long a chunk waits for room before it is written into the journal without a lane. Lanes
  /// that work make room within this time, and then nothing is written twice.
  private static let patience = Duration.milliseconds(100)

  /// The same as ``submit(_:chunk:)``, for an audience with a reservoir.
  ///
  /// - Parameter chunks: with room for any payload. While the audience has nothing, none of them is
  ///   in use here.
  mutating func submit(
    _ audience: some AudienceSource, chunks: ChunkPool, storing reservoir: consuming Reservoir
  ) async throws(AudienceError) {
    var reservoir = reservoir
    var chunk = chunks.take()
    defer { chunks.give(chunk) }
    audience.attach(ledger.readerSignal)
    perSecond = audience.perSecond
    defer { wantsNoRoom() }
    while !ledger.isCancelled {
      guard !ledger.isPaused else {
        wantsNoRoom()
        await waitForSignal()
        continue
      }
      await move(&reservoir, through: chunk)
      switch try audience.fill(chunk) {
      case .end where reservoir.isEmpty:
        return audienceEnded()
      case .end, .waiting:
        if reservoir.isEmpty {
          wantsNoRoom()
          chunks.give(chunk)
          await waitForSignal()
          chunk = chunks.take()
        } else {
          await waitForRoom(until: nil)
        }
      case .nothingYet: await shared.rate.pause(Self.pause)
      case .nothingFor(let duration): await shared.rate.pause(duration)
      case .entries: await submit(chunk, storing: &reservoir)
      }
    }
    let (rest, takenCount) = reservoir.rest
    leave(rest, behind: takenCount)
    for run in rest { reservoir.gauge.remove(count: run.count, byteCount: run.memoryByteCount) }
    reservoir.gauge.add(count: takenCount, byteCount: 0)
  }

  // MARK: Into lanes

  /// Takes in a chunk: into a lane as long as one has room and nothing older waits, otherwise into
  /// the reservoir.
  private mutating func submit(_ chunk: AudienceChunk, storing reservoir: inout Reservoir) async {
    rejectMalformed(chunk)
    var next = firstNew(in: chunk)
    var origin: UInt64 = 0
    var deadline: Instant?
    while next < chunk.count, !ledger.isCancelled {
      guard reservoir.isEmpty else {
        await store(chunk, from: &next, in: &reservoir)
        continue
      }
      if let room = roomNow(for: chunk.count - next) {
        await fill(room, from: chunk, next: &next, origin: &origin)
      } else if mayWait(since: &deadline) {
        await waitForRoom(until: deadline)
      } else {
        await store(chunk, from: &next, in: &reservoir)
      }
    }
    took(chunk, before: next)
  }

  /// Whether lanes will probably make room soon.
  private func mayWait(since deadline: inout Instant?) -> Bool {
    let now = shared.loop.now
    let end = deadline ?? now + Self.patience
    deadline = end
    return now < end && !shared.isHeld && shared.status.trouble == nil
  }

  /// Moves as much as the lanes have room for, without waiting for room.
  private mutating func move(_ reservoir: inout Reservoir, through chunk: AudienceChunk) async {
    while !reservoir.isEmpty, !ledger.isCancelled, let room = roomNow(for: chunk.entryLimit) {
      reservoir.fill(chunk, limit: room.limit)
      var next = 0
      var origin = chunk.origin?.position ?? 0
      reservoir.took(await fill(room, from: chunk, next: &next, origin: &origin))
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
  private mutating func store(_ chunk: AudienceChunk, from next: inout Int, in reservoir: inout Reservoir) async {
    guard let journal = shared.journal, let campaign = ledger.journalNumber else {
      preconditionFailure("a reservoir without a journal")
    }
    let run = ChunkRun(
      chunk, from: next, limit: chunk.count - next, recordByteCountLimit: journal.recordByteCountLimit)
    guard run.count > 0 else {
      next = chunk.count
      return
    }
    let range = reservoir.end..<(reservoir.end + UInt64(run.blockCount))
    let taken = JournalledRun(lane: reservoir.lane, range: range, campaign: campaign, count: run.count)
    guard let content = EnqueueContent(run.entries(of: chunk), shape: run.shape, run: taken),
      let stored = RecoveredRun(
        lane: reservoir.lane, campaign: campaign, fate: .unsent, range: range, content: content,
        runStart: range.lowerBound)
    else { preconditionFailure("a record that cannot be read") }
    guard record(run, of: chunk, taken, { journal.store($0, content) }) else { return await journal.room() }
    ledger.submitted(run.count)
    reservoir.append(stored)
    next = run.end
  }

  // MARK: Waiting

  /// Waits until there may be room, or something else has happened, at most until `deadline`.
  private mutating func waitForRoom(until deadline: Instant?) async {
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

  private mutating func wantsNoRoom() {
    guard wantsRoom else { return }
    wantsRoom = false
    shared.scheduler.unwanted(ledger.rank)
  }
}
