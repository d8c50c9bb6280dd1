internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushStore
internal import PushWire
internal import Synchronization

/// A segment of a campaign that this node carries: what of it may be sent, and what has become of
/// it.
///
/// The campaign's reader asks it before each chunk, the lanes tell it outcomes, and the reports to
/// the ledger are made of it. Outcomes, account and rows change together, so that each report is
/// true of one moment.
final class SegmentProgress: OutcomeListener {
  fileprivate struct State {
    var machine: SegmentMachine
    var grants: GrantMachine
    /// The account of earlier owners, with what this one found in doubt.
    var base: CampaignAccount
    /// The account of what earlier processes of this node settled in this epoch.
    var former = CampaignAccount()
    /// The account of what this process settled.
    var account = Account()
    /// The possible copies of this epoch once this process has sent again what the journal has in
    /// doubt. The ledger is told before it does: another node may take over in the middle of it.
    var resumedCopies = 0
    /// The rows that the ledger does not have, and how many it has.
    var rows: [UInt8] = []
    var rowCount = 0
    var listedCount: Int
    /// The list on this machine's disk, until the ledger has its rows.
    var list: (any OutcomeListener)?
    /// The last line that the reader was given, or passed over.
    var readThrough = 0
    /// The last line without an outcome that was read from the store.
    var fedThrough = 0
    /// The same, once the whole segment was read.
    var lastLine: Int?
    /// The reader could have read more than was granted.
    var isStarved = false
    var number: Int64
    /// The last report that the ledger has.
    var told: SegmentMachine.Report?
    var campaign: PushCampaign?
    var wake: (@Sendable () -> Void)?
    /// The campaign is in the journal, so that what is granted is not sent without it.
    var hasBegun = false
    /// See ``SharedPart/openUntil``.
    var openUntil: StoreInstant?
    /// Another node carries it, or nobody needs it any more.
    var isDisowned = false
    /// Its last report is under way, or was written.
    var isOver = false
    var withdrawal = Withdrawal.none
    /// Lines that were withdrawn before they were sent.
    var withdrawn: LineSet
    /// It is known what earlier processes of this node have read.
    var hasReader = false
    /// What was asked for, whether or not it was granted.
    var askedThrough = 0
    /// The last member up to which the journal has everything.
    var recordedKey: Int64 = 0
    /// Outcomes of later ones: who is passed over when the audience is read has one before the
    /// journal knows. The ledger must not know more than the next process of this node.
    var unrecorded: [Unrecorded] = []
  }

  fileprivate struct Unrecorded {
    let key: Int64
    let line: Int
    let outcome: Outcome
    /// As the list on this machine's disk has it by now.
    let row: String
  }

  /// The segment is given back, because the process ends or is drained.
  fileprivate enum Withdrawal {
    case none
    /// The ledger is told first: the journal will no longer know what was sent.
    case wanted
    case begun
  }

  /// A report, and what it says to the machine once the ledger has acknowledged it.
  struct Report {
    let report: SegmentReport
    fileprivate let told: SegmentMachine.Report
    fileprivate let rowByteCount: Int
    fileprivate let rowCount: Int
    fileprivate let isWithdrawn: Bool
  }

  let id: SegmentID
  let epoch: Int64
  /// The incarnation of this process.
  let owner: Int64
  /// Its members, ascending.
  let keys: [Int64]
  /// Lines that earlier owners may have sent, and that are sent again for the first time.
  let newDoubtCount: Int
  /// What becomes of those who may have got it from an earlier owner; nil: they get it again.
  private let doubtOutcome: Outcome?
  private let wantsReport: @Sendable () -> Void
  private let state: Mutex<State>

