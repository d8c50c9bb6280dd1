internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  package func register(_ device: DeviceRegistration, app: String) async throws(StoreError) -> RegisteredDevice {
    try await change(app) { try $0.register(device) }
  }

  package func importDevices(
    _ devices: [DeviceRegistration], app: String
  ) async throws(StoreError) -> [RegisteredDevice] {
    try await change(app, isBulk: true) { writer in try devices.map { try writer.register($0) } }
  }

  package func removeDevice(token: [UInt8], app: String) async throws(StoreError) -> Bool {
    try await change(app) { try $0.remove(token: token) }
  }

  private func change<Value: Sendable>(
    _ app: String, isBulk: Bool = false, _ body: @Sendable @escaping (inout DeviceWriter) throws -> Value
  ) async throws(StoreError) -> Value {
    try await writer.write(isBulk: isBulk) { database in
      var writer = try DeviceWriter(database, app: app)
      let value = try body(&writer)
      try writer.finish()
      return value
    }
  }

  package func device(token: [UInt8], app: String) async throws(StoreError) -> StoredDevice? {
    try await read { database in
      guard let app = try DeviceNames.find(app, database) else { return nil }
      return try DeviceReader.devices(database, "app = ? AND token = ?", [app, Data(token)]).first
    }
  }

  package func device(id: StoredUUID, app: String) async throws(StoreError) -> StoredDevice? {
    try await devices(ids: [id], app: app)[id]
  }

  package func devices(ids: [StoredUUID], app: String) async throws(StoreError) -> [StoredUUID: StoredDevice] {
    try await read { database in
      guard let app = try DeviceNames.find(app, database) else { return [:] }
      var found: [StoredUUID: StoredDevice] = [:]
      for id in ids where found[id] == nil {
        found[id] =
          try DeviceReader.devices(
            database, "high = ? AND low = ? AND app = ?", [id.high.stored, id.low.stored, app]
          ).first
      }
      return found
    }
  }

  package func devices(
    ofUsers users: [String], app: String, limit: Int
  ) async throws(StoreError) -> [String: [StoredDevice]] {
    try await read { database in
      guard let app = try DeviceNames.find(app, database) else { return [:] }
      var found: [String: [StoredDevice]] = [:]
      for user in users where found[user] == nil {
        let devices = try DeviceReader.devices(
          database, "app = ? AND userID = ? ORDER BY number DESC LIMIT ?", [app, user, limit])
        if !devices.isEmpty { found[user] = devices }
      }
      return found
    }
  }

  package func removeDevices(ofUser user: String, app: String, limit: Int) async throws(StoreError) -> Int {
    try await writer.write { database in
      guard let number = try DeviceNames.find(app, database) else { return 0 }
      let tokens = try Data.fetchAll(
        database.cachedStatement(sql: "SELECT token FROM devices WHERE app = ? AND userID = ? LIMIT ?"),
        arguments: [number, user, limit])
      var writer = try DeviceWriter(database, app: app)
      let forget = try database.cachedStatement(sql: "DELETE FROM gone WHERE app = ? AND token = ?")
      for token in tokens {
        _ = try writer.remove(token: Array(token))
        try forget.execute(arguments: [app, token])
      }
      try writer.finish()
      return tokens.count
    }
  }

  /// The write-ahead log has pages as they were before, until it begins anew. Who writes waits for
  /// that, so it is not tried for long while somebody reads.
  package func scrub() async throws(StoreError) {
    do {
      try await pool.writeWithoutTransaction { database in
        try database.execute(sql: "PRAGMA busy_timeout = 100")
        defer { try? database.execute(sql: "PRAGMA busy_timeout = \(Self.patience * 1_000)") }
        _ = try database.checkpoint(.truncate)
      }
    } catch { throw StoreError(error, path: path) }
  }

  package func deviceCounts(
    app: String, after key: Int64, limit: Int, from first: StoreInstant
  ) async throws(StoreError) -> DeviceCounts {
    try await read { database in
      var counts = DeviceCounts()
      guard let app = try DeviceNames.find(app, database) else { return counts }
      // Each tag knows how many devices have it.
      if key == 0 {
        let sql = "SELECT tag, deviceCount FROM deviceTagNames WHERE app = ? AND deviceCount > 0"
        for row in try Row.fetchAll(database, sql: sql, arguments: [app]) { counts.tags[row[0]] = row[1] }
      }
      let range = """
        SELECT count(*), max(number) FROM (
          SELECT number FROM devices WHERE app = ? AND number > ? ORDER BY number LIMIT ?)
        """
      guard let found = try Row.fetchOne(database, sql: range, arguments: [app, key, limit]),
        let last = found[1] as Int64?
      else { return counts }
      if found[0] as Int == limit { counts.end = last }
      let groups = """
        SELECT (SELECT name FROM deviceNames AS names WHERE names.number = language), count(*),
          count(*) FILTER (WHERE goneAt >= registeredAt)
        FROM devices WHERE app = ? AND number > ? AND number <= ? GROUP BY language
        """
      for row in try Row.fetchAll(database, sql: groups, arguments: [app, key, last]) {
        let (language, count, gone) = (row[0] as String?, row[1] as Int, row[2] as Int)
        counts.languages[language] = count
        counts.active += count - gone
        counts.gone += gone
      }
      let days = """
        SELECT createdAt / 86400000, count(*), 0 FROM devices
        WHERE app = ?1 AND number > ?2 AND number <= ?3 AND createdAt >= ?4 GROUP BY 1
        UNION ALL SELECT goneAt / 86400000, 0, count(*) FROM devices
        WHERE app = ?1 AND number > ?2 AND number <= ?3 AND goneAt >= ?4 AND goneAt >= registeredAt GROUP BY 1
        """
      for row in try Row.fetchAll(database, sql: days, arguments: [app, key, last, first.milliseconds]) {
        counts.days[row[0], default: .init()].new += row[1] as Int
        counts.days[row[0], default: .init()].gone += row[2] as Int
      }
      return counts
    }
  }

  package func devices(
    app: String, tag: String?, after key: Int64, limit: Int
  ) async throws(StoreError) -> [StoredDevice] {
    try await read { database in
      guard let app = try DeviceNames.find(app, database) else { return [] }
      guard let tag else {
        return try DeviceReader.devices(database, "app = ? AND number > ? ORDER BY number LIMIT ?", [app, key, limit])
      }
      return try DeviceReader.devices(
        database,
        """
        number IN (
          SELECT device FROM deviceTags
          WHERE tag = (SELECT number FROM deviceTagNames WHERE app = ? AND tag = ?) AND device > ?
          ORDER BY device LIMIT ?)
        ORDER BY number
        """, [app, tag, key, limit])
    }
  }
}

private enum DeviceReader {
  static func devices(
    _ database: Database, _ condition: String, _ arguments: StatementArguments
  ) throws -> [StoredDevice] {
    let statement = try database.cachedStatement(
      sql: """
        SELECT number, high, low, token, language, timeZone, tags, createdAt, registeredAt, goneAt, userID
        FROM devices WHERE \(condition)
        """)
    var names = DeviceNameCache(database)
    var devices: [StoredDevice] = []
    let rows = try Row.fetchCursor(statement, arguments: arguments)
    while let row = try rows.next() {
      devices.append(
        StoredDevice(
          key: row[0], id: StoredUUID(high: UInt64(bitPattern: row[1]), low: UInt64(bitPattern: row[2])),
          token: Array(row[3] as Data), language: try names.name(row[4]), timeZone: try names.name(row[5]),
          tags: DeviceTags.list(row[6]), createdAt: StoreInstant(milliseconds: row[7]),
          registeredAt: StoreInstant(milliseconds: row[8]),
          goneAt: (row[9] as Int64?).map(StoreInstant.init(milliseconds:)), userID: row[10]))
    }
    return devices
  }
}
