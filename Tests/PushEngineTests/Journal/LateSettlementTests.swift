internal import Glibc
internal import PushJournal
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// Outcomes that the journal writes only when the lists have them.
@Suite struct LateSettlementTests {
  private func settled(_ index: UInt64, of campaign: UInt64, in lane: UInt64) -> JournalEvent {
    .answered(
      JournalledRun(lane: lane, range: index..<(index + 1), campaign: campaign, count: 1), .accepted(.confirmed))
  }

  @Test("an outcome is written when the lists are durable; what is taken in waits for neither")
  func listsFirst() async throws {
    let small = try SmallJournal(SimulatedDisk())
    let synced = Atomic(0)
    let asked = Atomic(0)
    small.journal.writeSettlements(
      after: { synced.add(1, ordering: .relaxed) }, ask: { asked.add(1, ordering: .relaxed) })
    let (campaign, lane) = try await small.begin(count: 4)
    for index in 0..<3 as Range<UInt64> { small.journal.record(settled(index, of: campaign, in: lane)) }
    // The others are taken along.
    #expect(asked.load(ordering: .relaxed) == 1)
    #expect(small.enqueue(2, from: 4, of: campaign, in: lane))
    for second in 1...3 { small.run(second) }
    #expect(synced.load(ordering: .relaxed) == 0)
    // A crash now leaves every notification without an outcome.
    let before = try SmallJournal(small.copy())
    #expect(before.journal.campaign(campaign)?.account.confirmed == 0)
    #expect(before.journal.recoveredRuns(of: campaign).map(\.count).reduce(0, +) == 6)
    small.journal.writeSettlements()
    #expect(synced.load(ordering: .relaxed) == 1)
    for second in 4...6 { small.run(second) }
    let after = try SmallJournal(small.copy())
    #expect(after.journal.campaign(campaign)?.account.confirmed == 3)
    #expect(after.journal.recoveredRuns(of: campaign).map(\.count).reduce(0, +) == 3)
    #expect(synced.load(ordering: .relaxed) == 1, "the journal itself has no reason to sync the lists")
  }

  @Test("what must be known before the journal has a notification is made durable with every commit")
  func intakeFirst() async throws {
    let small = try SmallJournal(SimulatedDisk())
    let intake = Atomic(0)
    small.journal.writeSettlements(after: {}, intakeAfter: { intake.add(1, ordering: .relaxed) })
    let (campaign, lane) = try await small.begin(count: 1)
    for second in 1...3 { small.run(second) }
    let before = intake.load(ordering: .relaxed)
    #expect(before > 0)
    #expect(small.enqueue(2, from: 1, of: campaign, in: lane))
    for second in 4...6 { small.run(second) }
    #expect(intake.load(ordering: .relaxed) > before)
  }

  @Test("a record that is written again without what has its outcome, but not yet in the journal, counts nothing twice")
  func rewritten() async throws {
    let small = try SmallJournal(SimulatedDisk())
    small.journal.writeSettlements(after: {}, ask: {})
    let (campaign, lane) = try await small.begin(count: 10)
    for index in 0..<4 as Range<UInt64> { small.journal.record(settled(index, of: campaign, in: lane)) }
    // The lane has these in its ring, of the ten.
    let source = TestSource(
      notifications: (4..<8).map { TestNotification(line: $0 + 1, token: Array(repeating: UInt8($0), count: 32)) })
    let run = JournalledRun(lane: lane, range: 4..<8, campaign: campaign, count: 4)
    let header = EnqueueHeader(run: run, position: nil, isRewritten: true)
    #expect(small.journal.enqueue(header, source.shape, source))
    func lines() throws -> [UInt64] {
      var lines: [UInt64] = []
      for left in try SmallJournal(small.copy()).journal.recoveredRuns(of: campaign) {
        left.forEach { lines.append($0.line) }
      }
      return lines
    }
    for second in 1...3 { small.run(second) }
    #expect(try lines() == Array(1...10))
    small.journal.writeSettlements()
    for second in 4...6 { small.run(second) }
    #expect(try lines() == Array(5...10))
  }

