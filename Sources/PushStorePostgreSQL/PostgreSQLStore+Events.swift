package import PushStore

extension PostgreSQLStore {
  package func add(_ events: [StoredEvent], keeping count: Int) async throws(StoreError) {
    let groups = Set(events.map { [$0.app ?? "", $0.kind.rawValue] }).sorted { $0.joined() < $1.joined() }
    try await write([
      PostgreSQLStatement(
        """
        INSERT INTO events SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[],
          $6::text[], $7::text[], $8::text[], $9::text[], $10::text[]) ON CONFLICT DO NOTHING
        """, .uuids(events.map(\.id)), .ints(events.map(\.at.milliseconds)), .texts(events.map(\.kind.rawValue)),
        .texts(events.map { $0.app ?? "" }), .texts(events.map(\.action)), .texts(events.map(\.subject)),
        .texts(events.map(\.key)), .texts(events.map(\.address)), .texts(events.map(\.node)),
        .texts(events.map(\.reason))),
      PostgreSQLStatement(
        """
        DELETE FROM events USING unnest($1::text[], $2::text[]) AS groups (app, kind) CROSS JOIN LATERAL (
          SELECT id FROM events AS others WHERE others.app = groups.app AND others.kind = groups.kind
          ORDER BY id DESC LIMIT 1 OFFSET $3) AS forgotten
        WHERE events.app = groups.app AND events.kind = groups.kind AND events.id <= forgotten.id
        """, .texts(groups.map { $0[0] }), .texts(groups.map { $0[1] }), .int(count)),
    ])
  }

  package func events(
    of apps: AppReach, before id: StoredUUID?, limit: Int
  ) async throws(StoreError) -> [StoredEvent] {
    let (condition, values) = Self.condition(apps)
    let sql = """
      SELECT id, at, kind, app, action, subject, key, address, node, reason FROM events
      WHERE \(condition) AND id < $\(values.count + 1) ORDER BY id DESC LIMIT $\(values.count + 2)
      """
    let last = StoredUUID(high: .max, low: .max)
    let statement = PostgreSQLStatement(sql, values: values + [.uuid(id ?? last), .int(limit)])
    return try await read([statement])[0].map { rows, row in
      let app = rows.text(row, 3)
      var event = StoredEvent(
        id: rows.uuid(row, 0), at: rows.instant(row, 1), StoredEvent.Kind(rawValue: rows.text(row, 2)) ?? .change,
        rows.text(row, 4), app: app.isEmpty ? nil : app)
      (event.subject, event.key) = (rows.optionalText(row, 5), rows.optionalText(row, 6))
      (event.address, event.node) = (rows.optionalText(row, 7), rows.optionalText(row, 8))
      event.reason = rows.optionalText(row, 9)
      return event
    }
  }
}
