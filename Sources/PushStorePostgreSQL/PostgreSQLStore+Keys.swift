package import PushStore

extension PostgreSQLStore {
  package func add(_ key: StoredKey, by creator: String?) async throws(StoreError) -> Bool {
    // Of the creator's apps; no row: it was revoked.
    let known = PostgreSQLStatement(
      "SELECT apps FROM keys WHERE id = $1 AND revoked_at IS NULL FOR SHARE", PostgreSQLValue(creator))
    let insert = PostgreSQLStatement(
      """
      INSERT INTO keys (id, name, digest, scopes, apps, created_at) VALUES ($1, $2, $3, $4, $5, $6)
      ON CONFLICT (id) DO UPDATE SET name = excluded.name WHERE keys.digest = excluded.digest
      """, .text(key.id), .text(key.name), .bytes(key.digest), .texts(key.scopes), key.reach.value,
      .instant(key.createdAt))
    let settings = settings
    return try await pool.run(limit: Limit.request) { connection, deadline throws(StoreError) in
      if creator != nil {
        // A creator that is revoked at the same moment was a creator still.
        let rows = try connection.transaction([known], by: deadline)[0]
        guard rows.count == 1, AppReach(rows.optionalTexts(0, 0)).covers(key.reach) else { return false }
      }
      guard try connection.transaction([insert], by: deadline)[0].changedCount == 1 else {
        throw StoreError(.failed, path: settings.name, "the key \(key.id) is there already")
      }
      return true
    }
  }

  package func keys() async throws(StoreError) -> [StoredKey] {
    try await read(
      """
      SELECT id, name, digest, scopes, apps, created_at, last_used_at, revoked_at FROM keys
      ORDER BY created_at, id COLLATE "C"
      """
    ).map { rows, row in
      StoredKey(
        id: rows.text(row, 0), name: rows.text(row, 1), digest: rows.bytes(row, 2), scopes: rows.texts(row, 3),
        reach: AppReach(rows.optionalTexts(row, 4)), createdAt: rows.instant(row, 5),
        lastUsedAt: rows.optionalInstant(row, 6), revokedAt: rows.optionalInstant(row, 7))
    }
  }

  package func revokeKey(_ id: String, at instant: StoreInstant) async throws(StoreError) -> Bool {
    let revoke = PostgreSQLStatement(
      "UPDATE keys SET revoked_at = $2 WHERE id = $1 AND (revoked_at IS NULL OR $3 AND revoked_at = $2)", .text(id),
      .instant(instant), .flag(false))
    let again = PostgreSQLStatement(revoke.sql, .text(id), .instant(instant), .flag(true))
    return try await pool.run(limit: Limit.request) { connection, deadline throws(StoreError) in
      try connection.transaction([connection.isRepeating ? again : revoke], by: deadline)[0].changedCount == 1
    }
  }

  package func noteUse(of keys: [String: StoreInstant]) async throws(StoreError) {
    let sorted = keys.sorted { $0.key < $1.key }
    try await write(
      """
      UPDATE keys SET last_used_at = greatest(last_used_at, used.at)
      FROM unnest($1::text[], $2::bigint[]) AS used (id, at) WHERE keys.id = used.id
      """, .texts(sorted.map(\.key)), .ints(sorted.map(\.value.milliseconds)))
  }

  // MARK: Sessions

  package func sessions() async throws(StoreError) -> [StoredSession] {
    try await read("SELECT digest, key, expires_at FROM sessions").map { rows, row in
      StoredSession(digest: rows.bytes(row, 0), keyID: rows.text(row, 1), expiresAt: rows.instant(row, 2))
    }
  }

  package func begin(_ session: StoredSession, ending others: [[UInt8]]) async throws(StoreError) {
    try await write([
      PostgreSQLStatement("DELETE FROM sessions WHERE digest = ANY ($1)", .blobs(others)),
      PostgreSQLStatement(
        "INSERT INTO sessions VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", .bytes(session.digest),
        .text(session.keyID), .instant(session.expiresAt)),
    ])
  }

  package func endSession(_ digest: [UInt8]) async throws(StoreError) {
    try await write("DELETE FROM sessions WHERE digest = $1", .bytes(digest))
  }
}

extension AppReach {
  /// - Parameter apps: nil: all of them.
  fileprivate init(_ apps: [String]?) { self = apps.map { .only(Set($0)) } ?? .all }

  fileprivate var value: PostgreSQLValue {
    switch self {
    case .all: .null(PostgreSQLValue.ObjectID.textArray)
    case .only(let apps): .texts(apps.sorted())
    }
  }
}
