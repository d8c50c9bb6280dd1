internal import CPostgreSQL
package import PushStore

/// Fills an empty database with the tables of another store: all of it, or nothing.
///
/// It belongs to one thread, which waits.
package final class PostgreSQLTableWriter {
  private let connection: PostgreSQLConnection
  private let settings: PostgreSQLSettings
  /// By table and column.
  private var types: [String: [String: Oid]] = [:]
  /// Names of apps, languages, time zones and tags, in the order of their numbers.
  private var names: [String: Int64] = [:]

  private static let limit = Duration.seconds(60)
  /// Reads whole tables.
  private static let countLimit = Duration.seconds(1_800)

  /// Makes the tables, if there are none.
  ///
  /// - Throws: ``StoreError``; `unusable` if there is data, or a service is running.
  package init(_ settings: PostgreSQLSettings) throws(StoreError) {
    self.settings = settings
    let deadline = MonotonicTime.after(Self.limit)
    connection = try PostgreSQLConnection.open(PostgreSQLServers(settings), by: .after(.seconds(10)))
    try connection.migrate(settings.name, by: deadline)
    let services = try connection.run(
      [
        PostgreSQLStatement(
          """
          SELECT count(*) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND starts_with(application_name, $1)
          """, .text(PostgreSQLSettings.servicePrefix))
      ], by: deadline)[0]
    guard services.int(0, 0) == 0 else {
      throw StoreError(
        .unusable, path: settings.name, "a service uses the database \(settings.name); stop it first")
    }
    // Nobody else changes tables, or fills them.
    try connection.script("BEGIN; SELECT version FROM schema_version FOR UPDATE", by: deadline)
    for table in StoreTable.all.map(\.name) + ["names"] {
      let found = try connection.run(
        [
          PostgreSQLStatement("SELECT EXISTS (SELECT 1 FROM \(table))"),
          PostgreSQLStatement(
            """
            SELECT attname, atttypid::bigint FROM pg_attribute
            WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
            """, .text(table)),
        ], by: deadline)
      guard !found[0].flag(0, 0) else {
        throw StoreError(
          .unusable, path: settings.name,
          "the database \(settings.name) has data already, in \(table); name one that is new or empty")
      }
      types[table] = Dictionary(
        found[1].map { ($0.text($1, 0), Oid(truncatingIfNeeded: $0.int($1, 1))) }
      ) { first, _ in first }
    }
  }

  package func write(_ rows: [[StoredCell]], to table: StoreTable) throws(StoreError) {
    // A run belongs to the journal of this machine.
    let node = table.name == "runs" ? ["node"] : []
    var copy = PostgreSQLCopy(table.name, columns: table.columns.map(\.name) + node)
    let types = types[table.name] ?? [:]
    for row in rows {
      copy.addRow()
      for (column, cell) in zip(table.columns, row) { add(cell, column, of: row, types[column.name], to: &copy) }
      if !node.isEmpty { copy.add(text: settings.writer) }
    }
    try connection.copy(copy, by: .after(Self.limit))
  }

  private func add(
    _ cell: StoredCell, _ column: StoreTable.Column, of row: [StoredCell], _ type: Oid?, to copy: inout PostgreSQLCopy
  ) {
    switch (cell, column.form) {
    case (.null, _): copy.addNull()
    case (.text(let name), .name): copy.add(integer: Int32(clamping: number(name)))
    case (.texts(let tags), .tags):
      guard case .text(let name)? = row.first else { return copy.addNull() }
      let app = number(name)
      copy.add(numbers: tags.map { Int32(clamping: number(PostgreSQLNames.tag($0, app: app))) }.sorted())
    case (.integer(let number), _) where type == PostgreSQLValue.ObjectID.bool: copy.add(number != 0)
    case (.integer(let number), _) where type == PostgreSQLValue.ObjectID.int4:
      copy.add(integer: Int32(clamping: number))
    case (.integer(let number), _): copy.add(integer: number)
    case (.text(let text), _): copy.add(text: Self.valid(text))
    case (.texts(let texts), _): copy.add(texts: texts.map(Self.valid))
    case (.bytes(let bytes), _): copy.add(bytes: bytes)
    case (.uuid(let id), _): copy.add(id)
    }
  }

  private func number(_ name: String) -> Int64 {
    if let number = names[name] { return number }
    names[name] = Int64(names.count + 1)
    return Int64(names.count)
  }

  /// PostgreSQL's texts have no zeros.
  private static func valid(_ text: String) -> String {
    text.utf8.contains(0) ? String(text.map { $0 == "\0" ? "\u{fffd}" : $0 }) : text
  }

  /// Writes what all tables share, and sets the numbers that are given out next.
  ///
  /// - Returns: rows by table.
  package func finish(_ numbers: StoreNumbers) throws(StoreError) -> [String: Int] {
    var copy = PostgreSQLCopy("names", columns: ["number", "name"])
    for (name, number) in names.sorted(by: { $0.value < $1.value }) {
      copy.addRow()
      copy.add(integer: Int32(clamping: number))
      copy.add(text: name)
    }
    let deadline = MonotonicTime.after(Self.countLimit)
    try connection.copy(copy, by: deadline)
    _ = try connection.run(
      [
        PostgreSQLStatement(
          "SELECT setval(pg_get_serial_sequence('names', 'number'), $1, false)", .int(names.count + 1)),
        PostgreSQLStatement(
          "SELECT setval(pg_get_serial_sequence('runs', 'number'), max(number) + 1, false) FROM runs"),
        PostgreSQLStatement(
          """
          SELECT setval(pg_get_serial_sequence('devices', 'number'), greatest(max(number), $1) + 1, false) FROM devices
          """, .int(numbers.lastDevice)),
        // Each app has numbers of its own here, all had the same before: none may come again.
        PostgreSQLStatement(
          """
          INSERT INTO gone_counts SELECT app, $1 FROM (SELECT app FROM gone UNION SELECT app FROM bridge_apps) AS apps
          """, .int(numbers.lastGone)),
      ], by: deadline)
    let counts = try connection.run(
      StoreTable.all.map { PostgreSQLStatement("SELECT count(*) FROM \($0.name)") }, by: deadline)
    return Dictionary(zip(StoreTable.all.map(\.name), counts.map { Int($0.int(0, 0)) })) { first, _ in first }
  }

  /// From now on it is there. Without this call nothing is.
  package func commit() throws(StoreError) {
    _ = try connection.run([PostgreSQLStatement("COMMIT")], by: .after(Self.countLimit))
  }
}
