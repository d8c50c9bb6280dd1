internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  package func register(
    _ activity: StoredActivityToken, app: String, limit: Int
  ) async throws(StoreError) -> RegisteredActivity {
    try await writer.write { database in
      let (name, device, token) = (activity.activity, Data(activity.device), Data(activity.token))
      let known = try Bool.fetchOne(
        database.cachedStatement(
          sql: "SELECT TRUE FROM activityTokens WHERE app = ? AND activity = ? AND isType = ? AND device = ?"),
        arguments: [app, name.text, name.isType, device])
      if known == nil, limit < .max {
        let count = try Int.fetchOne(
          database.cachedStatement(
            sql: """
              SELECT count(*) FROM (
                SELECT 1 FROM activityTokens WHERE app = ? AND activity = ? AND isType = ? LIMIT ?)
              """), arguments: [app, name.text, name.isType, limit])
        guard (count ?? 0) < limit else { return .refused }
      }
      try database.cachedStatement(
        sql: """
          DELETE FROM activityTokens
          WHERE app = ? AND token = ? AND NOT (activity = ? AND isType = ? AND device = ?)
          """
      ).execute(arguments: [app, token, name.text, name.isType, device])
      try database.cachedStatement(
        sql: """
          INSERT INTO activityTokens VALUES (?, ?, ?, ?, ?, ?)
          ON CONFLICT DO UPDATE SET token = excluded.token, registeredAt = excluded.registeredAt
          """
      ).execute(arguments: [app, name.text, name.isType, device, token, activity.registeredAt.milliseconds])
      return known == nil ? .created : .updated
    }
  }

  package func activityTokens(
    of activity: ActivityName, app: String, devices: [[UInt8]]?, since instant: StoreInstant
  ) async throws(StoreError) -> [StoredActivityToken] {
    try await read { database in
      let statement = try database.cachedStatement(
        sql: """
          SELECT device, token, registeredAt FROM activityTokens
          WHERE app = ? AND activity = ? AND isType = ? AND registeredAt >= ?
            \(devices == nil ? "ORDER BY device" : "AND device = ?")
          """)
      let values: StatementArguments = [app, activity.text, activity.isType, instant.milliseconds]
      guard let devices else {
        return try Row.fetchAll(statement, arguments: values).map { StoredActivityToken(of: activity, $0) }
      }
      return try Set(devices).sorted { $0.lexicographicallyPrecedes($1) }.compactMap { device in
        try Row.fetchOne(statement, arguments: values + [Data(device)]).map { StoredActivityToken(of: activity, $0) }
      }
    }
  }

  package func activityTokens(
    ofDevices devices: [[UInt8]], app: String
  ) async throws(StoreError) -> [StoredActivityToken] {
    try await read { database in
      let statement = try database.cachedStatement(
        sql: "SELECT device, token, registeredAt, activity, isType FROM activityTokens WHERE app = ? AND device = ?")
      return try devices.flatMap { device in
        try Row.fetchAll(statement, arguments: [app, Data(device)]).map { row in
          StoredActivityToken(of: (row[4] as Bool) ? .startable(row[3]) : .shown(row[3]), row)
        }
      }
    }
  }

  package func forgetActivity(
    _ activity: ActivityName, device: [UInt8]?, app: String, until instant: StoreInstant
  ) async throws(StoreError) -> Bool {
    try await writer.write { database in
      try database.cachedStatement(
        sql: """
          DELETE FROM activityTokens
          WHERE app = ?1 AND activity = ?2 AND isType = ?3 AND (?4 IS NULL OR device = ?4) AND registeredAt <= ?5
          """
      ).execute(arguments: [app, activity.text, activity.isType, device.map { Data($0) }, instant.milliseconds])
      return database.changesCount > 0
    }
  }

  package func forgetActivities(registeredBefore instant: StoreInstant) async throws(StoreError) {
    try await writer.delete(
      """
      activityTokens WHERE (app, activity, isType, device) IN (
        SELECT app, activity, isType, device FROM activityTokens WHERE registeredAt < ? AND NOT isType
        ORDER BY registeredAt LIMIT ?)
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

  /// A device has another token now. What that one has already stays.
  func moveActivities(from former: [UInt8], to token: [UInt8], app: String) throws {
    try cachedStatement(sql: "UPDATE OR IGNORE activityTokens SET device = ? WHERE app = ? AND device = ?")
      .execute(arguments: [Data(token), app, Data(former)])
    try cachedStatement(sql: "DELETE FROM activityTokens WHERE app = ? AND device = ?")
      .execute(arguments: [app, Data(former)])
  }
}

extension StoredActivityToken {
  /// - Parameter row: it begins with device, token, registeredAt.
  fileprivate init(of activity: ActivityName, _ row: Row) {
    self.init(
      activity: activity, device: [UInt8](row[0] as Data), token: [UInt8](row[1] as Data),
      registeredAt: StoreInstant(milliseconds: row[2]))
  }
}
