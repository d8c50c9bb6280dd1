/// What the journal's thread does.
extension Journal {
  /// The body of the journal's thread.
  func runThread() {
    monitor.lock()
    while true {
      let pause = runLocked(Monitor.now)
      guard state.phase != .closed else { break }
      monitor.wait(until: pause)
      state.rest = .working
    }
    monitor.unlock()
  }

  /// Does everything that is due at `now`, for a journal without a thread of its own. Returns when
  /// the next work is due if nothing happens before, or nil if nothing is.
  package func run(now: Duration) -> Duration? {
    monitor.lock()
    defer { monitor.unlock() }
    precondition(wakeByHand != nil, "this journal has its own thread")
    precondition(!state.isRunByHand, "the journal is being run already")
    state.isRunByHand = true
    defer { state.isRunByHand = false }
    state.rest = .working
    return runLocked { now }
  }

  /// Called and left with the lock taken. The lock is released around all disk operations.
  private func runLocked(_ clock: () -> Duration) -> Duration? {
    while state.phase != .closed {
      guard state.failure == nil else {
        // Nothing more is written. The files only have to be closed.
        guard state.phase == .closing else { break }
        end()
        break
      }
      do {
        switch state.schedule.next(now: clock(), state.facts) {
        case .write: if try !write() { state.schedule.putOff(now: clock(), since: state.schedule.dirtySince) }
        case .commit: try commit(clock)
        case .release: try release()
        case .finish:
          try unlocked { () throws(JournalFileError) in try writer.finish() }
          end()
        case .rest(let until):
          state.rest = until == nil ? .idle : .untilDeadline
          return until
        }
      } catch { fail(error) }
    }
    state.rest = .idle
    return nil
  }

  private func unlocked<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
    monitor.unlock()
    defer { monitor.lock() }
    return try body()
  }

  /// - Returns: false if nothing could be prepared yet, and nothing was written.
  private func write() throws(JournalFileError) -> Bool {
    let blocks = state.sealed
    state.sealed.removeAll(keepingCapacity: true)
    if !blocks.isEmpty, state.schedule.sync != .never, let prepare = state.willCommit {
      let preparation = blocks.reduce(.least) { max($0, $1.preparation) }
      let isPrepared = try unlocked { () throws(JournalFileError) in try prepare(preparation) }
      guard isPrepared else {
        state.sealed.insert(contentsOf: blocks, at: 0)
        return false
      }
    }
    for block in blocks {
      try unlocked { () throws(JournalFileError) in try writer.write(block) }
      state.written = block.first + UInt64(block.recordCount) - 1
      block.reuse()
      handBack(block)
    }
    noteSize()
    return true
  }

  /// Makes a written block free again, and resumes callers that wait for a block.
  private func handBack(_ block: JournalBlock) {
    state.free.append(block)
    guard !state.roomWaiters.isEmpty else { return }
    let waiters = exchange(&state.roomWaiters, with: [])
    unlocked { for run in waiters { run() } }
  }

  private func commit(_ clock: () -> Duration) throws(JournalFileError) {
    let dirtySince = state.schedule.dirtySince
    state.schedule.commitBegan()
    var isWritten = true
    if !state.current.isEmpty, !state.sealCurrent() {
      // While every block is full, there is none to fill during the write. So the present block is
      // sealed after it.
      isWritten = try write()
      if isWritten { _ = state.sealCurrent() }
    }
    if isWritten { isWritten = try write() }
    guard isWritten else { return state.schedule.putOff(now: clock(), since: dirtySince) }
    let covered = state.written
    let start = state.didCommit.map { _ in Monitor.now() }
    if state.schedule.sync != .never {
      try unlocked { () throws(JournalFileError) in try writer.sync() }
    }
    state.durable = covered
    if let didCommit = state.didCommit, let start {
      let end = Monitor.now()
      didCommit(
        JournalCommit(syncDuration: state.schedule.sync == .never ? nil : end - start, lag: end - (dirtySince ?? start))
      )
    }
    settleWaiters()
  }

  private func settleWaiters() {
    let durable = state.durable
    guard state.waiters.contains(where: { $0.position <= durable }) else { return }
    let waiters = exchange(&state.waiters, with: [])
    state.waiters = waiters.filter { $0.position > durable }
    unlocked { for waiter in waiters where waiter.position <= durable { waiter.run(.success(())) } }
  }

  private func release() throws(JournalFileError) {
    let before = state.releaseBefore
    try unlocked { () throws(JournalFileError) in try writer.release(before: before) }
    noteSize()
  }

  private func noteSize() {
    state.oldestEnd = writer.oldestEnd
    state.size = JournalSize(segmentCount: writer.segmentCount, byteCount: writer.totalByteCount)
  }

  /// After an error, nothing more is accepted or acknowledged. Recovery judges what the last write
  /// left in the file.
  private func fail(_ error: JournalFileError) {
    state.failure = .failed(error)
    tellAll(.failed(error))
  }

  private func tellAll(_ error: JournalError) {
    let waiters = exchange(&state.waiters, with: [])
    let roomWaiters = exchange(&state.roomWaiters, with: [])
    unlocked {
      for waiter in waiters { waiter.run(.failure(error)) }
      for run in roomWaiters { run() }
    }
  }

  private func end() {
    lock.release()
    state.phase = .closed
    state.willCommit = nil
    tellAll(state.failure ?? .closed)
    let waiters = exchange(&state.closeWaiters, with: [])
    let result: Result<Void, JournalError> = state.failure.map { .failure($0) } ?? .success(())
    unlocked { for run in waiters { run(result) } }
  }
}
