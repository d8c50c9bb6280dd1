package import PushStore

extension PostgreSQLStore {
  package func register(_ device: DeviceRegistration, app: String) async throws(StoreError) -> RegisteredDevice {
    guard let found = try await register([device], app: app, .request).first else {
      throw StoreError(.failed, path: settings.name, "the database \(settings.name) lost a device")
    }
    return found
  }

  package func importDevices(
    _ devices: [DeviceRegistration], app: String
  ) async throws(StoreError) -> [RegisteredDevice] {
    try await register(devices, app: app, .bulk)
  }

  private func register(
    _ devices: [DeviceRegistration], app: String, _ use: PostgreSQLPool.Use
  ) async throws(StoreError) -> [RegisteredDevice] {
    let number = try await names.make(app)
    var (words, tags): (Set<String>, Set<String>) = ([], [])
    for device in devices {
      if case .set(let language?) = device.language { words.insert(language) }
      if case .set(let zone?) = device.timeZone { words.insert(zone) }
      if case .set(let some) = device.tags { tags.formUnion(some) }
    }
    let tagNames = tags.map { (tag: $0, name: PostgreSQLNames.tag($0, app: number)) }
    let numbers = try await names.make(words.union(tagNames.map(\.name)))
    let writer = PostgreSQLDeviceWriter(
      app: app, number: number, names: numbers,
      tags: Dictionary(tagNames.map { ($0.tag, numbers[$0.name] ?? 0) }) { first, _ in first })
    return try await pool.run(use, limit: use == .bulk ? Limit.bulk : Limit.request) {
      connection, deadline throws(StoreError) in
      try writer.register(devices, connection, by: deadline)
    }
  }

  package func removeDevice(token: [UInt8], app: String) async throws(StoreError) -> Bool {
    let number = try await names.find(app)
    return try await write([
      PostgreSQLStatement("DELETE FROM devices WHERE app = $1 AND token = $2", PostgreSQLValue(number), .bytes(token)),
      PostgreSQLStatement("DELETE FROM activity_tokens WHERE app = $1 AND device = $2", .text(app), .bytes(token)),
    ])[0].changedCount == 1
  }

  package func devices(
    ofUsers users: [String], app: String, limit: Int
  ) async throws(StoreError) -> [String: [StoredDevice]] {
    guard let number = try await names.find(app) else { return [:] }
    let found = try await devices(
      number,
      """
      number IN (
        SELECT some_of.number FROM unnest($2::text[]) AS asked (name), LATERAL (
          SELECT number FROM devices AS other WHERE other.app = $1 AND other.user_id = asked.name
          ORDER BY number DESC LIMIT $3) AS some_of)
      ORDER BY number DESC
      """, [.texts(users), .int(limit)])
    return Dictionary(grouping: found) { $0.userID ?? "" }
  }

  package func removeDevices(ofUser user: String, app: String, limit: Int) async throws(StoreError) -> Int {
    guard let number = try await names.find(app) else { return 0 }
    let rows = try await write([
      PostgreSQLStatement(
        """
        WITH removed AS (
          DELETE FROM devices WHERE number IN (
            SELECT number FROM devices WHERE app = $1 AND user_id = $3 LIMIT $4) RETURNING token),
        activities AS (
          DELETE FROM activity_tokens WHERE app = $2 AND device IN (SELECT token FROM removed)),
        others AS (DELETE FROM gone WHERE app = $2 AND token IN (SELECT token FROM removed))
        SELECT count(*) FROM removed
        """, .int(number), .text(app), .text(user), .int(limit))
    ])
    return Int(rows[0].int(0, 0))
  }

  /// The server overwrites what it has vacuumed.
  package func scrub() async throws(StoreError) {}

  package func device(token: [UInt8], app: String) async throws(StoreError) -> StoredDevice? {
    guard let number = try await names.find(app) else { return nil }
    return try await devices(number, "token = $2", [.bytes(token)]).first
  }

  package func device(id: StoredUUID, app: String) async throws(StoreError) -> StoredDevice? {
    try await devices(ids: [id], app: app)[id]
  }

  package func devices(ids: [StoredUUID], app: String) async throws(StoreError) -> [StoredUUID: StoredDevice] {
    guard let number = try await names.find(app) else { return [:] }
    let found = try await devices(number, "id = ANY ($2)", [.uuids(ids)])
    return Dictionary(found.map { ($0.id, $0) }) { first, _ in first }
  }

