package import PushStore

extension PostgreSQLStore {
  package func register(
    _ activity: StoredActivityToken, app: String, limit: Int
  ) async throws(StoreError) -> RegisteredActivity {
    let name = activity.activity
    let one: [PostgreSQLValue] = [.text(app), .text(name.text), .flag(name.isType), .bytes(activity.device)]
    // Counted only if it matters: millions of devices may have a token for a type.
    let hasRoom =
      limit == .max
      ? "TRUE"
      : "(SELECT count(*) FROM (SELECT 1 FROM activity_tokens WHERE \(Self.known) LIMIT \(limit)) AS others) < \(limit)"
    let isKnown = "EXISTS (SELECT 1 FROM activity_tokens WHERE \(Self.known) AND device = $4)"
    let rows = try await write([
      PostgreSQLStatement("SELECT \(isKnown)", values: one),
      PostgreSQLStatement(
        """
        INSERT INTO activity_tokens SELECT $1, $2, $3, $4, $5, $6
        WHERE \(isKnown) OR \(hasRoom)
        ON CONFLICT (app, activity, is_type, device) DO UPDATE
          SET token = excluded.token, registered_at = excluded.registered_at
        """, values: one + [.bytes(activity.token), .instant(activity.registeredAt)]),
      PostgreSQLStatement(
        """
        DELETE FROM activity_tokens WHERE app = $1 AND token = $5
          AND NOT (activity = $2 AND is_type = $3 AND device = $4)
          AND EXISTS (SELECT 1 FROM activity_tokens WHERE \(Self.known) AND device = $4 AND token = $5)
        """, values: one + [.bytes(activity.token)]),
    ])
    if rows[1].changedCount == 0 { return .refused }
    return rows[0].flag(0, 0) ? .updated : .created
  }

  private static let known = "app = $1 AND activity = $2 AND is_type = $3"

  package func activityTokens(
    of activity: ActivityName, app: String, devices: [[UInt8]]?, since instant: StoreInstant
  ) async throws(StoreError) -> [StoredActivityToken] {
    var values: [PostgreSQLValue] = [
      .text(app), .text(activity.text), .flag(activity.isType), .instant(instant),
    ]
    if let devices { values.append(.blobs(devices)) }
    let statement = PostgreSQLStatement(
      """
      SELECT device, token, registered_at FROM activity_tokens
      WHERE \(Self.known) AND registered_at >= $4\(devices == nil ? "" : " AND device = ANY ($5)") ORDER BY device
      """, values: values)
    return try await read([statement])[0].map { rows, row in
      StoredActivityToken(
        activity: activity, device: rows.bytes(row, 0), token: rows.bytes(row, 1), registeredAt: rows.instant(row, 2))
    }
  }

  package func activityTokens(
    ofDevices devices: [[UInt8]], app: String
  ) async throws(StoreError) -> [StoredActivityToken] {
    try await read(
      """
      SELECT device, token, registered_at, activity, is_type FROM activity_tokens WHERE app = $1 AND device = ANY ($2)
      """, .text(app), .blobs(devices)
    ).map { rows, row in
      let name = rows.text(row, 3)
      return StoredActivityToken(
        activity: rows.flag(row, 4) ? .startable(name) : .shown(name), device: rows.bytes(row, 0),
        token: rows.bytes(row, 1), registeredAt: rows.instant(row, 2))
    }
  }

  package func forgetActivity(
    _ activity: ActivityName, device: [UInt8]?, app: String, until instant: StoreInstant
  ) async throws(StoreError) -> Bool {
    var values: [PostgreSQLValue] = [
      .text(app), .text(activity.text), .flag(activity.isType), .instant(instant),
    ]
    if let device { values.append(.bytes(device)) }
    let condition = device == nil ? "" : " AND device = $5"
    let sql = "DELETE FROM activity_tokens WHERE \(Self.known) AND registered_at <= $4\(condition)"
    return try await write([PostgreSQLStatement(sql, values: values)])[0].changedCount > 0
  }

  package func forgetActivities(registeredBefore instant: StoreInstant) async throws(StoreError) {
    try await delete(
      """
      DELETE FROM activity_tokens WHERE (app, activity, is_type, device) IN (
        SELECT app, activity, is_type, device FROM activity_tokens WHERE registered_at < $1 AND NOT is_type
        ORDER BY registered_at LIMIT $2)
      """, .instant(instant), portion: 2_000)
  }
}
