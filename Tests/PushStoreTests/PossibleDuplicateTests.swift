internal import Foundation
internal import GRDB
internal import PushStore
internal import Support
internal import Testing

@testable internal import PushStoreSQLite

@Suite("Notifications of which copies may have arrived")
struct PossibleDuplicateTests {
  private static let run = StoredRunID(high: 7, low: 8)

  private func counts(_ store: any Store, _ lines: ClosedRange<UInt32>) async throws -> [Int] {
    let counts = try await store.outcomes(of: [StoredLines(run: Self.run, lines: lines)])
    return [counts.doubted, counts.copies]
  }

  @Test("each time counts as a copy, and each notification once as a duplicate", arguments: StoreKind.allCases)
  func copies(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var changes = IntakeChanges()
    changes.began = [(run: Self.run, app: "news", at: StoreInstant(milliseconds: 1))]
    let ranges: [ClosedRange<UInt32>] = [1...10, 1...10, 5...20, 30...30, 1...3]
    changes.doubted = ranges.map { StoredLines(run: Self.run, lines: $0) }
    try store.write(changes)
    #expect(try await counts(store, 1...40) == [21, 40])
    #expect(try await counts(store, 6...9) == [4, 12])
    #expect(try await counts(store, 21...29) == [0, 0])
    try store.close()
  }

  @Test("what an older store knows counts as one copy each")
  func olderStore() async throws {
    let place = try Workplace()
    let path = place.path("older.db")
    let older = try DatabaseQueue(path: path)
    try Schema.migrator.migrate(older, upTo: "9: campaigns that the journal knows")
    try await older.write { database in
      try database.execute(sql: "INSERT INTO runs (number, high, low, app, beganAt) VALUES (1, 7, 8, 'news', 1)")
      try database.execute(sql: "INSERT INTO doubted VALUES (1, 2, 4)")
    }
    try older.close()
    let store = try SQLiteStore(path: path)
    #expect(try await counts(store, 1...10) == [3, 3])
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 3)).isDoubted)
    try store.close()
  }
}
