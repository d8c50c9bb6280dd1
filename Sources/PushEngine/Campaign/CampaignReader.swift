internal import PushTransport
internal import PushWire

/// Moves a campaign from its audience into the rings of its app's lanes, a chunk at a time, as fast
/// as the lanes accept it.
///
/// With a journal, an enqueue record is written before a lane can see the notifications.
struct CampaignReader {
  let ledger: CampaignLedger
  let shared: AppShared
  private let policy: LanePolicy
  private var progress: AudienceProgress?
  /// What of the audience was not read; nil if it was read to its end.
  private(set) var unread: UnreadAudience?
  /// What was taken in and has no lane yet; nil: this reader waits for lanes.
  var reservoir: Reservoir?
  /// The first entry of the current chunk that was not taken in.
  private var nextIndex = 0
  /// The scheduler counts this reader among those that want room.
  var wantsRoom = false
  /// How many notifications the rate limit has allowed and no lane has taken yet.
  var allowedCount = 0
  /// When the rate limit allows the next one, if it allows none now.
  var allowedAt: Instant?

  /// The audience's own rate.
  private let pace: CampaignPace?

  /// The pause before an idle pipe is read again.
  static let pause = Duration.milliseconds(10)
  static let smallestClaim = 64

  init(
    ledger: CampaignLedger, shared: AppShared, policy: LanePolicy, journalled: JournalledCampaign?, pace: CampaignPace?
  ) {
    (self.ledger, self.shared, self.policy, self.pace) = (ledger, shared, policy, pace)
    progress = journalled.map(AudienceProgress.init)
    // How long they had waited before is not known.
    if let line = progress?.lastLine, line > 0 { ledger.ages.took(through: line, now: shared.loop.now) }
    unread =
      journalled.map { UnreadAudience(mark: $0.readLine == 0 ? nil : $0.mark, line: $0.readLine + 1) }
      ?? UnreadAudience()
  }

  // MARK: Recovered runs

  /// Sends what an earlier process took in, or settles it, as the policy says.
  ///
  /// - Parameter gauge: counts them until they are in lanes.
  mutating func submit(_ recoveredRuns: [RecoveredRun], from gauge: ReservoirGauge? = nil) async {
    var left = (count: recoveredRuns.map(\.count).reduce(0, +), byteCount: 0)
    left.byteCount = recoveredRuns.map(\.memoryByteCount).reduce(0, +)
    gauge?.add(count: left.count, byteCount: left.byteCount)
    func took(_ count: Int) {
      guard let gauge, count > 0 else { return }
      let byteCount = left.byteCount * count / left.count
      left = (left.count - count, left.byteCount - byteCount)
      gauge.remove(count: count, byteCount: byteCount)
    }
    defer { took(left.count) }
    var audience = RecoveredAudience(recoveredRuns)
    let chunk = AudienceChunk(
      entryLimit: pace?.entryLimit ?? AudienceChunk.defaultEntryLimit,
      payloadCapacity: AudienceChunk.defaultPayloadCapacity)
    var taken = 0
    while !ledger.isCancelled {
      if let recovered = audience.untouched,
        let outcome = recovered.outcomeWithoutTokens ?? policy.outcome(of: recovered.fate)
      {
        resolve(recovered, outcome)
        taken += recovered.count
        took(recovered.count)
        audience.skip()
        continue
      }
      if let pause = pace?.pause {
        await shared.rate.pause(pause)
        continue
      }
      guard audience.fill(chunk) else { break }
      pace?.sends(chunk.count)
      let count = await submit(chunk)
      taken += count
      took(count)
    }
    leave(recoveredRuns, behind: taken)
  }

  /// Leaves the rest in the journal. This process did not send it, but an earlier one may have.
  func leave(_ recoveredRuns: [RecoveredRun], behind taken: Int) {
    var taken = taken
    for recovered in recoveredRuns {
      let skipped = min(taken, recovered.count)
      taken -= skipped
      guard skipped < recovered.count else { continue }
      let outcome = recovered.fate.outcomeUnsent
      ledger.report(recovered, outcome, skipping: skipped)
      if ledger.isAbandoned {
        let run = JournalledRun(
          lane: recovered.lane, range: recovered.range, campaign: recovered.campaign, count: recovered.count - skipped)
        shared.journal?.record(.resolved(run, outcome))
      }
      ledger.settled(recovered.count - skipped, outcome)
    }
  }

