internal import Foundation
internal import GRDB
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@Suite("The store")
struct StoreTests {
  private let folder = FileManager.default.temporaryDirectory.appending(path: "store-\(UUID().uuidString)")
  private var path: String { folder.appending(path: "store.db").path }

  init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }

  private static let run = StoredRunID(high: 0x0193_0000_0000_7abc, low: 0x8000_0001)

  private static func began(_ app: String = "news") -> IntakeChanges {
    var changes = IntakeChanges()
    changes.began = [(run: run, app: app, at: StoreInstant(milliseconds: 1000))]
    return changes
  }

  @Test("a key is found again, in order, and can be revoked once", arguments: StoreKind.allCases)
  func keys(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let first = StoredKey(
      id: "a", name: "one", digest: [1, 2], scopes: ["send", "read"], reach: .all,
      createdAt: StoreInstant(milliseconds: 1)
    )
    let second = StoredKey(
      id: "b", name: "two", digest: [3], scopes: [], reach: .only(["news"]), createdAt: StoreInstant(milliseconds: 2))
    #expect(try await store.add(second, by: nil))
    #expect(try await store.add(first, by: nil))
    #expect(try await store.keys() == [first, second])
    let instant = StoreInstant(milliseconds: 3)
    #expect(try await store.revokeKey("a", at: instant))
    #expect(try await !store.revokeKey("a", at: instant))
    #expect(try await !store.revokeKey("c", at: instant))
    try await store.noteUse(of: ["b": instant])
    let keys = try await store.keys()
    #expect(keys.map(\.revokedAt) == [instant, nil])
    #expect(keys.map(\.lastUsedAt) == [nil, instant])
    try store.close()
  }

  @Test("sessions begin once, end, and make room for others", arguments: StoreKind.allCases)
  func sessions(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func session(_ number: UInt8) -> StoredSession {
      StoredSession(digest: [number, 0], keyID: "k", expiresAt: StoreInstant(milliseconds: Int64(number)))
    }
    for number in [1, 2, 2] as [UInt8] { try await store.begin(session(number), ending: []) }
    #expect(try await Set(store.sessions()) == [session(1), session(2)])
    try await store.begin(session(3), ending: [[1, 0], [9]])
    #expect(try await Set(store.sessions()) == [session(2), session(3)])
    try await store.endSession([2, 0])
    try await store.endSession([2, 0])
    #expect(try await store.sessions() == [session(3)])
    try store.close()
  }

  @Test(
    "a key reaches no further than the one that creates it, and a revoked one creates none",
    arguments: StoreKind.allCases)
  func creators(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func key(_ id: String, _ reach: AppReach) -> StoredKey {
      StoredKey(
        id: id, name: id, digest: [1], scopes: ["admin"], reach: reach, createdAt: StoreInstant(milliseconds: 1))
    }
    #expect(try await store.add(key("all", .all), by: nil))
    #expect(try await store.add(key("chat", .only(["chat", "news"])), by: "all"))
    #expect(try await !store.add(key("more", .all), by: "chat"))
    #expect(try await !store.add(key("more", .only(["chat", "sport"])), by: "chat"))
    #expect(try await !store.add(key("more", .only([])), by: "nobody"))
    #expect(try await store.add(key("less", .only(["news"])), by: "chat"))
    #expect(try await store.add(key("none", .only([])), by: "chat"))
    #expect(try await !store.add(key("again", .only(["news"])), by: "none"))
    #expect(try await store.revokeKey("all", at: StoreInstant(milliseconds: 2)))
    #expect(try await !store.add(key("late", .all), by: "all"))
    #expect(try await Set(store.keys().map(\.id)) == ["all", "chat", "less", "none"])
    try store.close()
  }

  @Test("an old key without apps stays for all of them only if no admin of some apps can have made it")
  func migratedReach() async throws {
    var store = try SQLiteStore(path: path)
    for (index, id) in ["first", "reader", "limited", "later", "chosen"].enumerated() {
      let key = StoredKey(
        id: id, name: id, digest: [1], scopes: id == "reader" ? ["read"] : ["send", "admin"], reach: .all,
        createdAt: StoreInstant(milliseconds: Int64(index)))
      #expect(try await store.add(key, by: nil))
    }
    try store.close()
    // As the version before wrote it.
    let database = try DatabaseQueue(path: path)
    try await database.write { database in
      try database.execute(sql: "UPDATE keys SET apps = ''")
      try database.execute(sql: "UPDATE keys SET apps = 'chat' WHERE id IN ('reader', 'limited', 'chosen')")
      try database.execute(sql: "DELETE FROM grdb_migrations WHERE identifier LIKE '11:%'")
    }
    try database.close()
    store = try SQLiteStore(path: path)
    #expect(
      try await store.keys().map(\.reach) == [.all, .only(["chat"]), .only(["chat"]), .only([]), .only(["chat"])])
    try store.close()
  }

  @Test("what is written is there after it was opened again, and the file is private")
  func reopening() async throws {
    var store = try SQLiteStore(path: path)
    var changes = Self.began()
    changes.accepted = [(run: Self.run, lines: 1...3, confirmation: "confirmed")]
    try store.write(changes)
    try store.close()
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    #expect(attributes[.posixPermissions] as? Int == 0o600)
    store = try SQLiteStore(path: path)
    let found = try await store.notification(StoredNotificationID(run: Self.run, line: 2)).outcome
    #expect(found == StoredOutcome(state: "accepted", detail: "confirmed", app: "news"))
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 4)).outcome == nil)
    try store.close()
  }

  @Test("a file that is no store is refused with its name, and stays as it is")
  func noStore() throws {
    let text = String(repeating: "This is a letter.\n", count: 500)
    try text.write(toFile: path, atomically: true, encoding: .utf8)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(path: path) }
    #expect(error?.kind == .unusable)
    #expect(error?.description.contains(path) == true)
    #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
  }

  @Test("lines are counted once, however often they were heard of", arguments: StoreKind.with(0..<40))
  func outcomes(seed: UInt64, kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    try store.write(Self.began())
    var random = SeededGenerator(seed: seed)
    let limit: UInt32 = 200
    var accepted: [UInt32: String] = [:]
    var others: [UInt32: String] = [:]
    var copies: [UInt32: Int] = [:]
    for _ in 0..<60 {
      var changes = IntakeChanges()
      if random.chance(20) {
        let first = UInt32.random(in: 1...limit, using: &random)
        let lines = first...UInt32.random(in: first...min(limit, first + 10), using: &random)
        changes.doubted = [StoredLines(run: Self.run, lines: lines)]
        for line in lines { copies[line, default: 0] += 1 }
      }
      if random.chance(70) {
        let first = UInt32.random(in: 1...limit, using: &random)
        let last = UInt32.random(in: first...min(limit, first + 40), using: &random)
        let confirmation = random.chance(50) ? "confirmed" : "quiet"
        changes.accepted = [(run: Self.run, lines: first...last, confirmation: confirmation)]
        for line in first...last where accepted[line] == nil { accepted[line] = confirmation }
      } else {
        let line = UInt32.random(in: 1...limit, using: &random)
        let detail = random.chance(50) ? "8 invalid token" : "410 Unregistered"
        let notification = StoredNotificationID(run: Self.run, line: line)
        changes.notAccepted = [
          (notification: notification, state: "rejected", detail: detail)
        ]
        others[line] = detail
      }
      try store.write(changes)
    }
    for line in 1...limit {
      let found = try await store.notification(StoredNotificationID(run: Self.run, line: line)).outcome
      let expected =
        accepted[line].map { StoredOutcome(state: "accepted", detail: $0, app: "news") }
        ?? others[line].map { StoredOutcome(state: "rejected", detail: $0, app: "news") }
      #expect(found == expected, "seed \(seed), line \(line)")
      let isDoubted = try await store.notification(StoredNotificationID(run: Self.run, line: line)).isDoubted
      #expect(isDoubted == (copies[line] != nil), "seed \(seed), line \(line)")
    }
    let first = UInt32.random(in: 1...limit, using: &random)
    let range = first...UInt32.random(in: first...limit, using: &random)
    let counts = try await store.outcomes(of: [StoredLines(run: Self.run, lines: range)])
    var expected = OutcomeCounts()
    expected.doubted = copies.keys.count(where: range.contains)
    expected.copies = range.reduce(0) { $0 + copies[$1, default: 0] }
    for line in range {
      if let confirmation = accepted[line] {
        expected.accepted[confirmation, default: 0] += 1
      } else if let detail = others[line] {
        expected.others["rejected", default: [:]][detail, default: 0] += 1
      }
    }
    #expect(counts == expected, "seed \(seed), lines \(range)")
    try store.close()
  }

  @Test("a batch keeps its parts in order; what is not there is nil", arguments: StoreKind.allCases)
  func batches(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let other = StoredRunID(high: .max, low: .max)
    let batch = StoredBatch(
      id: StoredUUID(high: .max, low: 1), app: "news",
      parts: [StoredLines(run: other, lines: 5...9), StoredLines(run: Self.run, lines: 1...UInt32.max)],
      rejectedCount: 3, createdAt: StoreInstant(milliseconds: 7))
    for part in batch.parts {
      var changes = IntakeChanges()
      var known = batch
      known.parts = [part]
      changes.batches = [known]
      try store.write(changes)
    }
    #expect(try await store.batch(batch.id) == batch)
    #expect(try await store.batch(StoredUUID(high: 0, low: 1)) == nil)
    try store.close()
  }

  @Test("gone devices have a stable order, a page after the other", arguments: StoreKind.allCases)
  func goneDevices(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var changes = Self.began()
    for index in 1...25 {
      let app = index % 5 == 0 ? "chat" : "news"
      let since: StoreInstant? = index % 2 == 0 ? StoreInstant(milliseconds: Int64(index)) : nil
      changes.gone.append(
        StoredGoneDevice(app: app, token: [UInt8(index)], since: since, foundAt: StoreInstant(milliseconds: 9)))
    }
    try store.write(changes)
    var found: [StoredGoneDevice] = []
    while true {
      let page = try await store.goneDevices(app: "news", after: found.last?.number ?? 0, limit: 7)
      if page.isEmpty { break }
      found += page
    }
    let expected = changes.gone.filter { $0.app == "news" }
    #expect(found.map(\.token) == expected.map(\.token))
    #expect(found.map(\.since) == expected.map(\.since))
    try store.close()
  }

  @Test("what ended long ago is forgotten, what goes on is not", arguments: StoreKind.allCases)
  func forgetting(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var changes = Self.began()
    let second = StoredRunID(high: 1, low: 2)
    changes.began.append((run: second, app: "news", at: StoreInstant(milliseconds: 1)))
    for run in [Self.run, second] {
      changes.accepted.append((run: run, lines: 1...10_000, confirmation: "quiet"))
      changes.notAccepted += (10_001...16_000).map {
        (notification: StoredNotificationID(run: run, line: $0), state: "expired", detail: "")
      }
      changes.doubted.append(StoredLines(run: run, lines: 5...7))
    }
    changes.ended = [(Self.run, StoreInstant(milliseconds: 50))]
    try store.write(changes)
    try await store.forget(endedBefore: StoreInstant(milliseconds: 50))
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 1)).outcome != nil)
    try await store.forget(endedBefore: StoreInstant(milliseconds: 51))
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 1)).outcome == nil)
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 16_000)).outcome == nil)
    #expect(try await store.notification(StoredNotificationID(run: second, line: 16_000)).outcome != nil)
    #expect(try await !store.notification(StoredNotificationID(run: Self.run, line: 6)).isDoubted)
    #expect(try await store.notification(StoredNotificationID(run: second, line: 6)).isDoubted)
    try store.close()
  }

  @Test("a batch is forgotten with the last of its runs, however old it is", arguments: StoreKind.allCases)
  func oldBatches(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    try store.write(Self.began())
    let gone = StoredRunID(high: 2, low: 2)
    func batch(_ number: UInt64, _ runs: [StoredRunID]) -> StoredBatch {
      StoredBatch(
        id: StoredUUID(high: number, low: 0), app: "news", parts: runs.map { StoredLines(run: $0, lines: 1...9) },
        rejectedCount: 0, createdAt: StoreInstant(milliseconds: 1))
    }
    let (queued, old, empty) = (batch(1, [gone, Self.run]), batch(2, [gone]), batch(3, []))
    var added = IntakeChanges()
    added.batches = [queued, old, empty]
    try store.write(added)
    let late = StoreInstant(milliseconds: 1_000_000)
    try await store.forget(endedBefore: late)
    #expect(try await store.batch(queued.id) == queued, "it may have notifications that wait")
    #expect(try await store.batch(old.id) == nil)
    #expect(try await store.batch(empty.id) == nil)
    var changes = IntakeChanges()
    changes.ended = [(Self.run, StoreInstant(milliseconds: 2))]
    try store.write(changes)
    try await store.forget(endedBefore: late)
    #expect(try await store.batch(queued.id) == nil)
    try store.close()
  }

  @Test(
    "runs that no journal goes on with are ended, so that they are forgotten some day", arguments: StoreKind.allCases)
  func abandonedRuns(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var changes = Self.began()
    let (open, ended) = (StoredRunID(high: 1, low: .max), StoredRunID(high: 3, low: 3))
    for run in [open, ended] {
      changes.began.append((run: run, app: "news", at: StoreInstant(milliseconds: 1)))
    }
    changes.ended = [(ended, StoreInstant(milliseconds: 10))]
    changes.accepted = [Self.run, open, ended].map {
      (run: $0, lines: 1...1, confirmation: "quiet")
    }
    try store.write(changes)
    try await store.endRuns(except: [open], at: StoreInstant(milliseconds: 50))
    func known() async throws -> [StoredRunID] {
      var known: [StoredRunID] = []
      for run in [Self.run, open, ended]
      where try await store.notification(StoredNotificationID(run: run, line: 1)).outcome != nil { known.append(run) }
      return known
    }
    try await store.forget(endedBefore: StoreInstant(milliseconds: 50))
    #expect(try await known() == [Self.run, open], "the end that was written counts on")
    try await store.forget(endedBefore: StoreInstant(milliseconds: 51))
    #expect(try await known() == [open])
    try store.close()
  }
}
