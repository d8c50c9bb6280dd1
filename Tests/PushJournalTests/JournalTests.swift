internal import Glibc
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushJournal

/// What callbacks have reported, in order.
private final class Log: Sendable {
  private let entries = Mutex<[String]>([])
  func add(_ entry: String) { entries.withLock { $0.append(entry) } }
  func add(_ name: String, _ result: Result<Void, JournalError>) {
    switch result {
    case .success: add("\(name): durable")
    case .failure(let error): add("\(name): \(error)")
    }
  }
  var all: [String] { entries.withLock { $0 } }
}

@Suite("The journal as its callers use it")
struct JournalTests {
  private func record(_ run: HandRun, _ byteCount: Int = 20) throws -> JournalPosition {
    try run.append(.numbered(run.journal.nextPosition.rawValue, byteCount: byteCount))
  }

  @Test("with `always`, one sync serves all callers that wait")
  func groupCommit() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(sync: .always, block: 4096))
    let log = Log()
    let before = disk.syncCount
    for name in 1...5 { run.journal.whenDurable(try record(run)) { log.add("\(name)", $0) } }
    #expect(log.all.isEmpty)
    run.run(now: .zero)
    #expect(log.all == (1...5).map { "\($0): durable" })
    #expect(disk.syncCount == before + 1)
    run.journal.whenDurable(.first) { log.add("late", $0) }
    #expect(log.all.last == "late: durable")
  }

  @Test("with an interval, nothing is synced before its end, and then everything at once")
  func interval() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(sync: .interval(.milliseconds(10)), block: 512))
    let log = Log()
    let before = disk.syncCount
    // Enough for several blocks. They are written earlier, but not acknowledged.
    for name in 1...20 { run.journal.whenDurable(try record(run, 40)) { log.add("\(name)", $0) } }
    run.run(now: .milliseconds(5))
    #expect(run.deadline == .milliseconds(15))
    #expect(disk.writeCount >= 2)
    #expect(log.all.isEmpty)
    #expect(disk.syncCount == before)
    run.run(now: .milliseconds(14))
    #expect(log.all.isEmpty)
    run.run(now: .milliseconds(15))
    #expect(log.all.count == 20)
    #expect(disk.syncCount == before + 1)
    #expect(run.deadline == nil)
  }

  @Test("with `never`, records are acknowledged without a sync when they are written")
  func never() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(sync: .never))
    let log = Log()
    let before = disk.syncCount
    run.journal.whenDurable(try record(run)) { log.add("1", $0) }
    run.run(now: .zero)
    #expect(log.all == ["1: durable"])
    #expect(disk.syncCount == before)
    disk.restart()
    #expect(try HandRun(disk, .small()).recovered.count == 1)
  }

  @Test("records that no caller waits for reach the disk too")
  func unwaited() throws {
    for sync in [JournalSync.always, .interval(.milliseconds(10)), .never] {
      let run = try HandRun(SimulatedDisk(), .small(sync: sync))
      let position = try record(run)
      run.run(now: .zero)
      #expect(run.journal.durablePosition < position)
      #expect(run.deadline == .milliseconds(10))
      run.run(now: .milliseconds(10))
      #expect(run.journal.durablePosition == position)
    }
  }

  @Test("memory is bounded: while the disk is slow, append throws, and callers learn when there is room")
  func backpressure() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(sync: .interval(.seconds(1)), block: 512, blocks: 3))
    let log = Log()
    var count = 0
    while (try? record(run, 100)) != nil { count += 1 }
    // Three blocks of 512 bytes have room for four such records each.
    #expect(count == 12)
    #expect(throws: JournalError.full) { try record(run, 100) }
    run.journal.whenRoom { log.add("room") }
    #expect(log.all.isEmpty)
    run.run(now: .zero)
    #expect(log.all == ["room"])
    _ = try record(run, 100)
    run.journal.whenRoom { log.add("at once") }
    #expect(log.all == ["room", "at once"])
    run.flush()
    disk.restart()
    #expect(try HandRun(disk, .small()).recovered.count == count + 1)
  }

  @Test("a record that does not fit a block is refused; the longest that fits is recovered")
  func longest() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(block: 512))
    let limit = run.journal.payloadByteCountLimit
    #expect(throws: JournalError.recordTooLarge(byteCount: limit + 1, limit: limit)) { try record(run, limit + 1) }
    for byteCount in [limit, 0, limit, 127, 128] { _ = try record(run, byteCount) }
    run.flush()
    disk.restart()
    #expect(try HandRun(disk, .small()).recovered.map(\.bytes.count) == [limit, 0, limit, 127, 128])
  }

  @Test(
    "after a failed write or sync every caller gets the error, appends fail, and what was acknowledged is recovered",
    arguments: [
      SimulatedDisk.Fault.shortWrite(0, code: ENOSPC), .shortWrite(3, code: EIO), .shortWrite(30, code: ENOSPC),
      .shortWrite(10_000, code: EIO), .failedSync(code: ENOSPC), .failedSync(code: EIO),
    ])
  func failures(_ fault: SimulatedDisk.Fault) throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(sync: .always))
    let log = Log()
    for name in 1...3 { run.journal.whenDurable(try record(run)) { log.add("\(name)", $0) } }
    run.run(now: .zero)
    let cause: JournalFileError
    switch fault {
    case .shortWrite(_, let code):
      disk.failWrite(after: 0, fault)
      cause = JournalFileError(.write, path: "segment-000000000001.lz4", code: code)
    case .failedSync(let code):
      disk.failSync(after: 0, code: code)
      cause = JournalFileError(.sync, path: "segment-000000000001.lz4", code: code)
    }
    for name in 4...6 { run.journal.whenDurable(try record(run)) { log.add("\(name)", $0) } }
    run.run(now: .zero)
    #expect(log.all.prefix(3) == ["1: durable", "2: durable", "3: durable"])
    #expect(log.all.count == 6, "\(log.all)")
    let words = cause.code == ENOSPC ? "No space left on device" : "Input/output error"
    for refusal in log.all.dropFirst(3) {
      #expect(refusal.contains("the journal has stopped"))
      #expect(refusal.contains(words))
    }
    #expect(throws: JournalError.failed(cause)) { try record(run) }
    #expect(run.journal.durablePosition.rawValue == 3)
    run.journal.whenRoom { log.add("room") }
    #expect(log.all.last == "room")
    #expect(throws: JournalError.failed(cause)) { try run.close()?.get() }

    var generator = SeededGenerator.fresh()
    disk.loseUnsynced(using: &generator)
    let again = try HandRun(disk, .small())
    try #require(again.recovered.count >= 3, "seed \(generator.seed)")
    #expect(
      again.recovered == (1...UInt64(again.recovered.count)).map { .numbered($0, byteCount: 20) },
      "seed \(generator.seed)")
  }

  @Test("a full journal that fails resumes callers that wait for room")
  func failureWithFullMemory() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(sync: .interval(.seconds(1))))
    while (try? record(run, 100)) != nil {}
    let log = Log()
    run.journal.whenRoom { log.add("room") }
    disk.failWrite(after: 0, .shortWrite(0, code: ENOSPC))
    run.run(now: .zero)
    #expect(log.all == ["room"])
    #expect(throws: JournalError.self) { try record(run, 100) }
  }

  @Test("closing makes everything durable, and resumes waiting callers before it reports")
  func closing() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(sync: .interval(.seconds(100))))
    let log = Log()
    run.journal.whenDurable(try record(run)) { log.add("1", $0) }
    run.journal.close { log.add("close", $0) }
    #expect(throws: JournalError.closed) { try record(run) }
    run.run(now: .zero)
    #expect(log.all == ["1: durable", "close: durable"])
    run.journal.close { log.add("again", $0) }
    #expect(log.all.last == "again: durable")
    let again = try HandRun(disk, .small())
    #expect(again.recovery.isClosed)
    #expect(again.recovered.count == 1)
  }

  @Test("segments before the released position are deleted; the rest and later starts are right")
  func release() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(segment: 600, block: 300))
    for _ in 0..<60 {
      run.journal.whenDurable(try record(run, 50)) { _ in }
      run.run(now: .zero)
    }
    let names = disk.fileNames
    #expect(names.count > 5)
    #expect(run.journal.size.segmentCount == names.count)
    let bytes = names.reduce(0) { $0 + (disk.contents($1)?.count ?? 0) }
    #expect(run.journal.size.byteCount == bytes)
    run.journal.release(before: JournalPosition(rawValue: 30))
    run.run(now: .zero)
    #expect(disk.fileNames.count < names.count)
    #expect(Set(disk.fileNames).isSubset(of: names))
    #expect(run.journal.size.segmentCount == disk.fileNames.count)
    disk.restart()
    let again = try HandRun(disk, .small())
    let first = try #require(again.recovered.first)
    #expect(first.position <= 30)
    #expect(first.position > 1)
    #expect(again.recovered == (first.position...60).map { .numbered($0, byteCount: 50) })
    #expect(again.recovery.released.rawValue == 30)
  }

  @Test("a checkpoint in its own segment allows deleting all earlier ones, and is durable before that")
  func checkpoint() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(sync: .interval(.seconds(1)), segment: 1 << 20))
    for _ in 0..<5 { _ = try record(run) }
    run.flush()
    try run.journal.startSegment()
    let position = try record(run)
    run.journal.release(before: position)
    run.run(now: .zero)
    #expect(run.journal.durablePosition == position)
    #expect(disk.fileNames == ["segment-000000000002.lz4"])
    disk.restart()
    let again = try HandRun(disk, .small())
    #expect(again.recovered.map(\.position) == [position.rawValue])
  }

  @Test("repeated starts do not pile up empty segments, and positions continue")
  func restarts() throws {
    let disk = SimulatedDisk()
    for life in 0..<10 as Range<UInt64> {
      let run = try HandRun(disk, .small())
      #expect(run.recovered.count == Int(life / 3))
      #expect(disk.fileNames.count <= Int(life / 3) + 1)
      if life % 3 == 2 { #expect(try record(run).rawValue == life / 3 + 1) }
      if life % 2 == 0 { _ = run.close() } else { run.flush() }
      disk.restart()
    }
  }

  @Test("a torn tail is cut off and reported; the next start finds none")
  func tornTail() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small())
    for _ in 0..<3 { _ = try record(run, 100) }
    run.flush()
    let name = "segment-000000000001.lz4"
    let whole = try #require(disk.contents(name))
    disk.put(name, whole + [0x04, 0x22, 0x4D, 0x18, 0x6C])
    disk.restart()
    let torn = try HandRun(disk, .small())
    #expect(
      torn.recovery.tornTail
        == JournalRecovery.TornTail(segment: name, offset: whole.count, byteCount: 5, frameCount: 0))
    #expect(torn.recovered.count == 3)
    #expect(disk.contents(name) == whole)
    disk.restart()
    #expect(try HandRun(disk, .small()).recovery.tornTail == nil)
  }

  @Test("a segment of garbage is damage and stays; the beginning of a first frame is a torn tail and is removed")
  func garbage() throws {
    let name = "segment-000000000001.lz4"
    var generator = SeededGenerator(seed: 3)
    let disk = SimulatedDisk()
    let bytes = generator.bytes(1000)
    disk.put(name, bytes)
    #expect(throws: JournalError.damaged(JournalDamage(segment: name, offset: 0, problem: .noFrame))) {
      _ = try HandRun(disk, .small())
    }
    #expect(disk.contents(name) == bytes)

    let torn = SimulatedDisk()
    torn.put(name, [0x04, 0x22])
    let run = try HandRun(torn, .small())
    #expect(run.recovery.tornTail == JournalRecovery.TornTail(segment: name, offset: 0, byteCount: 2, frameCount: 0))
    #expect(torn.fileNames == ["segment-000000000002.lz4"])
  }

  @Test("a segment with the highest number leaves no room for another: an error before anything is written")
  func highestNumber() throws {
    let disk = SimulatedDisk()
    disk.put("segment-1000000000000000.lz4", [4])
    let cause = JournalFileError(.create, path: "segment-1000000000000001.lz4", code: EOVERFLOW)
    #expect(throws: JournalError.file(cause)) { _ = try HandRun(disk, .small()) }
    // A file with a number that no journal reaches is not a segment.
    disk.put("segment-18446744073709551615.lz4", [4])
    _ = try HandRun(disk, .small())
    #expect(disk.fileNames == ["segment-000000000001.lz4", "segment-18446744073709551615.lz4"])
  }

  @Test("an unknown version of the format is refused and named, wherever it is")
  func version() throws {
    let disk = SimulatedDisk()
    let compressor = FrameCompressor()
    var content: [UInt8] = [11, 0, 2] + Array("CARILLON".utf8) + [9, 0]
    let frame = unsafe content.withUnsafeMutableBytes { bytes in
      unsafe Array(compressor.frame(UnsafeRawBufferPointer(bytes)))
    }
    disk.put("segment-000000000001.lz4", frame)
    let error = JournalError.version(segment: "segment-000000000001.lz4", 9)
    #expect(throws: error) { _ = try HandRun(disk, .small()) }
    // It is no damage that could be skipped.
    var options = JournalOptions.small()
    options.skipsDamage = true
    #expect(throws: error) { _ = try HandRun(disk, options) }
    #expect(disk.contents("segment-000000000001.lz4") == frame)
    #expect(error.description.contains("version 9 of the journal's format, and this program reads version 3 only"))
  }

  @Test("appending wakes the thread that runs the journal once, not for every record")
  func wakes() throws {
    let wakes = Mutex(0)
    let options = JournalOptions.small(sync: .interval(.milliseconds(10)), block: 4096)
    let (journal, _) = try Journal.open(
      SimulatedDisk(), options: options, runByHand: { wakes.withLock { $0 += 1 } }, record: { _, _, _ in })
    _ = journal.run(now: .zero)
    for _ in 0..<50 { _ = try journal.append(kind: 1, bytes: [1, 2, 3]) }
    #expect(wakes.withLock { $0 } == 1)
    #expect(journal.run(now: .zero) == .milliseconds(10))
    for _ in 0..<50 { _ = try journal.append(kind: 1, bytes: [1, 2, 3]) }
    #expect(wakes.withLock { $0 } == 1)
  }
}