  /// - Parameters:
  ///   - segment: as it was claimed, or as an earlier process of this node left it.
  ///   - keys: of its members, ascending.
  ///   - doubtOutcome: of what an earlier owner may have sent; nil: the app sends it again.
  ///   - isOver: the campaign was cancelled, or has failed: nothing is sent.
  ///   - grants: how far ahead it is granted at first.
  ///   - wantsReport: called when the reader waits for the ledger.
  /// - Throws: ``StoreError``: the store is damaged.
  init(
    _ segment: StoredSegment, owner: Int64, keys: [Int64], doubtOutcome: Outcome?, isOver: Bool,
    grants: GrantMachine, plantedMistake: SegmentMachine.PlantedMistake? = nil,
    wantsReport: @escaping @Sendable () -> Void
  ) throws(StoreError) {
    guard keys.count == segment.count,
      let settled = LineSet(limit: segment.count, reading: segment.settled),
      let doubted = LineSet(limit: segment.count, reading: segment.doubted),
      let unsent = LineSet(limit: segment.count, reading: segment.unsent)
    else {
      throw StoreError(
        .unusable, path: "", "the store is damaged: a segment of the campaign \(segment.id.campaign.text)")
    }
    (id, epoch, self.owner, self.keys) = (segment.id, segment.epoch, owner, keys)
    (self.doubtOutcome, self.wantsReport) = (doubtOutcome, wantsReport)
    var machine = SegmentMachine(
      count: segment.count, inherited: segment.inherited, unsent: unsent, granted: segment.granted, settled: settled,
      doubted: doubted, hasBegun: segment.base != nil, plantedMistake: plantedMistake)
    let known = segment.base ?? segment.account
    var base = known.flatMap(AccountJSON.account(reading:)) ?? CampaignAccount()
    let doubts = machine.begin(resends: doubtOutcome == nil && !isOver)
    newDoubtCount = doubts.newCount
    base.possibleDuplicates += doubts.newCount
    base.possibleCopies += doubts.count
    base.resent += doubts.count
    state = Mutex(
      State(
        machine: machine, grants: grants, base: base, listedCount: segment.rowCount,
        number: segment.reportNumber, withdrawn: LineSet(limit: segment.count)))
  }

  /// What the journal calls it.
  var name: String { id.name(epoch: epoch) }

  /// Nothing more of it is read.
  var isLeft: Bool { state.withLock { $0.isLeft } }
  var isDisowned: Bool { state.withLock { $0.isDisowned } }
  var campaign: PushCampaign? { state.withLock { $0.campaign } }
  /// The ledger has acknowledged a report of this process.
  var isTold: Bool { state.withLock { $0.told != nil } }

  /// How far ahead of its reader it is granted.
  var ahead: Int { state.withLock { $0.grants.ahead } }

  /// How many of its lines are to be read yet, and how many are read in a second.
  var reading: (unreadCount: Int, rate: Double) {
    state.withLock { state in
      guard !state.isDisowned else { return (0, 0) }
      return (max(0, (state.lastLine ?? keys.count) - state.readThrough), state.grants.rate)
    }
  }

  // MARK: Its campaign

  /// The campaign is in the journal. It is paused until the ledger has granted something.
  func begun(_ campaign: PushCampaign) {
    state.withLock { state in
      state.campaign = campaign
      state.hasBegun = true
    }
    if isDisowned { campaign.cancel() }
  }

  /// Its members are read behind a key: those before it were read by an earlier process.
  ///
  /// - Parameter wake: looks again whether there is something to read.
  func attach(after key: Int64, wake: @escaping @Sendable () -> Void) {
    state.withLock { state in
      state.wake = wake
      state.hasReader = true
      state.recordedKey = max(state.recordedKey, key)
      state.readThrough = max(state.readThrough, place(of: key + 1))
    }
  }

