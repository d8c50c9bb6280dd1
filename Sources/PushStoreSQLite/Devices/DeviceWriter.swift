internal import Foundation
internal import GRDB
internal import PushStore

/// Changes devices within a transaction. To be used for one app and one transaction.
struct DeviceWriter {
  private let database: Database
  private let app: String
  private let appNumber: Int64
  /// The names that this transaction has looked up.
  private var names: [String: Int64] = [:]
  private var tagNumbers: [String: Int64] = [:]
  /// By number of the tag: devices added less devices removed.
  private var countChanges: [Int64: Int] = [:]
  /// By number of the tag: devices that have it and are not in its index yet.
  private var taggedDevices: [Int64: [Int64]] = [:]
  /// Whether any device of the app was ever gone.
  private let hasGoneDevices: Bool
  /// An import has mostly new devices, or mostly known ones.
  private var wasKnown = false

  init(_ database: Database, app: String) throws {
    (self.database, self.app) = (database, app)
    appNumber = try DeviceNames.make(app, database)
    let gone = try database.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM gone WHERE app = ?)")
    hasGoneDevices = try Bool.fetchOne(gone, arguments: [app]) ?? true
  }

  private struct Found {
    var key: Int64
    var id: StoredUUID
    var tags: Set<String>
    var registeredAt: Int64
    var goneAt: Int64?
  }

  mutating func register(_ device: DeviceRegistration) throws -> RegisteredDevice {
    if !wasKnown, device.replacedToken == nil, let id = try insert(device, goneAt: newestGone(device.token)) {
      return .created(id)
    }
    let present = try find(device.token)
    wasKnown = present != nil
    var replaced: Found?
    if let token = device.replacedToken, token != device.token {
      replaced = try find(token)
      try database.moveActivities(from: token, to: device.token, app: app)
    }
    // The gone-since time belongs to the token, so it moves with it.
    let goneAt = try present.map(\.goneAt) ?? newestGone(device.token)
    guard var kept = replaced ?? present else {
      guard let id = try insert(device, goneAt: goneAt) else { throw DatabaseError(resultCode: .SQLITE_CONSTRAINT) }
      return .created(id)
    }
    if let present, replaced != nil {
      try delete(present)
      try note(former: max(present.key, kept.key), kept: min(present.key, kept.key))
      // Campaigns read devices in the order of their keys. With the lower one, whoever has read
      // either of both does not come to the other, and whoever has read none comes to this one.
      if present.key < kept.key { try move(&kept, to: present.key) }
    }
    try update(kept, device, goneAt: goneAt, registeredAt: max(kept.registeredAt, present?.registeredAt ?? 0))
    return .updated(kept.id)
  }

  /// Parts of a campaign may have either key in their lists.
  private func note(former: Int64, kept: Int64) throws {
    let isNeeded = try Bool.fetchOne(
      database.cachedStatement(
        sql: "SELECT EXISTS (SELECT 1 FROM campaigns WHERE app = ? AND lastKey IS NOT NULL AND endedAt IS NULL)"),
      arguments: [app])
    guard isNeeded == true else {
      return try database.cachedStatement(sql: "DELETE FROM deviceMerges WHERE app = ?")
        .execute(arguments: [appNumber])
    }
    try database.cachedStatement(sql: "UPDATE deviceMerges SET keptKey = ? WHERE app = ? AND keptKey = ?")
      .execute(arguments: [kept, appNumber, former])
    try database.cachedStatement(sql: "INSERT OR REPLACE INTO deviceMerges (app, formerKey, keptKey) VALUES (?, ?, ?)")
      .execute(arguments: [appNumber, former, kept])
  }

  mutating func remove(token: [UInt8]) throws -> Bool {
    try database.cachedStatement(sql: "DELETE FROM activityTokens WHERE app = ? AND device = ?")
      .execute(arguments: [app, Data(token)])
    guard let found = try find(token) else { return false }
    try delete(found)
    return true
  }

  /// To be called once, at the end: writes which devices each tag has, and how many.
  mutating func finish() throws {
    try indexTags()
    let statement = try database.cachedStatement(
      sql: "UPDATE deviceTagNames SET deviceCount = deviceCount + ? WHERE number = ?")
    let forget = try database.cachedStatement(sql: "DELETE FROM deviceTagNames WHERE number = ? AND deviceCount = 0")
    for (tag, change) in countChanges.sorted(by: { $0.key < $1.key }) {
      try statement.execute(arguments: [change, tag])
      if change <= 0 { try forget.execute(arguments: [tag]) }
    }
  }

  // MARK: Rows

  private func find(_ token: [UInt8]) throws -> Found? {
    let statement = try database.cachedStatement(
      sql: "SELECT number, high, low, tags, registeredAt, goneAt FROM devices WHERE app = ? AND token = ?")
    guard let row = try Row.fetchOne(statement, arguments: [appNumber, Data(token)]) else { return nil }
    return Found(
      key: row[0], id: StoredUUID(high: UInt64(bitPattern: row[1]), low: UInt64(bitPattern: row[2])),
      tags: Set(DeviceTags.list(row[3])), registeredAt: row[4], goneAt: row[5])
  }

  private func newestGone(_ token: [UInt8]) throws -> Int64? {
    guard hasGoneDevices else { return nil }
    let statement = try database.cachedStatement(
      sql: "SELECT max(coalesce(since, foundAt)) FROM gone WHERE app = ? AND token = ?")
    return try Int64.fetchOne(statement, arguments: [app, Data(token)])
  }

  /// - Returns: nil if a device has the token already.
  private mutating func insert(_ device: DeviceRegistration, goneAt: Int64?) throws -> StoredUUID? {
    var tags: Set<String> = []
    if case .set(let value) = device.tags { tags = value }
    var userID: String?
    if case .set(let value) = device.userID { userID = value }
    let statement = try database.cachedStatement(
      sql: """
        INSERT INTO devices (app, high, low, token, language, timeZone, tags, createdAt, registeredAt, goneAt, userID)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10) ON CONFLICT (app, token) DO NOTHING
        """)
    try statement.execute(arguments: [
      appNumber, device.newID.high.stored, device.newID.low.stored, Data(device.token), try number(device.language),
      try number(device.timeZone), DeviceTags.text(tags), device.registeredAt.milliseconds, goneAt,
      userID,
    ])
    guard database.changesCount == 1 else { return nil }
    let key = database.lastInsertedRowID
    try changeTags(of: key, from: [], to: tags)
    return device.newID
  }

  private mutating func update(
    _ found: Found, _ device: DeviceRegistration, goneAt: Int64?, registeredAt: Int64
  ) throws {
    let statement = try database.cachedStatement(
      sql: "UPDATE devices SET token = ?, registeredAt = ?, goneAt = ? WHERE number = ?")
    try statement.execute(arguments: [
      Data(device.token), max(registeredAt, device.registeredAt.milliseconds), goneAt, found.key,
    ])
    for (column, change) in [("language", device.language), ("timeZone", device.timeZone)] where change != .keep {
      let statement = try database.cachedStatement(sql: "UPDATE devices SET \(column) = ? WHERE number = ?")
      try statement.execute(arguments: [try number(change), found.key])
    }
    if case .set(let userID) = device.userID {
      try database.cachedStatement(sql: "UPDATE devices SET userID = ? WHERE number = ?")
        .execute(arguments: [userID, found.key])
    }
    guard case .set(let tags) = device.tags, tags != found.tags else { return }
    let write = try database.cachedStatement(sql: "UPDATE devices SET tags = ? WHERE number = ?")
    try write.execute(arguments: [DeviceTags.text(tags), found.key])
    try changeTags(of: found.key, from: found.tags, to: tags)
  }

  private mutating func move(_ found: inout Found, to key: Int64) throws {
    try changeTags(of: found.key, from: found.tags, to: [])
    try database.cachedStatement(sql: "UPDATE devices SET number = ? WHERE number = ?")
      .execute(arguments: [key, found.key])
    found.key = key
    try changeTags(of: key, from: [], to: found.tags)
  }

  private mutating func delete(_ found: Found) throws {
    try changeTags(of: found.key, from: found.tags, to: [])
    try database.cachedStatement(sql: "DELETE FROM devices WHERE number = ?").execute(arguments: [found.key])
  }

  private mutating func changeTags(of key: Int64, from old: Set<String>, to new: Set<String>) throws {
    for tag in new.subtracting(old) {
      let number = try tagNumber(tag)
      taggedDevices[number, default: []].append(key)
      countChanges[number, default: 0] += 1
    }
    guard !old.isSubset(of: new) else { return }
    // A device may lose what this transaction has given it.
    try indexTags()
    let remove = try database.cachedStatement(sql: "DELETE FROM deviceTags WHERE tag = ? AND device = ?")
    for tag in old.subtracting(new) {
      let number = try tagNumber(tag)
      try remove.execute(arguments: [number, key])
      countChanges[number, default: 0] -= 1
    }
  }

  /// One statement for each tag, however many devices have it.
  private mutating func indexTags() throws {
    guard !taggedDevices.isEmpty else { return }
    let add = try database.cachedStatement(
      sql: "INSERT INTO deviceTags (tag, device) SELECT ?, value FROM json_each(?)")
    for (tag, devices) in taggedDevices.sorted(by: { $0.key < $1.key }) {
      try add.execute(arguments: [tag, "\(devices)"])
    }
    taggedDevices = [:]
  }

  // MARK: Names

  private mutating func number(_ change: DeviceRegistration.Change<String?>) throws -> Int64? {
    guard case .set(let name?) = change else { return nil }
    if let number = names[name] { return number }
    let number = try DeviceNames.make(name, database)
    names[name] = number
    return number
  }

  private mutating func tagNumber(_ tag: String) throws -> Int64 {
    if let number = tagNumbers[tag] { return number }
    let find = try database.cachedStatement(sql: "SELECT number FROM deviceTagNames WHERE app = ? AND tag = ?")
    let number: Int64
    if let found = try Int64.fetchOne(find, arguments: [appNumber, tag]) {
      number = found
    } else {
      try database.cachedStatement(sql: "INSERT INTO deviceTagNames (app, tag) VALUES (?, ?)")
        .execute(arguments: [appNumber, tag])
      number = database.lastInsertedRowID
    }
    tagNumbers[tag] = number
    return number
  }
}

