internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  /// The most devices of one read, which takes about 20 ms.
  private static let candidateLimit = 20_000

  package func lastDeviceKey(app: String) async throws(StoreError) -> Int64 {
    try await read { database in
      guard let app = try DeviceNames.find(app, database) else { return 0 }
      return try Int64.fetchOne(database, sql: "SELECT max(number) FROM devices WHERE app = ?", arguments: [app]) ?? 0
    }
  }

  package func audienceMembers(
    app: String, filter: AudienceFilter, after key: Int64, through last: Int64, withTimeZones: Bool
  ) async throws(StoreError) -> AudienceStretch {
    try await read { database in
      guard let query = try AudienceQuery(database, app: app, filter: filter, through: last) else {
        return AudienceStretch([], through: last)
      }
      let end = try query.end(database, after: key, through: last, candidateLimit: Self.candidateLimit) ?? last
      var names = DeviceNameCache(database)
      var members: [AudienceMember] = []
      let rows = try query.rows(
        database, after: key, through: end, withTimeZones: withTimeZones)
      while let row = try rows.next() {
        members.append(AudienceMember(key: row[0], timeZone: withTimeZones ? try names.name(row[1]) : nil))
      }
      return AudienceStretch(members, through: end)
    }
  }

  package func audienceDevices(
    app: String, keys: [Int64], activity: ActivityName?
  ) async throws(StoreError) -> [AudienceDevice] {
    try await read { database in
      guard let number = try DeviceNames.find(app, database) else { return [] }
      let reading = AudienceReading(app: app, number: number, activity: activity)
      guard let merges = try DeviceMerges(database, app: number) else { return try reading.devices(keys, database) }
      func device(_ key: Int64) throws -> AudienceDevice? { try reading.devices([key], database).first }
      return try keys.compactMap { key in
        let all = try merges.keys(of: key)
        guard var found = try device(all.first ?? key) else { return nil }
        found.key = key
        found.otherKeys = all.filter { $0 != key }
        return found
      }
    }
  }

  package func audienceCount(app: String, filter: AudienceFilter, through last: Int64) async throws(StoreError) -> Int {
    var count = 0
    var next: Int64? = 0
    while let after = next {
      let (found, end) = try await read { database -> (Int, Int64?) in
        guard let query = try AudienceQuery(database, app: app, filter: filter, through: last) else { return (0, nil) }
        let end = try query.end(database, after: after, through: last, candidateLimit: Self.candidateLimit)
        return (try query.count(database, after: after, through: end ?? last), end)
      }
      count += found
      next = end
    }
    return count
  }
}

/// Reads the members of an audience by their keys.
private struct AudienceReading {
  let app: String
  let number: Int64
  let activity: ActivityName?

  /// So many rows are read for one that is wanted, rather than each by itself.
  private static let sparseness: Int64 = 4

  /// - Parameter keys: ascending.
  func devices(_ keys: [Int64], _ database: Database) throws -> [AudienceDevice] {
    var names = DeviceNameCache(database)
    var devices: [AudienceDevice] = []
    devices.reserveCapacity(keys.count)
    func add(_ statement: Statement, _ arguments: StatementArguments, in wanted: ArraySlice<Int64>) throws {
      let activity: StatementArguments = activity.map { [app, $0.text, $0.isType] } ?? []
      let rows = try Row.fetchCursor(statement, arguments: activity + arguments)
      var wanted = wanted
      while let row = try rows.next() {
        let key: Int64 = row[0]
        wanted = wanted.drop { $0 < key }
        guard wanted.first == key else { continue }
        devices.append(
          AudienceDevice(
            key: key, token: (row[1] as Blob).bytes,
            language: try names.name(row[2]), userID: row[4], isSuppressed: row[3] ?? false))
      }
    }
    guard let first = keys.first, let last = keys.last else { return [] }
    let columns = columns
    if last - first < Int64(keys.count) * Self.sparseness {
      // Read by number, whatever other indexes there are.
      let statement = try database.cachedStatement(
        sql: "\(columns) number BETWEEN ? AND ? AND +devices.app = ? ORDER BY number")
      try add(statement, [first, last, number], in: keys[...])
    } else {
      let statement = try database.cachedStatement(sql: "\(columns) number = ? AND +devices.app = ?")
      for place in keys.indices { try add(statement, [keys[place], number], in: keys[place...place]) }
    }
    return devices
  }

  private var columns: String {
    let rest = "language, goneAt >= devices.registeredAt, userID FROM devices"
    guard activity != nil else { return "SELECT number, token, \(rest) WHERE" }
    return """
      SELECT number, known.token, \(rest) CROSS JOIN activityTokens AS known
        ON known.app = ? AND known.activity = ? AND known.isType = ? AND known.device = devices.token
      WHERE
      """
  }
}

/// Which devices of an app have become one.
private struct DeviceMerges {
  private let app: Int64
  private let kept: Statement
  private let former: Statement

  /// Nil: none have.
  init?(_ database: Database, app: Int64) throws {
    let any = try database.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM deviceMerges WHERE app = ?)")
    guard try Bool.fetchOne(any, arguments: [app]) == true else { return nil }
    self.app = app
    kept = try database.cachedStatement(sql: "SELECT keptKey FROM deviceMerges WHERE app = ? AND formerKey = ?")
    former = try database.cachedStatement(
      sql: "SELECT formerKey FROM deviceMerges WHERE app = ? AND keptKey = ? ORDER BY formerKey")
  }

  /// All keys of the device that has or had this one. The first is the one that it has.
  func keys(of key: Int64) throws -> [Int64] {
    let present = try Int64.fetchOne(kept, arguments: [app, key]) ?? key
    return [present] + (try Int64.fetchAll(former, arguments: [app, present]))
  }
}
