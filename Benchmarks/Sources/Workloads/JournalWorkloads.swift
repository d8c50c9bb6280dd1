internal import PushJournal

extension Workload {
  /// The journal alone, with opaque records of one size.
  static let journal = [append, commit, recovery]

  /// The size of a campaign's chunk: a thousand tokens.
  private static let recordByteCount = 33 * 1024

  private static let append = Workload("Journal.append", 10_000, "100-byte records") {
    let driver = try JournalDriver(keepsContent: false)
    let record = RawMemory(Samples.tokens(4))
    return Iteration(reset: driver.makeDurable) {
      for _ in 0..<10_000 { _ = try unsafe driver.journal.append(kind: 1, payload: record.piece(0, 100)) }
    }
  }

  /// The work of the journal's thread: compressing blocks and writing them to the file.
  private static let commit = Workload("Journal.commit", 4096, "KiB", mayAllocate: true) {
    let driver = try JournalDriver(keepsContent: false)
    let tokens = RawMemory(Samples.tokens(recordByteCount / 32))
    return Iteration(
      reset: {
        driver.makeDurable()
        for _ in 0..<(4 << 20) / recordByteCount {
          _ = try unsafe driver.journal.append(kind: 1, payload: tokens.readable)
        }
      }, run: driver.makeDurable)
  }

  /// Opening a journal with 4 MiB of records in it.
  private static let recovery = Workload("Journal.recovery", 4096, "KiB", mayAllocate: true) {
    let files = MemoryFiles(keepsContent: true)
    let tokens = RawMemory(Samples.tokens(recordByteCount / 32))
    let recordCount = (4 << 20) / recordByteCount
    let first = try JournalDriver(files)
    for _ in 0..<recordCount { _ = try unsafe first.journal.append(kind: 1, payload: tokens.readable) }
    first.close()
    let names = Set(try files.list())
    return Iteration(
      reset: {
        for name in try files.list() where !names.contains(name) { try files.delete(name) }
      },
      run: {
        var count = 0
        _ = try Journal.open(files, runByHand: {}) { _, _, _ in count += 1 }
        try WorkloadFailure.check(count == recordCount, "\(count) records were recovered, not \(recordCount)")
      })
  }
}

/// A journal whose work is done when ``makeDurable()`` is called.
final class JournalDriver {
  let journal: Journal
  private var now = Duration.zero

  init(_ files: MemoryFiles) throws { journal = try Journal.open(files, runByHand: {}) { _, _, _ in }.journal }

  convenience init(keepsContent: Bool) throws { try self.init(MemoryFiles(keepsContent: keepsContent)) }

  /// Writes everything, and releases what was written before.
  func makeDurable() {
    for _ in 0..<2 {
      now += .seconds(1)
      _ = journal.run(now: now)
    }
    journal.release(before: journal.nextPosition)
  }

  func close() {
    journal.close { _ in }
    makeDurable()
  }
}
