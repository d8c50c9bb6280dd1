internal import GRDB
package import PushStore

extension SQLiteStore {
  package func add(_ events: [StoredEvent], keeping count: Int) async throws(StoreError) {
    try await writer.write { database in
      let insert = try database.cachedStatement(
        sql: "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING")
      for event in events {
        try insert.execute(arguments: [
          event.id.high.stored, event.id.low.stored, event.at.milliseconds, event.kind.rawValue, event.app ?? "",
          event.action, event.subject, event.key, event.address, event.node, event.reason,
        ])
      }
      let forget = try database.cachedStatement(
        sql: """
          DELETE FROM events WHERE app = ?1 AND kind = ?2 AND (high, low) <= (
            SELECT high, low FROM events WHERE app = ?1 AND kind = ?2 ORDER BY high DESC, low DESC LIMIT 1 OFFSET ?3)
          """)
      for (app, kinds) in Dictionary(grouping: events, by: \.app) {
        for kind in Set(kinds.map(\.kind)) { try forget.execute(arguments: [app ?? "", kind.rawValue, count]) }
      }
    }
  }

  package func events(
    of apps: AppReach, before id: StoredUUID?, limit: Int
  ) async throws(StoreError) -> [StoredEvent] {
    let (condition, arguments) = Self.condition(apps)
    return try await read { database in
      try Row.fetchAll(
        database.cachedStatement(
          sql: """
            SELECT * FROM events WHERE \(condition) AND (high, low) < (?, ?) ORDER BY high DESC, low DESC LIMIT ?
            """),
        arguments: arguments + [id?.high.stored ?? .max, id?.low.stored ?? .max, limit]
      ).map(StoredEvent.init)
    }
  }
}

extension StoredEvent {
  fileprivate init(_ row: Row) {
    let app: String = row["app"]
    self.init(
      id: StoredUUID(high: UInt64(bitPattern: row["high"]), low: UInt64(bitPattern: row["low"])),
      at: StoreInstant(milliseconds: row["at"]), Kind(rawValue: row["kind"]) ?? .change, row["action"],
      app: app.isEmpty ? nil : app)
    (subject, key, address) = (row["subject"], row["key"], row["address"])
    (node, reason) = (row["node"], row["reason"])
  }
}
