internal import PushStore
internal import Support
internal import Testing

@Suite("Notifications that nodes share")
struct BlockTests {
  private static let run = StoredRunID(high: 0x018B_CFE5_6800_7001, low: 0x8000_0001)
  private static let other = StoredRunID(high: 0x018B_CFE5_6800_7002, low: 0x8000_0002)
  private static func at(_ milliseconds: Int64) -> StoreInstant { StoreInstant(milliseconds: milliseconds) }

  private static func block(
    _ first: UInt32, _ count: Int, of run: StoredRunID = run, app: String = "news"
  ) -> IntakeBlock {
    IntakeBlock(
      IntakeBlock.ID(run: run, first: first), app: app, count: count, common: [7],
      bytes: [UInt8](repeating: 1, count: count))
  }

  /// New runs with blocks.
  private static func changes(_ blocks: [IntakeBlock], of incarnation: Int64) -> IntakeChanges {
    var changes = IntakeChanges()
    changes.began = Set(blocks.map(\.id.run)).map { (run: $0, app: "news", at: at(1_700_000_000_000)) }
    changes.shared.incarnation = incarnation
    changes.shared.blocks = blocks
    return changes
  }

  private static func accepted(_ lines: ClosedRange<UInt32>, of incarnation: Int64) -> IntakeChanges {
    var changes = IntakeChanges()
    changes.accepted = [(run: run, lines: lines, confirmation: "confirmed")]
    (changes.shared.incarnation, changes.shared.runs) = (incarnation, [run])
    return changes
  }

  private static func first(_ blocks: [OwnedIntakeBlock]) -> [UInt32] { blocks.map(\.block.id.first) }

  @Test(
    "a node has its blocks until it is lost; then they are others', with what is settled", arguments: LedgerTests.kinds)
  func owners(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let ledger = try #require(store.ledger)
    let one = try #require(try await store.join("one", replacing: nil))
    let two = try #require(try await store.join("two", replacing: nil))
    let blocks = [Self.block(1, 3), Self.block(4, 2), Self.block(1, 1, of: Self.other, app: "chat")]
    try store.write(Self.changes(blocks, of: one))
    #expect(try await ledger.claimBlocks(of: ["news", "chat"], limit: 9, by: two).isEmpty)
    #expect(Self.first(try await ledger.blocks(of: one, after: nil, limit: 9)) == [1, 4, 1])
    #expect(Self.first(try await ledger.blocks(of: one, after: blocks[0].id, limit: 1)) == [4])
    try store.write(Self.accepted(2...2, of: one))
    // The next process of the node has them.
    let next = try #require(try await store.join("one", replacing: one))
    let kept = try await ledger.blocks(of: next, after: nil, limit: 9)
    #expect(kept.map(\.open) == [[1, 3], [4, 5], [1]])
    #expect(kept.map(\.block.bytes.count) == [0, 0, 0])
    #expect(try await ledger.notifications(of: blocks[1].id) == blocks[1])
    let node = try #require(try await store.nodes()?.first { $0.name == "one" })
    #expect(try await store.fence(node))
    #expect(try await ledger.claimBlocks(of: ["news"], limit: 1, by: next).isEmpty, "it is not alive")
    let claimed = try await ledger.claimBlocks(of: ["news"], limit: 1, by: two)
    #expect(claimed.map(\.block) == [blocks[0]])
    #expect(claimed.map(\.open) == [[1, 3]])
    // What was lost once is lost to the next process, too.
    let again = try #require(try await store.join("one", replacing: next))
    #expect(try await ledger.blocks(of: again, after: nil, limit: 9).isEmpty)
    #expect(Self.first(try await ledger.claimBlocks(of: ["news", "chat"], limit: 9, by: two)) == [4, 1])
    try store.close()
  }