  /// Continues what an earlier process of this node has begun.
  ///
  /// - Parameters:
  ///   - settled: what has its outcome by the journal.
  ///   - account: so far, by the journal.
  ///   - rows: those of the list on this machine's disk that are right.
  func resume(settled: SettledLines, account: CampaignAccount, rows: [String]) {
    state.withLock { state in
      // What the ledger has no outcome of, it has no row of either. The order on the disk may be
      // another one.
      let missing = rows.filter { row in
        guard let key = Int64(row.prefix { $0 != "," }), let line = line(of: key, after: 0) else { return false }
        return !state.machine.settled.contains(line)
      }
      for (index, key) in keys.enumerated() where settled.contains(UInt64(key)) {
        state.machine.settle((index + 1)...(index + 1))
      }
      // The campaign itself counts on from the journal.
      state.former = CampaignAccount(former: account, rows: rows)
      if doubtOutcome == nil { state.resumedCopies = account.possibleCopies + settled.doubtedCount }
      // Who was read and not sent to again, because an earlier owner may have, is in no account of
      // the journal.
      let unsureCount = state.machine.settled.count - state.base.settled - state.former.settled
      if let doubtOutcome, unsureCount > 0 {
        state.former.add(unsure: unsureCount, isHeld: doubtOutcome == .held, rows: rows)
      }
      state.rows = missing.flatMap { Array($0.utf8) }
      state.rowCount = missing.count
    }
  }

  var openUntil: StoreInstant? { state.withLock { $0.openUntil } }
  func opened(until instant: StoreInstant?) { state.withLock { $0.openUntil = instant } }

  /// - Parameter list: gets what is not accepted, before the journal settles it.
  func opened(_ list: any OutcomeListener) { state.withLock { $0.list = list } }

  /// What happens to it is of no interest any more.
  func disown() {
    let (campaign, wake) = state.withLock { state in
      state.isDisowned = true
      return (state.campaign, state.wake)
    }
    campaign?.cancel()
    wake?()
  }

  // MARK: Giving it back

  /// Another node is to carry it: nothing more of it is sent, and what was not sent is told to the
  /// ledger.
  func withdraw() {
    state.withLock { if $0.withdrawal == .none { $0.withdrawal = .wanted } }
    wantsReport()
  }

  /// Whether there is something to give back.
  var hasBegun: Bool { state.withLock { $0.hasBegun && !$0.isDisowned } }

  var isWithdrawn: Bool { state.withLock { $0.withdrawal == .begun } }

  /// It has ended, and the ledger knows: it holds its campaign no longer, which holds it, too.
  func close() { state.withLock { ($0.campaign, $0.list, $0.wake) = (nil, nil, nil) } }

  // MARK: Its reader

  /// Calls `give` with the places of those that may be read now, until it returns false: there is
  /// no room.
  ///
  /// - Parameters:
  ///   - places: of neighbours in the order of their keys. Some may be no members.
  ///   - isPaced: false: what is read is not sent, so it need not be granted.
  /// - Returns: the place of the first one that was not given, or passed over.
  func read(
    _ places: Range<Int>, isPaced: Bool, key: (Int) -> Int64, _ give: (Int, RecoveredRun.Fate) -> Bool
  ) -> Int {
    let (next, isStarved) = state.withLock { state in
      let next = read(&state, places, isPaced: isPaced, key, give)
      return (next, state.isStarved)
    }
    if isStarved { wantsReport() }
    return next
  }

  private func read(
    _ state: inout State, _ places: Range<Int>, isPaced: Bool, _ key: (Int) -> Int64,
    _ give: (Int, RecoveredRun.Fate) -> Bool
  ) -> Int {
    state.isStarved = false
    if state.isLeft { return places.upperBound }
    for place in places {
      guard let line = line(of: key(place), after: state.readThrough) else { continue }
      switch state.machine.turn(of: line) {
      case .settled: break
      case .notGranted where isPaced:
        // What comes before it was read by an earlier process, or has its outcome.
        (state.isStarved, state.readThrough) = (true, max(state.readThrough, line - 1))
        return place
      case .notGranted, .unsent: guard give(place, .unsent) else { return place }
      case .doubted: guard give(place, .doubted) else { return place }
      }
      state.readThrough = max(state.readThrough, line)
    }
    return places.upperBound
  }

