/// An append-only journal of opaque records in a directory of its own: what is durable survives the end of the process and, but for `JournalSync.never`, a loss of power.
///
/// Records are numbered as they are appended. They come back in that order, without gaps, up to some point at or behind the last that was durable.
/// Appending copies into memory; compressing, writing and syncing happen on the journal's own thread.
///
/// A journal is to be closed: until then its thread and the ownership of the directory stay.
///
/// Sync: `state` is read and written with `monitor` locked. `writer` is used by the one thread (or, run by hand, the one caller) that runs the journal.
@safe package final class Journal: @unchecked Sendable {
  let monitor = Monitor()
  var state: CommitQueue
  let writer: SegmentWriter
  let lock: any JournalLock
  /// Tells whoever runs the journal by hand that there is something to do; nil if it has its own thread.
  let wakeByHand: (@Sendable () -> Void)?
  /// The longest payload of a record.
  package let payloadByteCountLimit: Int

  init(writer: SegmentWriter, lock: any JournalLock, options: JournalOptions, next: UInt64, wakeByHand: (@Sendable () -> Void)?) {
    self.writer = writer
    self.lock = lock
    self.wakeByHand = wakeByHand
    state = CommitQueue(options: options, next: next)
    payloadByteCountLimit = options.blockByteCount - FrameHeader.byteCount - RecordFormat.prefixByteCountLimit
    state.oldestEnd = writer.oldestEnd
    state.size = JournalSize(segmentCount: writer.segmentCount, byteCount: writer.totalByteCount)
  }

  // MARK: Appending

  /// Appends a record. From any thread; takes the time of a copy, and allocates nothing.
  ///
  /// - Parameter kind: 1…255, whatever it means to the caller.
  /// - Throws: `.full` when the disk is behind by all the memory there is (see ``whenRoom(_:)``), `.recordTooLarge`, `.failed`, `.closed`.
  package func append(kind: UInt8, payload: UnsafeRawBufferPointer) throws(JournalError) -> JournalPosition {
    try unsafe append(kind: kind, byteCount: payload.count) { destination in unsafe destination.copyMemory(from: payload) }
  }

  /// Appends a record that `fill` writes in place: all `byteCount` bytes of it, and soon, since other appenders wait for it.
  /// `fill` must not call the journal.
  package func append(kind: UInt8, byteCount: Int, fill: (UnsafeMutableRawBufferPointer) -> Void) throws(JournalError) -> JournalPosition {
    precondition(kind != RecordFormat.ownKind, "kind 0 is the journal's own")
    guard byteCount <= payloadByteCountLimit else { throw .recordTooLarge(byteCount: byteCount, limit: payloadByteCountLimit) }
    monitor.lock()
    if let refusal = state.refusal {
      monitor.unlock()
      throw refusal
    }
    var wakes = false
    var place = unsafe state.current.reserve(kind: kind, byteCount: byteCount)
    if unsafe place == nil {
      // The present block is full (or closed by `startSegment`, never empty then).
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
    // Someone asleep without a deadline does not know of this record.
    if state.rest == .idle { wakes = state.wake() || wakes }
    monitor.unlock()
    if wakes { wakeUp() }
    return position
  }

  /// Calls `run` once when there is room again, or there never will be: then the next append says why. At once if there is room now; otherwise on the journal's thread.
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

  /// Returns when there is room again, or there never will be.
  package func room() async {
    await withCheckedContinuation { continuation in whenRoom { continuation.resume() } }
  }

  /// Lets the next record begin a new segment, so that all before it can be released together: for a checkpoint.
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

  /// Calls `run` once when the record at `position` and all before it are durable under the policy, or cannot become so. On the caller's thread if that is known now,
  /// otherwise on the journal's: it must not block.
  package func whenDurable(_ position: JournalPosition, _ run: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
    monitor.lock()
    precondition(position.rawValue < state.next, "a record that was never appended")
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
    // With an interval the thread has its deadline already.
    var wakes = false
    if case .interval = state.schedule.sync {} else { wakes = state.wake() }
    monitor.unlock()
    if wakes { wakeUp() }
  }

  /// Makes the record at `position`, and all before it, durable without waiting for the end of the
  /// interval. For records that hold up their writer.
  package func hurry(_ position: JournalPosition) {
    monitor.lock()
    precondition(position.rawValue < state.next, "a record that was never appended")
    var wakes = false
    if position.rawValue > state.durable, state.refusal == nil {
      state.urgentThrough = max(state.urgentThrough, position.rawValue)
      wakes = state.wake()
    }
    monitor.unlock()
    if wakes { wakeUp() }
  }

  /// Returns when the record at `position` and all before it are durable under the policy. Cancelling the task does not shorten the wait.
  package func durable(through position: JournalPosition) async throws(JournalError) {
    let result = await withCheckedContinuation { continuation in whenDurable(position) { continuation.resume(returning: $0) } }
    try result.get()
  }

  /// Calls `prepare` before each group of records is written, with all that was appended to it by then: for other files that must be durable before those records are.
  /// Called by whoever runs the journal, which fails if `prepare` throws; not at all under `JournalSync.never`.
  package func willCommit(_ prepare: @escaping @Sendable () throws(JournalFileError) -> Void) {
    monitor.locked { state.willCommit = prepare }
  }

  /// Everything up to here is durable; position 0 if nothing is.
  package var durablePosition: JournalPosition { monitor.locked { JournalPosition(rawValue: state.durable) } }

  /// The position that the next record gets.
  package var nextPosition: JournalPosition { monitor.locked { JournalPosition(rawValue: state.next) } }

  /// Segments and bytes on disk.
  package var size: JournalSize { monitor.locked { state.size } }

  // MARK: Letting go

  /// Says that no record before `position` is needed any more. Segments that end before it are deleted, soon, and not before everything appended up to now is durable
  /// (so a checkpoint that was appended first can never be lost with what it replaces).
  package func release(before position: JournalPosition) {
    monitor.lock()
    precondition(position.rawValue <= state.next, "records that were never appended cannot be released")
    var wakes = false
    if state.refusal == nil, position.rawValue > state.releaseBefore {
      state.releaseBefore = position.rawValue
      state.releaseAfter = state.next - 1
      if state.facts.release != .none { wakes = state.wake() }
    }
    monitor.unlock()
    if wakes { wakeUp() }
  }

  /// Makes everything durable, closes the last segment in good order, and gives the directory up. Calls `run` once with the result, on the journal's thread or,
  /// if the journal has ended before, the caller's. Appends throw `.closed` from now on.
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

  /// Makes everything durable, closes the last segment in good order, and gives the directory up.
  package func close() async throws(JournalError) {
    let result = await withCheckedContinuation { continuation in close { continuation.resume(returning: $0) } }
    try result.get()
  }

  private func wakeUp() {
    if let wakeByHand { wakeByHand() } else { monitor.signal() }
  }
}

/// What a journal takes on disk.
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
