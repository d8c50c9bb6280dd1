internal import PushJournal

/// One lane as the journal records it: what its ring has taken in, how far it may have been sent,
/// how far it is settled.
struct JournalledLane {
  /// What one enqueue record took in.
  struct Run {
    var run: JournalledRun
    /// The position of its record. The record's segment stays until the run is settled.
    var position: JournalPosition
    /// Where the valid part begins. The rest is in runs that were written again.
    var start: UInt64
    var end: UInt64
    var isInDoubt: Bool
    /// What was to be sent, of runs that an earlier process left; nil for others.
    var content: EnqueueContent?

    init(run: JournalledRun, position: JournalPosition, isInDoubt: Bool, content: EnqueueContent?) {
      (self.run, self.position, self.isInDoubt, self.content) = (run, position, isInDoubt, content)
      (start, end) = (run.range.lowerBound, run.range.upperBound)
    }
  }

  let number: UInt64
  let app: String
  /// A lane of this process. What other processes left is only taken away, never extended.
  var isLive = false
  /// Everything before it has left the ring.
  private(set) var settled: UInt64 = 0
  /// Ranges that have left the ring out of order.
  private var ahead = RangeSet()
  private(set) var intent: UInt64 = 0
  /// Runs in the order of the ring. Those before the index `firstRun` are settled.
  private var runs: [Run] = []
  private var firstRun = 0
  /// Settled runs that still hold returned notifications.
  private var kept: [Run] = []
  private var returned = ReturnedRuns()
  /// Ranges that already count as possible duplicates. They are kept per campaign, because each
  /// campaign has its own record and a crash may come between two records.
  private var doubted: [LaneRecord.Doubt] = []
  /// By campaign: everything before this position has continued in another lane, or was resolved.
  private var taken: [UInt64: UInt64] = [:]
  /// Ranges that moved to another lane of this process. They are in that lane's runs.
  private(set) var moved = RangeSet()

  init(number: UInt64, app: String) { (self.number, self.app) = (number, app) }

  // MARK: Events

  mutating func enqueued(_ run: Run, isRewritten: Bool) {
    guard isRewritten else {
      // Nearly always the last place. Of two claims, the second may be written first.
      var index = runs.count
      while index > firstRun, runs[index - 1].start > run.start { index -= 1 }
      runs.insert(run, at: index)
      return
    }
    if let index = kept.firstIndex(where: { $0.start..<$0.end == run.run.range }) {
      kept[index] = run
    } else {
      replace(run)
    }
  }

  /// Replaces the earlier record of the notifications in `new`. Notifications that are settled
  /// already may be missing in it.
  private mutating func replace(_ new: Run) {
    let range = new.run.range
    guard range.upperBound > settled else {
      // The first record was deleted with its segment, so this reader has never seen it.
      if isReturned(new) { kept.append(new) }
      return
    }
    var index = firstIndex(endingAfter: range.lowerBound)
    if index < runs.count, runs[index].start..<runs[index].end == range {
      runs[index] = new
      return
    }
    while index < runs.count, runs[index].start < range.upperBound {
      let run = runs[index]
      if run.end <= range.lowerBound {
        index += 1
        continue
      }
      if firstOpen(of: run) < range.lowerBound {
        // Its front has left the ring, and the outcomes are not written yet, or the reader has
        // missed them. So the front is not in `new`, and its record stays.
        runs[index].end = range.lowerBound
        index += 1
        if run.end > range.upperBound {
          var back = run
          back.start = range.upperBound
          runs.insert(back, at: index)
          break
        }
        continue
      }
      keepReturned(of: run, before: range.lowerBound)
      if run.end <= range.upperBound {
        runs.remove(at: index)
      } else {
        runs[index].start = range.upperBound
      }
    }
    runs.insert(new, at: index)
  }

  /// The position of the run's first notification that has not left the ring; the run's end if all
  /// have.
  private func firstOpen(of run: Run) -> UInt64 {
    let start = max(run.start, settled)
    guard start < run.end, !ahead.isEmpty else { return start }
    return ahead.holes(in: start..<run.end).first?.lowerBound ?? run.end
  }

  /// Keeps the returned part of a run that has left the ring up to `position`, because a rewritten
  /// record does not contain it.
  private mutating func keepReturned(of run: Run, before position: UInt64) {
    guard run.start < position else { return }
    var front = run
    front.end = position
    if isReturned(front) { kept.append(front) }
  }