  private func resolve(_ recovered: RecoveredRun, _ outcome: Outcome) {
    ledger.report(recovered, outcome)
    let run = JournalledRun(
      lane: recovered.lane, range: recovered.range, campaign: recovered.campaign, count: recovered.count)
    shared.journal?.record(.resolved(run, outcome))
    ledger.settled(recovered.count, outcome)
  }

  /// What it wants in a lane.
  var claim: LaneScheduler.Claim {
    let own = pace.map { SendingRate.unconnectedLimit(perSecond: $0.perSecond) } ?? .max
    return LaneScheduler.Claim(rank: ledger.rank, unconnectedLimit: min(own, shared.rate.unconnectedLimit))
  }

  // MARK: The audience

  /// Sends to the audience until it ends, or the campaign is cancelled. With a reservoir, nothing
  /// waits for a lane: what none has room for goes into the journal, and from there into the lanes.
  ///
  /// - Parameter chunks: with room for any payload. None of them is in use while the audience has
  ///   nothing.
  /// - Returns: the last chunk; what of it is left, if the campaign was cancelled, stands in it.
  mutating func submit(_ audience: some AudienceSource, chunks: ChunkPool) async throws(AudienceError) -> AudienceChunk
  {
    var chunk = chunks.take()
    audience.attach(ledger.readerSignal)
    defer { wantsNoRoom() }
    while !ledger.isCancelled {
      guard !ledger.isPaused else {
        wantsNoRoom()
        await waitForSignal()
        continue
      }
      await moveOutOfReservoir(through: chunk)
      switch try audience.fill(chunk) {
      case .end where isReservoirEmpty:
        unread = nil
        return chunk
      case .end, .waiting:
        if isReservoirEmpty {
          wantsNoRoom()
          chunks.give(chunk)
          await waitForSignal()
          chunk = chunks.take()
        } else {
          await waitForRoom(until: nil)
        }
      case .nothingYet: await shared.rate.pause(Self.pause)
      case .nothingFor(let duration): await shared.rate.pause(duration)
      case .entries:
        ledger.ages.took(through: chunk[chunk.count - 1].line, now: shared.loop.now)
        let outcome = policy.outcome(of: chunk.fate)
        settleUnsent(chunk, outcome)
        if outcome != nil {
          nextIndex = chunk.count
        } else if reservoir == nil {
          _ = await submit(chunk) { audience.recorded(through: $0) }
        } else {
          nextIndex = await submitOrStore(chunk, of: audience)
        }
        took(chunk, before: nextIndex)
        if reservoir == nil { audience.recorded(through: progress?.lastLine ?? chunk[chunk.count - 1].line) }
      }
    }
    leaveReservoir()
    return chunk
  }

  /// The campaign was cancelled for good: what was not taken in is settled. The journal keeps its
  /// position: a process that continues, because this one crashes or ends, settles the same rest.
  mutating func settleRest(of audience: some AudienceSource, chunk: AudienceChunk) async throws(AudienceError) {
    guard unread != nil else { return }
    shared.readerWaits()
    defer { shared.readerContinues() }
    // What cannot be sent of the current chunk was settled when it was read.
    for index in min(nextIndex, chunk.count)..<chunk.count where chunk[index].kind == .ready {
      ledger.settledAtIntake(line: chunk[index].line, token: chunk.text(of: chunk[index]), .cancelled)
    }
    let isWhole = try await audience.settleRest(
      chunk, behind: progress?.lastLine ?? 0, signal: ledger.readerSignal, as: .cancelled,
      while: { !ledger.leavesRest }, ledger.settledAtIntake)
    if ledger.journalNumber != nil { ledger.flushReports() }
    if isWhole { unread = nil }
  }

