/// An append-only journal of opaque records in a directory of its own. Durable records survive the
/// end of the process and, unless ``JournalSync/never`` is set, a loss of power.
///
/// Records are numbered in the order in which they are appended. Recovery returns them in that
/// order and without gaps, up to a point at or behind the last durable record. Appending copies
/// into memory. The journal's own thread compresses, writes and syncs.
///
/// A journal must be closed. Until then its thread runs and the directory stays locked.
///
/// Sync: `state` is read and written with `monitor` locked. `writer` is used by one thread only:
/// the journal's, or the caller that runs the journal by hand.
@safe package final class Journal: @unchecked Sendable {
  let monitor = Monitor()
  var state: CommitQueue
  let writer: SegmentWriter
  let lock: any JournalLock
  /// For a journal that is run by hand: signals work to the caller. Nil if the journal has its own
  /// thread.
  let wakeByHand: (@Sendable () -> Void)?
  /// The longest payload of a record, in bytes.
  package let payloadByteCountLimit: Int

  init(
    writer: SegmentWriter, lock: any JournalLock, options: JournalOptions, next: UInt64,
    wakeByHand: (@Sendable () -> Void)?
  ) {
    (self.writer, self.lock, self.wakeByHand) = (writer, lock, wakeByHand)
    state = CommitQueue(options: options, next: next)
    payloadByteCountLimit = options.blockByteCount - FrameHeader.byteCount - RecordFormat.prefixByteCountLimit
    state.oldestEnd = writer.oldestEnd
    state.size = JournalSize(segmentCount: writer.segmentCount, byteCount: writer.totalByteCount)
  }

  // MARK: Appending

  /// Appends a record. Any thread may call this. It costs one copy and allocates nothing.
  ///
  /// - Parameter kind: 1…255; the caller defines the meaning.
  /// - Throws: `.full` when all blocks wait for the disk (see ``whenRoom(_:)``), `.recordTooLarge`,
  ///   `.failed`, `.closed`.
  package func append(kind: UInt8, payload: UnsafeRawBufferPointer) throws(JournalError) -> JournalPosition {
    try unsafe append(kind: kind, byteCount: payload.count) { destination in
      unsafe destination.copyMemory(from: payload)
    }
  }

  /// Appends a record of `byteCount` bytes that `fill` writes in place. `fill` must write all of
  /// them, be fast because other appenders wait, and not call the journal.
  ///
  /// - Parameter preparation: see ``willCommit(_:)``.
  package func append(
    kind: UInt8, byteCount: Int, preparation: Preparation = .all, fill: (UnsafeMutableRawBufferPointer) -> Void
  ) throws(JournalError) -> JournalPosition {
    precondition(kind != RecordFormat.ownKind, "kind 0 is the journal's own")
    guard byteCount <= payloadByteCountLimit else {
      throw .recordTooLarge(byteCount: byteCount, limit: payloadByteCountLimit)
    }
    monitor.lock()
    if let refusal = state.refusal {
      monitor.unlock()
      throw refusal
    }
    var wakes = false
    var place = unsafe state.current.reserve(kind: kind, byteCount: byteCount)
    if unsafe place == nil {
      // The present block is full, or `startSegment` has closed it; a closed block is not empty.
      guard state.sealCurrent() else {
        monitor.unlock()
        throw .full
      }
      wakes = state.wake()
      unsafe place = state.current.reserve(kind: kind, byteCount: byteCount)
    }
    guard let place = unsafe place else { preconditionFailure("no room for a record in an empty block") }
    let position = JournalPosition(rawValue: state.next)
    state.next += 1
    unsafe fill(place)
    state.current.preparation = max(state.current.preparation, preparation)
    // A thread that rests without a deadline must learn of this record.
    if state.rest == .idle { wakes = state.wake() || wakes }
    monitor.unlock()
    if wakes { wakeUp() }
    return position
  }

  /// Calls `run` once when a record can be appended again, or when the journal has failed or is
  /// closed; the next append then throws. `run` is called at once if there is room, otherwise on
  /// the journal's thread.
  package func whenRoom(_ run: @escaping @Sendable () -> Void) {
    monitor.lock()
    if state.refusal == nil, state.free.isEmpty {
      state.roomWaiters.append(run)
      monitor.unlock()
    } else {
      monitor.unlock()
      run()
    }
  }

  /// Returns when a record can be appended again, or when the journal has failed or is closed.
  package func room() async {
    await withCheckedContinuation { continuation in whenRoom { continuation.resume() } }
  }

  /// Begins a new segment with the next record, so that all records before it can be released. For
  /// checkpoints.
  ///
  /// - Throws: `.full`, `.failed`, `.closed`.
  package func startSegment() throws(JournalError) {
    monitor.lock()
    var refusal = state.refusal
    var wakes = false
    if refusal == nil, !state.current.isEmpty {
      if state.sealCurrent() { wakes = state.wake() } else { refusal = .full }
    }
    if refusal == nil {
      state.current.startsSegment = true
      state.segmentStart = state.next
    }
    monitor.unlock()
    if wakes { wakeUp() }
    if let refusal { throw refusal }
  }

  // MARK: Durability

  /// Calls `run` once when the record at `position` and all before it are durable as
  /// ``JournalSync`` defines, or when they cannot become durable.
  ///
  /// `run` is called at once if the result is known, otherwise on the journal's thread. It must not
  /// block.
  package func whenDurable(_ position: JournalPosition, _ run: @escaping @Sendable (Result<Void, JournalError>) -> Void)
  {
    monitor.lock()
    precondition(position.rawValue < state.next, "this record has not been appended")
    if position.rawValue <= state.durable {
      monitor.unlock()
      run(.success(()))
      return
    }
    if let refusal = state.failure ?? (state.phase == .closed ? .closed : nil) {
      monitor.unlock()
      run(.failure(refusal))
      return
    }
    state.waiters.append(CommitQueue.Waiter(position: position.rawValue, run: run))
    // With an interval, the thread already has its deadline.
    var wakes = false
    if case .interval = state.schedule.sync {} else { wakes = state.wake() }
    monitor.unlock()
    if wakes { wakeUp() }
  }

  /// Makes the record at `position` and all before it durable, without waiting for the end of the
  /// interval. For records that their writer waits for.
  package func hurry(_ position: JournalPosition) {
    waking {
      precondition(position.rawValue < state.next, "this record has not been appended")
      guard position.rawValue > state.durable, state.refusal == nil else { return false }
      state.urgentThrough = max(state.urgentThrough, position.rawValue)
      return state.wake()
    }
  }

  /// Returns when the record at `position` and all before it are durable as ``JournalSync``
  /// defines. Cancelling the task does not shorten the wait.
  package func durable(through position: JournalPosition) async throws(JournalError) {
    let result = await withCheckedContinuation { continuation in
      whenDurable(position) { continuation.resume(returning: $0) }
    }
    try result.get()
  }

  /// Sets a function that is called before each group of records is written, when all of them have
  /// been appended. It makes other files durable that must be durable first.
  ///
  /// The function runs on the journal's thread. If it throws, the journal fails. Under
  /// `JournalSync.never` it is not called.
  package func willCommit(_ prepare: @escaping @Sendable () throws(JournalFileError) -> Void) {
    willCommit { (_: Preparation) throws(JournalFileError) in
      try prepare()
      return true
    }
  }

  /// The same. The function gets the most that one of the records needs, and returns false if it is
  /// to be called again a little later: until then nothing is written.
  package func willCommit(_ prepare: @escaping @Sendable (Preparation) throws(JournalFileError) -> Bool) {
    monitor.locked { state.willCommit = prepare }
  }

  /// False under ``JournalSync/never``.
  package var syncs: Bool { monitor.locked { state.schedule.sync != .never } }

  /// Sets a function that is called after each commit, for measurements. The function runs on the
  /// journal's thread with its lock taken, so it must return at once and not call the journal.
  package func didCommit(_ observe: @escaping @Sendable (JournalCommit) -> Void) {
    precondition(wakeByHand == nil, "a journal that is run by hand has no clock")
    monitor.locked { state.didCommit = observe }
  }

  /// The position up to which everything is durable; 0 if nothing is.
  package var durablePosition: JournalPosition { monitor.locked { JournalPosition(rawValue: state.durable) } }

  /// The position of the next record.
  package var nextPosition: JournalPosition { monitor.locked { JournalPosition(rawValue: state.next) } }

  /// The journal's segments and bytes on disk.
  package var size: JournalSize { monitor.locked { state.size } }

  // MARK: Releasing and closing

  /// Declares that no record before `position` is needed. Segments that end before it are deleted
  /// soon, but not before everything appended so far is durable. So a checkpoint that was appended
  /// first is never lost together with what it replaces.
  package func release(before position: JournalPosition) {
    waking {
      precondition(position.rawValue <= state.next, "these records have not been appended")
      guard state.refusal == nil, position.rawValue > state.releaseBefore else { return false }
      state.releaseBefore = position.rawValue
      state.releaseAfter = state.next - 1
      return state.facts.release != .none && state.wake()
    }
  }

  /// Makes everything durable, closes the last segment, and unlocks the directory. Appends throw
  /// `.closed` from now on.
  ///
  /// Calls `run` once with the result: on the journal's thread, or on the caller's if the journal
  /// has already ended.
  package func close(_ run: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
    monitor.lock()
    if state.phase == .closed {
      let result: Result<Void, JournalError> = state.failure.map { .failure($0) } ?? .success(())
      monitor.unlock()
      run(result)
      return
    }
    state.phase = .closing
    state.closeWaiters.append(run)
    let wakes = state.wake()
    monitor.unlock()
    if wakes { wakeUp() }
  }

  /// Makes everything durable, closes the last segment, and unlocks the directory.
  package func close() async throws(JournalError) {
    let result = await withCheckedContinuation { continuation in close { continuation.resume(returning: $0) } }
    try result.get()
  }

  /// Changes the state, and signals the thread if `change` returns true.
  private func waking(_ change: () -> Bool) { if monitor.locked(change) { wakeUp() } }

  private func wakeUp() {
    if let wakeByHand { wakeByHand() } else { monitor.signal() }
  }
}

/// How long a commit took.
package struct JournalCommit: Hashable, Sendable {
  /// Of the file's `fdatasync`. Nil under ``JournalSync/never``.
  package let syncDuration: Duration?
  /// How long the oldest of its records was not durable, from the moment when the journal's thread
  /// first saw it.
  package let lag: Duration
}

/// The space that a journal uses on disk.
package struct JournalSize: Hashable, Sendable {
  package let segmentCount: Int
  package let byteCount: Int
}

extension Monitor {
  func locked<Value>(_ body: () -> Value) -> Value {
    lock()
    defer { unlock() }
    return body()
  }
}
