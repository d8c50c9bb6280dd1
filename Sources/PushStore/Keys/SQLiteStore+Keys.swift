internal import Foundation
internal import GRDB

extension SQLiteStore {
  package func add(_ key: StoredKey) async throws(StoreError) {
    try await write { database in
      try database.execute(
        sql: "INSERT INTO keys (id, name, digest, scopes, apps, createdAt) VALUES (?, ?, ?, ?, ?, ?)",
        arguments: [
          key.id, key.name, Data(key.digest), key.scopes.joined(separator: " "), key.apps.joined(separator: " "),
          key.createdAt.milliseconds,
        ])
    }
  }

  package func keys() async throws(StoreError) -> [StoredKey] {
    try await read { database in
      try Row.fetchAll(database, sql: "SELECT * FROM keys ORDER BY createdAt, id").map(StoredKey.init)
    }
  }

  package func revokeKey(_ id: String, at instant: StoreInstant) async throws(StoreError) -> Bool {
    try await write { database in
      try database.execute(
        sql: "UPDATE keys SET revokedAt = ? WHERE id = ? AND revokedAt IS NULL",
        arguments: [instant.milliseconds, id])
      return database.changesCount == 1
    }
  }

  package func noteUse(of keys: [String: StoreInstant]) async throws(StoreError) {
    try await write { database in
      let statement = try database.cachedStatement(sql: "UPDATE keys SET lastUsedAt = ? WHERE id = ?")
      for (id, instant) in keys { try statement.execute(arguments: [instant.milliseconds, id]) }
    }
  }
}

extension StoredKey {
  fileprivate init(_ row: Row) {
    func words(_ column: String) -> [String] { (row[column] as String).split(separator: " ").map(String.init) }
    func instant(_ column: String) -> StoreInstant? {
      (row[column] as Int64?).map(StoreInstant.init(milliseconds:))
    }
    self.init(
      id: row["id"], name: row["name"], digest: Array(row["digest"] as Data), scopes: words("scopes"),
      apps: words("apps"), createdAt: StoreInstant(milliseconds: row["createdAt"]),
      lastUsedAt: instant("lastUsedAt"), revokedAt: instant("revokedAt"))
  }
}
