package import PushStore

/// What there is to say about a database before a service uses it. Nothing is changed.
package struct PostgreSQLReport: Sendable {
  /// Sentences.
  package private(set) var facts: [String] = []
  package private(set) var warnings: [String] = []
  /// Why a service cannot use it.
  package private(set) var problems: [String] = []

  /// The oldest version that Debian and the makers of PostgreSQL keep in order.
  private static let oldestVersion: Int64 = 140_000
  /// In milliseconds. Of this machine only the second is known.
  private static let remarkableOffset: Int64 = 3_000
  private static let limit = Duration.seconds(10)

  /// - Parameter unixSeconds: the time of day of this machine.
  /// - Throws: ``StoreError``: it cannot be reached.
  package init(_ settings: PostgreSQLSettings, at unixSeconds: Int64) throws(StoreError) {
    let deadline = MonotonicTime.after(Self.limit)
    let connection = try PostgreSQLConnection.open(PostgreSQLServers(settings.asVisitor), by: deadline)
    let row = try connection.run(
      [
        PostgreSQLStatement(
          """
          SELECT current_setting('server_version'), current_setting('server_version_num')::int8,
            (extract(epoch FROM clock_timestamp()) * 1000)::int8,
            has_schema_privilege(current_schema(), 'CREATE')::int::int8,
            (to_regclass('schema_version') IS NOT NULL)::int::int8,
            current_setting('synchronous_standby_names'),
            CASE WHEN pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') THEN
              (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) END,
            coalesce((SELECT version || ', ' || cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl), '')
          """)
      ], by: deadline)[0]
    let now = unixSeconds * 1000 + Int64(Self.limit / .milliseconds(1)) - Int64(deadline.millisecondsLeft)
    let encryption = row.text(0, 7)
    facts.append(
      "\(settings.name), PostgreSQL \(row.text(0, 0)), " + (encryption.isEmpty ? "without TLS" : "over \(encryption)"))
    if row.int(0, 1) < Self.oldestVersion {
      problems.append("PostgreSQL \(row.text(0, 0)) is too old; at least \(Self.oldestVersion / 10_000) is needed")
    }
    if row.int(0, 4) == 1 {
      try addSchema(connection, deadline)
    } else if row.int(0, 3) == 1 {
      facts.append("its tables are made at the first start")
    } else {
      problems.append(
        "the user \(settings.user) may not make tables in \(settings.database); "
          + "grant it CREATE on the schema, or make it the database's owner")
    }
    add(offset: row.int(0, 2) - now)
    add(standbys: row.text(0, 5), row.optionalInt(0, 6), settings.user)
  }

  private mutating func addSchema(
    _ connection: PostgreSQLConnection, _ deadline: MonotonicTime
  ) throws(StoreError) {
    let version = try connection.run([PostgreSQLStatement("SELECT version FROM schema_version")], by: deadline)[0]
      .int(0, 0)
    let known = PostgreSQLSchema.migrations.count
    if version > known {
      if try connection.isUsable(by: deadline) {
        facts.append("its tables are of a newer version of carillon, which this one can run beside")
      } else {
        problems.append("it was written by a newer version of carillon; use that one")
      }
    } else if version < known {
      facts.append("its tables have version \(version), and would be brought to \(known)")
    } else {
      facts.append("its tables have version \(version), up to date")
    }
  }

  private mutating func add(offset: Int64) {
    guard abs(offset) > Self.remarkableOffset else { return }
    warnings.append(
      "its clock is \(Double(offset) / 1000) s ahead of this machine's; run a time service on both")
  }

  /// - Parameter count: nil: it cannot be seen.
  private mutating func add(standbys: String, _ count: Int64?, _ user: String) {
    if standbys.isEmpty {
      warnings.append(
        "it has no synchronous standby: what is committed when its machine is lost may be lost with it; "
          + "set synchronous_standby_names")
    } else if count == nil {
      facts.append(
        "whether one of its synchronous standbys (\(standbys)) is connected, the user \(user) cannot see; "
          + "grant it pg_read_all_stats")
    } else if count == 0 {
      warnings.append("none of its synchronous standbys (\(standbys)) is connected, so commits wait for one")
    }
  }
}