  @Test("the end of a campaign and of a lane come behind their outcomes; making durable includes what waits")
  func order() async throws {
    let small = try SmallJournal(SimulatedDisk())
    // On a thread of its own, as in a service.
    small.journal.writeSettlements(after: {})
    let (campaign, lane) = try await small.begin(count: 2)
    for index in 0..<2 as Range<UInt64> { small.journal.record(settled(index, of: campaign, in: lane)) }
    small.journal.retired(lane: lane)
    small.journal.end(campaign)
    let journal = small.journal
    try await small.drive { try await journal.makeDurable() }
    let after = try SmallJournal(small.copy())
    #expect(after.journal.campaign(campaign)?.phase == .ended)
    #expect(after.journal.campaign(campaign)?.account.confirmed == 2)
    try await small.drive { try await journal.close() }
    // The lane is forgotten.
    #expect(small.journal.state.withLock { $0.contents.lanes.isEmpty })
  }

  @Test("lists that cannot be written stop the journal")
  func failure() async throws {
    let small = try SmallJournal(SimulatedDisk())
    small.journal.writeSettlements(
      after: { () throws(UnsyncedList) in throw UnsyncedList(path: "store.db", code: EIO) }, ask: {})
    let (campaign, lane) = try await small.begin(count: 2)
    small.journal.record(settled(0, of: campaign, in: lane))
    small.journal.writeSettlements()
    #expect(small.journal.failure?.contains("store.db") == true, "\(small.journal.failure ?? "none")")
    #expect(!small.enqueue(1, from: 2, of: campaign, in: lane))
    // Nobody waits for ever.
    await small.journal.settlementsWritten()
  }

  @Test("while the lists are away, outcomes wait in their order, and nothing fails")
  func away() async throws {
    let small = try SmallJournal(SimulatedDisk())
    let isAway = Atomic(true)
    let asked = Atomic(0)
    small.journal.writeSettlements(
      after: { () throws(UnsyncedList) in
        if isAway.load(ordering: .relaxed) { throw UnsyncedList(path: "store.db", code: EIO, isAway: true) }
      }, ask: { asked.add(1, ordering: .relaxed) })
    let (campaign, lane) = try await small.begin(count: 4)
    for index in 0..<2 as Range<UInt64> { small.journal.record(settled(index, of: campaign, in: lane)) }
    small.journal.writeSettlements()
    #expect(asked.load(ordering: .relaxed) == 2, "it asks to be called again")
    small.journal.record(settled(2, of: campaign, in: lane))
    small.journal.end(campaign)
    #expect(asked.load(ordering: .relaxed) == 2)
    for second in 1...3 { small.run(second) }
    #expect(small.journal.failure == nil)
    #expect(try SmallJournal(small.copy()).journal.campaign(campaign)?.account.confirmed == 0)
    isAway.store(false, ordering: .relaxed)
    small.journal.writeSettlements()
    for second in 4...6 { small.run(second) }
    let after = try SmallJournal(small.copy()).journal.campaign(campaign)
    #expect(after?.account.confirmed == 3)
    #expect(after?.phase == .ended)
  }

  @Test("when the lists do not keep up, nothing new is taken in until they have")
  func bound() async throws {
    let small = try SmallJournal(SimulatedDisk())
    small.journal.writeSettlements(after: {}, ask: {})
    let (campaign, lane) = try await small.begin(count: 4)
    for _ in 0..<EngineJournal.waitingLimit { small.journal.record(.ended(campaign: 1 << 40)) }
    #expect(!small.enqueue(1, from: 4, of: campaign, in: lane))
    let journal = small.journal
    let room = Task { await journal.room() }
    small.journal.writeSettlements()
    for second in 1...100_000 where small.journal.state.withLock({ !$0.overflow.isEmpty }) { small.run(second) }
    try await small.drive { await room.value }
    #expect(small.enqueue(1, from: 4, of: campaign, in: lane))
  }
}
