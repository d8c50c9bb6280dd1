package import PushStore

extension PostgreSQLStore {
  package func lastDeviceKey(app: String) async throws(StoreError) -> Int64 {
    guard let number = try await names.find(app) else { return 0 }
    return try await read("SELECT max(number) FROM devices WHERE app = $1", .int(number)).int(0, 0)
  }

  /// So many numbers are looked through at once: a tag that few devices have is found once for all
  /// of them, and the answer stays small.
  private static let stretch: Int64 = 1 << 18
  /// Its first members are to be sent at once.
  private static let firstStretch: Int64 = 1 << 14
  /// So many rows are read for one that is wanted, rather than each by itself.
  private static let sparseness: Int64 = 4

  package func audienceMembers(
    app: String, filter: AudienceFilter, after key: Int64, through last: Int64, withTimeZones: Bool
  ) async throws(StoreError) -> AudienceStretch {
    guard let query = try await query(app, filter, through: last) else { return AudienceStretch([], through: last) }
    let count = query.values.count
    // The range bounds what is read, whatever the server knows of how many devices there are.
    let sql = """
      SELECT number\(withTimeZones ? ", time_zone" : "") FROM devices
      WHERE \(query.condition) AND number > $\(count + 1) AND number <= $\(count + 2)
      ORDER BY number LIMIT $\(count + 3)
      """
    let (rows, end) = try await pool.run(.bulk, limit: Limit.bulk) { connection, deadline throws(StoreError) in
      // Where all numbers are other apps', or nobody's, the next stretch is twice as long.
      var (start, length) = (key, key == 0 ? Self.firstStretch : Self.stretch)
      while true {
        let end = last - start > length ? start + length : last
        let find = PostgreSQLStatement(
          sql, values: query.values + [.int(start), .int(end), .int(Self.stretch)])
        let rows = try connection.run([find], by: deadline)[0]
        if rows.count == Self.stretch { return (rows, rows.int(rows.count - 1, 0)) }
        if end == last || rows.count > 0 { return (rows, end) }
        (start, length) = (end, length * 2)
      }
    }
    guard withTimeZones else { return AudienceStretch(rows.map { AudienceMember(key: $0.int($1, 0)) }, through: end) }
    let words = try await names.names(rows.distinctInts(1))
    let members = rows.map { AudienceMember(key: $0.int($1, 0), timeZone: $0.optionalInt($1, 1).flatMap { words[$0] }) }
    return AudienceStretch(members, through: end)
  }

  package func audienceCount(app: String, filter: AudienceFilter, through last: Int64) async throws(StoreError) -> Int {
    guard let query = try await query(app, filter, through: last) else { return 0 }
    let count = PostgreSQLStatement(
      "SELECT count(*) FROM devices WHERE \(query.condition) AND number <= $\(query.values.count + 1)",
      values: query.values + [.int(last)])
    return try await pool.run(.bulk, limit: Limit.bulk) { connection, deadline throws(StoreError) in
      Int(try connection.run([count], by: deadline)[0].int(0, 0))
    }
  }

  package func audienceDevices(
    app: String, keys: [Int64], activity: ActivityName?
  ) async throws(StoreError) -> [AudienceDevice] {
    guard let number = try await names.find(app), let first = keys.first, let last = keys.last else { return [] }
    // Neither becomes a reading of all devices, whatever the server knows of how many there are:
    // each key of a list is looked up by itself.
    let source = AudienceStatements(app: app, number: number, activity: activity)
    let find = last - first < Int64(keys.count) * Self.sparseness ? source.range(first, last) : source.lookUp(keys)
    let rows = try await read([
      find, PostgreSQLStatement("SELECT EXISTS (SELECT 1 FROM device_merges WHERE app = $1)", .int(number)),
    ])
    let present = try await audience(rows[0], among: keys)
    guard rows[1].flag(0, 0) else { return present }
    // All keys of the devices that two have become, for each that is asked for; the present one
    // first.
    let merged = try await read(
      """
      SELECT asked.key, present.key, ARRAY(
        SELECT former_key FROM device_merges WHERE app = $1 AND kept_key = present.key ORDER BY 1)
      FROM unnest($2::bigint[]) AS asked (key)
      LEFT JOIN device_merges AS merge ON merge.app = $1 AND former_key = asked.key,
      LATERAL (SELECT coalesce(kept_key, asked.key) AS key) AS present
      WHERE EXISTS (SELECT 1 FROM device_merges WHERE app = $1 AND kept_key = present.key)
      """, .int(number), .ints(keys))
    var merges: [Int64: [Int64]] = [:]
    for row in 0..<merged.count { merges[merged.int(row, 0)] = [merged.int(row, 1)] + merged.ints(row, 2) }
    var found = Dictionary(present.map { ($0.key, $0) }) { first, _ in first }
    let missing = Set(merges.values.compactMap(\.first)).filter { found[$0] == nil }.sorted()
    if !missing.isEmpty {
      let more = try await read([source.lookUp(missing)])[0]
      for device in try await audience(more, among: missing) { found[device.key] = device }
    }
    return keys.compactMap { key in
      guard let all = merges[key] else { return found[key] }
      guard var device = found[all[0]] else { return nil }
      device.key = key
      device.otherKeys = all.filter { $0 != key }
      return device
    }
  }

