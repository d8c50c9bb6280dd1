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
        SELECT number, high, low, token, language, timeZone, tags, createdAt, registeredAt, goneAt
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
          goneAt: (row[9] as Int64?).map(StoreInstant.init(milliseconds:))))
    }
    return devices
  }
}
