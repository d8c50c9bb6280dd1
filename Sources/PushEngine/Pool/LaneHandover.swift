internal import PushTransport
internal import PushWire

/// A lane moves notifications that it cannot send soon to lanes that can.
///
/// Success over the binary protocol is silent. So a lane has often sent a whole audience before the
/// first refusal shows that nearly all of it must be sent again. At the end of a campaign, some
/// lanes have more bad tokens left than others. When a connection has ended in a refusal, nothing
/// is in flight, so the notifications behind the refused one can move to another lane.
extension Lane {
  /// Blocks that a lane keeps in any case.
  ///
  /// Normally as much as a connection may send at once, so that most connections have something to
  /// refuse. At the campaign's end, as much as one connection gets done. At most two full batches
  /// of usual notifications.
  static func smallestShare(_ statistics: RefusalStatistics, isDraining: Bool) -> Int {
    guard let gap = statistics.gap else { return 512 }
    return Int(min(max(64, gap * (isDraining ? 1 : 5)), 512))
  }

  /// Moves what exceeds this lane's share of all that the app's lanes hold. Moves everything if
  /// another lane has a spare connection and room for it.
  ///
  /// - Parameters:
  ///   - smallest: blocks; moving less is not worth the work.
  ///   - start: everything before it is settled, and nothing behind it is in flight.
  ///   - highWater: everything before it has been sent at least once.
  ///   - sentAgain: reports how many notifications of a campaign were sent here before they moved.
  ///     The other lane does not know that.
  nonisolated func shareBacklog(
    notUnder smallest: Int, from start: UInt64, highWater: UInt64, sentAgain: (Int, CampaignLedger) -> Void
  ) {
    let published = ring.published
    let others = shared.scheduler.lanes.filter { $0 !== self }
    guard published > start, !others.isEmpty, !shared.campaigns.isCancelled else { return }
    let held = backlog.backlog(of: ring)
    if let spare = others.first(where: { $0.isSpare }), held <= spare.backlog.blockCount {
      give(from: start, before: published, to: spare, blockCount: held, highWater: highWater, sentAgain: sentAgain)
      return
    }
    let all = others.reduce(held) { $0 + $1.backlog.backlog(of: $1.ring) }
    let share = max(min(smallest, ring.blockCount / 8), all / (others.count + 1))
    // Moving slightly more than a share is not worth the work.
    guard held > share + share / 2 else { return }
    var position = recordStart(after: UInt64(share), from: start, before: published)
    for lane in others where position < published {
      let room = share - lane.backlog.backlog(of: lane.ring)
      position = give(
        from: position, before: published, to: lane, blockCount: room, highWater: highWater, sentAgain: sentAgain)
    }
  }

  /// Moves as much as another lane can take. Returns where the rest begins.
  @discardableResult
  private nonisolated func give(
    from start: UInt64, before limit: UInt64, to lane: Lane, blockCount: Int, highWater: UInt64,
    sentAgain: (Int, CampaignLedger) -> Void
  ) -> UInt64 {
    var (position, room) = (start, blockCount)
    while room > 0, position < limit {
      let first = ring.record(at: position)
      guard first.isNotification else {
        position += first.blockCount
        continue
      }
      guard
        let end = move(
          from: position, before: limit, to: lane, blockCount: room, highWater: highWater, sentAgain: sentAgain)
      else { break }
      room -= Int(end - position)
      position = end
    }
    lane.published()
    return position
  }

  /// Where the record behind `blockCount` blocks of notifications begins. Ranges that moved to
  /// other lanes earlier may lie between.
  private nonisolated func recordStart(after blockCount: UInt64, from start: UInt64, before end: UInt64) -> UInt64 {
    var (position, left) = (start, blockCount)
    while position < end, left > 0 {
      let record = ring.record(at: position)
      if record.isNotification { left -= min(left, record.blockCount) }
      position += record.blockCount
    }
    return position
  }

  /// Moves neighbouring notifications of one campaign. Returns where the next ones begin; nil if
  /// the other lane or the journal has no room.
  private nonisolated func move(
    from start: UInt64, before limit: UInt64, to lane: Lane, blockCount: Int, highWater: UInt64,
    sentAgain: (Int, CampaignLedger) -> Void
  ) -> UInt64? {
    let first = ring.record(at: start)
    guard let ledger = shared.campaigns[first.campaign], !ledger.isCancelled else { return nil }
    let byteCountLimit = shared.journal.map { $0.recordByteCountLimit - EnqueueHeader.byteCountLimit } ?? .max
    let wanted = RingRun(
      ring, from: start, before: min(limit, start + UInt64(blockCount)), byteCountLimit: byteCountLimit)
    guard var claim = lane.ring.claim(minimum: Int(first.blockCount), maximum: Int(wanted.end - start)) else {
      return nil
    }
    let run = RingRun(
      ring, from: start, before: wanted.end, byteCountLimit: byteCountLimit, blockCountLimit: claim.remainingBlockCount)
    let isInDoubt = first.mayHaveArrived
    guard write(run, of: ledger, from: start, to: lane, at: claim.position, isInDoubt: isInDoubt) else { return nil }
    var position = start
    while position < run.end {
      let record = ring.record(at: position)
      let header = RingRecord.Header(
        ordinal: record.ordinal, campaign: record.campaign, expiration: record.expiration, priority: record.priority,
        mayHaveArrived: record.mayHaveArrived)
      let fits = unsafe claim.append(header, token: record.token, headers: record.ownHeaders, payload: record.payload)
      precondition(fits, "a record that does not fit a claim of its size")
      position += record.blockCount
    }
    claim.publish()
    ring.withdraw(from: start, to: run.end)
    backlog.withdrew(start..<run.end)
    if start < highWater { sentAgain(run.shape.count, ledger) }
    return run.end
  }

  /// The claim is journaled before the other lane can see it. False: the journal has no room.
  private nonisolated func write(
    _ run: RingRun, of ledger: CampaignLedger, from start: UInt64, to lane: Lane, at position: UInt64, isInDoubt: Bool
  ) -> Bool {
    guard let journal = shared.journal, let campaign = ledger.journalNumber, let source = journalNumber,
      let number = lane.journalNumber
    else { return true }
    let range = position..<(position + (run.end - start))
    let taken = JournalledRun(lane: number, range: range, campaign: campaign, count: run.shape.count)
    var header = EnqueueHeader(run: taken, position: nil, isInDoubt: isInDoubt)
    header.source = EnqueueHeader.Source(lane: source, range: start..<run.end, newlyDoubted: 0)
    header.isMoved = true
    return journal.enqueue(header, run.shape, run)
  }
}
