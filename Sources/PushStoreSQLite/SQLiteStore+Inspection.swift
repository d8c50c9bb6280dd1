internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  /// What holds for every write: 2 is FULL (SQLite, "PRAGMA synchronous").
  func writingSafety() throws -> (synchronous: Int?, checksReferences: Bool) {
    try pool.writeWithoutTransaction { database in
      (
        try Int.fetchOne(database, sql: "PRAGMA synchronous"),
        try Bool.fetchOne(database, sql: "PRAGMA foreign_keys") ?? false
      )
    }
  }

  /// Which migrations a store lacks, found without changing it, also while a service uses it.
  ///
  /// - Throws: ``StoreError``: it cannot be opened, is no store, or was written by a newer version.
  package static func pendingMigrations(path: String) throws(StoreError) -> [String] {
    do {
      var configuration = Configuration()
      configuration.readonly = true
      configuration.busyMode = .timeout(5)
      let queue = try DatabaseQueue(path: path, configuration: configuration)
      let migrator = Schema.migrator
      if try queue.read(migrator.hasBeenSuperseded) {
        throw StoreError(
          .unusable, path: path, "the store \(path) was written by a newer version of carillon; use that one")
      }
      let applied = try Set(queue.read(migrator.appliedMigrations))
      return migrator.migrations.filter { !applied.contains($0) }
    } catch {
      throw StoreError(error, path: path)
    }
  }
}
