internal import GRDB
internal import PushStore
internal import Synchronization

/// Commits what several callers write together: a commit waits for the disk, whatever is in it.
///
/// While one group is committed, the next one gathers. Each caller's writes are in a savepoint, so
/// one that fails takes nothing from the others. Portions of something long, such as an import,
/// take turns with the groups: between two groups there is at most one portion.
final class GroupWriter: Sendable {
  /// Called when it is durable, or with the reason why it is not.
  private typealias Completion = @Sendable ((any Error)?) -> Void

  private struct Entry: Sendable {
    let job: @Sendable (Database) throws -> Void
    let completion: Completion
  }

  private struct State {
    var entries: [Entry] = []
    var bulk: [Entry] = []
    var isScheduled = false
  }

  private let pool: DatabasePool
  private let path: String
  private let state = Mutex(State())

  /// Some milliseconds of work.
  private static let groupLimit = 256

  init(_ pool: DatabasePool, path: String) { (self.pool, self.path) = (pool, path) }

  /// Concurrent calls share a commit. Returns when it is durable.
  ///
  /// - Parameters:
  ///   - isBulk: a portion of something long.
  ///   - body: must be short.
  func write<Value: Sendable>(
    isBulk: Bool = false, _ body: @Sendable @escaping (Database) throws -> Value
  ) async throws(StoreError) -> Value {
    let path = path
    let result: Result<Value, StoreError> = await withCheckedContinuation { continuation in
      let value = Mutex<Value?>(nil)
      let entry = Entry(
        job: { database in
          let result = try body(database)
          value.withLock { $0 = result }
        },
        completion: { error in
          let value = value.withLock { $0 }
          if error == nil, let value { return continuation.resume(returning: .success(value)) }
          let reason = error ?? StoreError(.failed, path: path, "the store \(path) lost a write")
          continuation.resume(returning: .failure(StoreError(reason, path: path)))
        })
      add(entry, isBulk: isBulk)
    }
    return try result.get()
  }

  /// Deletes rows in several short turns.
  ///
  /// - Parameter rows: the table and a condition, whose last argument is how many rows it selects.
  func delete(_ rows: String, _ arguments: StatementArguments, portion: Int) async throws(StoreError) {
    var count = portion
    while count >= portion {
      count = try await write(isBulk: true) { database in
        try database.execute(sql: "DELETE FROM " + rows, arguments: arguments + [portion])
        return database.changesCount
      }
    }
  }

  private func add(_ entry: Entry, isBulk: Bool) {
    let mustSchedule = state.withLock { state in
      if isBulk { state.bulk.append(entry) } else { state.entries.append(entry) }
      return !exchange(&state.isScheduled, with: true)
    }
    if mustSchedule { schedule() }
  }

  private func schedule() { pool.asyncWriteWithoutTransaction { [self] in writeNext($0) } }

  /// On the writer's queue, which others use as well: one group and one portion, then the others.
  private func writeNext(_ database: Database) {
    let (group, portion) = state.withLock { state in
      let group = Array(state.entries.prefix(Self.groupLimit))
      state.entries.removeFirst(group.count)
      return (group, state.bulk.isEmpty ? nil : state.bulk.removeFirst())
    }
    commit(group, database)
    if let portion { commit([portion], database) }
    let isDone = state.withLock { state in
      state.isScheduled = !state.entries.isEmpty || !state.bulk.isEmpty
      return !state.isScheduled
    }
    if !isDone { schedule() }
  }

  private func commit(_ group: [Entry], _ database: Database) {
    guard !group.isEmpty else { return }
    var failures = [(any Error)?](repeating: nil, count: group.count)
    var problem: (any Error)?
    do {
      try database.inTransaction(.immediate) {
        // The failure of a single one ends the transaction anyway. SQLite keeps the former content
        // of each page that changes within a savepoint: 500 devices have 500 pages.
        if group.count == 1 {
          try group[0].job(database)
          return .commit
        }
        for (index, entry) in group.enumerated() {
          do {
            try database.inSavepoint {
              try entry.job(database)
              return .commit
            }
          } catch {
            failures[index] = error
            // A full disk ends the whole transaction.
            guard database.isInsideTransaction else { throw error }
          }
        }
        return .commit
      }
    } catch {
      problem = error
    }
    for (entry, failure) in zip(group, failures) { entry.completion(failure ?? problem) }
  }
}
