internal import PushStore
internal import Support
internal import Testing

@Suite("The list of all outcomes in the store")
struct OutcomeListTests {
  private static let run = StoredRunID(high: 1_000 << 16 | 0x7abc, low: 0x8000_0001)
  private static let campaign = OutcomeGroup.Origin.campaign(
    StoredUUID(high: .max, low: 2), seed: StoredUUID(high: .max - 1, low: .max))
  private static func at(_ milliseconds: Int64) -> StoreInstant { StoreInstant(milliseconds: milliseconds) }

  private static func group(
    _ app: String, _ count: Int, origin: OutcomeGroup.Origin = .run(run, isBridge: true), state: String = "accepted",
    at milliseconds: Int64 = 10
  ) -> OutcomeGroup {
    OutcomeGroup(
      app: app, origin: origin, state: state, detail: "x", at: at(milliseconds), count: count,
      entries: (0..<count).map { UInt8(truncatingIfNeeded: $0) })
  }

  private static func write(_ groups: [OutcomeGroup], to store: any Store, passed: [OutcomeGroup] = []) throws {
    var changes = IntakeChanges()
    changes.outcomes = OutcomeList(groups)
    changes.passed = OutcomeList(passed)
    try store.write(changes)
  }

  @Test(
    "each app's outcomes have numbers of their own, without a gap, and are read behind any",
    arguments: StoreKind.allCases)
  func numbers(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    var store = try place.open()
    #expect(try await store.outcomeProgress(app: "news") == OutcomeProgress())
    #expect(try await store.outcomeGroups(app: "news", after: 0, limit: 9).isEmpty)
    try Self.write(
      [Self.group("news", 3), Self.group("chat", 5), Self.group("news", 2, origin: Self.campaign, state: "rejected")],
      to: store, passed: [Self.group("news", 1, state: "suppressed")])
    try store.close()
    store = try place.open()
    try Self.write([Self.group("news", 4)], to: store)
    let all = try await store.outcomeGroups(app: "news", after: 0, limit: .max)
    #expect(all.map(\.last) == [1, 4, 6, 10])
    #expect(all.map(\.state) == ["suppressed", "accepted", "rejected", "accepted"])
    #expect(
      all.map(\.origin) == [
        .run(Self.run, isBridge: true), .run(Self.run, isBridge: true), Self.campaign, .run(Self.run, isBridge: true),
      ])
    var expected = Self.group("news", 2, origin: Self.campaign, state: "rejected")
    expected.last = 6
    #expect(all[2] == expected)
    for number in 0...10 as ClosedRange<Int64> {
      let found = try await store.outcomeGroups(app: "news", after: number, limit: .max)
      #expect(found == all.filter { $0.last > number })
    }
    #expect(try await store.outcomeGroups(app: "news", after: 0, limit: 1).map(\.last) == [1])
    #expect(try await store.outcomeGroups(app: "news", after: 0, limit: 5).map(\.last) == [1, 4, 6])
    #expect(try await store.outcomeProgress(app: "news") == OutcomeProgress(last: 10))
    #expect(try await store.outcomeProgress(app: "chat") == OutcomeProgress(last: 5))
    try await store.noteDelivered(["news": 6, "chat": 1])
    try await store.noteDelivered(["news": 4, "chat": 5])
    #expect(try await store.outcomeProgress(app: "news") == OutcomeProgress(last: 10, delivered: 6))
    #expect(try await store.outcomeProgress(app: "chat") == OutcomeProgress(last: 5, delivered: 5))
    try store.close()
  }

  @Test(
    "what is older than the retention is forgotten, and its numbers do not come again", arguments: StoreKind.allCases)
  func forgotten(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    try Self.write((1...450).map { Self.group("news", 1, at: $0) }, to: store)
    try await store.forget(endedBefore: Self.at(440))
    let left = try await store.outcomeGroups(app: "news", after: 0, limit: .max)
    #expect(left.map(\.last) == Array(440...450))
    try await store.forget(endedBefore: Self.at(1_000))
    #expect(try await store.outcomeGroups(app: "news", after: 0, limit: .max).isEmpty)
    try Self.write([Self.group("news", 2, at: 2_000)], to: store)
    #expect(try await store.outcomeGroups(app: "news", after: 450, limit: .max).map(\.last) == [452])
    try store.close()
  }

  @Test("references and batches of any lines are found", arguments: StoreKind.allCases)
  func labels(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let other = StoredRunID(high: Self.run.high, low: 0x8000_0002)
    var changes = IntakeChanges()
    changes.references = (1...5).map { (StoredNotificationID(run: Self.run, line: $0), "r\($0)") }
    changes.batches = [(1, [(Self.run, 2...4), (other, 1...9)]), (2, [(Self.run, 7...7)])].map { number, parts in
      StoredBatch(
        id: StoredUUID(high: 2, low: UInt64(number)), app: "news",
        parts: parts.map { StoredLines(run: $0.0, lines: UInt32($0.1.lowerBound)...UInt32($0.1.upperBound)) },
        rejectedCount: 0, createdAt: Self.at(1))
    }
    try store.write(changes)
    func labels(_ run: StoredRunID, _ lines: ClosedRange<UInt32>) async throws -> ([String], [String]) {
      let found = try await store.labels(of: [StoredLines(run: run, lines: lines)])
      return (found.references.values.sorted(), found.batches.map { "\($0.batch.low) \($0.lines.lines)" }.sorted())
    }
    #expect(try await labels(Self.run, 4...6) == (["r4", "r5"], ["1 2...4"]))
    #expect(try await labels(Self.run, 1...9) == (["r1", "r2", "r3", "r4", "r5"], ["1 2...4", "2 7...7"]))
    #expect(try await labels(Self.run, 5...6) == (["r5"], []))
    #expect(try await labels(other, 5...6) == ([], ["1 1...9"]))
    #expect(try await store.labels(of: []).batches.isEmpty)
    try store.close()
  }

  @Test("the same outcomes that come soon after each other are one group")
  func groups() {
    var list = OutcomeList()
    for (count, milliseconds) in [(2, 10), (3, 109), (1, 110)] {
      list.append(Self.group("news", count, at: Int64(milliseconds)))
      list.append(Self.group("chat", 1, at: Int64(milliseconds)))
    }
    #expect(list.groups.map(\.app) == ["news", "chat", "news", "chat"])
    #expect(list.groups.map(\.count) == [5, 2, 1, 1])
    #expect(list.groups.map(\.entries.count) == [5, 2, 1, 1])
    var other = OutcomeList([Self.group("news", 7, at: 111)])
    other.append(list)
    other.append(Self.group("news", 1, at: 112))
    #expect(other.groups.map(\.count) == [7, 5, 2, 1, 1, 1])
  }
}
