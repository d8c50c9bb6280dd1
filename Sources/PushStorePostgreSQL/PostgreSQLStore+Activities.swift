package import PushStore

extension PostgreSQLStore {
  package func register(
    _ activity: StoredActivityToken, app: String, limit: Int
  ) async throws(StoreError) -> RegisteredActivity {
    let (id, device, token) = (
      PostgreSQLValue.text(activity.activity), PostgreSQLValue.bytes(activity.device),
      PostgreSQLValue.bytes(activity.token)
    )
    let rows = try await write([
      PostgreSQLStatement(
        "SELECT EXISTS (SELECT 1 FROM activity_tokens WHERE app = $1 AND activity = $2 AND device = $3)", .text(app),
        id, device),
      PostgreSQLStatement(
        """
        INSERT INTO activity_tokens SELECT $1, $2, $3, $4, $5
        WHERE EXISTS (SELECT 1 FROM activity_tokens WHERE app = $1 AND activity = $2 AND device = $3)
          OR (SELECT count(*) FROM (
            SELECT 1 FROM activity_tokens WHERE app = $1 AND activity = $2 LIMIT $6) AS others) < $6
        ON CONFLICT (app, activity, device) DO UPDATE
          SET token = excluded.token, registered_at = excluded.registered_at
        """, .text(app), id, device, token, .instant(activity.registeredAt), .int(limit)),
      PostgreSQLStatement(
        """
        DELETE FROM activity_tokens WHERE app = $1 AND token = $2 AND NOT (activity = $3 AND device = $4)
          AND EXISTS (SELECT 1 FROM activity_tokens WHERE app = $1 AND activity = $3 AND device = $4 AND token = $2)
        """, .text(app), token, id, device),
    ])
    if rows[1].changedCount == 0 { return .refused }
    return rows[0].flag(0, 0) ? .updated : .created
  }

  package func activityTokens(
    of activity: String, app: String, since instant: StoreInstant
  ) async throws(StoreError) -> [StoredActivityToken] {
    try await read(
      """
      SELECT device, token, registered_at FROM activity_tokens
      WHERE app = $1 AND activity = $2 AND registered_at >= $3 ORDER BY device
      """, .text(app), .text(activity), .instant(instant)
    ).map { rows, row in
      StoredActivityToken(
        activity: activity, device: rows.bytes(row, 0), token: rows.bytes(row, 1), registeredAt: rows.instant(row, 2))
    }
  }

  package func forgetActivity(
    _ activity: String, device: [UInt8]?, app: String, until instant: StoreInstant
  ) async throws(StoreError) -> Bool {
    let condition = device == nil ? "" : " AND device = $4"
    var values: [PostgreSQLValue] = [.text(app), .text(activity), .instant(instant)]
    if let device { values.append(.bytes(device)) }
    let sql = "DELETE FROM activity_tokens WHERE app = $1 AND activity = $2 AND registered_at <= $3\(condition)"
    return try await write([PostgreSQLStatement(sql, values: values)])[0].changedCount > 0
  }

  package func forgetActivities(registeredBefore instant: StoreInstant) async throws(StoreError) {
    try await delete(
      """
      DELETE FROM activity_tokens WHERE (app, activity, device) IN (
        SELECT app, activity, device FROM activity_tokens WHERE registered_at < $1 ORDER BY registered_at LIMIT $2)
      """, .instant(instant), portion: 2_000)
  }
}