  @Test("of lines that are asked for it is known who sends them, and what became of them", arguments: LedgerTests.kinds)
  func known(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let ledger = try #require(store.ledger)
    let one = try #require(try await store.join("one", replacing: nil))
    try store.write(Self.changes([Self.block(1, 3), Self.block(4, 2)], of: one))
    var done = Self.accepted(1...1, of: one)
    done.accepted.append((run: Self.run, lines: 4...5, confirmation: "confirmed"))
    done.notAccepted = [
      (notification: StoredNotificationID(run: Self.run, line: 2), state: "rejected", detail: "400 BadDeviceToken")
    ]
    done.shared.settled = [Self.block(4, 2).id]
    try store.write(done)
    let parts = [StoredLines(run: Self.run, lines: 1...4), StoredLines(run: Self.other, lines: 1...9)]
    let found = try await ledger.knownRuns(parts)
    #expect(Set(found.keys) == [Self.run], "the store does not know the other one")
    let known = try #require(found[Self.run])
    #expect(!known.isElsewhere, "it is in the journal of the caller")
    #expect((1...5).map(known.expects) == [true, true, true, false, false])
    #expect((1...4).filter { line in known.accepted.contains { $0.contains(line) } } == [1, 4])
    #expect(known.notAccepted.mapValues(\.detail) == [2: "400 BadDeviceToken"])
    #expect(try await ledger.knownRuns([]).isEmpty)
    try store.close()
  }

  @Test(
    "what a lost node says of shared notifications counts no more, and its new blocks are anybody's",
    arguments: LedgerTests.kinds)
  func lost(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let ledger = try #require(store.ledger)
    let one = try #require(try await store.join("one", replacing: nil))
    let two = try #require(try await store.join("two", replacing: nil))
    try store.write(Self.changes([Self.block(1, 3)], of: one))
    let node = try #require(try await store.nodes()?.first { $0.name == "one" })
    #expect(try await store.fence(node))
    #expect(Self.first(try await ledger.claimBlocks(of: ["news"], limit: 9, by: two)) == [1])
    var late = Self.accepted(1...3, of: one)
    late.began = [(run: Self.other, app: "news", at: Self.at(1_700_000_000_000))]
    late.accepted.append((run: Self.other, lines: 1...1, confirmation: "quiet"))
    late.shared.settled = [Self.block(1, 3).id]
    late.shared.blocks = [Self.block(4, 1)]
    late.doubted = [StoredLines(run: Self.run, lines: 2...2)]
    try store.write(late)
    func outcome(_ run: StoredRunID, _ line: UInt32) async throws -> String? {
      try await store.notification(StoredNotificationID(run: run, line: line)).outcome?.state
    }
    #expect(try await outcome(Self.run, 1) == nil)
    #expect(try await outcome(Self.other, 1) == "accepted")
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 2)).isDoubted)
    #expect(Self.first(try await ledger.blocks(of: two, after: nil, limit: 9)) == [1])
    #expect(Self.first(try await ledger.claimBlocks(of: ["news"], limit: 9, by: two)) == [4])
    var done = Self.accepted(1...4, of: two)
    (done.shared.settled, done.shared.left) = ([Self.block(1, 3).id, Self.block(4, 1).id], [Self.run])
    try store.write(done)
    #expect(try await outcome(Self.run, 3) == "accepted")
    #expect(try await ledger.blocks(of: two, after: nil, limit: 9).isEmpty)
    try store.close()
  }

  @Test(
    "lines of others are found by the run they are in, and a forgotten node leaves its blocks",
    arguments: LedgerTests.kinds)
  func carriages(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let ledger = try #require(store.ledger)
    let one = try #require(try await store.join("one", replacing: nil))
    let two = try #require(try await store.join("two", replacing: nil))
    try store.write(Self.changes([Self.block(1, 3)], of: one))
    var changes = IntakeChanges()
    changes.began = [(run: Self.other, app: "news", at: Self.at(1_700_000_000_000))]
    changes.shared.incarnation = two
    let carriages = [
      IntakeCarriage(block: Self.block(1, 3).id, lines: [3], run: Self.other, first: 2),
      IntakeCarriage(block: Self.block(1, 3).id, lines: [1, 2], run: Self.other, first: 3),
    ]
    changes.shared.carriages = carriages.reversed()
    changes.shared.copies = [
      StoredLines(run: Self.run, lines: 1...1), StoredLines(run: StoredRunID(high: 9, low: 9), lines: 1...1),
    ]
    try store.write(changes)
    #expect(try await ledger.carriages(in: [Self.run, Self.other]) == carriages)
    #expect(try await ledger.carriages(in: [Self.run]).isEmpty)
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 1)).isDoubted)
    // A run that the store has blocks of is nobody's to end.
    try await store.leave(one)
    #expect(try await store.forget(node: "one"))
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 1)).outcome == nil)
    #expect(Self.first(try await ledger.claimBlocks(of: ["news"], limit: 9, by: two)) == [1])
    try store.close()
  }
}
