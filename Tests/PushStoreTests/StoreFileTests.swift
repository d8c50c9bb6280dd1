internal import Foundation
internal import Support
internal import Testing

@testable internal import PushStore
@testable internal import PushStoreSQLite

@Suite("The store's file")
struct StoreFileTests {
  private static func fill(_ store: SQLiteStore) async throws {
    let devices = (0..<2_000).map { number in
      var device = DeviceRegistration(
        token: [UInt8(number >> 8), UInt8(number & 255)], newID: StoredUUID(high: 1, low: UInt64(number)),
        registeredAt: StoreInstant(milliseconds: 1))
      device.tags = .set(["all", "t\(number % 7)"])
      device.language = .set("de")
      return device
    }
    _ = try await store.importDevices(devices, app: "news")
  }

  @Test("every write is durable and checks references", arguments: [false, true])
  func safety(isVisitor: Bool) throws {
    let place = try Workplace()
    for _ in 0..<2 {
      let store = try SQLiteStore(path: place.path("store.db"), isVisitor: isVisitor)
      let safety = try store.writingSafety()
      #expect(safety.synchronous == 2)
      #expect(safety.checksReferences)
      try store.close()
    }
  }

  @Test("a copy that is made while others write is whole, private, and has what was there")
  func backup() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    try await Self.fill(store)
    let file = try StoreFile(path: place.path("store.db"))
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        for number in 0..<200 {
          _ = try await store.removeDevice(token: [UInt8(number >> 8), UInt8(number & 255)], app: "news")
        }
      }
      group.addTask { try await file.backUp(to: place.path("copy.db")) }
      try await group.waitForAll()
    }
    try file.close()
    try store.close()
    let copy = try StoreFile(path: place.path("copy.db"))
    let report = try await copy.check()
    #expect(report.problems.isEmpty, "\(report.problems)")
    let devices = report.counts.first { $0.table == "devices" }?.count ?? 0
    #expect((1_800...2_000).contains(devices))
    try copy.close()
    let attributes = try FileManager.default.attributesOfItem(atPath: place.path("copy.db"))
    #expect(attributes[.posixPermissions] as? Int == 0o600)
    // It is a store.
    let opened = try SQLiteStore(path: place.path("copy.db"))
    #expect(try await opened.audienceCount(app: "news", filter: AudienceFilter(all: ["all"]), through: .max) == devices)
    try opened.close()
    let again = try StoreFile(path: place.path("store.db"))
    await #expect(throws: StoreError.self) { try await again.backUp(to: place.path("copy.db")) }
    try again.close()
  }

  @Test("bytes that are wrong are found, wherever they are", arguments: 0..<20)
  func damage(seed: UInt64) async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    try await Self.fill(store)
    // A copy has everything in one file, without a write-ahead log.
    let path = place.path("copy.db")
    let original = try StoreFile(path: place.path("store.db"))
    try await original.backUp(to: path)
    try original.close()
    try store.close()
    var random = SeededGenerator(seed: seed)
    var bytes = try Data(contentsOf: URL(filePath: path))
    // A page of a tree, from its head on.
    let page = Int.random(in: 1..<bytes.count / 4096, using: &random)
    bytes.replaceSubrange(page * 4096..<page * 4096 + 200, with: random.bytes(200))
    try bytes.write(to: URL(filePath: path))
    do throws(StoreError) {
      let file = try StoreFile(path: path)
      let report = try await file.check()
      #expect(!report.problems.isEmpty, "seed \(seed)")
      try file.close()
    } catch {
      #expect(error.kind == .unusable, "seed \(seed): \(error)")
      #expect(error.description.contains(path), "seed \(seed)")
    }
  }

  @Test("a store that is not there is named, and not made")
  func missing() throws {
    let place = try Workplace()
    #expect(throws: StoreError.self) { try StoreFile(path: place.path("store.db")) }
    #expect(!FileManager.default.fileExists(atPath: place.path("store.db")))
  }
}