  package func devices(
    app: String, tag: String?, after key: Int64, limit: Int
  ) async throws(StoreError) -> [StoredDevice] {
    guard let number = try await names.find(app) else { return [] }
    guard let tag else {
      return try await devices(number, "number > $2 ORDER BY number LIMIT $3", [.int(key), .int(limit)])
    }
    let name = PostgreSQLNames.tag(tag, app: number)
    guard let tag = try await names.find(name) else { return [] }
    return try await devices(
      number, "number > $2 AND tags @> $4::int[] ORDER BY number LIMIT $3",
      [.int(key), .int(limit), .int4s([tag])])
  }

  /// - Parameters:
  ///   - condition: of the devices of the app `$1`.
  ///   - values: from `$2` on.
  private func devices(
    _ app: Int64, _ condition: String, _ values: [PostgreSQLValue]
  ) async throws(StoreError) -> [StoredDevice] {
    let rows = try await read([
      PostgreSQLStatement(
        """
        SELECT number, id, token, language, time_zone, tags, created_at, registered_at, gone_at, user_id
        FROM devices
        WHERE app = $1 AND \(condition)
        """, values: [.int(app)] + values)
    ])[0]
    var numbers: Set<Int64> = []
    for row in 0..<rows.count {
      numbers.formUnion([rows.optionalInt(row, 3), rows.optionalInt(row, 4)].compactMap(\.self) + rows.ints(row, 5))
    }
    let words = try await names.names(numbers)
    let prefix = PostgreSQLNames.tag("", app: app)
    return rows.map { rows, row in
      StoredDevice(
        key: rows.int(row, 0), id: rows.uuid(row, 1), token: rows.bytes(row, 2),
        language: rows.optionalInt(row, 3).flatMap { words[$0] },
        timeZone: rows.optionalInt(row, 4).flatMap { words[$0] },
        tags: rows.ints(row, 5).compactMap { words[$0].map { String($0.dropFirst(prefix.count)) } }.sorted(),
        createdAt: rows.instant(row, 6), registeredAt: rows.instant(row, 7), goneAt: rows.optionalInstant(row, 8),
        userID: rows.optionalText(row, 9))
    }
  }
}

/// Registers devices of one app, in order, in one transaction.
struct PostgreSQLDeviceWriter: Sendable {
  let app: String
  let number: Int64
  /// The numbers of the languages and zones that occur, and of the tags.
  let names: [String: Int64]
  let tags: [String: Int64]

  /// The table through which many devices come. It is empty between transactions.
  private static let table = "pg_temp.added_devices"
  /// From this number on COPY is faster than arrays as parameters.
  private static let copyMinimum = 1_000

  /// Which fields a registration changes: those of one shape and with different tokens are one
  /// statement.
  private struct Shape: Hashable {
    let hasLanguage: Bool
    let hasTimeZone: Bool
    let hasTags: Bool
    let hasUser: Bool

    init(_ device: DeviceRegistration) {
      (hasLanguage, hasTimeZone, hasTags) = (device.language != .keep, device.timeZone != .keep, device.tags != .keep)
      hasUser = device.userID != .keep
    }
  }

  func register(
    _ devices: [DeviceRegistration], _ connection: PostgreSQLConnection, by deadline: MonotonicTime
  ) throws(StoreError) -> [RegisteredDevice] {
    var results: [RegisteredDevice] = []
    var isTableEmpty = true
    let canCopy = devices.count < Self.copyMinimum ? false : try hasTable(connection, deadline)
    try connection.script("BEGIN", by: deadline)
    var rest = devices[...]
    while let first = rest.first {
      if let replaced = first.replacedToken, replaced != first.token {
        results.append(try replace(replaced, by: first, connection, deadline))
        rest = rest.dropFirst()
        continue
      }
      var tokens: Set<[UInt8]> = []
      let shape = Shape(first)
      let some = rest.prefix { device in
        (device.replacedToken == nil || device.replacedToken == device.token) && Shape(device) == shape
          && tokens.insert(device.token).inserted
      }
      if canCopy, some.count >= Self.copyMinimum {
        if !isTableEmpty { try connection.script("TRUNCATE \(Self.table)", by: deadline) }
        isTableEmpty = false
        results += try upsertCopied(some, shape, connection, deadline)
      } else {
        results += try upsert(Array(some), shape, connection, deadline)
      }
      rest = rest.dropFirst(some.count)
    }
    _ = try connection.run([PostgreSQLStatement("COMMIT")], by: deadline)
    return results
  }

