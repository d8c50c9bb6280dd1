package import Carillon
internal import Glibc
package import PushEngine
package import PushStore
package import PushWire
internal import Synchronization

/// Records the outcomes of the notifications that the service has accepted: in memory until the
/// journal's next commit, then in the store.
package final class OutcomeRecorder: IntakeRecorder {
  struct Run {
    var app: String
    var isBridge: Bool
    /// Its notifications are broadcasts to it.
    var channel: String?
    var acknowledgedLine: UInt64 = 0
  }

  struct State {
    var changes = IntakeChanges()
    /// How often the store was written, with the write that is under way.
    var writeCount: Int64
    /// Of the write that is under way, what must be in the store before the journal's next record,
    /// unless it was deferred.
    var underWay = IntakeChanges()
    /// What was deferred and is in no write yet.
    var deferred = IntakeChanges()
    /// Lines that were accepted, by run and confirmation, in the order in which that was heard.
    var accepted: [StoredRunID: [Confirmation: [UInt32]]] = [:]
    /// Those that have not ended, or whose outcomes are not all in the store.
    var runs: [StoredRunID: Run] = [:]
    /// How many outcomes of each app this process has written.
    var listedCounts: [String: Int] = [:]
    /// Of notifications that nodes share.
    var shared = SharedRuns()
    /// By app, for display. The latest last.
    var recent: [String: [Recent]] = [:]

    mutating func list(_ outcome: Outcome, of id: StoredRunID, _ entries: OutcomeEntries, at instant: StoreInstant) {
      guard let run = runs[id] else { return }
      let entries = run.channel.map { entries.broadcast(to: $0) } ?? entries
      changes.outcomes.append(
        OutcomeGroup(outcome, entries, app: run.app, of: .run(id, isBridge: run.isBridge), at: instant))
    }

    mutating func accept(
      _ entries: OutcomeEntries, _ confirmation: Confirmation, of id: StoredRunID, at instant: StoreInstant
    ) {
      accepted[id, default: [:]][confirmation, default: []] +=
        entries.lines.lazy.map { UInt32(truncatingIfNeeded: $0) }
      list(.accepted(confirmation), of: id, entries, at: instant)
      guard shared.contains(id) else { return }
      for line in entries.lines { shared.settle(UInt32(truncatingIfNeeded: line), of: id, &changes.shared) }
    }
  }

  /// A notification that was not accepted.
  package struct Recent: Hashable, Sendable {
    package let at: StoreInstant
    package let token: String
    package let state: String
    package let detail: String
  }

  private static let recentLimit = 20

  private let store: any Store
  let clock: any ServiceClock
  let state: Mutex<State>
  private struct Writing {
    /// After it nothing is durable, so every later call fails as well.
    var failure: UnsyncedList?
    /// What the store could not take yet, because it was away. Written first, as it was.
    var changes: IntakeChanges?
  }

  /// Held while the store is written: a thread that finds nothing to write must know that what
  /// another thread took is durable.
  private let writing = Mutex(Writing())
  private typealias Asker = CheckedContinuation<Result<Void, UnsyncedList>, Never>
  /// Those for whom the next write is.
  private let askers = Mutex<[Asker]>([])
  /// Called after the first write that succeeds; see ``whenStored(_:)``.
  let waiters = Mutex<[@Sendable () -> Void]>([])
  /// Takes what the journal may not wait for while the store is away. Nil: the journal waits.
  private let deferred: DeferredChanges?
  /// Whether something is in it. Held while that changes.
  private let hasDeferred = Mutex(false)
  /// In nanoseconds; 0: the store is not away.
  private let awaySince = Atomic<UInt64>(0)

  /// Gets outcomes at once.
  private let watcher = Mutex<(any IntakeWatcher)?>(nil)

  package let followers = OutcomeFollowers()
  package let campaigns: CampaignRecorder
  /// Of this process; 0: no other process can use the store.
  let incarnation = Atomic<Int64>(0)

  package init(store: any Store, clock: any ServiceClock = MachineClock(), deferred: DeferredChanges? = nil) {
    (self.store, self.clock, self.deferred) = (store, clock, deferred)
    state = Mutex(State(writeCount: store.writeCount))
    campaigns = CampaignRecorder(store: store)
  }

  /// Gives the store what an earlier process had deferred. To be called before anything is read
  /// from the store, and after ``share(as:)``.
  package func restoreDeferred() throws(StoreError) {
    guard let deferred else { return }
    do throws(UnsyncedList) {
      for (number, var changes) in try deferred.changes(after: store.writeCount) {
        changes.shared.incarnation = incarnation.load(ordering: .relaxed)
        // The write that was under way was lost with its process: numbers stay what they were. A
        // larger gap has another reason, such as a store from a backup.
        if number == store.writeCount + 2 { try write(IntakeChanges()) }
        try write(changes)
      }
      try deferred.clear()
    } catch { throw StoreError(error) }
    state.withLock { $0.writeCount = store.writeCount }
  }

  /// To be called before anything is accepted.
  package func tell(_ watcher: any IntakeWatcher) { self.watcher.withLock { $0 = watcher } }

  /// Adds what others have to write. What belongs to notifications is added before they can have
  /// outcomes: it is never later than those in the store.
  package func change(_ change: (inout IntakeChanges) -> Void) { state.withLock { change(&$0.changes) } }

  // MARK: IntakeRecorder

  package func began(_ run: IntakeRunID, app: String, isBridge: Bool, channel: String?) {
    let id = StoredRunID(run)
    state.withLock { state in
      state.runs[id] = Run(app: app, isBridge: isBridge, channel: channel)
      state.changes.began.append((run: id, app: app, at: clock.now))
    }
  }

  package func acknowledged(_ run: IntakeRunID, through line: UInt64) {
    let id = StoredRunID(run)
    state.withLock { $0.runs[id]?.acknowledgedLine = line }
  }

  package func accepted(_ run: IntakeRunID, _ entries: OutcomeEntries, _ confirmation: Confirmation) {
    let id = StoredRunID(run)
    let now = clock.now
    state.withLock { state in
      guard state.shared.isCarried(id) else { return state.accept(entries, confirmation, of: id, at: now) }
      let renamed = entries.renamed { line in
        let known = state.shared.name(of: line, in: id)
        // Whoever had it before may have sent it.
        return (owner: known.run, line: UInt64(known.line), isDoubted: known.run != id)
      }
      // What the store had before the journal counts once.
      for (run, entries) in renamed where run == id || state.shared.contains(run) {
        state.adoptChannel(of: id, run)
        state.accept(entries, confirmation, of: run, at: now)
      }
    }
    watcher.withLock { $0 }?.accepted(run, lines: entries.lines)
  }

  package func doubted(_ run: IntakeRunID, lines: [UInt64]) {
    let id = StoredRunID(run)
    state.withLock { $0.doubt($0.shared.newlyDoubted(lines, of: id), of: id) }
  }

  package func notAccepted(
    _ run: IntakeRunID, app: String, line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?,
    isDoubted: Bool
  ) {
    notAccepted(
      StoredRunID(run), app: app, line: line, token: token, outcome: outcome, goneSince: goneSince,
      isDoubted: isDoubted)
    watcher.withLock { $0 }?.notAccepted(run, line: line, outcome: outcome)
  }

  func notAccepted(
    _ run: StoredRunID, app: String, line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?,
    isDoubted: Bool
  ) {
    let now = clock.now
    let (name, detail) = (outcome.kind.rawValue, outcome.detail)
    let gone = outcome.saysGone ? goneDevice(app, token, since: goneSince) : nil
    state.withLock { state in
      let known = state.shared.name(of: line, in: run)
      guard known.run == run || state.shared.contains(known.run) else { return }
      state.adoptChannel(of: run, known.run)
      let notification = StoredNotificationID(run: known.run, line: known.line)
      let entries = OutcomeEntries(
        line: UInt64(known.line), token: token, goneSince: goneSince, isDoubted: isDoubted || known.run != run)
      state.changes.notAccepted.append((notification: notification, state: name, detail: detail))
      let channel = state.runs[notification.run]?.channel
      if let gone, channel == nil { state.changes.gone.append(gone) }
      state.list(outcome, of: notification.run, entries, at: now)
      if state.shared.contains(known.run) { state.shared.settle(known.line, of: known.run, &state.changes.shared) }
      state.recent[app, default: []].append(Recent(at: now, token: channel ?? token, state: name, detail: detail))
      // All but the latest are removed together, so that each costs little.
      if let count = state.recent[app]?.count, count >= 4 * Self.recentLimit {
        state.recent[app]?.removeFirst(count - Self.recentLimit)
      }
    }
  }

  /// Lists outcomes of a campaign.
  ///
  /// - Parameter isPassed: its reader has decided them: they are durable before the journal knows
  ///   that it has read so far.
  func listed(_ group: OutcomeGroup, isPassed: Bool = false) {
    state.withLock { state in
      if isPassed { state.changes.passed.append(group) } else { state.changes.outcomes.append(group) }
    }
  }

  /// A campaign has found a device gone.
  func gone(app: String, token: String, since: UInt64?) {
    guard let device = goneDevice(app, token, since: since) else { return }
    state.withLock { $0.changes.gone.append(device) }
  }

  private func goneDevice(_ app: String, _ token: String, since: UInt64?) -> StoredGoneDevice? {
    guard let bytes = try? DeviceToken(hex: token).bytes else { return nil }
    return StoredGoneDevice(
      app: app, token: bytes, since: since.map { StoreInstant(milliseconds: Int64(clamping: $0)) }, foundAt: clock.now)
  }

  package func ended(_ run: IntakeRunID) {
    let id = StoredRunID(run)
    state.withLock { state in
      if state.shared.end(id) { state.changes.ended.append((id, clock.now)) }
    }
    watcher.withLock { $0 }?.ended(run)
  }

  package func makeDurable() throws(UnsyncedList) {
    try writing.withLock { writing throws(UnsyncedList) in try makeDurable(&writing) }
  }

  private func makeDurable(_ writing: inout Writing) throws(UnsyncedList) {
    if let failure = writing.failure { throw failure }
    // Whatever has ended has its outcomes in what is written before.
    let ends = campaigns.takeEnds()
    let waiting = waiters.withLock { exchange(&$0, with: []) }
    do throws(UnsyncedList) {
      try campaigns.syncLists()
      try write(&writing)
      // Once: what comes meanwhile shares the next write. Under load there is always something.
      writing.changes = takeChanges()
      try write(&writing)
      try campaigns.write(ends)
      awaySince.store(0, ordering: .relaxed)
      try clearDeferred()
      for waiter in waiting { waiter() }
    } catch {
      campaigns.putBack(ends)
      waiters.withLock { $0 = waiting + $0 }
      if error.isAway {
        if awaySince.load(ordering: .relaxed) == 0 { awaySince.store(clock.uptime.nanoseconds, ordering: .relaxed) }
      } else {
        writing.failure = error
      }
      throw error
    }
  }

  /// Returns when what was changed before the call is in the store. Whoever asks while it is
  /// written shares the next write.
  ///
  /// - Throws: ``StoreError/Kind/away`` as well: it is written when the store is back.
  package func makeChangesDurable() async throws(StoreError) {
    let result = await withCheckedContinuation { continuation in
      let isFirst = askers.withLock { askers in
        askers.append(continuation)
        return askers.count == 1
      }
      guard isFirst else { return }
      clock.run { [self] in
        let (asked, result) = writing.withLock { writing in
          let asked = askers.withLock { exchange(&$0, with: []) }
          return (asked, Result { () throws(UnsyncedList) in try makeDurable(&writing) })
        }
        for asker in asked { asker.resume(returning: result) }
      }
    }
    do throws(UnsyncedList) { try result.get() } catch { throw StoreError(error) }
  }

  /// ``makeDurable()`` on a thread that may block. A cancelled task waits for it too, but not for a
  /// store that is away.
  ///
  /// - Parameter waits: for a store that is away.
  package func makeDurableElsewhere(waits: Bool = true) async throws(UnsyncedList) {
    while true {
      do throws(UnsyncedList) {
        return try await elsewhere { recorder throws(UnsyncedList) in try recorder.makeDurable() }
      } catch {
        guard waits, error.isAway, (try? await clock.sleep(for: .seconds(1))) != nil else { throw error }
      }
    }
  }

  /// Runs what writes on a thread that may block.
  private func elsewhere(
    _ body: @escaping @Sendable (OutcomeRecorder) throws(UnsyncedList) -> Void
  ) async throws(UnsyncedList) {
    let result = await withCheckedContinuation { continuation in
      clock.run { [self] in
        continuation.resume(returning: Result { () throws(UnsyncedList) in try body(self) })
      }
    }
    try result.get()
  }

  /// The last call of a process. If the store is away for longer than the process may wait, the
  /// next one knows what it must.
  package func finish() async throws(UnsyncedList) {
    try await elsewhere { recorder throws(UnsyncedList) in try recorder.makeIntakeDurable() }
    try await makeDurableElsewhere()
  }

  /// How long the store has been away; nil: it is not.
  package var awayDuration: Duration? {
    let since = awaySince.load(ordering: .relaxed)
    return since == 0 ? nil : clock.uptime.since(Instant(nanoseconds: since))
  }

  package func makeIntakeDurable() throws(UnsyncedList) {
    try makeDurable { $0.precedesJournal }
  }

  /// - Parameter isNeeded: whether changes have something that must be durable.
  private func makeDurable(if isNeeded: (IntakeChanges) -> Bool) throws(UnsyncedList) {
    // Another thread may be writing it.
    guard state.withLock({ isNeeded($0.changes) || isNeeded($0.underWay) }) else { return }
    guard let deferred else { return try makeDurable() }
    if awayDuration == nil {
      do throws(UnsyncedList) { return try makeDurable() } catch { guard error.isAway else { throw error } }
    }
    try deferIntake(in: deferred)
  }

  package func makePassedDurable() throws(UnsyncedList) {
    try campaigns.syncLists()
    try makeDurable { $0.precedesJournal || !$0.passed.isEmpty }
  }

  /// Defers what the store must know before the journal's next record, so that no app waits for a
  /// store that is away.
  private func deferIntake(in deferred: DeferredChanges) throws(UnsyncedList) {
    try hasDeferred.withLock { hasEntries throws(UnsyncedList) in
      let parts = state.withLock { state in
        let next = state.changes.takeBeforeJournal()
        state.deferred.append(next)
        return [
          (write: state.writeCount, changes: exchange(&state.underWay, with: IntakeChanges())),
          (write: state.writeCount + 1, changes: next),
        ]
      }
      hasEntries = true
      try deferred.append(parts.filter { !$0.changes.isEmpty })
    }
  }

  private func clearDeferred() throws(UnsyncedList) {
    try hasDeferred.withLock { hasEntries throws(UnsyncedList) in
      guard hasEntries, state.withLock({ $0.deferred.isEmpty && $0.underWay.isEmpty }) else { return }
      try deferred?.clear()
      hasEntries = false
    }
  }

  /// Nil: there are none.
  private func takeChanges() -> IntakeChanges? {
    var (changes, accepted) = state.withLock { state in
      state.underWay = state.changes.beforeJournal
      var changes = exchange(&state.changes, with: IntakeChanges())
      if !state.deferred.isEmpty {
        let later = exchange(&changes, with: exchange(&state.deferred, with: IntakeChanges()))
        changes.append(later)
      }
      changes.shared.blocks.removeAll { !state.shared.write($0.id) }
      changes.shared.incarnation = incarnation.load(ordering: .relaxed)
      if !changes.isEmpty || !state.accepted.isEmpty { state.writeCount += 1 }
      return (changes, exchange(&state.accepted, with: [:]))
    }
    for (run, lines) in accepted {
      for (confirmation, lines) in lines { changes.add(lines, of: run, "\(confirmation)") }
    }
    return changes.isEmpty ? nil : changes
  }

  private func write(_ writing: inout Writing) throws(UnsyncedList) {
    guard let changes = writing.changes else { return }
    try write(changes)
    writing.changes = nil
  }

  private func write(_ changes: IntakeChanges) throws(UnsyncedList) {
    do throws(StoreError) { try store.write(changes) } catch { throw UnsyncedList(error) }
    state.withLock { state in
      state.underWay = IntakeChanges()
      for entry in changes.ended { state.runs[entry.run] = nil }
      for run in changes.shared.left where !state.shared.contains(run) { state.runs[run] = nil }
      for group in changes.passed.groups + changes.outcomes.groups {
        state.listedCounts[group.app, default: 0] += group.count
      }
    }
    for app in Set((changes.passed.groups + changes.outcomes.groups).map(\.app)) { followers.tell(app) }
  }

  // MARK: Questions

  /// Changes whenever this process has written outcomes of an app.
  package func listedCount(_ app: String) -> Int { state.withLock { $0.listedCounts[app] ?? 0 } }

  /// The latest of an app that were not accepted, the last one first.
  package func recent(_ app: String) -> [Recent] {
    state.withLock { Array($0.recent[app, default: []].suffix(Self.recentLimit).reversed()) }
  }

  /// The app of a notification that was acknowledged and may have no outcome yet; nil if its run
  /// has ended or is unknown, or it was not acknowledged.
  package func app(of notification: StoredNotificationID) -> String? {
    state.withLock { state in
      guard let run = state.runs[notification.run], UInt64(notification.line) <= run.acknowledgedLine else {
        return nil
      }
      return run.app
    }
  }
}

