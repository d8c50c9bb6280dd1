internal import Glibc
internal import PushJournal
internal import Support
internal import Synchronization
internal import Testing

/// A list beside the journal. A row is written before its record, and the journal makes the list
/// durable before it writes that record.
struct CommitHookTests {
  /// The list, in a file of the same simulated disk.
  private final class List: Sendable {
    private let file: any JournalFile
    private let isDirty = Mutex(false)
    let syncCount = Atomic(0)

    init(_ disk: SimulatedDisk) throws {
      file = try disk.create("list.csv")
      try disk.syncDirectory()
    }

    func write(_ number: UInt64) throws {
      try unsafe Array("\(number)\n".utf8).withUnsafeBytes { unsafe try file.append($0) }
      isDirty.withLock { $0 = true }
    }

    func sync() throws(JournalFileError) {
      guard isDirty.withLock({ exchange(&$0, with: false) }) else { return }
      syncCount.add(1, ordering: .relaxed)
      try file.sync()
    }

    static func rows(_ disk: SimulatedDisk) -> Set<UInt64> {
      Set(
        String(decoding: disk.contents("list.csv") ?? [], as: UTF8.self).split(separator: "\n").compactMap {
          UInt64($0)
        })
    }
  }

  /// Writes rows and records until the power fails at some step. Returns how many recovered records
  /// have no row.
  private func loss(seed: UInt64, isHooked: Bool, sync: JournalSync = .interval(.milliseconds(5))) throws -> Int {
    var generator = SeededGenerator(seed: seed)
    let disk = SimulatedDisk()
    let list = try List(disk)
    let run = try HandRun(disk, .small(sync: sync))
    if isHooked { run.journal.willCommit { () throws(JournalFileError) in try list.sync() } }
    disk.fail(after: Int.random(in: 0..<200, using: &generator))
    var now = Duration.zero
    for number in 1...200 as ClosedRange<UInt64> {
      do {
        try list.write(number)
        _ = try run.append(.numbered(number, byteCount: Int.random(in: 0...80, using: &generator)))
      } catch JournalError.full {
        run.run(now: now)
      } catch {
        break
      }
      if generator.chance(40) {
        now += .milliseconds(Int.random(in: 0...6, using: &generator))
        run.run(now: now)
      }
    }
    disk.loseUnsynced(using: &generator)
    let rows = List.rows(disk)
    return try HandRun(disk, .small()).recovered.count { !rows.contains($0.position) }
  }

  @Test("whenever the power fails, every recovered record has its row; without the hook some have none")
  func lossOfPower() throws {
    var lossesWithout = 0
    for seed in 1...300 as ClosedRange<UInt64> {
      #expect(try loss(seed: seed, isHooked: true) == 0, "seed \(seed)")
      lossesWithout += try loss(seed: seed, isHooked: false) > 0 ? 1 : 0
    }
    #expect(lossesWithout > 20)
  }

  @Test(
    "the list is synced once per group of records and before it, only if it has new rows, and never with sync never")
  func order() throws {
    for sync in [JournalSync.always, .interval(.milliseconds(5)), .never] {
      let disk = SimulatedDisk()
      let list = try List(disk)
      let run = try HandRun(disk, .small(sync: sync))
      let before = disk.contents("segment-000000000001.lz4") ?? []
      let seen = Mutex<[[UInt8]]>([])
      run.journal.willCommit { () throws(JournalFileError) in
        try list.sync()
        seen.withLock { $0.append(disk.contents("segment-000000000001.lz4") ?? []) }
      }
      for number in 1...3 as ClosedRange<UInt64> {
        try list.write(number)
        _ = try run.append(.numbered(number, byteCount: 20))
      }
      run.flush()
      if sync == .never {
        #expect(list.syncCount.load(ordering: .relaxed) == 0)
        #expect(seen.withLock { $0.isEmpty })
        continue
      }
      #expect(list.syncCount.load(ordering: .relaxed) == 1, "\(sync)")
      #expect(!before.isEmpty, "\(sync)")
      #expect(seen.withLock { $0 } == [before], "\(sync)")
      _ = try run.append(.numbered(4, byteCount: 20))
      run.flush()
      #expect(list.syncCount.load(ordering: .relaxed) == 1, "\(sync)")
    }
  }

  @Test("a list that cannot be synced stops the journal: the error names the list, and its records are not written")
  func failing() throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small())
    let before = disk.contents("segment-000000000001.lz4")
    run.journal.willCommit { () throws(JournalFileError) in
      throw JournalFileError(.sync, path: "problems.csv", code: EIO)
    }
    let position = try run.append(.numbered(1, byteCount: 20))
    let result = Mutex<Result<Void, JournalError>?>(nil)
    run.journal.whenDurable(position) { outcome in result.withLock { $0 = outcome } }
    run.flush()
    guard case .failure(let error) = result.withLock({ $0 }) else {
      Issue.record("it became durable")
      return
    }
    #expect(error.description == "the journal has stopped: cannot sync problems.csv: Input/output error")
    #expect(disk.contents("segment-000000000001.lz4") == before)
  }

  @Test(
    "while a list is away, nothing is written and nothing fails; then everything is, in order", arguments: [1, 200])
  func away(count: UInt64) throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small())
    let before = disk.contents("segment-000000000001.lz4")
    let isAway = Atomic(true)
    let attempts = Atomic(0)
    run.journal.willCommit { (_: Preparation) throws(JournalFileError) in
      attempts.add(1, ordering: .relaxed)
      return !isAway.load(ordering: .relaxed)
    }
    let isDurable = Atomic(false)
    var number: UInt64 = 0
    // As many as there is room for.
    while number < count, let position = try? run.append(.numbered(number + 1, byteCount: 20)) {
      number += 1
      if number == 1 { run.journal.whenDurable(position) { _ in isDurable.store(true, ordering: .relaxed) } }
    }
    for tick in 1...10 { run.run(now: .milliseconds(100 * tick)) }
    #expect(attempts.load(ordering: .relaxed) == 10)
    #expect(disk.contents("segment-000000000001.lz4") == before)
    #expect(isDurable.load(ordering: .relaxed) == false)
    isAway.store(false, ordering: .relaxed)
    run.run(now: .milliseconds(1_050))
    #expect(isDurable.load(ordering: .relaxed) == false, "it is asked again after a pause")
    run.run(now: .milliseconds(1_100))
    #expect(isDurable.load(ordering: .relaxed) == true)
    let last = try run.append(.numbered(number + 1, byteCount: 20))
    run.flush()
    #expect(run.journal.durablePosition == last)
    #expect(try Journal.records(disk).records.count == Int(number) + 1)
  }
}