  /// Makes the table of imports, once in a session.
  ///
  /// - Returns: false if the user may not make temporary tables.
  private func hasTable(
    _ connection: PostgreSQLConnection, _ deadline: MonotonicTime
  ) throws(StoreError) -> Bool {
    if let hasTable = connection.hasImportTable { return hasTable }
    let hasTable = try connection.run(
      [PostgreSQLStatement("SELECT has_database_privilege(current_database(), 'TEMPORARY')")], by: deadline)[0]
      .flag(0, 0)
    if hasTable {
      try connection.script(
        """
        CREATE TEMPORARY TABLE IF NOT EXISTS added_devices (
          id uuid NOT NULL, token bytea NOT NULL, language int, time_zone int, tags int[] NOT NULL, at bigint NOT NULL,
          user_id text
        ) ON COMMIT DELETE ROWS
        """, by: deadline)
    }
    connection.hasImportTable = hasTable
    return hasTable
  }

  private func number(_ change: DeviceRegistration.Change<String?>) -> Int64? {
    if case .set(let name?) = change { names[name] } else { nil }
  }

  private func user(_ device: DeviceRegistration) -> String? {
    if case .set(let user) = device.userID { user } else { nil }
  }

  private func tagNumbers(_ device: DeviceRegistration) -> [Int32] {
    guard case .set(let some) = device.tags else { return [] }
    return some.compactMap { tags[$0].map { Int32(clamping: $0) } }.sorted()
  }

  private func tags(_ device: DeviceRegistration) -> String {
    "{\(tagNumbers(device).map(String.init).joined(separator: ","))}"
  }

  private func upsert(
    _ devices: [DeviceRegistration], _ shape: Shape, _ connection: PostgreSQLConnection, _ deadline: MonotonicTime
  ) throws(StoreError) -> [RegisteredDevice] {
    let source = "unnest($3::uuid[], $4::bytea[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::text[])"
    return try upsert(
      devices[...], shape, "\(source) AS added (id, token, language, time_zone, tags, at, user_id)",
      [
        .uuids(devices.map(\.newID)), .blobs(devices.map(\.token)), .ints(devices.map { number($0.language) }),
        .ints(devices.map { number($0.timeZone) }), .texts(devices.map(tags)),
        .ints(devices.map(\.registeredAt.milliseconds)), .texts(devices.map(user)),
      ], connection, deadline)
  }

  private func upsertCopied(
    _ devices: ArraySlice<DeviceRegistration>, _ shape: Shape, _ connection: PostgreSQLConnection,
    _ deadline: MonotonicTime
  ) throws(StoreError) -> [RegisteredDevice] {
    var rows = PostgreSQLCopy(Self.table, columns: ["id", "token", "language", "time_zone", "tags", "at", "user_id"])
    for device in devices {
      rows.addRow()
      rows.add(device.newID)
      rows.add(bytes: device.token)
      rows.add(integer: number(device.language).map { Int32(clamping: $0) })
      rows.add(integer: number(device.timeZone).map { Int32(clamping: $0) })
      rows.add(numbers: tagNumbers(device))
      rows.add(integer: device.registeredAt.milliseconds)
      if let user = user(device) { rows.add(text: user) } else { rows.addNull() }
    }
    try connection.copy(rows, by: deadline)
    return try upsert(devices, shape, "\(Self.table) AS added", [], connection, deadline)
  }

  /// - Parameters:
  ///   - source: the devices as rows `added`.
  ///   - values: of the source, from `$3` on.
  private func upsert(
    _ devices: ArraySlice<DeviceRegistration>, _ shape: Shape, _ source: String, _ values: [PostgreSQLValue],
    _ connection: PostgreSQLConnection, _ deadline: MonotonicTime
  ) throws(StoreError) -> [RegisteredDevice] {
    var changes = "registered_at = greatest(devices.registered_at, excluded.registered_at)"
    if shape.hasLanguage { changes += ", language = excluded.language" }
    if shape.hasTimeZone { changes += ", time_zone = excluded.time_zone" }
    if shape.hasTags { changes += ", tags = excluded.tags" }
    if shape.hasUser { changes += ", user_id = excluded.user_id" }
    // A row that nobody has locked is new.
    let statement = PostgreSQLStatement(
      """
      INSERT INTO devices (app, id, token, language, time_zone, tags, created_at, registered_at, gone_at, user_id)
      SELECT $1, id, token, language, time_zone, tags::int[], at, at,
        (SELECT max(coalesce(since, found_at)) FROM gone WHERE gone.app = $2 AND gone.token = added.token), user_id
      FROM \(source)
      ON CONFLICT (app, token) DO UPDATE SET \(changes) RETURNING token, id, xmax = 0
      """, values: [.int(number), .text(app)] + values)
    let rows = try connection.run([statement], by: deadline)[0]
    var found: [[UInt8]: RegisteredDevice] = [:]
    for row in 0..<rows.count {
      found[rows.bytes(row, 0)] = rows.flag(row, 2) ? .created(rows.uuid(row, 1)) : .updated(rows.uuid(row, 1))
    }
    return devices.compactMap { found[$0.token] }
  }

