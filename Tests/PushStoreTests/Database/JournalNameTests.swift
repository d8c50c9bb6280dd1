internal import PushStore
internal import Support
internal import Testing

@testable internal import PushStorePostgreSQL

@Suite("Journals that share a database")
struct JournalNameTests {
  private static func run(_ number: UInt32) -> IntakeChanges {
    var changes = IntakeChanges()
    changes.began = [
      (run: StoredRunID(high: 1, low: number), app: "news", at: StoreInstant(milliseconds: 1))
    ]
    return changes
  }

  @Test("two on one machine write by turns, and each ends only its own runs")
  func turns() async throws {
    var settings = try PostgreSQLServer.shared.get().makeSettings()
    settings.journal = "first"
    let first = try PostgreSQLStore(settings)
    settings.journal = "second"
    let second = try PostgreSQLStore(settings)
    for number in 0..<6 {
      try (number % 2 == 0 ? first : second).write(Self.run(UInt32(number)))
    }
    #expect(first.writeCount == 3)
    #expect(second.writeCount == 3)
    try await first.endRuns(except: [], at: StoreInstant(milliseconds: 5))
    let open = try await first.read("SELECT low FROM runs WHERE ended_at IS NULL ORDER BY low").map { $0.int($1, 0) }
    #expect(open == [1, 3, 5])
    try first.close()
    try second.close()
  }
}