  /// The keys behind a key that have no outcome, in order.
  func unsettled(after key: Int64, limit: Int) -> (keys: [Int64], last: Int64?) {
    var first = place(of: key)
    if first < keys.count, keys[first] == key { first += 1 }
    let end = min(keys.count, first + limit)
    guard first < end, !state.withLock({ $0.isLeft }) else {
      state.withLock { $0.lastLine = $0.fedThrough }
      return ([], nil)
    }
    let open = state.withLock { state in
      let open = (first..<end).filter { !state.machine.settled.contains($0 + 1) }
      state.fedThrough = open.last.map { $0 + 1 } ?? state.fedThrough
      return open.map { keys[$0] }
    }
    return (open, keys[end - 1])
  }

  // MARK: OutcomeListener

  var wantsAccepted: Bool { true }
  var listsResumable: Bool { false }

  func accepted(_ entries: OutcomeEntries, _ confirmation: Confirmation) {
    state.withLock { state in
      guard !state.isDisowned else { return }
      state.list?.accepted(entries, confirmation)
      var run: ClosedRange<Int>?
      for key in entries.lines {
        guard let line = line(of: Int64(key), after: run?.upperBound ?? 0) else { continue }
        if let known = run, known.upperBound + 1 == line {
          run = known.lowerBound...line
        } else {
          if let run { state.settle(run, .accepted(confirmation)) }
          run = line...line
        }
      }
      if let run { state.settle(run, .accepted(confirmation)) }
    }
  }