  /// Everything of the chunk before `end` was taken in.
  private mutating func took(_ chunk: AudienceChunk, before end: Int) {
    unread = UnreadAudience(chunk, from: end)
    if let number = ledger.journalNumber, let rest = progress?.recordRest(of: chunk) {
      shared.journal?.record(.position(campaign: number, rest))
    }
  }

  /// The first entry of the chunk that the journal does not have.
  func firstNew(in chunk: AudienceChunk) -> Int { chunk.origin == nil ? progress?.recordedCount ?? 0 : 0 }

  /// This reader adds nothing while it waits, so lanes confirm what they have sent.
  func waitForSignal() async {
    shared.readerWaits()
    await ledger.readerSignal.wait()
    shared.readerContinues()
  }

  /// Settles what cannot be sent; with an outcome for those that could be, all of it.
  private mutating func settleUnsent(_ chunk: AudienceChunk, _ outcome: Outcome?) {
    progress?.began(chunk)
    if outcome != nil { progress?.passedOver() }
    guard chunk.readyCount < chunk.count || outcome != nil else { return }
    for index in (progress?.recordedCount ?? 0)..<chunk.count {
      let entry = chunk[index]
      guard let outcome = entry.kind.outcome ?? outcome else { continue }
      ledger.settledAtIntake(line: entry.line, token: chunk.text(of: entry), outcome)
    }
    if progress != nil { ledger.flushReports() }
  }

  /// Takes in the entries of a chunk that can be sent. Returns their number, which is lower only
  /// when the campaign was cancelled.
  ///
  /// - Parameter recorded: gets the last line that the journal has, if there is one.
  private mutating func submit(_ chunk: AudienceChunk, recorded: (UInt64) -> Void = { _ in }) async -> Int {
    var taken = 0
    var next = firstNew(in: chunk)
    defer { nextIndex = next }
    var origin = chunk.origin?.position ?? 0
    while next < chunk.count {
      let isCancelled = { [ledger] in ledger.isCancelled }
      while ledger.isPaused, !ledger.isCancelled { await waitForSignal() }
      let allowed = await shared.rate.allowance(upTo: chunk.count - next, isCancelled: isCancelled)
      guard allowed > 0 else { return taken }
      var left = allowed
      while left > 0, next < chunk.count {
        guard
          let room = await shared.scheduler.room(for: claim, isCancelled: isCancelled)
        else { return taken }
        // A notification takes at least one block. Each claim has a fixed cost, so a claim is not
        // too small.
        let limit = min(left, max(room.blockCount, Self.smallestClaim))
        switch fill(room.lane, from: chunk, next: &next, origin: &origin, limit: limit) {
        case .took(let count):
          left -= count
          taken += count
          if next > 0 { recorded(progress?.lastLine ?? chunk[next - 1].line) }
        case .journalIsFull: await shared.journal?.room()
        }
      }
    }
    return taken
  }

  enum Filling {
    case took(Int)
    case journalIsFull
  }

  /// Writes up to `limit` of the chunk's entries, from `next` on, into the lane's ring as one
  /// claim.
  mutating func fill(
    _ lane: Lane, from chunk: AudienceChunk, next: inout Int, origin: inout UInt64, limit: Int
  ) -> Filling {
    let wanted = ChunkRun(chunk, from: next, limit: limit, recordByteCountLimit: shared.journal?.recordByteCountLimit)
    guard wanted.count > 0 else {
      next = chunk.count
      return .took(0)
    }
    guard var claim = lane.ring.claim(minimum: wanted.firstBlockCount, maximum: wanted.blockCount) else {
      return .took(0)
    }
    let run = wanted.prefix(blockCount: claim.remainingBlockCount)
    if let journal = shared.journal, !write(run, of: chunk, at: claim.position, origin: origin, of: lane, to: journal) {
      // No lane has seen the claim, so it becomes padding.
      claim.publish()
      lane.published()
      return .journalIsFull
    }
    // Counted before a lane can see them, so that the account never has more outcomes than
    // submissions.
    if chunk.origin == nil { ledger.submitted(run.count) }
    let mayHaveArrived = chunk.fate != .unsent
    let countsCopies = mayHaveArrived && chunk.origin != nil
    ledger.mayHaveArrivedTwice(newlyDoubtedCount(run, of: chunk), copies: countsCopies ? run.count : 0)
    if countsCopies, ledger.wantsDoubt {
      let entries = (run.first..<run.end).lazy.map { chunk[$0] }
      ledger.reportDoubt(lines: entries.filter { $0.kind == .ready }.map(\.line))
    }
    append(run, of: chunk, mayHaveArrived: mayHaveArrived, to: &claim)
    next = run.end
    origin += UInt64(run.blockCount)
    claim.publish()
    lane.published()
    return .took(run.count)
  }