/// What a look at every table of a database has found.
package struct PostgreSQLContents: Sendable {
  /// Sentences. Empty: it is whole.
  package private(set) var problems: [String] = []
  /// Rows by table.
  package private(set) var counts: [(table: String, count: Int)] = []

  private static let limit = Duration.seconds(1_800)
  /// What each of these finds is wrong.
  private static let searches = [
    (
      "SELECT count(*) FROM (SELECT run FROM accepted UNION SELECT run FROM not_accepted UNION SELECT run FROM copies) "
        + "AS found WHERE NOT EXISTS (SELECT 1 FROM runs WHERE number = run)", "runs are missing that have outcomes"
    ),
    (
      "SELECT count(*) FROM run_days WHERE to_regclass('accepted_' || first) IS NULL",
      "days have no partitions of their own, but should"
    ),
    (
      "SELECT count(*) FROM (SELECT DISTINCT unnest(tags || app) AS number FROM devices) AS found "
        + "WHERE NOT EXISTS (SELECT 1 FROM names WHERE names.number = found.number)",
      "tags or apps of devices have no name"
    ),
    (
      "SELECT count(*) FROM gone LEFT JOIN gone_counts USING (app) WHERE number > coalesce(last, 0)",
      "devices that are gone have a number that will be given out again"
    ),
    (
      "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        + "WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace",
      "indexes are not valid; see REINDEX in the manual of PostgreSQL"
    ),
  ]

  /// - Throws: ``StoreError``: it cannot be reached, or is not up to date.
  package init(_ settings: PostgreSQLSettings) throws(StoreError) {
    let deadline = MonotonicTime.after(Self.limit)
    let connection = try PostgreSQLConnection.open(PostgreSQLServers(settings.asVisitor), by: .after(.seconds(10)))
    let version = try connection.schemaVersion(by: deadline)
    guard version >= PostgreSQLSchema.migrations.count else {
      throw StoreError(
        .unusable, path: settings.name,
        "the tables of \(settings.name) have version \(version) instead of \(PostgreSQLSchema.migrations.count); "
          + "\"carillon store migrate\" brings them up to date")
    }
    let statements = Self.searches.map(\.0) + StoreTable.all.map { "SELECT count(*) FROM \($0.name)" }
    let found = try connection.run(statements.map { PostgreSQLStatement($0) }, by: deadline).map { Int($0.int(0, 0)) }
    for (count, (_, what)) in zip(found, Self.searches) where count > 0 { problems.append("\(count) \(what)") }
    counts = zip(StoreTable.all, found.dropFirst(Self.searches.count)).map { ($0.name, $1) }
  }
}

extension PostgreSQLConnection {
  /// 0: there are no tables.
  fileprivate func schemaVersion(by deadline: MonotonicTime) throws(StoreError) -> Int64 {
    let isThere = try run([PostgreSQLStatement("SELECT to_regclass('schema_version') IS NOT NULL")], by: deadline)[0]
    guard isThere.flag(0, 0) else { return 0 }
    return try run([PostgreSQLStatement("SELECT version FROM schema_version")], by: deadline)[0].int(0, 0)
  }
}

extension PostgreSQLStore {
  package func databaseState() async throws(StoreError) -> DatabaseState? {
    let row = try await read(
      """
      SELECT sees, CASE WHEN sees THEN standbys END, CASE WHEN sees THEN synchronous END,
        CASE WHEN sees THEN (extract(epoch FROM greatest(clock_timestamp() - began, interval '0')) * 1000)::int8 END,
        live, dead
      FROM
        (SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees) AS rights,
        (SELECT count(*) AS standbys, count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) AS synchronous
          FROM pg_stat_replication WHERE state = 'streaming') AS replication,
        (SELECT min(began) AS began FROM (
          SELECT xact_start AS began FROM pg_stat_activity
          WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
          UNION ALL SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()) AS all_open) AS open,
        (SELECT coalesce(sum(n_live_tup), 0)::int8 AS live, coalesce(sum(n_dead_tup), 0)::int8 AS dead
          FROM pg_stat_user_tables WHERE schemaname = current_schema()) AS rows
      """)
    return DatabaseState(
      standbyCount: row.optionalInt(0, 1).map(Int.init), synchronousStandbyCount: row.optionalInt(0, 2).map(Int.init),
      transactionAge: row.flag(0, 0) ? .milliseconds(row.int(0, 3)) : nil, liveRowCount: Int(row.int(0, 4)),
      deadRowCount: Int(row.int(0, 5)))
  }

  /// Brings the tables of a database up to date.
  ///
  /// - Returns: their version before, and now.
  package static func migrate(_ settings: PostgreSQLSettings) throws(StoreError) -> ClosedRange<Int64> {
    let deadline = MonotonicTime.after(Limit.schema)
    let connection = try PostgreSQLConnection.open(PostgreSQLServers(settings.asVisitor), by: .after(.seconds(10)))
    let before = try connection.schemaVersion(by: deadline)
    try connection.migrate(settings.name, by: deadline)
    return before...(try connection.schemaVersion(by: deadline))
  }
}

extension PostgreSQLStore {
  /// So many changes are worth a look at the table, which takes less than a second.
  private static let leastChangeCount = 100_000

  package func noteImport() async throws(StoreError) {
    let isOutdated = PostgreSQLStatement(
      """
      SELECT coalesce(bool_or(n_mod_since_analyze > greatest(\(Self.leastChangeCount), n_live_tup / 5)), false)
      FROM pg_stat_user_tables WHERE relid = 'devices'::regclass
      """)
    try await pool.run(.bulk, limit: Limit.bulk) { connection, deadline throws(StoreError) in
      guard try connection.run([isOutdated], by: deadline)[0].flag(0, 0) else { return }
      _ = try connection.run([PostgreSQLStatement("ANALYZE devices")], by: deadline)
    }
  }
}
