internal import Foundation
internal import GRDB

extension SQLiteStore {
  /// The most devices of one read, which takes about 20 ms.
  private static let candidateLimit = 20_000

  package func lastDeviceKey(app: String) async throws(StoreError) -> Int64 {
    try await read { database in
      guard let app = try DeviceNames.find(app, database) else { return 0 }
      return try Int64.fetchOne(database, sql: "SELECT max(number) FROM devices WHERE app = ?", arguments: [app]) ?? 0
    }
  }

  package func audiencePage(
    app: String, filter: AudienceFilter, after key: Int64, through last: Int64, timeZone: String??, limit: Int
  ) async throws(StoreError) -> [AudienceDevice] {
    var devices: [AudienceDevice] = []
    var next: Int64? = key
    while let after = next, devices.count < limit {
      let missing = limit - devices.count
      let (found, end) = try await read { database -> ([AudienceDevice], Int64?) in
        guard let query = try AudienceQuery(database, app: app, filter: filter, timeZone: timeZone) else {
          return ([], nil)
        }
        var end: Int64?
        if !query.isExact {
          end = try query.end(database, after: after, through: last, candidateLimit: Self.candidateLimit)
        }
        let rows = try query.rows(
          database, "devices.number, token, language, timeZone, goneAt >= registeredAt", after: after,
          through: end ?? last, limit: missing)
        return (try Self.devices(rows, database, count: missing), end)
      }
      devices += found
      next = end
    }
    return devices
  }

  package func audienceDevices(app: String, keys: [Int64]) async throws(StoreError) -> [AudienceDevice] {
    try await read { database in
      guard let app = try DeviceNames.find(app, database) else { return [] }
      let statement = try database.cachedStatement(
        sql: """
          SELECT number, token, language, timeZone, goneAt >= registeredAt FROM devices WHERE number = ? AND app = ?
          """)
      let merge = try database.cachedStatement(
        sql: "SELECT keptKey FROM deviceMerges WHERE app = ? AND formerKey = ?")
      return try keys.flatMap { key in
        let found = try Self.devices(Row.fetchCursor(statement, arguments: [key, app]), database, count: 1)
        guard found.isEmpty, let kept = try Int64.fetchOne(merge, arguments: [app, key]) else { return found }
        return try Self.devices(Row.fetchCursor(statement, arguments: [kept, app]), database, count: 1).map { device in
          var device = device
          device.key = key
          return device
        }
      }
    }
  }

  package func mergedKeys(app: String, keys: [Int64]) async throws(StoreError) -> [Int64: [Int64]] {
    try await read { database in
      guard let app = try DeviceNames.find(app, database),
        try Bool.fetchOne(
          database.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM deviceMerges WHERE app = ?)"), arguments: [app])
          == true
      else { return [:] }
      let kept = try database.cachedStatement(
        sql: "SELECT keptKey FROM deviceMerges WHERE app = ? AND formerKey = ?")
      let former = try database.cachedStatement(
        sql: "SELECT formerKey FROM deviceMerges WHERE app = ? AND keptKey = ? ORDER BY formerKey")
      var found: [Int64: [Int64]] = [:]
      for key in keys {
        let first = try Int64.fetchOne(kept, arguments: [app, key]) ?? key
        let others = try Int64.fetchAll(former, arguments: [app, first])
        if !others.isEmpty { found[key] = [first] + others }
      }
      return found
    }
  }

  private static func devices(_ rows: RowCursor, _ database: Database, count: Int) throws -> [AudienceDevice] {
    var names = DeviceNameCache(database)
    var devices: [AudienceDevice] = []
    devices.reserveCapacity(min(count, 10_000))
    while let row = try rows.next() {
      devices.append(
        AudienceDevice(
          key: row[0], token: try row.withUnsafeData(atIndex: 1) { $0.map { Array($0) } ?? [] },
          language: try names.name(row[2]), timeZone: try names.name(row[3]), isSuppressed: row[4] ?? false))
    }
    return devices
  }

  package func audienceCount(
    app: String, filter: AudienceFilter, through last: Int64
  ) async throws(StoreError) -> Int {
    try await timeZoneCounts(app, filter, last).values.reduce(0, +)
  }

  package func audienceTimeZones(
    app: String, filter: AudienceFilter, through last: Int64
  ) async throws(StoreError) -> [String?: Int] {
    let counts = try await timeZoneCounts(app, filter, last)
    return try await read { database in
      var names = DeviceNameCache(database)
      var zones: [String?: Int] = [:]
      for (number, count) in counts { zones[try names.name(number)] = count }
      return zones
    }
  }

  /// The counts, by the number of the time zone.
  private func timeZoneCounts(
    _ app: String, _ filter: AudienceFilter, _ last: Int64
  ) async throws(StoreError) -> [Int64?: Int] {
    var counts: [Int64?: Int] = [:]
    var next: Int64? = 0
    while let after = next {
      let (found, end) = try await read { database -> ([Int64?: Int], Int64?) in
        guard let query = try AudienceQuery(database, app: app, filter: filter, timeZone: nil) else {
          return ([:], nil)
        }
        let end = try query.end(database, after: after, through: last, candidateLimit: Self.candidateLimit)
        return (try query.timeZoneCounts(database, after: after, through: end ?? last), end)
      }
      counts.merge(found, uniquingKeysWith: +)
      next = end
    }
    return counts
  }
}