  mutating func intended(through position: UInt64) { intent = max(intent, position) }

  /// The last connection's gateway discarded everything behind `position` unread. An earlier
  /// connection may have delivered some of it: that part is in `doubted`, or in runs that are in
  /// doubt.
  mutating func rewound(to position: UInt64, clearsDoubt: Bool = false) {
    intent = min(intent, position)
    if clearsDoubt { doubted.removeAll { $0.range.upperBound > position } }
  }

  mutating func settled(_ run: JournalledRun) {
    returned.settled(run.campaign)
    advance(to: run.range.upperBound)
  }

  /// Everything before `position` has left the ring.
  private mutating func advance(to position: UInt64) {
    settled = max(settled, position)
    while firstRun < runs.count, runs[firstRun].end <= settled {
      let run = runs[firstRun]
      if isReturned(run) { kept.append(run) }
      runs[firstRun].content = nil
      firstRun += 1
    }
    if firstRun >= 64, firstRun * 2 >= runs.count {
      runs.removeFirst(firstRun)
      firstRun = 0
    }
    doubted.removeAll { $0.range.upperBound <= settled }
  }

  mutating func returned(_ run: JournalledRun, isInDoubt: Bool) {
    returned.append(run, isInDoubt ? .doubted : .unsent)
    advance(to: run.range.upperBound)
  }

  /// A run anywhere in the lane has its outcome.
  mutating func answered(_ run: JournalledRun) {
    returned.answered(run)
    settleApart(run.range)
  }

  /// A run anywhere in the lane was returned.
  ///
  /// It is joined with the campaign's last returned run if no other notification of the campaign,
  /// open or gone, lies between them.
  mutating func withdrawn(_ run: JournalledRun, isInDoubt: Bool) {
    let fate = isInDoubt ? RecoveredRun.Fate.doubted : .unsent
    let joins = returned.gap(before: run, fate).map { !hasRun(of: run.campaign, in: $0) } ?? false
    returned.insert(run, fate, joins: joins)
    settleApart(run.range)
  }

  private mutating func settleApart(_ range: Range<UInt64>) {
    guard range.upperBound > settled else { return }
    ahead.insert(range)
    while let first = ahead.first, first.lowerBound <= settled || isLive && first.lowerBound <= firstOpen {
      ahead.removeFirst()
      advance(to: first.upperBound)
    }
  }

  /// Where the first run begins. In a lane of this process, which has seen every claim, everything
  /// before it is padding or settled. A reader may have missed runs that are written again later.
  private var firstOpen: UInt64 { firstRun < runs.count ? runs[firstRun].start : .max }

  private func isSettled(_ run: Run) -> Bool { run.end <= settled || ahead.contains(max(run.start, settled)..<run.end) }

  /// Whether `range` contains notifications of the campaign that were taken in and have not left
  /// the ring as a whole.
  private func hasRun(of campaign: UInt64, in range: Range<UInt64>) -> Bool {
    guard !range.isEmpty else { return false }
    var low = firstIndex(endingAfter: range.lowerBound)
    while low < runs.count, runs[low].start < range.upperBound {
      if runs[low].run.campaign == campaign { return true }
      low += 1
    }
    return false
  }

  /// The first run in the ring that ends behind `position`.
  private func firstIndex(endingAfter position: UInt64) -> Int {
    var low = firstRun
    var high = runs.count
    while low < high {
      let middle = (low + high) / 2
      if runs[middle].end <= position { low = middle + 1 } else { high = middle }
    }
    return low
  }

  private func isReturned(_ run: Run) -> Bool { returned.overlaps(run.start..<run.end, of: run.run.campaign) }

  mutating func doubted(_ run: JournalledRun) {
    // If nothing is in doubt for the first time, earlier records cover the whole run.
    guard run.count > 0, run.range.upperBound > settled else { return }
    doubted.append(LaneRecord.Doubt(campaign: run.campaign, range: run.range))
  }

  mutating func took(campaign: UInt64, through position: UInt64) {
    taken[campaign] = max(taken[campaign] ?? 0, position)
  }

  /// The notifications in `range` are in another lane now.
  mutating func moved(_ range: Range<UInt64>) {
    moved.insert(range)
    settleApart(range)
  }

