internal import Foundation
internal import PushJournal
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// The state of a journal, and the state that a new process reads from its records.
@Suite struct EngineJournalTests {
  private static let environment = ProcessInfo.processInfo.environment
  private static let firstSeed = environment["CARILLON_FIRST_SEED"].flatMap { UInt64($0) } ?? 1
  private static let seedCount = environment["CARILLON_SEEDS"].flatMap { UInt64($0) } ?? 80

  @Test(
    "whenever a process ends, the next one knows all records up to the last durable one or a later one",
    arguments: 0..<4 as Range<UInt64>)
  func recovery(part: UInt64) async throws {
    for seed in stride(from: Self.firstSeed + part, to: Self.firstSeed + Self.seedCount, by: 4) {
      do {
        let world = try JournalWorld(seed: seed)
        for _ in 0..<5 {
          try await world.live(operations: Int.random(in: 10...120, using: &world.random))
          switch Int.random(in: 0..<3, using: &world.random) {
          case 0: try await world.close()
          case 1: try world.crash(losesUnsynced: false)
          default: try world.crash(losesUnsynced: true)
          }
        }
      } catch {
        Issue.record("seed \(seed): \(error)")
      }
    }
  }

  @Test("the planted mistake is found: a rewind that drops what an earlier connection may have delivered")
  func plantedMistake() async throws {
    for seed in UInt64(1)...200 {
      do {
        let world = try JournalWorld(seed: seed, plantedMistake: .rewindClearsDoubt)
        for _ in 0..<5 {
          try await world.live(operations: 100)
          try world.crash(losesUnsynced: false)
        }
      } catch is JournalWorld.Wrong {
        return
      }
    }
    Issue.record("the planted mistake was not found")
  }

  @Test("when everything is settled nothing is left on the disk, whatever was resumed and returned before")
  func nothingIsLeft() async throws {
    for seed in UInt64(1)...20 {
      do {
        let world = try JournalWorld(seed: seed)
        for _ in 0..<3 {
          try await world.live(operations: 80)
          try world.crash(losesUnsynced: false)
        }
        try world.settleAll()
        #expect(world.journal.campaigns.allSatisfy { $0.phase == .ended })
        try await world.close()
        // The next checkpoint drops what no campaign needs: the lanes of the process before.
        try await world.close()
        try await world.close()
        #expect(world.journal.campaigns.isEmpty, "seed \(seed)")
        #expect(world.byteCount < 1_000, "seed \(seed): \(world.byteCount) bytes in \(world.disk.fileNames)")
      } catch {
        Issue.record("seed \(seed): \(error)")
      }
    }
  }

  @Test("while notifications are settled soon, the journal is no larger than a few checkpoints")
  func boundedDisk() async throws {
    let small = try SmallJournal(SimulatedDisk(), checkpointByteCount: 5_000)
    let (campaign, lane) = try await small.begin(count: 8)
    var largest = 0
    for claim in 1..<UInt64(1_000) {
      let start = claim * 8
      #expect(small.enqueue(8, from: start, of: campaign, in: lane))
      #expect(small.journal.intend(lane: lane, through: start + 8) != nil)
      // Settles with a delay of two claims.
      if claim >= 2 {
        let run = JournalledRun(lane: lane, range: (start - 16)..<(start - 8), campaign: campaign, count: 8)
        small.journal.record(.settled(run, .accepted(.confirmed)))
      }
      small.run(Int(claim))
      largest = max(largest, small.byteCount)
    }
    #expect(largest < 15_000, "\(largest) bytes")
    #expect(small.copy().fileNames.count <= 3)
  }

