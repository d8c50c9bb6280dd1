internal import PushJournal
internal import PushWire
internal import Synchronization

/// The journal of a deployment, as readers and lanes write it: what was taken in, what may be sent,
/// and the outcomes.
///
/// Every record goes through one lock together with ``JournalState``. So this state always equals
/// what a reader of the journal would find. A checkpoint writes the state again, so that older
/// segments can be deleted. The lock is taken once per chunk, batch or run, never once per
/// notification.
package final class EngineJournal: Sendable {
  struct State {
    var contents: JournalState
    /// Events that found no room. They are written in order as soon as there is room, before
    /// anything else.
    var overflow: [(event: JournalEvent, isPrepared: Bool)] = []
    /// Outcomes that the lists do not have durably.
    var settlements = Settlements()
    var byteCountSinceCheckpoint = 0
    /// Where checkpoints begin, and how many bytes of enqueue records had been written before each.
    var checkpoints: [(position: JournalPosition, byteCount: Int)] = []
    /// Bytes of enqueue records, without those that were rewritten: rewriting must not increase the
    /// age of unsettled records.
    var byteCount = 0
    /// Asks a lane of this process to write its unsettled runs again, up to a position of its ring.
    /// Called while the lock is held.
    var compactors: [UInt64: @Sendable (UInt64) -> Void] = [:]
    /// By lane, the value of ``byteCount`` when the lane was last asked.
    var compactedAt: [UInt64: Int] = [:]
    /// Why nothing is written any more, as a sentence.
    var failure: String?
    var failureHandlers: [@Sendable (String) -> Void] = []
  }

  let state: Mutex<State>
  let journal: Journal
  /// A checkpoint and a new segment follow after this many bytes of records.
  private let checkpointByteCount: Int
  package let plantedMistake: EngineJournalOptions.PlantedMistake?

  /// Writes outcomes on a thread of its own; nil: they are written at once.
  let writer = Mutex<SettlementWriter?>(nil)

  /// Groups that had ended when an earlier process closed the journal.
  private let givenGroups: Set<UInt64>

  /// - Parameter wasClosed: the process that wrote the last records of `contents` closed the
  ///   journal.
  init(journal: Journal, contents: JournalState, wasClosed: Bool = false, options: EngineJournalOptions) {
    self.journal = journal
    givenGroups = wasClosed ? contents.endedGroups : []
    checkpointByteCount = options.checkpointByteCount
    plantedMistake = options.plantedMistake
    state = Mutex(State(contents: contents))
  }

  /// No record is larger.
  var recordByteCountLimit: Int { journal.payloadByteCountLimit }

  // MARK: Failing

  /// Why nothing is written any more, as a sentence.
  package var failure: String? { state.withLock { $0.failure } }

  /// Calls `handler` once when the journal can no longer be written, from any thread; at once if it
  /// has failed already.
  func onFailure(_ handler: @escaping @Sendable (String) -> Void) {
    let failure = state.withLock { state in
      if state.failure == nil { state.failureHandlers.append(handler) }
      return state.failure
    }
    if let failure { handler(failure) }
  }

  /// Stops writing, for a reason of the caller's. If the caller cannot write its lists,
  /// notifications may not be settled here either.
  package func stop(because reason: String) { state.withLock { state in Self.fail(reason, &state) }() }

  private static func fail(_ error: JournalError, _ state: inout State) -> @Sendable () -> Void {
    fail("\(error)", &state)
  }

  /// Returns a function to call outside the lock.
  private static func fail(_ reason: String, _ state: inout State) -> @Sendable () -> Void {
    guard state.failure == nil else { return {} }
    state.failure = reason
    state.overflow = []
    let handlers = exchange(&state.failureHandlers, with: [])
    return { for handler in handlers { handler(reason) } }
  }

  // MARK: Writing

  /// Writes an event, now or as soon as there is room; outcomes when the lists have them.
  func record(_ event: JournalEvent) {
    if event.isSettlement, isWaiting(.event(event)) { return }
    write(event, isPrepared: false)
  }

  /// - Parameter isPrepared: the lists have it.
  func write(_ event: JournalEvent, isPrepared: Bool) {
    enum Next { case nothing, drain, call(@Sendable () -> Void) }
    let next: Next = state.withLock { state in
      guard state.failure == nil else { return .nothing }
      guard state.overflow.isEmpty else {
        state.overflow.append((event, isPrepared))
        return .nothing
      }
      do throws(JournalError) {
        _ = try write(event, isPrepared: isPrepared, &state)
        return .nothing
      } catch {
        guard case .full = error else { return .call(Self.fail(error, &state)) }
        state.overflow.append((event, isPrepared))
        return .drain
      }
    }
    switch next {
    case .nothing: break
    case .drain: drainWhenRoom()
    case .call(let tell): tell()
    }
  }

  private func drainWhenRoom() {
    journal.whenRoom { [self] in
      let tell: (@Sendable () -> Void)? = state.withLock { state in
        var written = 0
        defer { state.overflow.removeFirst(min(written, state.overflow.count)) }
        while written < state.overflow.count {
          do throws(JournalError) {
            let (event, isPrepared) = state.overflow[written]
            _ = try write(event, isPrepared: isPrepared, &state)
            written += 1
          } catch {
            if case .full = error { return nil }
            return Self.fail(error, &state)
          }
        }
        return {}
      }
      if let tell { tell() } else { drainWhenRoom() }
    }
  }

  private func write(
    _ event: JournalEvent, isPrepared: Bool = false, _ state: inout State
  ) throws(JournalError) -> JournalPosition {
    let position = try append(
      kind: event.kind, byteCount: event.byteCount, preparation: isPrepared ? .least : event.preparation, &state
    ) { event.write(to: &$0) }
    state.contents.apply(event)
    // The lane exists from now on, even if the record is written later.
    if case .laneBegan(let lane, _) = event { state.contents.make(lane: lane, live: true) }
    return position
  }

  /// - Parameter preparation: see ``beforeCommits(_:)``.
  func append(
    kind: JournalEvent.Kind, byteCount: Int, preparation: Preparation = .least, _ state: inout State,
    _ write: (inout RecordWriter) -> Void
  ) throws(JournalError) -> JournalPosition {
    let position = try unsafe journal.append(
      kind: kind.rawValue, byteCount: byteCount, preparation: preparation
    ) { memory in
      var record = unsafe RecordWriter(memory)
      write(&record)
      precondition(record.byteCount == byteCount, "a record of \(record.byteCount) bytes that was to have \(byteCount)")
    }
    state.byteCountSinceCheckpoint += byteCount
    return position
  }

  func write(_ payload: [UInt8], as number: UInt64, _ state: inout State) throws(JournalError) {
    _ = try append(kind: .payload, byteCount: 8 + RecordWriter.byteCount(payload), &state) { record in
      record.write(number)
      record.write(payload)
    }
  }

  /// Writes an enqueue record for a claim.
  ///
  /// - Returns: false if there is no room or the journal has failed. Then wait for ``room()``, and
  ///   check ``failure``.
  func enqueue(_ header: EnqueueHeader, _ shape: EnqueueShape, _ source: some EnqueueSource) -> Bool {
    enqueue(header, byteCount: shape.byteCount, content: nil) { shape.write(source, to: &$0) }
  }

  /// Writes an enqueue record of a ``Reservoir``, and keeps its content in memory.
  func store(_ header: EnqueueHeader, _ content: EnqueueContent) -> Bool {
    enqueue(header, byteCount: content.bytes.count, content: content) { record in
      unsafe content.bytes.withUnsafeBytes { unsafe record.write(raw: $0) }
    }
  }

  private func enqueue(
    _ header: EnqueueHeader, byteCount: Int, content: EnqueueContent?, _ write: (inout RecordWriter) -> Void
  ) -> Bool {
    let position = attempt { state throws(JournalError) in
      // Lanes that make room are never held up.
      let isNew = header.source == nil && !header.isRewritten
      guard !isNew || state.settlements.entries.count < Self.waitingLimit else { throw .full }
      let position = try append(
        kind: .enqueue, byteCount: header.byteCount + byteCount, preparation: header.position?.preparation ?? .least,
        &state
      ) { record in
        header.write(to: &record)
        write(&record)
      }
      state.contents.apply(header, at: position, content: content)
      if !header.isRewritten { state.byteCount += header.byteCount + byteCount }
      if state.byteCountSinceCheckpoint >= checkpointByteCount { checkpoint(&state) }
      return position
    }
    return position != nil
  }

  /// Writes a record, unless others wait for room. Nil if there is none, or the journal has failed.
  private func attempt(_ body: (inout State) throws(JournalError) -> JournalPosition) -> JournalPosition? {
    let (position, tell): (JournalPosition?, (@Sendable () -> Void)?) = state.withLock { state in
      guard state.failure == nil, state.overflow.isEmpty else { return (nil, nil) }
      do throws(JournalError) { return (try body(&state), nil) } catch {
        if case .full = error { return (nil, nil) }
        return (nil, Self.fail(error, &state))
      }
    }
    tell?()
    return position
  }

  /// Returns when there is room again, or there never will be.
  func room() async {
    if state.withLock({ $0.settlements.entries.count >= Self.waitingLimit }) { await settlementsWritten() }
    await journal.room()
  }

  func whenRoom(_ run: @escaping @Sendable () -> Void) { journal.whenRoom(run) }

  // MARK: Intents

  /// Writes that everything in the lane's ring before `through` may be sent once the returned
  /// position is durable. Nil if that is not possible now.
  func intend(lane: UInt64, through: UInt64) -> JournalPosition? {
    attempt { state throws(JournalError) in try write(.intent(lane: lane, through: through), &state) }
  }

  /// Calls `run` when everything up to `position` is durable. If that becomes impossible,
  /// ``onFailure(_:)`` is called instead.
  func whenDurable(_ position: JournalPosition, _ run: @escaping @Sendable () -> Void) {
    journal.whenDurable(position) { [self] result in
      switch result {
      case .success: run()
      case .failure(let error): state.withLock { state in Self.fail(error, &state) }()
      }
    }
  }

  /// Makes the journal commit at once, because the writer of the record at `position` waits for it.
  func hurry(_ position: JournalPosition) { journal.hurry(position) }

  func isDurable(_ position: JournalPosition) -> Bool { journal.durablePosition >= position }

  /// Calls `observe` after each commit, on the journal's thread: with the duration of the sync, nil
  /// without one, and for how long the oldest record was not durable. It must return at once.
  package func observeCommits(_ observe: @escaping @Sendable (_ sync: Duration?, _ lag: Duration) -> Void) {
    journal.didCommit { observe($0.syncDuration, $0.lag) }
  }

  // MARK: Lanes

  /// Assigns a number to a lane of this process.
  func addLane(app: String) -> UInt64 {
    let number = state.withLock { $0.contents.takeNumber() }
    record(.laneBegan(lane: number, app: app))
    return number
  }

  /// Assigns a number to a reservoir. The first record that it stores makes it known.
  func takeReservoirNumber() -> UInt64 { state.withLock { $0.contents.takeNumber() } }

  /// - Parameter compact: asks the lane to write again, soon, the unsettled part of its ring before
  ///   a position. It must not call the journal directly.
  func onPinned(lane: UInt64, compact: @escaping @Sendable (UInt64) -> Void) {
    state.withLock { $0.compactors[lane] = compact }
  }

  /// A lane of this process has left its app's pool, with an empty ring. It is forgotten as soon as
  /// nothing in the journal needs it.
  func retired(lane: UInt64) {
    if !isWaiting(.retired(lane: lane)) { forget(lane: lane) }
  }

  func forget(lane: UInt64) {
    state.withLock { state in
      state.compactors[lane] = nil
      state.compactedAt[lane] = nil
      state.contents.make(lane: lane, live: false)
    }
  }

  // MARK: Checkpoints

  /// Releases everything that has its outcome, if something was written since that was done last.
  package func renew() {
    state.withLock { state in
      guard state.failure == nil, state.overflow.isEmpty, state.byteCountSinceCheckpoint > 0 else { return }
      checkpoint(&state)
    }
  }

  /// Writes the whole state into a new segment and releases the segments that it replaces. Without
  /// room, the checkpoint is postponed.
  private func checkpoint(_ state: inout State, keeping kept: Set<UInt64> = []) {
    state.contents.prune(keeping: kept)
    do throws(JournalError) {
      try journal.startSegment()
      let start = journal.nextPosition
      // Written even if the state is empty: without a record no segment begins, and the old one
      // stays.
      _ = try write(.numbersTaken(below: state.contents.nextNumber), &state)
      // In the order of their numbers, so that the same events make the same journal.
      for (number, payload) in state.contents.payloads.sorted(by: { $0.key < $1.key }) {
        try write(payload, as: number, &state)
      }
      for campaign in state.contents.campaigns.values.sorted(by: { $0.number < $1.number }) {
        _ = try append(kind: .campaign, byteCount: campaign.byteCount, &state) { campaign.write(to: &$0) }
      }
      for lane in state.contents.lanes.values.sorted(by: { $0.number < $1.number }) {
        let record = lane.record
        _ = try append(kind: .lane, byteCount: record.byteCount, &state) { record.write(to: &$0) }
      }
      state.byteCountSinceCheckpoint = 0
      state.checkpoints.append((start, state.byteCount))
      try compactPinned(&state)
      let oldest = plantedMistake == .unsettledIsReleased ? nil : state.contents.oldestPosition
      let needed = min(start, oldest ?? start)
      journal.release(before: needed)
      // The checkpoint before the oldest record that is needed stays, because it gives that
      // record's age.
      while state.checkpoints.count > 1, state.checkpoints[1].position <= needed { state.checkpoints.removeFirst() }
    } catch {
      // Everything written is correct, and the next enqueue tries the checkpoint again and reports
      // a failure. A record that is too large would fail again, so the next try waits for the usual
      // interval.
      if case .recordTooLarge = error { state.byteCountSinceCheckpoint = 0 }
    }
  }

  /// Rewrites unsettled records that lie too far back. Otherwise one stuck app would keep the
  /// segments of all others.
  ///
  /// The distance is a multiple of the bytes that are unsettled in total. So the journal stays in
  /// proportion to them, and rewriting stays a fraction of writing.
  private func compactPinned(_ state: inout State) throws(JournalError) {
    let reach = max(8 * checkpointByteCount, 2 * state.contents.unsettledByteCount)
    guard let limit = state.checkpoints.last(where: { state.byteCount - $0.byteCount > reach })?.position else {
      return
    }
    for (number, lane) in state.contents.lanes.sorted(by: { $0.key < $1.key }) {
      if lane.isLive {
        // What a lane cannot write again stays where it is. Asked at every checkpoint, it would
        // write all the rest again, and so bring about the next checkpoint.
        let isRecent = state.compactedAt[number].map { state.byteCount - $0 <= reach / 2 } ?? false
        guard !isRecent, let end = lane.end(before: limit) else { continue }
        state.compactedAt[number] = state.byteCount
        state.compactors[number]?(end)
        continue
      }
      for run in lane.runs(before: limit) {
        guard let (part, content) = run.part else { continue }
        let header = EnqueueHeader(run: part, position: nil, isInDoubt: run.isInDoubt, isRewritten: true)
        let position = try append(
          kind: .enqueue, byteCount: header.byteCount + content.bytes.count, &state
        ) { record in
          header.write(to: &record)
          unsafe content.bytes.withUnsafeBytes { unsafe record.write(raw: $0) }
        }
        state.contents.apply(header, at: position, content: content)
      }
    }
  }

  /// Returns when nothing waits for room any more.
  private func drained() async {
    await settlementsWritten()
    while state.withLock({ $0.failure == nil && !$0.overflow.isEmpty }) { await room() }
  }

  /// Returns when everything that was recorded is durable.
  package func makeDurable() async throws(JournalProblem) {
    await drained()
    let last = journal.nextPosition.rawValue - 1
    guard last > 0 else { return }
    do throws(JournalError) {
      try await journal.durable(through: JournalPosition(rawValue: last))
    } catch {
      throw JournalProblem(error)
    }
  }

  /// Calls `run` when everything that was written so far is durable, or with why it never will be.
  package func whenAllIsDurable(_ run: @escaping @Sendable (JournalProblem?) -> Void) {
    let last = journal.nextPosition.rawValue - 1
    guard last > 0 else { return run(nil) }
    journal.whenDurable(JournalPosition(rawValue: last)) { [self] result in
      switch result {
      case .success: run(nil)
      case .failure(let error):
        state.withLock { state in Self.fail(error, &state) }()
        run(JournalProblem(error))
      }
    }
  }

  /// Makes everything durable, leaves as little as possible on the disk, and releases the
  /// directory.
  ///
  /// - Parameter forgetsEnded: also forget campaigns that had ended before the journal was opened.
  /// - Throws: if some records have not become durable.
  package func close(forgetsEnded: Bool = true) async throws(JournalProblem) {
    await drained()
    state.withLock { state in
      // If the process is killed while closing, its successor may need the accounts of ended
      // campaigns. Accounts in a closed journal have been reported.
      if state.failure == nil, state.overflow.isEmpty {
        checkpoint(&state, keeping: state.contents.endedGroups.subtracting(forgetsEnded ? givenGroups : []))
      }
    }
    writer.withLock { $0?.end() }
    do throws(JournalError) {
      try await journal.close()
    } catch {
      throw JournalProblem(error)
    }
  }

  /// Writes nothing any more, as if the process had ended. Simulated crashes use it.
  package func abandon() { state.withLock { state in Self.fail(JournalError.closed, &state) }() }
}