  func notAccepted(line key: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {
    settled(line: key, token: token, outcome: outcome, goneSince: goneSince) { list, outcome in
      list.notAccepted(line: key, token: token, outcome: outcome, goneSince: goneSince, isDoubted: isDoubted)
    }
  }

  func passedOver(line key: UInt64, token: String, outcome: Outcome) {
    settled(line: key, token: token, outcome: outcome, goneSince: nil) { list, outcome in
      list.passedOver(line: key, token: token, outcome: outcome)
    }
  }

  private func settled(
    line key: UInt64, token: String, outcome: Outcome, goneSince: UInt64?,
    _ write: (any OutcomeListener, Outcome) -> Void
  ) {
    state.withLock { state in
      guard !state.isDisowned, let line = line(of: Int64(clamping: key), after: 0) else { return }
      if state.withdrawal == .begun, outcome == .cancelled || outcome == .unknown {
        // Whoever carries it next sends it, or finds it in doubt.
        if outcome == .cancelled, !state.machine.settled.contains(line) { state.withdrawn.insert(line...line) }
        return
      }
      guard !state.machine.settled.contains(line) else { return }
      // An earlier owner may have sent it.
      let isNotSent = outcome == .cancelled || outcome.kind.isWithheld
      let outcome = isNotSent && line <= state.machine.inherited ? .unknown : outcome
      if let list = state.list { write(list, outcome) }
      let row = ServedList.row(line: key, token: token, outcome: outcome, goneSince: goneSince)
      let found = Unrecorded(key: Int64(clamping: key), line: line, outcome: outcome, row: row)
      if found.key > state.recordedKey { state.unrecorded.append(found) } else { state.settle(found) }
    }
  }

  /// The journal has everything up to a member.
  func recorded(through key: Int64) { state.withLock { $0.recorded(through: key) } }

  func flush() { state.withLock { $0.list }?.flush() }

  // MARK: Reports

  /// What the ledger does not know yet; nil: nothing, or it is not to be told.
  func report(now: Instant) -> Report? {
    state.withLock { state in
      guard state.hasBegun, !state.isDisowned, !state.isOver else { return nil }
      state.grants.note(readThrough: state.readThrough, isStarved: state.isStarved, now: now)
      let isLeaving = state.withdrawal != .none
      let next = state.machine.report(
        readThrough: isLeaving ? 0 : state.readThrough, ahead: isLeaving ? 0 : state.grants.ahead)
      guard next != state.told || state.withdrawal == .wanted else { return nil }
      return state.report(of: self, next)
    }
  }

  /// The last one: everything has its outcome, or was withdrawn. Nil: it is not to be told.
  func finalReport() -> Report? {
    state.withLock { state in
      guard !state.isDisowned else { return nil }
      // The journal will not be asked any more.
      state.recorded(through: .max)
      state.isOver = true
      if state.withdrawal == .begun {
        return state.report(of: self, state.machine.report(readThrough: 0, ahead: 0))
      }
      return state.report(of: self, state.machine.report(readThrough: keys.count, ahead: 0))
    }
  }

  /// The ledger has written a report.
  func acknowledge(_ report: Report, after duration: Duration) {
    let (wake, withdrawn) = state.withLock { state in
      state.machine.acknowledge(report.told)
      state.told = report.told
      state.grants.acknowledged(after: duration)
      state.rows.removeFirst(min(report.rowByteCount, state.rows.count))
      state.rowCount -= min(report.rowCount, state.rowCount)
      state.listedCount = report.report.rows.after + report.rowCount
      let begins = report.isWithdrawn && state.withdrawal == .wanted
      if begins { state.withdrawal = .begun }
      return (state.wake, begins ? state.campaign : nil)
    }
    withdrawn?.cancel()
    wake?()
  }

  /// The ledger has not written the report: another node carries the segment, or its last report
  /// came first.
  func refused() { if !state.withLock({ $0.isOver }) { disown() } }

  // MARK: Lines

  /// The line of a member; nil: it is none.
  ///
  /// - Parameter line: of the one before it, if they come in order.
  private func line(of key: Int64, after line: Int) -> Int? {
    if line < keys.count, keys[line] == key { return line + 1 }
    let index = place(of: key)
    return index < keys.count && keys[index] == key ? index + 1 : nil
  }

  /// The index of the first key that is not below a key.
  private func place(of key: Int64) -> Int {
    var (low, high) = (0, keys.count)
    while low < high {
      let middle = (low + high) / 2
      if keys[middle] < key { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

extension SegmentProgress.State {
  /// Nothing more of it is read.
  fileprivate var isLeft: Bool { isDisowned || withdrawal == .begun }

  fileprivate mutating func recorded(through key: Int64) {
    guard key > recordedKey else { return }
    recordedKey = key
    guard !unrecorded.isEmpty else { return }
    let found = unrecorded
    unrecorded = found.filter { $0.key > key }
    for one in found where one.key <= key { settle(one) }
  }

  fileprivate mutating func settle(_ found: SegmentProgress.Unrecorded) {
    guard settle(found.line...found.line, found.outcome) else { return }
    rows += found.row.utf8
    rowCount += 1
  }

  /// - Returns: whether any of the lines had no outcome before.
  @discardableResult
  fileprivate mutating func settle(_ lines: ClosedRange<Int>, _ outcome: Outcome) -> Bool {
    let count = machine.settle(lines)
    account.submitted += count
    account.count(outcome, count)
    return count > 0
  }

  fileprivate mutating func report(
    of progress: SegmentProgress, _ told: SegmentMachine.Report
  ) -> SegmentProgress.Report {
    number += 1
    askedThrough = max(askedThrough, told.granted)
    var sum = base + former + CampaignAccount(account)
    if let engine = campaign?.engineAccount {
      sum.resent += engine.resent
      sum.possibleDuplicates += engine.possibleDuplicates
      sum.possibleCopies += isOver ? engine.possibleCopies : max(engine.possibleCopies, resumedCopies)
    }
    var report = SegmentReport(
      id: progress.id, epoch: progress.epoch, number: number, granted: told.granted, settled: told.settled.bytes,
      doubted: told.doubted.bytes, account: AccountJSON.bytes(of: sum), base: AccountJSON.bytes(of: base),
      rows: OutcomeRows(after: listedCount, count: rowCount, bytes: rows))
    report.isSettled = isOver && machine.isSettled
    report.isWithdrawn = withdrawal != .none
    if isOver, withdrawal == .begun {
      report.unsent =
        machine.unsent(
          besides: withdrawn, readThrough: hasReader ? readThrough : nil, through: askedThrough
        ).bytes
    }
    return SegmentProgress.Report(
      report: report, told: told, rowByteCount: rows.count, rowCount: rowCount, isWithdrawn: report.isWithdrawn)
  }
}
