extension Journal {
  /// Takes the directory, recovers what is in it, and begins a new segment.
  ///
  /// - Parameters:
  ///   - path: the directory; it is made if it is not there.
  ///   - record: called for each record in order, before this returns; the bytes are valid during the call.
  /// - Throws: `.notOurs` if the directory belongs to another user, `.inUse` if a living process owns the directory, `.file`, and `.damaged` for the first place that a crash does not explain
  ///   (records before it have been handed out by then). A torn tail is no error: it is cut, and in what is returned.
  package static func open(
    directory path: String, options: JournalOptions = JournalOptions(), record: (JournalPosition, UInt8, UnsafeRawBufferPointer) -> Void
  ) throws(JournalError) -> (journal: Journal, recovery: JournalRecovery) {
    let files = try JournalError.wrapping { () throws(JournalFileError) in try PosixFiles(directory: path) }
    if let owner = try JournalError.wrapping({ () throws(JournalFileError) in try files.foreignOwner }) { throw .notOurs(path: path, owner: owner) }
    return try unsafe open(files, options: options, runByHand: nil, record: record)
  }

  /// The same over any files.
  ///
  /// - Parameter runByHand: nil for a thread of the journal's own. Otherwise there is none: this is called (on any thread, possibly with work already under way)
  ///   when there is something to do, and the caller calls ``run(now:)``, then and when the time comes that it returned. For simulations.
  package static func open(
    _ files: any JournalFiles, options: JournalOptions = JournalOptions(), runByHand: (@Sendable () -> Void)?,
    record: (JournalPosition, UInt8, UnsafeRawBufferPointer) -> Void
  ) throws(JournalError) -> (journal: Journal, recovery: JournalRecovery) {
    precondition(options.blockByteCount <= FrameFormat.contentByteCountLimit && options.blockByteCount >= 256, "a block of 256 bytes to 1 MiB")
    precondition(options.blockCount >= 2, "at least two blocks: one to fill, one to write")
    let lock = try takeLock(files)
    do throws(JournalError) {
      var scanner = JournalScanner(files, skipsDamage: options.skipsDamage)
      let recovery = try unsafe scanner.scan(record)
      let identity = scanner.journal ?? UInt64.random(in: .min ... .max)
      let writer = try JournalError.wrapping { () throws(JournalFileError) in try makeWriter(files, options: options, journal: identity, recovery) }
      let journal = Journal(writer: writer, lock: lock, options: options, next: recovery.next.rawValue, wakeByHand: runByHand)
      if runByHand == nil {
        let code = DiskThread.start { journal.runThread() }
        guard code == 0 else { throw JournalError.file(JournalFileError(.startThread, path: files.path, code: code)) }
      }
      return (journal, recovery)
    } catch {
      lock.release()
      throw error
    }
  }

  private static func takeLock(_ files: any JournalFiles) throws(JournalError) -> any JournalLock {
    switch try JournalError.wrapping({ () throws(JournalFileError) in try files.takeLock() }) {
    case .taken(let lock): return lock
    case .held(let pid): throw .inUse(path: files.path, pid: pid)
    }
  }

  /// Cuts the torn tail, if there is one, and begins a new segment: a file that was there before is never written to again.
  private static func makeWriter(
    _ files: any JournalFiles, options: JournalOptions, journal: UInt64, _ recovery: JournalRecovery
  ) throws(JournalFileError) -> SegmentWriter {
    var recovered = recovery
    if let tail = recovery.tornTail {
      if tail.offset == 0 {
        // Not even its first frame, so nothing was ever in it.
        try files.delete(tail.segment)
        try files.syncDirectory()
        recovered.segments.removeAll { $0.name == tail.segment }
      } else {
        let file = try files.open(tail.segment, writable: true)
        defer { file.close() }
        try file.truncate(to: tail.offset)
        try file.sync()
      }
    }
    let last = recovery.segments.last
    // Whoever wrote the end of it may have been killed before it was synced. From now on it is not the last segment, so its tail may not be torn any more.
    if let last, recovery.tornTail == nil {
      let file = try files.open(last.name, writable: true)
      defer { file.close() }
      try file.sync()
    }
    let writer = try SegmentWriter(files, options: options, journal: journal, recovered: recovered, number: (last?.number ?? 0) + 1)
    // Damage may have hidden the records of a segment: that stays for a person to look at.
    if recovery.damage.isEmpty { try writer.deleteEmpty(recovered.segments.filter(\.records.isEmpty).map(\.name)) }
    try writer.release(before: recovery.released.rawValue)
    return writer
  }

  /// Reads a journal without owning or changing it: for looking at it, and for checking all of it.
  ///
  /// Damage is no error here but in the result, and so is a torn tail. A journal that its owner is writing at the same time may show one.
  package static func inspect(
    _ files: any JournalFiles, record: (JournalPosition, UInt8, UnsafeRawBufferPointer) -> Void
  ) throws(JournalError) -> JournalRecovery {
    var scanner = JournalScanner(files, skipsDamage: true)
    return try unsafe scanner.scan(record)
  }

  /// ``inspect(_:record:)`` for a directory, which must be there.
  package static func inspect(
    directory path: String, record: (JournalPosition, UInt8, UnsafeRawBufferPointer) -> Void
  ) throws(JournalError) -> JournalRecovery {
    try unsafe inspect(JournalError.wrapping { () throws(JournalFileError) in try PosixFiles(existing: path) }, record: unsafe record)
  }

  /// Every place in the directory that a crash does not explain, and the torn tail if there is one.
  package static func verify(directory path: String) throws(JournalError) -> JournalRecovery {
    try unsafe inspect(directory: path) { _, _, _ in }
  }
}
