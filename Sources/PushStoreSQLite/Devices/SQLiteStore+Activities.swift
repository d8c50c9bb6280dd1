internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  package func register(
    _ activity: StoredActivityToken, app: String, limit: Int
  ) async throws(StoreError) -> RegisteredActivity {
    try await writer.write { database in
      let (device, token) = (Data(activity.device), Data(activity.token))
      let known = try Bool.fetchOne(
        database.cachedStatement(
          sql: "SELECT TRUE FROM activityTokens WHERE app = ? AND activity = ? AND device = ?"),
        arguments: [app, activity.activity, device])
      if known == nil {
        let count = try Int.fetchOne(
          database.cachedStatement(
            sql: "SELECT count(*) FROM (SELECT 1 FROM activityTokens WHERE app = ? AND activity = ? LIMIT ?)"),
          arguments: [app, activity.activity, limit])
        guard (count ?? 0) < limit else { return .refused }
      }
      try database.cachedStatement(
        sql: "DELETE FROM activityTokens WHERE app = ? AND token = ? AND NOT (activity = ? AND device = ?)"
      ).execute(arguments: [app, token, activity.activity, device])
      try database.cachedStatement(
        sql: """
          INSERT INTO activityTokens VALUES (?, ?, ?, ?, ?)
          ON CONFLICT DO UPDATE SET token = excluded.token, registeredAt = excluded.registeredAt
          """
      ).execute(arguments: [app, activity.activity, device, token, activity.registeredAt.milliseconds])
      return known == nil ? .created : .updated
    }
  }

  package func activityTokens(
    of activity: String, app: String, since instant: StoreInstant
  ) async throws(StoreError) -> [StoredActivityToken] {
    try await read { database in
      try Row.fetchAll(
        database.cachedStatement(
          sql: """
            SELECT device, token, registeredAt FROM activityTokens
            WHERE app = ? AND activity = ? AND registeredAt >= ? ORDER BY device
            """), arguments: [app, activity, instant.milliseconds]
      ).map { row in
        StoredActivityToken(
          activity: activity, device: [UInt8](row[0] as Data), token: [UInt8](row[1] as Data),
          registeredAt: StoreInstant(milliseconds: row[2]))
      }
    }
  }

  package func forgetActivity(
    _ activity: String, device: [UInt8]?, app: String, until instant: StoreInstant
  ) async throws(StoreError) -> Bool {
    try await writer.write { database in
      try database.cachedStatement(
        sql: """
          DELETE FROM activityTokens
          WHERE app = ?1 AND activity = ?2 AND (?3 IS NULL OR device = ?3) AND registeredAt <= ?4
          """
      ).execute(arguments: [app, activity, device.map { Data($0) }, instant.milliseconds])
      return database.changesCount > 0
    }
  }

  package func forgetActivities(registeredBefore instant: StoreInstant) async throws(StoreError) {
    try await writer.delete(
      """
      activityTokens WHERE (app, activity, device) IN (
        SELECT app, activity, device FROM activityTokens WHERE registeredAt < ? ORDER BY registeredAt LIMIT ?)
      """, [instant.milliseconds], portion: 2_000)
  }
}

extension Database {
  /// Of a device, or of an activity alone, by either token.
  func forgetActivities(of token: [UInt8], app: String, until milliseconds: Int64) throws {
    for column in ["device", "token"] {
      try cachedStatement(sql: "DELETE FROM activityTokens WHERE app = ? AND \(column) = ? AND registeredAt <= ?")
        .execute(arguments: [app, Data(token), milliseconds])
    }
  }
}
