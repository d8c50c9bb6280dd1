internal import Foundation
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

/// Every operation of SQLite's files fails in turn. What the store has answered for is in the file;
/// what it refused is there whole or not at all, and can be asked for again.
@Suite("The store when its files fail", .serialized)
struct StoreFaultTests {
  /// Opens the store, takes every step, and closes it, with the plan. Then each step that succeeded
  /// is in the file, and each that failed succeeds now.
  ///
  /// - Returns: how many operations there were.
  private static func attempt(failing: Int, forGood: Bool) async throws -> Int {
    let place = try Workplace()
    let path = place.path("store.db")
    var done: [Int] = []
    let count = try await FaultyFiles.with(
      FaultyFiles.Plan(folder: place.path(""), failing: failing, forGood: forGood)
    ) { () async throws -> Void in
      guard let store = try? SQLiteStore(path: path) else { return }
      for (index, step) in StoreSteps.all.enumerated() {
        do {
          try await step.perform(store)
          done.append(index)
        } catch {
          #expect(error is StoreError, "\(failing): \(step.name): \(error)")
          // Later ones build on it. The disk is well again, unless it failed for good.
          guard !forGood, await (try? step.perform(store)) != nil else { break }
          done.append(index)
        }
        // Now, because later steps undo some of the earlier ones. Reading may be what fails.
        guard !forGood else { continue }
        let isDone = try await {
          do { return try await step.isDone(store) } catch { return try await step.isDone(store) }
        }()
        #expect(isDone, "operation \(failing): \(step.name)")
      }
      try? store.close()
    }
    let store = try SQLiteStore(path: path)
    let file = try StoreFile(path: path)
    #expect(try await file.check().problems.isEmpty, "\(failing)")
    try file.close()
    if let last = done.last, last < StoreSteps.all.count - 1 {
      // The next one may be done although it failed, and undo this one.
      let isDone = try await StoreSteps.all[last].isDone(store)
      let isNextDone = try await StoreSteps.all[last + 1].isDone(store)
      #expect(isDone || isNextDone, "operation \(failing): \(StoreSteps.all[last].name)")
    }
    for step in StoreSteps.all.dropFirst(done.count) {
      try await step.perform(store)
      #expect(try await step.isDone(store), "\(failing): \(step.name), again")
    }
    try store.close()
    return count
  }

  /// Each ninth, from a random one on, so that many runs try them all; with
  /// `CARILLON_EVERY_FAULT=1` each of them, in a minute and a half.
  @Test("each operation fails, once or for good", arguments: [false, true])
  func everyOperation(forGood: Bool) async throws {
    let count = try await Self.attempt(failing: 0, forGood: false)
    #expect(count > 100)
    let isWhole = !(ProcessInfo.processInfo.environment["CARILLON_EVERY_FAULT"] ?? "").isEmpty
    var random = SeededGenerator.fresh()
    let first = isWhole ? 1 : Int.random(in: 1...9, using: &random)
    for failing in stride(from: first, through: count, by: isWhole ? 1 : 9) {
      do {
        _ = try await Self.attempt(failing: failing, forGood: forGood)
      } catch {
        Issue.record(error, "operation \(failing)")
      }
    }
  }
}
