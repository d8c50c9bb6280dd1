internal import PushJournal
internal import PushWire
internal import Synchronization

/// The journal of a deployment, as readers and lanes write it: what is taken in, what may be sent, what came of it.
///
/// Every record goes through one lock together with ``JournalState``, which is therefore at every moment what a reader of the journal would know. A checkpoint writes
/// that down anew, so that the segments before it can go. The lock is taken once per chunk, batch or run, never once per notification.
package final class EngineJournal: Sendable {
  struct State {
    var contents: JournalState
    /// Events that found no room. They follow in order as soon as there is some; nothing else is written before them.
    var overflow: [JournalEvent] = []
    var byteCountSinceCheckpoint = 0
    /// Where checkpoints begin, and how many bytes had been taken in before them.
    var checkpoints: [(position: JournalPosition, byteCount: Int)] = []
    /// Bytes of enqueue records, without those that were only written again: what is pinned must not grow old by being renewed.
    var byteCount = 0
    /// Asks a lane of this process to write its unsettled runs again, up to a position of its ring. Called with the lock taken.
    var compactors: [UInt64: @Sendable (UInt64) -> Void] = [:]
    /// Why nothing is written any more: a sentence.
    var failure: String?
    var failureHandlers: [@Sendable (String) -> Void] = []
  }

  let state: Mutex<State>
  let journal: Journal
  /// After so many bytes of records comes a checkpoint, and a new segment.
  private let checkpointByteCount: Int
  let plantedMistake: EngineJournalOptions.PlantedMistake?

  /// Groups that had ended when the journal was closed before.
  private let givenGroups: Set<UInt64>

  /// - Parameter wasClosed: by the process that wrote the last records of `contents`.
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

  /// Why nothing is written any more: a sentence.
  package var failure: String? { state.withLock { $0.failure } }

  /// Calls `handler` once when the journal can no longer be written, from any thread; at once if that has happened.
  func onFailure(_ handler: @escaping @Sendable (String) -> Void) {
    let failure = state.withLock { state in
      if state.failure == nil { state.failureHandlers.append(handler) }
      return state.failure
    }
    if let failure { handler(failure) }
  }

  /// Writes nothing any more, for a reason of the caller's: what he can no longer keep up with may not be settled here either.
  package func stop(because reason: String) {
    state.withLock { state in Self.fail(reason, &state) }()
  }

  private static func fail(_ error: JournalError, _ state: inout State) -> @Sendable () -> Void {
    fail("\(error)", &state)
  }

  /// Returns what to call, outside the lock.
  private static func fail(_ reason: String, _ state: inout State) -> @Sendable () -> Void {
    guard state.failure == nil else { return {} }
    state.failure = reason
    state.overflow = []
    let handlers = exchange(&state.failureHandlers, with: [])
    return { for handler in handlers { handler(reason) } }
  }

  // MARK: Writing

  /// Writes an event, now or as soon as there is room.
  func record(_ event: JournalEvent) {
    enum Next { case nothing, drain, call(@Sendable () -> Void) }
    let next: Next = state.withLock { state in
      guard state.failure == nil else { return .nothing }
      guard state.overflow.isEmpty else {
        state.overflow.append(event)
        return .nothing
      }
      do throws(JournalError) {
        _ = try write(event, &state)
        return .nothing
      } catch {
        guard case .full = error else { return .call(Self.fail(error, &state)) }
        state.overflow.append(event)
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
            _ = try write(state.overflow[written], &state)
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

  private func write(_ event: JournalEvent, _ state: inout State) throws(JournalError) -> JournalPosition {
    let position = try append(kind: event.kind, byteCount: event.byteCount, &state) { event.write(to: &$0) }
    state.contents.apply(event)
    // However late it finds room.
    if case .laneBegan(let lane, _) = event { state.contents.make(lane: lane, live: true) }
    return position
  }

  func append(
    kind: UInt8, byteCount: Int, _ state: inout State, _ write: (inout RecordWriter) -> Void
  ) throws(JournalError) -> JournalPosition {
    let position = try unsafe journal.append(kind: kind, byteCount: byteCount) { memory in
      var record = unsafe RecordWriter(memory)
      write(&record)
      precondition(record.byteCount == byteCount, "a record of \(record.byteCount) bytes that was to have \(byteCount)")
    }
    state.byteCountSinceCheckpoint += byteCount
    return position
  }

  /// Writes what a claim takes in.
  ///
  /// - Returns: false when there is no room, or the journal has failed: wait for ``room()``, and look at ``failure``.
  func enqueue(_ header: EnqueueHeader, _ shape: EnqueueShape, _ source: some EnqueueSource) -> Bool {
    let (isWritten, tell): (Bool, (@Sendable () -> Void)?) = state.withLock { state in
      guard state.failure == nil, state.overflow.isEmpty else { return (false, nil) }
      do throws(JournalError) {
        let position = try append(
          kind: JournalEvent.Kind.enqueue, byteCount: header.byteCount + shape.byteCount, &state
        ) { record in
          header.write(to: &record)
          shape.write(source, to: &record)
        }
        state.contents.apply(header, at: position, content: nil)
        if !header.isRewritten { state.byteCount += header.byteCount + shape.byteCount }
        if state.byteCountSinceCheckpoint >= checkpointByteCount { checkpoint(&state) }
        return (true, nil)
      } catch {
        if case .full = error { return (false, nil) }
        return (false, Self.fail(error, &state))
      }
    }
    tell?()
    return isWritten
  }

  /// Returns when there is room again, or there never will be.
  func room() async { await journal.room() }

  func whenRoom(_ run: @escaping @Sendable () -> Void) { journal.whenRoom(run) }

  // MARK: Intents

  /// Writes that everything in the lane's ring before `through` may be sent, once the returned position is durable. Nil when that is not possible now.
  func intend(lane: UInt64, through: UInt64) -> JournalPosition? {
    let (position, tell): (JournalPosition?, (@Sendable () -> Void)?) = state.withLock { state in
      guard state.failure == nil, state.overflow.isEmpty else { return (nil, nil) }
      do throws(JournalError) {
        return (try write(.intent(lane: lane, through: through), &state), nil)
      } catch {
        if case .full = error { return (nil, nil) }
        return (nil, Self.fail(error, &state))
      }
    }
    tell?()
    return position
  }

  /// Calls `run` when everything up to `position` is durable. Where that can never be, ``onFailure(_:)`` is called instead.
  func whenDurable(_ position: JournalPosition, _ run: @escaping @Sendable () -> Void) {
    journal.whenDurable(position) { [self] result in
      switch result {
      case .success: run()
      case .failure(let error): state.withLock { state in Self.fail(error, &state) }()
      }
    }
  }

  /// Has the journal commit at once: the writer of the record at `position` cannot go on before it is durable.
  func hurry(_ position: JournalPosition) { journal.hurry(position) }

  func isDurable(_ position: JournalPosition) -> Bool { journal.durablePosition >= position }

  // MARK: Lanes

  /// A number for a lane of this process.
  func addLane(app: String) -> UInt64 {
    let number = state.withLock { $0.contents.takeNumber() }
    record(.laneBegan(lane: number, app: app))
    return number
  }

  /// - Parameter compact: asks the lane to write again, soon, what its ring holds unsettled before a position. Must not call the journal at once.
  func onPinned(lane: UInt64, compact: @escaping @Sendable (UInt64) -> Void) {
    state.withLock { $0.compactors[lane] = compact }
  }

  /// A lane of this process has left its app's pool, with an empty ring. It is forgotten as soon as
  /// nothing in the journal needs it.
  func retired(lane: UInt64) {
    state.withLock { state in
      state.compactors[lane] = nil
      state.contents.make(lane: lane, live: false)
    }
  }

  // MARK: Checkpoints

  /// Writes the whole state into a new segment, and lets go of what it replaces. Without room it is put off.
  private func checkpoint(_ state: inout State, keeping kept: Set<UInt64> = []) {
    state.contents.prune(keeping: kept)
    do throws(JournalError) {
      try journal.startSegment()
      let start = journal.nextPosition
      // Also of nothing else: without a record no segment begins, and the last one stays.
      _ = try write(.numbersTaken(below: state.contents.nextNumber), &state)
      // In the order of their numbers: the same events make the same journal.
      for (number, payload) in state.contents.payloads.sorted(by: { $0.key < $1.key }) {
        _ = try append(kind: JournalEvent.Kind.payload, byteCount: 8 + RecordWriter.byteCount(payload), &state) {
          record in
          record.write(number)
          record.write(payload)
        }
      }
      for campaign in state.contents.campaigns.values.sorted(by: { $0.number < $1.number }) {
        _ = try append(kind: JournalEvent.Kind.campaign, byteCount: campaign.byteCount, &state) {
          campaign.write(to: &$0)
        }
      }
      for lane in state.contents.lanes.values.sorted(by: { $0.number < $1.number }) {
        let record = lane.record
        _ = try append(kind: JournalEvent.Kind.lane, byteCount: record.byteCount, &state) { record.write(to: &$0) }
      }
      state.byteCountSinceCheckpoint = 0
      state.checkpoints.append((start, state.byteCount))
      try compactPinned(&state)
      let oldest = plantedMistake == .unsettledIsReleased ? nil : state.contents.oldestPosition
      let needed = min(start, oldest ?? start)
      journal.release(before: needed)
      // The one before the oldest record that is needed stays, to know that one's age.
      while state.checkpoints.count > 1, state.checkpoints[1].position <= needed { state.checkpoints.removeFirst() }
    } catch {
      // What was written says nothing wrong; the next enqueue tries again. A failure shows there too. A record that is too large would be so again: that waits its turn.
      if case .recordTooLarge = error { state.byteCountSinceCheckpoint = 0 }
    }
  }

  /// One app that is stuck must not keep the segments of all others: what lies too far back is written again.
  ///
  /// How far is a multiple of what is unsettled altogether, so that the journal stays in proportion to it, and writing again stays a fraction of writing.
  private func compactPinned(_ state: inout State) throws(JournalError) {
    let reach = max(8 * checkpointByteCount, 2 * state.contents.unsettledByteCount)
    guard let limit = state.checkpoints.last(where: { state.byteCount - $0.byteCount > reach })?.position else {
      return
    }
    for (number, lane) in state.contents.lanes.sorted(by: { $0.key < $1.key }) {
      if lane.isLive {
        if let end = lane.end(before: limit) { state.compactors[number]?(end) }
        continue
      }
      for run in lane.runs(before: limit) {
        guard let (part, content) = run.part else { continue }
        let header = EnqueueHeader(run: part, position: nil, isInDoubt: run.isInDoubt, isRewritten: true)
        let position = try append(
          kind: JournalEvent.Kind.enqueue, byteCount: header.byteCount + content.bytes.count, &state
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

  /// Makes everything durable, leaves as little as possible on the disk, and gives the directory up.
  ///
  /// - Parameter forgetsEnded: campaigns that had ended before the journal was opened go with it.
  /// - Throws: if not all that was recorded has become durable.
  package func close(forgetsEnded: Bool = true) async throws(JournalProblem) {
    await drained()
    state.withLock { state in
      // Whoever is killed while closing may be asked for the accounts of what has ended; a closed journal's have been given.
      if state.failure == nil, state.overflow.isEmpty {
        checkpoint(&state, keeping: state.contents.endedGroups.subtracting(forgetsEnded ? givenGroups : []))
      }
    }
    do throws(JournalError) {
      try await journal.close()
    } catch {
      throw JournalProblem(error)
    }
  }

  /// Writes nothing any more, as if the process had ended: for simulated crashes, which end no process.
  package func abandon() {
    state.withLock { state in Self.fail(JournalError.closed, &state) }()
  }
}
