extension Journal {
  /// Locks the directory, recovers its records, and begins a new segment.
  ///
  /// - Parameters:
  ///   - path: the directory; it is created if it does not exist.
  ///   - record: called for each record in order, before this function returns. The bytes are valid
  ///     during the call.
  /// - Throws: `.notOurs` if the directory belongs to another user, `.inUse` if a living process
  ///   owns it, `.file`, and `.damaged` for the first place that a crash does not explain; the
  ///   records before that place have been passed to `record`. A torn tail is no error: it is cut
  ///   off and reported in the result.
  package static func open(
    directory path: String, options: JournalOptions = JournalOptions(),
    record: (JournalPosition, UInt8, Span<UInt8>) -> Void
  ) throws(JournalError) -> (journal: Journal, recovery: JournalRecovery) {
    let files = try JournalError.wrapping { () throws(JournalFileError) in try PosixFiles(directory: path) }
    if let owner = try JournalError.wrapping({ () throws(JournalFileError) in try files.foreignOwner }) {
      throw .notOurs(path: path, owner: owner)
    }
    return try open(files, options: options, runByHand: nil, record: record)
  }

  /// Opens a journal in any implementation of ``JournalFiles``.
  ///
  /// - Parameter runByHand: nil for a journal with a thread of its own. Otherwise the journal has
  ///   no thread. It calls this function when there is work, on any thread, even while
  ///   ``Journal/run(now:)`` is working. The caller then calls ``Journal/run(now:)``, and again at
  ///   the time that it returned. For simulations.
  package static func open(
    _ files: any JournalFiles, options: JournalOptions = JournalOptions(), runByHand: (@Sendable () -> Void)?,
    record: (JournalPosition, UInt8, Span<UInt8>) -> Void
  ) throws(JournalError) -> (journal: Journal, recovery: JournalRecovery) {
    precondition(
      options.blockByteCount <= FrameFormat.contentByteCountLimit && options.blockByteCount >= 256,
      "a block has 256 bytes to 1 MiB")
    precondition(options.blockCount >= 2, "at least two blocks: one to fill, one to write")
    let lock = try takeLock(files)
    do throws(JournalError) {
      var scanner = try JournalScanner(files, skipsDamage: options.skipsDamage)
      let recovery = try scanner.scan(record)
      let identity = scanner.journal ?? UInt64.random(in: .min ... .max)
      let writer = try JournalError.wrapping { () throws(JournalFileError) in
        try makeWriter(files, options: options, journal: identity, recovery)
      }
      let journal = Journal(
        writer: writer, lock: lock, options: options, next: recovery.next.rawValue, wakeByHand: runByHand)
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

  /// Cuts off a torn tail, and begins a new segment. Existing segments are never appended to.
  private static func makeWriter(
    _ files: any JournalFiles, options: JournalOptions, journal: UInt64, _ recovery: JournalRecovery
  ) throws(JournalFileError) -> SegmentWriter {
    var recovered = recovery
    if let tail = recovery.tornTail {
      if tail.offset == 0 {
        // Not even the first frame is complete, so the segment never had records.
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
    // The writer of its last frames may have been killed before it synced them. With a new segment
    // behind it, this segment may no longer have a torn tail.
    if let last, recovery.tornTail == nil {
      let file = try files.open(last.name, writable: true)
      defer { file.close() }
      try file.sync()
    }
    let writer = try SegmentWriter(
      files, options: options, journal: journal, recovered: recovered, number: (last?.number ?? 0) + 1)
    // Damage may hide the records of a segment that looks empty. It is kept for inspection.
    if recovery.damage.isEmpty { try writer.deleteEmpty(recovered.segments.filter(\.records.isEmpty).map(\.name)) }
    try writer.release(before: recovery.released.rawValue)
    return writer
  }

  /// Reads and checks a whole journal without owning or changing it.
  ///
  /// Damage and a torn tail are no errors here but part of the result. A journal that is being
  /// written at the same time may show a torn tail.
  package static func inspect(
    _ files: any JournalFiles, record: (JournalPosition, UInt8, Span<UInt8>) -> Void
  ) throws(JournalError) -> JournalRecovery {
    var scanner = try JournalScanner(files, skipsDamage: true)
    return try scanner.scan(record)
  }

  /// Calls ``inspect(_:record:)`` for a directory, which must exist.
  package static func inspect(
    directory path: String, record: (JournalPosition, UInt8, Span<UInt8>) -> Void
  ) throws(JournalError) -> JournalRecovery {
    try inspect(
      JournalError.wrapping { () throws(JournalFileError) in try PosixFiles(existing: path) }, record: record)
  }

  /// Returns every place in the directory that a crash does not explain, and the torn tail if there
  /// is one.
  package static func verify(directory path: String) throws(JournalError) -> JournalRecovery {
    try inspect(directory: path) { _, _, _ in }
  }
}
