internal import PushJournal

/// One lane as the journal knows it: what its ring has taken in, how far it may have been sent, how far it is settled.
struct JournalledLane {
  /// What one enqueue record took in.
  struct Run {
    var run: JournalledRun
    /// The record. Its segment stays until the run is settled.
    var position: JournalPosition
    /// What of it counts: the rest is in runs that were written again.
    var start: UInt64
    var end: UInt64
    var isInDoubt: Bool
    /// Only of what an earlier process left behind.
    var content: EnqueueContent?

    init(run: JournalledRun, position: JournalPosition, isInDoubt: Bool, content: EnqueueContent?) {
      (self.run, self.position, self.isInDoubt, self.content) = (run, position, isInDoubt, content)
      (start, end) = (run.range.lowerBound, run.range.upperBound)
    }
  }

  let number: UInt64
  let app: String
  /// Of this process. What others left behind never moves again; it is only taken away.
  var isLive = false
  /// Everything before it has left the ring.
  private(set) var settled: UInt64 = 0
  /// What else has left it, where outcomes do not come in order.
  private var ahead = RangeSet()
  private(set) var intent: UInt64 = 0
  /// In the order of the ring, from `firstRun` on.
  private var runs: [Run] = []
  private var firstRun = 0
  /// Runs that are settled, but for what was returned of them.
  private var kept: [Run] = []
  private var returned = ReturnedRuns()
  /// What already counts as possible duplicates: of each campaign by itself, since each has a record of its own, and a crash may come between them.
  private var doubted: [LaneRecord.Doubt] = []
  /// By campaign: what comes before this position has gone on from another lane, or was resolved.
  private var taken: [UInt64: UInt64] = [:]
  /// What this process has handed over to another of its lanes: it is in that lane's runs.
  private(set) var moved = RangeSet()

  init(number: UInt64, app: String) {
    self.number = number
    self.app = app
  }

  // MARK: What happens

