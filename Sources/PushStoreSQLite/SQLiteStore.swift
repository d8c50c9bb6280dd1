internal import Foundation
internal import GRDB
package import PushStore
internal import Synchronization

/// The store in one SQLite file, for a deployment on one machine.
///
/// Every commit is durable when it returns: `synchronous` is FULL on the connection that writes,
/// which is checked. Reads are short, so that the write-ahead log can always be emptied.
package final class SQLiteStore: Store {
  let pool: DatabasePool
  package let path: String
  package var file: String? { path }
  let writer: GroupWriter
  let writes: Mutex<Int64>

  /// Seconds, for which a lock of another process is waited for.
  static let patience = 5

  /// Opens the file, or makes it, and brings it up to date.
  ///
  /// - Parameter isVisitor: a service may have the file open at the same time. Only the service
  ///   moves the write-ahead log into the file.
  /// - Throws: ``StoreError``: it cannot be opened, is no store, or was written by a newer version.
  package init(path: String, isVisitor: Bool = false) throws(StoreError) {
    self.path = path
    do {
      var configuration = Configuration()
      configuration.foreignKeysEnabled = true
      configuration.busyMode = .timeout(TimeInterval(Self.patience))
      configuration.prepareDatabase { database in
        try database.execute(sql: "PRAGMA journal_size_limit = 67108864")
        // What is forgotten is overwritten in the file.
        try database.execute(sql: "PRAGMA secure_delete = ON")
        if isVisitor { try database.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
      }
      // It holds device tokens. SQLite gives the files beside it the same mode.
      if !FileManager.default.fileExists(atPath: path) {
        _ = FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
      }
      pool = try DatabasePool(path: path, configuration: configuration)
      writer = GroupWriter(pool, path: path)
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
      let migrator = Schema.migrator
      if try pool.read(migrator.hasBeenSuperseded) { throw StoreError.newer(path) }
      try migrator.migrate(pool)
      writes = Mutex(try pool.read { try Int64.fetchOne($0, sql: "SELECT count FROM writes") ?? 0 })
      // DatabasePool sets NORMAL when it opens a file.
      try pool.writeWithoutTransaction { database in
        try database.execute(sql: "PRAGMA synchronous = FULL")
        try Self.enlargeCache(database, isVisitor: isVisitor)
      }
      let safety = try writingSafety()
      guard safety.synchronous == 2 else {
        throw StoreError(.failed, path: path, "the store \(path) does not write durably: synchronous is not FULL")
      }
      guard safety.checksReferences else {
        throw StoreError(.failed, path: path, "the store \(path) does not check references between its tables")
      }
    } catch {
      throw StoreError(error, path: path)
    }
  }

  /// Devices come in the order of no index, so each changes pages of its own. Measured with the
  /// same tables and 200,000 rows, from Python: with a cache of 16 MB instead of 2, SQLite takes
  /// 1.2 s of the kernel's time instead of 2.5, because it reads fewer pages again. With four times
  /// as much between two checkpoints it writes 5.2 KB a row instead of 6.6.
  private static func enlargeCache(_ database: Database, isVisitor: Bool) throws {
    try database.execute(sql: "PRAGMA cache_size = -16000")
    if !isVisitor { try database.execute(sql: "PRAGMA wal_autocheckpoint = 4000") }
  }

  /// What holds for every write: 2 is FULL (SQLite, "PRAGMA synchronous").
  func writingSafety() throws -> (synchronous: Int?, checksReferences: Bool) {
    try pool.writeWithoutTransaction { database in
      (
        try Int.fetchOne(database, sql: "PRAGMA synchronous"),
        try Bool.fetchOne(database, sql: "PRAGMA foreign_keys") ?? false
      )
    }
  }

  package var logByteCount: Int {
    (try? FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int) ?? 0
  }

  package func close() throws(StoreError) { do { try pool.close() } catch { throw StoreError(error, path: path) } }

  func read<Value: Sendable>(_ body: @Sendable @escaping (Database) throws -> Value) async throws(StoreError) -> Value {
    do { return try await pool.read(body) } catch { throw StoreError(error, path: path) }
  }

  /// One statement. Concurrent calls share a commit.
  func execute(_ sql: String, _ arguments: StatementArguments) async throws(StoreError) {
    try await writer.write { database in try database.execute(sql: sql, arguments: arguments) }
  }

  /// A commit of its own, for a thread that may wait.
  func writeNow(_ body: (Database) throws -> Void) throws(StoreError) {
    do { try pool.write(body) } catch { throw StoreError(error, path: path) }
  }
}

extension StoreError {
  static func newer(_ path: String) -> StoreError {
    StoreError(.unusable, path: path, "the store \(path) was written by a newer version of carillon; use that one")
  }
}

extension StoredRunID {
  init(storedHigh high: Int64, low: Int64) {
    self.init(high: UInt64(bitPattern: high), low: UInt32(truncatingIfNeeded: low))
  }

  /// Its number in the table `runs`; nil: it is not there.
  func number(in database: Database) throws -> Int64? {
    let find = try database.cachedStatement(sql: "SELECT number FROM runs WHERE high = ? AND low = ?")
    return try Int64.fetchOne(find, arguments: [high.stored, Int64(low)])
  }
}

extension UInt64 {
  /// The same bits, as SQLite's integers have them.
  var stored: Int64 { Int64(bitPattern: self) }
}
