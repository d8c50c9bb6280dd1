internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@Suite("References in the store")
struct ReferenceTests {
  @Test(
    "a reference is kept as long as its run, and without a run as long as outcomes are", arguments: StoreKind.allCases)
  func references(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    // Runs that began in the milliseconds 1,000 and 2,000.
    let runs = [1_000, 2_000].map { StoredRunID(high: UInt64($0) << 16 | 0x7abc, low: 0x8000_0001) }
    let ids = runs.flatMap { run in (1...3_000).map { StoredNotificationID(run: run, line: $0) } }
    var changes = IntakeChanges()
    changes.references = ids.map { ($0, "order \($0.line)") }
    changes.began = [(run: runs[0], app: "news", at: StoreInstant(milliseconds: 1_000))]
    changes.notAccepted = [(notification: ids[0], state: "suppressed", detail: "")]
    changes.ended = [(runs[0], StoreInstant(milliseconds: 3_000))]
    try store.write(changes)
    #expect(try await store.notification(ids[0]).outcome?.state == "suppressed")
    func known() async throws -> [Bool] {
      var known: [Bool] = []
      for run in runs {
        known.append(
          try await store.notification(StoredNotificationID(run: run, line: 3_000)).reference == "order 3000")
      }
      return known
    }
    try await store.forget(endedBefore: StoreInstant(milliseconds: 2_000))
    #expect(try await known() == [true, true])
    try await store.forget(endedBefore: StoreInstant(milliseconds: 2_500))
    #expect(try await known() == [true, false])
    try await store.forget(endedBefore: StoreInstant(milliseconds: 3_001))
    #expect(try await known() == [false, false])
    try store.close()
  }
}