  /// The device that had another token has this one now. If there is a device with this one, both
  /// become one.
  private func replace(
    _ former: [UInt8], by device: DeviceRegistration, _ connection: PostgreSQLConnection, _ deadline: MonotonicTime
  ) throws(StoreError) -> RegisteredDevice {
    let rows = try connection.run(
      [
        PostgreSQLStatement(
          """
          SELECT token, number, id, registered_at, gone_at FROM devices WHERE app = $1 AND token = ANY ($2)
          ORDER BY token FOR UPDATE
          """, .int(number), .blobs([former, device.token])),
        PostgreSQLStatement(
          "SELECT max(coalesce(since, found_at)) FROM gone WHERE app = $1 AND token = $2", .text(app),
          .bytes(device.token)),
        // What the other token has already stays.
        PostgreSQLStatement(
          """
          UPDATE activity_tokens AS known SET device = $3 WHERE app = $1 AND device = $2 AND NOT EXISTS (
            SELECT 1 FROM activity_tokens AS other WHERE other.app = $1 AND other.device = $3
              AND other.activity = known.activity AND other.is_type = known.is_type)
          """, .text(app), .bytes(former), .bytes(device.token)),
        PostgreSQLStatement("DELETE FROM activity_tokens WHERE app = $1 AND device = $2", .text(app), .bytes(former)),
      ], by: deadline)
    let places = Dictionary((0..<rows[0].count).map { (rows[0].bytes($0, 0), $0) }) { first, _ in first }
    guard let kept = places[former] else { return try upsert([device], Shape(device), connection, deadline)[0] }
    let present = places[device.token]
    var key = rows[0].int(kept, 1)
    let id = rows[0].uuid(kept, 2)
    // The gone-since time belongs to the token, so it moves with it.
    let goneAt = present.map { rows[0].optionalInt($0, 4) } ?? rows[1].optionalInt(0, 0)
    var registeredAt = max(rows[0].int(kept, 3), device.registeredAt.milliseconds)
    var statements: [PostgreSQLStatement] = []
    if let present {
      let other = rows[0].int(present, 1)
      registeredAt = max(registeredAt, rows[0].int(present, 3))
      statements.append(PostgreSQLStatement("DELETE FROM devices WHERE number = $1", .int(other)))
      statements += merged(former: max(other, key), kept: min(other, key))
      // Campaigns read devices in the order of their keys. With the lower one, whoever has read
      // either of both does not come to the other, and whoever has read none comes to this one.
      if other < key {
        statements.append(
          PostgreSQLStatement("UPDATE devices SET number = $2 WHERE number = $1", .int(key), .int(other)))
        key = other
      }
    }
    var changes = "token = $2, registered_at = $3, gone_at = $4"
    var values: [PostgreSQLValue] = [
      .int(key), .bytes(device.token), .int(registeredAt), PostgreSQLValue(goneAt),
    ]
    for (column, change) in [("language", device.language), ("time_zone", device.timeZone)] where change != .keep {
      values.append(.ints([number(change)]))
      changes += ", \(column) = ($\(values.count)::bigint[])[1]"
    }
    if device.tags != .keep {
      values.append(.text(tags(device)))
      changes += ", tags = $\(values.count)::text::int[]"
    }
    if device.userID != .keep {
      values.append(.texts([user(device)]))
      changes += ", user_id = ($\(values.count)::text[])[1]"
    }
    statements.append(PostgreSQLStatement("UPDATE devices SET \(changes) WHERE number = $1", values: values))
    _ = try connection.run(statements, by: deadline)
    return .updated(id)
  }

  /// Parts of a campaign may have either key in their lists.
  private func merged(former: Int64, kept: Int64) -> [PostgreSQLStatement] {
    let isNeeded = "EXISTS (SELECT 1 FROM campaigns WHERE app = $1 AND last_key IS NOT NULL AND ended_at IS NULL)"
    return [
      PostgreSQLStatement(
        "DELETE FROM device_merges WHERE app = $2 AND NOT \(isNeeded)", .text(app), .int(number)),
      PostgreSQLStatement(
        "UPDATE device_merges SET kept_key = $3 WHERE app = $1 AND kept_key = $2", .int(number), .int(former),
        .int(kept)),
      PostgreSQLStatement(
        """
        INSERT INTO device_merges SELECT $2, $3, $4 WHERE \(isNeeded)
        ON CONFLICT (app, former_key) DO UPDATE SET kept_key = excluded.kept_key
        """, .text(app), .int(number), .int(former), .int(kept)),
    ]
  }
}