  private func append(_ run: ChunkRun, of chunk: AudienceChunk, mayHaveArrived: Bool, to claim: inout RingClaim) {
    let range = run.first..<run.end
    if let tokens = unsafe chunk.plainTokens(range) {
      let fits = unsafe claim.append(
        campaign: ledger.frames.campaign, mayHaveArrived: mayHaveArrived, tokens: tokens,
        ordinals: UnsafeRawPointer(chunk.entries + run.first), stride: MemoryLayout<AudienceEntry>.stride)
      precondition(fits, "a run that does not fit its claim")
      return
    }
    for index in range {
      let entry = chunk[index]
      guard entry.kind == .ready else { continue }
      var header = RingRecord.Header(
        ordinal: entry.line, campaign: ledger.frames.campaign, mayHaveArrived: mayHaveArrived)
      let fits: Bool
      if entry.headersCode != 0 {
        let headers = chunk.ownHeaders(of: entry)
        header.expiration = headers.expiration
        fits = unsafe claim.append(
          header, token: chunk.token(of: entry), headers: headers, payload: chunk.payload(of: entry))
      } else {
        fits = unsafe claim.append(header, token: chunk.token(of: entry), payload: chunk.payload(of: entry))
      }
      precondition(fits, "a run that does not fit its claim")
    }
  }

  private mutating func write(
    _ run: ChunkRun, of chunk: AudienceChunk, at position: UInt64, origin: UInt64, of lane: Lane,
    to journal: EngineJournal
  ) -> Bool {
    guard let campaign = ledger.journalNumber, let number = lane.journalNumber else { return true }
    let taken = JournalledRun(
      lane: number, range: position..<(position + UInt64(run.blockCount)), campaign: campaign, count: run.count)
    guard let from = chunk.origin else {
      return record(run, of: chunk, taken) { journal.enqueue($0, run.shape, run.entries(of: chunk)) }
    }
    var header = EnqueueHeader(run: taken, position: nil)
    let range = origin..<(origin + UInt64(run.blockCount))
    header.source = EnqueueHeader.Source(lane: from.lane, range: range, newlyDoubted: newlyDoubtedCount(run, of: chunk))
    header.isInDoubt = chunk.fate != .unsent
    return journal.enqueue(header, run.shape, run.entries(of: chunk))
  }

  /// Writes an enqueue record with entries that were read from the audience, and the position
  /// behind them.
  mutating func record(
    _ run: ChunkRun, of chunk: AudienceChunk, _ taken: JournalledRun, _ write: (EnqueueHeader) -> Bool
  ) -> Bool {
    let end = shared.journal?.plantedMistake == .positionsRunAhead ? chunk.count : run.end
    let position = progress?.position(before: end, of: chunk)
    let header = EnqueueHeader(run: taken, position: position, isInDoubt: chunk.fate != .unsent)
    guard write(header) else { return false }
    if let position { progress?.recorded(position, before: end) }
    return true
  }

  /// The number of notifications that may have arrived and did not count as possible duplicates
  /// before.
  private func newlyDoubtedCount(_ run: ChunkRun, of chunk: AudienceChunk) -> Int {
    chunk.fate == .unknown && shared.journal?.plantedMistake != .doubtIsNotCounted ? run.count : 0
  }
}

extension LanePolicy {
  /// The outcome of a recovered run that is not sent again; nil if it is sent.
  fileprivate func outcome(of fate: RecoveredRun.Fate) -> Outcome? {
    switch (fate, onUnknown) {
    case (.unsent, _), (_, .resend): nil
    case (_, .hold): .held
    case (_, .drop): .unknown
    }
  }
}