  mutating func enqueued(_ run: Run, isRewritten: Bool) {
    guard isRewritten else {
      // Nearly always the last: of two claims the second may be written first.
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

  /// Takes the place of what `new` says again. What of a run is settled already need not be in it.
  private mutating func replace(_ new: Run) {
    let range = new.run.range
    guard range.upperBound > settled else {
      // Its first writing has gone with its segment; this reader has never seen it.
      if isReturned(new) { kept.append(new) }
      return
    }
    var index = firstRun
    while index < runs.count, runs[index].start < range.upperBound {
      let run = runs[index]
      if run.end <= range.lowerBound {
        index += 1
        continue
      }
      if firstOpen(of: run) < range.lowerBound {
        // Begins before it: nothing that is written again does, unless the reader has missed something.
        index += 1
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

  /// The first of a run that has not left the ring; its end if all of it has.
  private func firstOpen(of run: Run) -> UInt64 {
    let start = max(run.start, settled)
    guard start < run.end, !ahead.isEmpty else { return start }
    return ahead.holes(in: start..<run.end).first?.lowerBound ?? run.end
  }

  /// What was returned of a run, and has left the ring up to `position`, is not in what is written again of it.
  private mutating func keepReturned(of run: Run, before position: UInt64) {
    guard run.start < position else { return }
    var front = run
    front.end = position
    if isReturned(front) { kept.append(front) }
  }

  mutating func intended(through position: UInt64) { intent = max(intent, position) }

  /// What lies behind `position` was discarded unread, as far as the last connection goes. An earlier
  /// one may have delivered some of it: that is in `doubted`, or in runs that are in doubt.
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

  /// A run anywhere in the lane was given back.
  ///
  /// It becomes one with the campaign's last such run if nothing of the campaign lies between them:
  /// neither what is open nor what has left the ring in whatever way.
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

  /// Where the first run begins. In a lane of this process, which has seen every claim, what lies before it is padding or settled; a reader may have missed runs that
  /// are written again further on.
  private var firstOpen: UInt64 { firstRun < runs.count ? runs[firstRun].start : .max }

  private func isSettled(_ run: Run) -> Bool { run.end <= settled || ahead.contains(max(run.start, settled)..<run.end) }

  /// Whether anything of the campaign that was taken in, and has not left the ring as a whole, lies in `range`.
  private func hasRun(of campaign: UInt64, in range: Range<UInt64>) -> Bool {
    guard !range.isEmpty else { return false }
    var low = firstRun
    var high = runs.count
    while low < high {
      let middle = (low + high) / 2
      if runs[middle].end <= range.lowerBound { low = middle + 1 } else { high = middle }
    }
    while low < runs.count, runs[low].start < range.upperBound {
      if runs[low].run.campaign == campaign { return true }
      low += 1
    }
    return false
  }

  private func isReturned(_ run: Run) -> Bool { returned.overlaps(run.start..<run.end, of: run.run.campaign) }

  mutating func doubted(_ run: JournalledRun) {
    // Where none is in doubt for the first time, earlier records cover all of the run.
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

  /// Some of what happened is not known any more: that something is certainly unsent is nothing that the rest can say.
  mutating func distrust() {
    intent = max(intent, 1 << 62)
    returned.distrust()
  }

  // MARK: What is left

  /// Forgets what nothing is left of.
  mutating func prune(isEnded: (UInt64) -> Bool) {
    let taken = taken
    func isGone(_ campaign: UInt64, _ end: UInt64) -> Bool { isEnded(campaign) || end <= taken[campaign] ?? 0 }
    returned.prune(isGone: { isGone($0, $1) }, isEnded: isEnded)
    kept = kept.filter { !isGone($0.run.campaign, $0.end) && isReturned($0) }
    guard !isLive else {
      // What has left the ring ahead of others needs its record no more. It may be written again with the
      // rest of the ring, but not once its campaign is forgotten, and must not keep old segments then.
      runs = runs[firstRun...].filter { !isSettled($0) || isReturned($0) }
      firstRun = 0
      // What was returned on both sides of it is told as one range, for whose readers it is a hole.
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
    // Where runs were written again, the first need not be the oldest.
    let oldest = runs[firstRun...].lazy.map(\.position).min()
    return [oldestKept, oldest].compactMap { $0 }.min()
  }

  /// The campaigns that it may have something of.
  var campaigns: Set<UInt64> { Set((kept + runs[firstRun...]).map(\.run.campaign)) }

  /// Notifications of the campaign without an outcome that an earlier process left behind, in the order of the ring.
  func recoveredRuns(of campaign: UInt64) -> [RecoveredRun] {
    var found: [RecoveredRun] = []
    let taken = taken[campaign] ?? 0
    let runs = self.runs[firstRun...].filter { $0.run.campaign == campaign }
    let pieces = returned.pieces(of: campaign)
    // In order: what has gone on from here is told by how far.
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
    // What has gone on from here is told by how far: so they are gone on with in the order of the ring.
    return found.sorted { $0.range.lowerBound < $1.range.lowerBound }
  }

  /// Adds what of a run has no outcome.
  ///
  /// What had been sent again counts as a possible duplicate already. It may lie behind the intent,
  /// too: that goes back when the last connection has discarded what an earlier one may have delivered.
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

  /// Adds what is in no doubted range.
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

  /// What the lane's runs hold of `run`: notifications of its campaign in its range.
  func contents(of run: JournalledRun) -> [RecoveredRun] {
    var found: [RecoveredRun] = []
    for entry in kept + runs[firstRun...] where entry.run.campaign == run.campaign {
      add(entry, max(entry.start, run.range.lowerBound), min(entry.end, run.range.upperBound), .unknown, to: &found)
    }
    return found
  }

  /// Runs that are in records before `position`, the oldest record first.
  func runs(before position: JournalPosition) -> [Run] {
    (kept + runs[firstRun...]).filter { $0.position < position }.sorted { $0.position < $1.position }
  }

  /// Where in the ring the runs end that are in records before `position`; nil if there are none, or
  /// nothing of them is in the ring: then the lane could not write them again.
  func end(before position: JournalPosition) -> UInt64? {
    runs[firstRun...].last { $0.position < position && !isSettled($0) }?.end
  }

  /// Notifications that are not known to be settled.
  var unsettledCount: Int { runs[firstRun...].reduce(0) { $0 + $1.run.count } + kept.reduce(0) { $0 + $1.run.count } }
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

  /// - Parameter earlier: the same lane as the records before have told of it: its runs count.
  init(_ record: LaneRecord, runsOf earlier: JournalledLane?) {
    self.init(number: record.number, app: record.app)
    intent = record.intent
    doubted = record.doubted
    (taken, ahead, moved) = (record.taken, record.ahead, record.moved)
    if let earlier { (runs, firstRun, kept) = (earlier.runs, earlier.firstRun, earlier.kept) }
    returned = ReturnedRuns(record.returned, leftThrough: max(record.settled, ahead.ranges.last?.upperBound ?? 0))
    advance(to: record.settled)
  }
}
