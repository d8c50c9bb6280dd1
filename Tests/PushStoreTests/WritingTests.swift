internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Synchronization
internal import Testing

/// Counts what has ended.
private final class Tally: Sendable {
  private let value = Atomic<Int>(0)
  var count: Int { value.load(ordering: .relaxed) }
  func add() { value.wrappingAdd(1, ordering: .relaxed) }
}

@Suite("Writing to the store")
struct WritingTests {
  private static func registration(_ number: Int) -> DeviceRegistration {
    DeviceRegistration(
      token: [UInt8(number >> 16), UInt8(number >> 8 & 255), UInt8(number & 255)],
      newID: StoredUUID(high: 1, low: UInt64(number)), registeredAt: StoreInstant(milliseconds: 1))
  }

  @Test("outcomes and single registrations do not wait behind imports", .timeLimit(.minutes(5)))
  func imports() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    let (portionCount, portion) = (300, 100)
    let (finished, written) = (Tally(), Tally())
    try await withThrowingTaskGroup(of: Void.self) { group in
      for index in 0..<portionCount {
        group.addTask {
          // Others have always queued before whoever writes next.
          repeat {
            let devices = (0..<portion).map { Self.registration(index * portion + $0) }
            _ = try await store.importDevices(devices, app: "news")
            finished.add()
          } while written.count == 0
        }
      }
      group.addTask {
        try await waitUntil("the imports run") { finished.count > 0 }
        for number in 0..<10 {
          var changes = IntakeChanges()
          changes.gone = [
            StoredGoneDevice(app: "news", token: [9], since: nil, foundAt: StoreInstant(milliseconds: 1))
          ]
          try store.write(changes)
          _ = try await store.register(Self.registration(1_000_000 + number), app: "news")
        }
        written.add()
      }
      try await group.waitForAll()
    }
    #expect(try await store.audienceCount(app: "news", filter: AudienceFilter(), through: .max) == 30_010)
    let file = try StoreFile(path: place.path("store.db"))
    #expect(try await file.check().problems.isEmpty)
    try file.close()
    try store.close()
  }

  @Test("one write that fails takes nothing from those that share its commit")
  func failures() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    let failureCount = try await withThrowingTaskGroup(of: Bool.self) { group in
      for index in 0..<400 {
        group.addTask {
          if index % 2 == 0 {
            _ = try await store.register(Self.registration(index), app: "news")
            return false
          }
          // The identifier of a key is there once.
          let key = StoredKey(
            id: "a", name: "a", digest: [UInt8(index >> 8), UInt8(index & 255)], scopes: [], reach: .all,
            createdAt: StoreInstant(milliseconds: 1))
          do throws(StoreError) { _ = try await store.add(key, by: nil) } catch { return true }
          return false
        }
      }
      return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
    }
    #expect(failureCount == 199)
    #expect(try await store.audienceCount(app: "news", filter: AudienceFilter(), through: .max) == 200)
    try store.close()
  }
}