  /// Some events are not known any more. So the remaining records no longer prove that anything is
  /// unsent.
  mutating func distrust() {
    intent = max(intent, 1 << 62)
    returned.distrust()
  }

  // MARK: What is left

  /// Forgets runs with nothing left.
  mutating func prune(isEnded: (UInt64) -> Bool) {
    let taken = taken
    func isGone(_ campaign: UInt64, _ end: UInt64) -> Bool { isEnded(campaign) || end <= taken[campaign] ?? 0 }
    returned.prune(isGone: { isGone($0, $1) }, isEnded: isEnded)
    kept = kept.filter { !isGone($0.run.campaign, $0.end) && isReturned($0) }
    guard !isLive else {
      // Runs that left the ring out of order need no record any more. They may be rewritten with
      // the rest of the ring, but not once their campaign is forgotten. Then they must not keep old
      // segments.
      runs = runs[firstRun...].filter { !isSettled($0) || isReturned($0) }
      firstRun = 0
      // Returned runs on both sides of it are reported as one range, and for their readers it is a
      // hole.
      let needed = returned.start(before: settled)
      moved.keep { $0.upperBound > needed }
      return
    }
    let open = runs[firstRun...].filter { !isGone($0.run.campaign, $0.end) }
    kept += open.filter { isSettled($0) && isReturned($0) }
    runs = open.filter { !isSettled($0) }
    firstRun = 0
  }

  var isEmpty: Bool { firstRun == runs.count && kept.isEmpty }

  /// The oldest record that is still needed.
  var oldestPosition: JournalPosition? {
    let oldestKept = kept.map(\.position).min()
    guard firstRun < runs.count else { return oldestKept }
    // If runs were written again, the first need not be the oldest.
    let oldest = runs[firstRun...].lazy.map(\.position).min()
    return [oldestKept, oldest].compactMap { $0 }.min()
  }

  /// The campaigns whose notifications it may hold.
  var campaigns: Set<UInt64> { Set((kept + runs[firstRun...]).map(\.run.campaign)) }

  /// Notifications of the campaign that an earlier process left without an outcome, in the order of
  /// the ring.
  func recoveredRuns(of campaign: UInt64) -> [RecoveredRun] {
    var found: [RecoveredRun] = []
    let taken = taken[campaign] ?? 0
    let runs = self.runs[firstRun...].filter { $0.run.campaign == campaign }
    let pieces = returned.pieces(of: campaign)
    // Progress is a watermark, so they must be in the order of the ring.
    let partlyReturned =
      pieces.isEmpty ? [] : (kept.filter { $0.run.campaign == campaign } + runs).sorted { $0.start < $1.start }
    for piece in pieces {
      for run in partlyReturned {
        let from = max(run.start, piece.run.range.lowerBound, taken)
        add(run, from, min(run.end, piece.run.range.upperBound), piece.fate, to: &found)
      }
    }
    let doubted = doubted.filter { $0.campaign == campaign }.map(\.range).sorted { $0.lowerBound < $1.lowerBound }
    for run in runs {
      let start = max(run.start, settled, taken)
      guard start < run.end else { continue }
      for hole in ahead.holes(in: start..<run.end) { addOpen(hole, of: run, doubted: doubted, to: &found) }
    }
    // Progress is a watermark, so they are resumed in the order of the ring.
    return found.sorted { $0.range.lowerBound < $1.range.lowerBound }
  }

  /// Adds the part of a run that has no outcome.
  ///
  /// Notifications that were sent again count as possible duplicates already. They may also lie
  /// behind the intent: it is rewound when the last connection has discarded what an earlier one
  /// may have delivered.
  private func addOpen(_ open: Range<UInt64>, of run: Run, doubted: [Range<UInt64>], to found: inout [RecoveredRun]) {
    var position = open.lowerBound
    for range in doubted where range.upperBound > position && range.lowerBound < open.upperBound {
      let (from, to) = (max(range.lowerBound, position), min(range.upperBound, open.upperBound))
      addUndoubted(position..<from, of: run, to: &found)
      add(run, from, to, .doubted, to: &found)
      position = to
    }
    addUndoubted(position..<open.upperBound, of: run, to: &found)
  }