/// The tags in a row of a device.
enum DeviceTags {
  static func text(_ tags: Set<String>) -> String { tags.sorted().joined(separator: " ") }
  static func list(_ text: String) -> [String] { text.split(separator: " ").map(String.init) }
}

/// Names of apps, languages and time zones.
enum DeviceNames {
  static func find(_ name: String, _ database: Database) throws -> Int64? {
    try Int64.fetchOne(
      database.cachedStatement(sql: "SELECT number FROM deviceNames WHERE name = ?"), arguments: [name])
  }

  static func make(_ name: String, _ database: Database) throws -> Int64 {
    if let number = try find(name, database) { return number }
    try database.cachedStatement(sql: "INSERT INTO deviceNames (name) VALUES (?)").execute(arguments: [name])
    return database.lastInsertedRowID
  }
}

/// Names by number, read when they are first needed.
struct DeviceNameCache {
  private let database: Database
  private var names: [Int64: String] = [:]

  init(_ database: Database) { self.database = database }

  mutating func name(_ number: Int64?) throws -> String? {
    guard let number else { return nil }
    if let name = names[number] { return name }
    let name = try String.fetchOne(
      database.cachedStatement(sql: "SELECT name FROM deviceNames WHERE number = ?"), arguments: [number])
    names[number] = name
    return name
  }
}