  /// - Parameters:
  ///   - rows: by key.
  ///   - keys: ascending; others are left out.
  private func audience(_ rows: PostgreSQLRows, among keys: [Int64]) async throws(StoreError) -> [AudienceDevice] {
    let words = try await names.names(rows.distinctInts(2))
    var wanted = keys[...]
    var devices: [AudienceDevice] = []
    devices.reserveCapacity(keys.count)
    for row in 0..<rows.count {
      let key = rows.int(row, 0)
      wanted = wanted.drop { $0 < key }
      guard wanted.first == key else { continue }
      devices.append(
        AudienceDevice(
          key: key, token: rows.bytes(row, 1), language: rows.optionalInt(row, 2).flatMap { words[$0] },
          userID: rows.optionalText(row, 4), isSuppressed: rows.flag(row, 3)))
    }
    return devices
  }

  /// A filter as SQL. Nil: no device can belong to the audience.
  private func query(
    _ app: String, _ filter: AudienceFilter, through last: Int64
  ) async throws(StoreError) -> (condition: String, values: [PostgreSQLValue])? {
    guard let number = try await names.find(app) else { return nil }
    let tags = Set(filter.all + filter.any + filter.none)
    let known = try await names.find(tags.map { PostgreSQLNames.tag($0, app: number) })
    func numbers(_ tags: [String]) -> [Int64] {
      Set(tags).compactMap { known[PostgreSQLNames.tag($0, app: number)] }.sorted()
    }
    var (condition, values) = ("devices.app = $1", [PostgreSQLValue.int(number)])
    func demand(_ text: String, _ numbers: [Int64]) {
      values.append(.int4s(numbers))
      condition += " AND \(text) $\(values.count)::int[]"
    }
    let all = numbers(filter.all)
    guard all.count == Set(filter.all).count else { return nil }
    if !all.isEmpty { demand("devices.tags @>", all) }
    let any = numbers(filter.any)
    guard filter.any.isEmpty || !any.isEmpty else { return nil }
    if !any.isEmpty { demand("devices.tags &&", any) }
    let none = numbers(filter.none)
    if !none.isEmpty { demand("NOT devices.tags &&", none) }
    if !filter.languages.isEmpty {
      values.append(.int4s(try await names.languages(filter.languages)))
      condition += " AND devices.language = ANY ($\(values.count)::int[])"
    }
    if let activity = filter.activity {
      condition += """
         AND EXISTS (
          SELECT 1 FROM activity_tokens AS known WHERE known.app = $\(values.count + 1)
            AND known.activity = $\(values.count + 2) AND known.is_type = $\(values.count + 3)
            AND known.device = devices.token)
        """
      values += [.text(app), .text(activity.text), .flag(activity.isType)]
    }
    if filter.isOncePerUser {
      func rank(_ device: String) -> String {
        "(coalesce(\(device).gone_at < \(device).registered_at, TRUE), \(device).number)"
      }
      values.append(.int(last))
      condition += """
         AND (devices.user_id IS NULL OR NOT EXISTS (
          SELECT 1 FROM devices AS other WHERE other.user_id = devices.user_id AND other.number <= $\(values.count)
            AND \(rank("other")) > \(rank("devices")) AND \(condition.replacing("devices.", with: "other."))))
        """
    }
    return (condition, values)
  }
}

/// Statements that read members of an audience.
private struct AudienceStatements {
  let app: String
  let number: Int64
  let activity: ActivityName?

  /// Devices of the app `$1`; of the activity `$2` to `$4`, if there is one.
  private var columns: String {
    let rest = "language, gone_at >= devices.registered_at, user_id FROM devices"
    guard activity != nil else { return "SELECT number, token, \(rest) WHERE devices.app = $1" }
    return """
      SELECT number, known.token, \(rest) JOIN activity_tokens AS known ON known.device = devices.token
      WHERE devices.app = $1 AND known.app = $2 AND known.activity = $3 AND known.is_type = $4
      """
  }

  private var values: [PostgreSQLValue] {
    [.int(number)] + (activity.map { [.text(app), .text($0.text), .flag($0.isType)] } ?? [])
  }

  func range(_ first: Int64, _ last: Int64) -> PostgreSQLStatement {
    let count = values.count
    return PostgreSQLStatement(
      "\(columns) AND number BETWEEN $\(count + 1) AND $\(count + 2) ORDER BY number",
      values: values + [.int(first), .int(last)])
  }

  /// - Parameter keys: ascending; the rows are in their order.
  func lookUp(_ keys: [Int64]) -> PostgreSQLStatement {
    PostgreSQLStatement(
      """
      SELECT device.* FROM unnest($\(values.count + 1)::bigint[]) WITH ORDINALITY AS asked (key, place),
        LATERAL (\(columns) AND number = asked.key OFFSET 0) AS device
      ORDER BY asked.place
      """, values: values + [.ints(keys)])
  }
}
