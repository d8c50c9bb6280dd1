internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  package func add(_ key: StoredKey, by creator: String?) async throws(StoreError) -> Bool {
    let path = path
    return try await writer.write { database in
      if let creator {
        let sql = "SELECT apps FROM keys WHERE id = ? AND revokedAt IS NULL"
        guard let apps = try String.fetchOne(database, sql: sql, arguments: [creator]),
          AppReach(stored: apps).covers(key.reach)
        else { return false }
      }
      try database.execute(
        sql: """
          INSERT INTO keys (id, name, digest, scopes, apps, createdAt) VALUES (?, ?, ?, ?, ?, ?)
          ON CONFLICT (id) DO UPDATE SET id = id WHERE digest = excluded.digest
          """,
        arguments: [
          key.id, key.name, Data(key.digest), key.scopes.joined(separator: " "), key.reach.stored,
          key.createdAt.milliseconds,
        ])
      guard database.changesCount == 1 else {
        throw StoreError(.failed, path: path, "the key \(key.id) is there already")
      }
      return true
    }
  }

  package func keys() async throws(StoreError) -> [StoredKey] {
    try await read { database in
      try Row.fetchAll(database, sql: "SELECT * FROM keys ORDER BY createdAt, id").map(StoredKey.init)
    }
  }

  package func revokeKey(_ id: String, at instant: StoreInstant) async throws(StoreError) -> Bool {
    try await writer.write { database in
      try database.execute(
        sql: "UPDATE keys SET revokedAt = ? WHERE id = ? AND revokedAt IS NULL", arguments: [instant.milliseconds, id])
      return database.changesCount == 1
    }
  }

  package func noteUse(of keys: [String: StoreInstant]) async throws(StoreError) {
    try await writer.write { database in
      let statement = try database.cachedStatement(
        sql: "UPDATE keys SET lastUsedAt = max(coalesce(lastUsedAt, ?1), ?1) WHERE id = ?2")
      for (id, instant) in keys { try statement.execute(arguments: [instant.milliseconds, id]) }
    }
  }

  // MARK: Sessions

  package func sessions() async throws(StoreError) -> [StoredSession] {
    try await read { database in
      try Row.fetchAll(database, sql: "SELECT * FROM sessions").map { row in
        StoredSession(
          digest: Array(row["digest"] as Data), keyID: row["key"],
          expiresAt: StoreInstant(milliseconds: row["expiresAt"]))
      }
    }
  }

  package func begin(_ session: StoredSession, ending others: [[UInt8]]) async throws(StoreError) {
    try await writer.write { database in
      for digest in others {
        try database.execute(sql: "DELETE FROM sessions WHERE digest = ?", arguments: [Data(digest)])
      }
      try database.execute(
        sql: "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        arguments: [Data(session.digest), session.keyID, session.expiresAt.milliseconds])
    }
  }

  package func endSession(_ digest: [UInt8]) async throws(StoreError) {
    try await execute("DELETE FROM sessions WHERE digest = ?", [Data(digest)])
  }
}

extension AppReach {
  /// The column: "*" for all apps, otherwise ids with spaces between them.
  fileprivate init(stored: String) {
    self = stored == "*" ? .all : .only(Set(stored.split(separator: " ").map(String.init)))
  }

  fileprivate var stored: String {
    switch self {
    case .all: "*"
    case .only(let apps): apps.sorted().joined(separator: " ")
    }
  }
}

extension StoredKey {
  fileprivate init(_ row: Row) {
    func words(_ column: String) -> [String] { (row[column] as String).split(separator: " ").map(String.init) }
    func instant(_ column: String) -> StoreInstant? { (row[column] as Int64?).map(StoreInstant.init(milliseconds:)) }
    self.init(
      id: row["id"], name: row["name"], digest: Array(row["digest"] as Data), scopes: words("scopes"),
      reach: AppReach(stored: row["apps"]), createdAt: StoreInstant(milliseconds: row["createdAt"]),
      lastUsedAt: instant("lastUsedAt"), revokedAt: instant("revokedAt"))
  }
}