extension OutcomeGroup {
  package init(
    _ outcome: Outcome, _ entries: OutcomeEntries, app: String, of origin: Origin, at instant: StoreInstant
  ) {
    self.init(
      app: app, origin: origin, state: outcome.kind.rawValue, detail: outcome.detail, at: instant,
      count: entries.count, entries: entries.bytes)
  }
}

extension IntakeChanges {
  fileprivate mutating func add(_ lines: [UInt32], of run: StoredRunID, _ confirmation: String) {
    accepted += lines.ranges.map { (run: run, lines: $0, confirmation: confirmation) }
  }
}

extension [UInt32] {
  /// Neighbouring lines as one range.
  var ranges: [ClosedRange<UInt32>] {
    let sorted = sorted()
    guard var first = sorted.first else { return [] }
    var ranges: [ClosedRange<UInt32>] = []
    var last = first
    for line in sorted.dropFirst() {
      if line <= last &+ 1 {
        last = line
      } else {
        ranges.append(first...last)
        (first, last) = (line, line)
      }
    }
    return ranges + [first...last]
  }
}

extension UnsyncedList {
  init(_ error: StoreError) {
    self.init(path: error.path, code: error.kind == .full ? ENOSPC : EIO, isAway: error.kind == .away)
  }
}

extension StoreError {
  package init(_ error: UnsyncedList) {
    self.init(
      error.isAway ? .away : error.code == ENOSPC ? .full : .unwritable, path: error.path,
      error.isAway
        ? "the store \(error.path) cannot be written yet: another process has locked it"
        : "the store \(error.path) cannot be written (errno \(error.code))")
  }
}

extension StoredRunID {
  package init(_ run: IntakeRunID) { self.init(high: run.high, low: run.low) }
}

/// Hears of outcomes when they come, beside the ``OutcomeRecorder`` that keeps them. Called on the
/// lanes' loops, also at the same time; every call returns soon.
package protocol IntakeWatcher: Sendable {
  func accepted(_ run: IntakeRunID, lines: [UInt64])
  func notAccepted(_ run: IntakeRunID, line: UInt64, outcome: Outcome)
  /// Everything in the run has its outcome.
  func ended(_ run: IntakeRunID)
}