  /// Adds the part that is in no doubted range.
  private func addUndoubted(_ range: Range<UInt64>, of run: Run, to found: inout [RecoveredRun]) {
    let boundary = min(max(intent, range.lowerBound), range.upperBound)
    add(run, range.lowerBound, boundary, run.isInDoubt ? .doubted : .unknown, to: &found)
    add(run, boundary, range.upperBound, run.isInDoubt ? .doubted : .unsent, to: &found)
  }

  private func add(_ run: Run, _ from: UInt64, _ to: UInt64, _ fate: RecoveredRun.Fate, to found: inout [RecoveredRun])
  {
    guard from < to, let content = run.content else { return }
    for range in moved.holes(in: from..<to) {
      let start = run.run.range.lowerBound
      let recovered = RecoveredRun(
        lane: number, campaign: run.run.campaign, fate: fate, range: range, content: content, runStart: start)
      if let recovered { found.append(recovered) }
    }
  }

  /// What was left of the campaign, where it lacks tokens.
  func contentsWithoutTokens(of campaign: UInt64) -> [EnqueueContent] {
    (kept + runs[firstRun...]).filter { $0.run.campaign == campaign }.compactMap(\.content).filter(\.lacksTokens)
  }

  /// Replaces contents of the campaign by the same with tokens. Those of another one may be equal,
  /// and lie in another file.
  mutating func replaceContents(of campaign: UInt64, _ contents: [EnqueueContent: EnqueueContent]) {
    func replace(_ run: inout Run) {
      if run.run.campaign == campaign { run.content = run.content.map { contents[$0] ?? $0 } }
    }
    for index in kept.indices { replace(&kept[index]) }
    for index in runs.indices { replace(&runs[index]) }
  }

  /// The notifications of `run`, from the lane's runs of its campaign.
  func contents(of run: JournalledRun) -> [RecoveredRun] {
    var found: [RecoveredRun] = []
    for entry in kept + runs[firstRun...] where entry.run.campaign == run.campaign {
      add(entry, max(entry.start, run.range.lowerBound), min(entry.end, run.range.upperBound), .unknown, to: &found)
    }
    return found
  }

  /// Runs whose records lie before `position`, the oldest record first.
  func runs(before position: JournalPosition) -> [Run] {
    (kept + runs[firstRun...]).filter { $0.position < position }.sorted { $0.position < $1.position }
  }

  /// Where in the ring the runs end whose records lie before `position`. Nil if there are none, or
  /// none is in the ring any more: then the lane could not write them again.
  func end(before position: JournalPosition) -> UInt64? {
    runs[firstRun...].last { $0.position < position && !isSettled($0) }?.end
  }

  /// Notifications that are not known to be settled.
  var unsettledCount: Int { runs[firstRun...].reduce(0) { $0 + $1.run.count } + kept.reduce(0) { $0 + $1.run.count } }

  /// An estimate of the bytes in records of notifications that are not known to be settled. Where
  /// the content is not in memory: a token and its share of a header, without a payload.
  var unsettledByteCount: Int {
    func byteCount(_ run: Run) -> Int { run.content?.bytes.count ?? run.run.count * 34 }
    return runs[firstRun...].reduce(0) { $0 + byteCount($1) } + kept.reduce(0) { $0 + byteCount($1) }
  }
}

// MARK: - As a record

extension JournalledLane {
  /// What a checkpoint writes.
  var record: LaneRecord {
    var record = LaneRecord(number: number, app: app)
    (record.settled, record.intent) = (settled, intent)
    record.returned = returned.pieces
    record.doubted = doubted
    (record.taken, record.ahead, record.moved) = (taken, ahead, moved)
    return record
  }

  /// - Parameter earlier: the same lane by the earlier records. Its runs are taken over.
  init(_ record: LaneRecord, runsOf earlier: JournalledLane?) {
    self.init(number: record.number, app: record.app)
    intent = record.intent
    doubted = record.doubted
    (taken, ahead, moved) = (record.taken, record.ahead, record.moved)
    if let earlier {
      (runs, firstRun, kept) = (earlier.runs, earlier.firstRun, earlier.kept)
      // A writer forgets a reservoir that is empty at a checkpoint, and begins it anew with the
      // next notification. Its earlier records may still be there.
      taken.merge(earlier.taken, uniquingKeysWith: max)
    }
    returned = ReturnedRuns(record.returned, leftThrough: max(record.settled, ahead.ranges.last?.upperBound ?? 0))
    advance(to: record.settled)
  }
}