  @Test("two campaigns cancelled in one ring, notification by notification, do not enlarge the checkpoints")
  func interleavedReturns() async throws {
    let disk = SimulatedDisk()
    var options = EngineJournalOptions()
    options.checkpointByteCount = 100_000
    let (journal, _) = try EngineJournal.open(disk, options: options, runByHand: {})
    var seconds = 0
    func run() {
      seconds += 1
      _ = journal.run(now: .seconds(seconds))
    }
    let beginnings = (0..<3).map { EngineJournal.Beginning(app: "app", campaign: Campaign(payload: []), context: [$0]) }
    let begun = Task { try await journal.begin(beginnings) }
    for _ in 0..<1000 {
      run()
      await Task.yield()
    }
    let numbers = try await begun.value
    let lane = journal.addLane(app: "app")
    let count: UInt64 = 8_000
    func enqueue(_ position: UInt64, campaign: UInt64) {
      let source = TestSource(notifications: [TestNotification(line: position, token: Array(repeating: 7, count: 32))])
      let header = EnqueueHeader(
        run: JournalledRun(lane: lane, range: position..<(position + 1), campaign: campaign, count: 1), position: nil)
      #expect(journal.enqueue(header, source.shape, source))
    }
    for position in 0..<count {
      enqueue(position, campaign: numbers[Int(position % 2)])
      if position % 500 == 0 { run() }
    }
    run()
    for position in 0..<count {
      let run = JournalledRun(
        lane: lane, range: position..<(position + 1), campaign: numbers[Int(position % 2)], count: 1)
      // The last of the first campaign had been sent.
      journal.record(
        position == count - 2 ? .settled(run, .accepted(.quiet)) : .returned(run, isInDoubt: position % 2 == 1))
    }
    run()
    for position in count..<(count + 20) {
      enqueue(position, campaign: numbers[2])
      run()
    }
    #expect(journal.state.withLock { $0.byteCountSinceCheckpoint } < 100_000, "the checkpoints are too large")
    let copy = SimulatedDisk()
    for name in disk.fileNames { copy.put(name, disk.contents(name) ?? []) }
    let (again, report) = try EngineJournal.open(copy, options: options, runByHand: {})
    #expect(
      again.recoveredRuns(of: numbers[0]).flatMap(\.notifications).map(\.line)
        == stride(from: 0, to: count - 2, by: 2).map { $0 })
    #expect(
      again.recoveredRuns(of: numbers[1]).flatMap(\.notifications).map(\.line)
        == stride(from: 1, to: count, by: 2).map { $0 })
    #expect(Set(again.recoveredRuns(of: numbers[0]).map(\.fate)) == [.unsent])
    #expect(Set(again.recoveredRuns(of: numbers[1]).map(\.fate)) == [.doubted])
    #expect(report.campaigns.map(\.unsent) == [Int(count) / 2 - 1, 0, 20])
  }

  @Test("a campaign's tokens are read in its own file, if another campaign has lines at the same places as well")
  func tokensInFiles() throws {
    var random = SeededGenerator(seed: 4)
    let files = (0..<2).map { _ in
      TokenLines(offset: 0, firstLine: 1, tokens: (0..<5).map { _ in random.bytes(32) })
    }
    let disk = SimulatedDisk()
    let (written, _) = try Journal.open(disk, runByHand: {}) { _, _, _ in }
    func write(_ kind: JournalEvent.Kind, _ record: [UInt8]?) throws {
      let record = try #require(record)
      _ = try unsafe written.append(kind: kind.rawValue, byteCount: record.count) { unsafe $0.copyBytes(from: record) }
    }
    for (number, file) in zip(UInt64(1)..., files) {
      var campaign = JournalledCampaign(
        number: number, group: 2 + number, groupCount: 1, app: "app", payload: 0, expiration: nil, priority: nil,
        context: [])
      campaign.account.submitted = 5
      campaign.readLine = 5
      try write(.campaign, Record.bytes(campaign))
      let run = JournalledRun(lane: 9, range: (number * 5)..<(number * 5 + 5), campaign: number, count: 5)
      try write(.enqueue, file.bytes(EnqueueHeader(run: run, position: nil)))
    }
    written.close { _ in }
    _ = written.run(now: .seconds(1))
    disk.restart()
    let (journal, report) = try EngineJournal.open(disk, options: EngineJournalOptions(), runByHand: {})
    #expect(report.campaigns.map(\.unsent) == [5, 5])
    #expect(throws: AudienceError.self) {
      try journal.readTokens(of: 1) { (offset, _) throws(AudienceError) in
        throw AudienceError(path: nil, problem: .noTokens(at: offset))
      }
    }
    #expect(journal.lacksTokens(of: 1))
    try journal.readTokens(of: 1, files[0].read)
    #expect(!journal.lacksTokens(of: 1))
    #expect(journal.lacksTokens(of: 2))
    try journal.readTokens(of: 2, files[1].read)
    for (number, file) in zip(UInt64(1)..., files) {
      #expect(journal.recoveredRuns(of: number).flatMap(\.notifications) == file.notifications)
    }
  }
}
