package import PushStore
internal import Synchronization

/// The store in a PostgreSQL database, for a deployment that outlives a machine.
///
/// Each use case is one statement, one pipeline, or one short transaction at READ COMMITTED, and
/// may be run again: who has lost the answer to a commit does not know whether it took place.
package final class PostgreSQLStore: Store {
  private struct Outcomes: ~Copyable {
    let session: PostgreSQLSession
    /// How many batches of this machine are in the database.
    var sequence: Int64
  }

  let settings: PostgreSQLSettings
  let pool: PostgreSQLPool
  /// For threads that may wait. One of them writes at a time.
  private let outcomes: Mutex<Outcomes>
  /// For reports to the ledger, which must not wait for outcomes.
  private let ledgerSession: Mutex<PostgreSQLSession>
  let names: PostgreSQLNames
  let days = PostgreSQLKnownDays()

  package var file: String? { nil }
  package var logByteCount: Int { 0 }
  /// Nobody waits for it. More at a time is not faster.
  package var importPortion: Int { 10_000 }
  /// Each is a process of the server.
  package var concurrentImportCount: Int { min(2, pool.bulkCount) }

  /// For a caller that waits for its answer; for outcomes, and others that do not; for portions.
  enum Limit {
    static let request = Duration.seconds(5)
    static let outcomes = Duration.seconds(5)
    static let bulk = Duration.seconds(60)
    static let schema = Duration.seconds(60)
  }

  /// Opens the database, and brings its tables up to date.
  ///
  /// - Throws: ``StoreError``: it cannot be reached, lacks rights, or belongs to a newer version.
  package init(_ settings: PostgreSQLSettings) throws(StoreError) {
    self.settings = settings
    let servers = PostgreSQLServers(settings)
    let session = PostgreSQLSession(servers)
    let node = settings.writer
    // A server that says nothing is known sooner than a long change of the schema takes.
    try session.run(by: .after(Limit.request)) { connection, deadline throws(StoreError) in
      _ = try connection.run([PostgreSQLStatement("SELECT 1")], by: deadline)
    }
    let sequence = try session.run(by: .after(Limit.schema)) { connection, deadline throws(StoreError) in
      try connection.migrate(settings.name, by: deadline)
      let find = PostgreSQLStatement("SELECT sequence FROM node_writes WHERE node = $1", .text(node))
      // A service can start while the standby is away.
      let known = try connection.run([find], by: deadline)[0]
      if known.count == 1 { return known.int(0, 0) }
      let insert = PostgreSQLStatement("INSERT INTO node_writes VALUES ($1, 0) ON CONFLICT DO NOTHING", .text(node))
      return try connection.transaction([insert, find], by: deadline)[1].int(0, 0)
    }
    outcomes = Mutex(Outcomes(session: session, sequence: sequence))
    ledgerSession = Mutex(PostgreSQLSession(servers))
    pool = PostgreSQLPool(servers)
    names = PostgreSQLNames(pool)
  }

  package func close() throws(StoreError) {
    pool.close()
    outcomes.withLock { $0.session.close() }
    ledgerSession.withLock { $0.close() }
  }

  // MARK: Running statements

  func read(_ sql: String, _ values: PostgreSQLValue...) async throws(StoreError) -> PostgreSQLRows {
    try await read([PostgreSQLStatement(sql, values: values)])[0]
  }

  /// Reads in one round trip.
  func read(_ statements: [PostgreSQLStatement]) async throws(StoreError) -> [PostgreSQLRows] {
    try await pool.run(limit: Limit.request) { connection, deadline throws(StoreError) in
      try connection.run(statements, by: deadline)
    }
  }

  /// - Returns: what the statement gave.
  @discardableResult
  func write(_ sql: String, _ values: PostgreSQLValue...) async throws(StoreError) -> PostgreSQLRows {
    try await write([PostgreSQLStatement(sql, values: values)])[0]
  }

  /// All of it, or nothing.
  @discardableResult
  func write(
    _ statements: [PostgreSQLStatement], _ use: PostgreSQLPool.Use = .request
  ) async throws(StoreError) -> [PostgreSQLRows] {
    try await pool.run(use, limit: use == .bulk ? Limit.bulk : Limit.request) {
      connection, deadline throws(StoreError) in
      try connection.transaction(statements, by: deadline)
    }
  }

  /// Deletes rows in several short turns.
  ///
  /// - Parameter sql: with `LIMIT $2`.
  func delete(_ sql: String, _ value: PostgreSQLValue, portion: Int) async throws(StoreError) {
    var count = portion
    while count >= portion {
      count = try await write([PostgreSQLStatement(sql, value, .int(portion))], .bulk)[0].changedCount
    }
  }

  /// On the caller's thread, which may wait.
  func writeNow(_ statements: [PostgreSQLStatement]) throws(StoreError) {
    try outcomes.withLock { outcomes throws(StoreError) in
      _ = try outcomes.session.run(by: .after(Limit.outcomes)) { connection, deadline throws(StoreError) in
        try connection.transaction(statements, by: deadline)
      }
    }
  }

  /// On the caller's thread, which may wait.
  func writeToLedger(_ statements: [PostgreSQLStatement]) throws(StoreError) -> [PostgreSQLRows] {
    try ledgerSession.withLock { session throws(StoreError) in
      try session.run(by: .after(Limit.outcomes)) { connection, deadline throws(StoreError) in
        try connection.transaction(statements, by: deadline)
      }
    }
  }

  package var writeCount: Int64 { self.outcomes.withLock { $0.sequence } }

  /// One of the batches of this machine, once. After `away` the same batch must be the next one:
  /// it may be in the database.
  func writeBatch(
    _ body: (PostgreSQLConnection, _ batch: PostgreSQLStatement, MonotonicTime) throws(StoreError) -> Void
  ) throws(StoreError) {
    let node = settings.writer
    try outcomes.withLock { outcomes throws(StoreError) in
      let next = outcomes.sequence + 1
      // Divides by zero unless this batch is the next one.
      let batch = PostgreSQLStatement(
        """
        WITH counted AS (UPDATE node_writes SET sequence = $2 WHERE node = $1 AND sequence = $2 - 1 RETURNING 1)
        SELECT 1 / count(*) FROM counted
        """, .text(node), .int(next))
      try outcomes.session.run(by: .after(Limit.outcomes)) { connection, deadline throws(StoreError) in
        let known = try connection.run(
          [PostgreSQLStatement("SELECT sequence FROM node_writes WHERE node = $1", .text(node))], by: deadline)
        // The answer to its commit was lost. It is in place; that the standby has it, too, another
        // commit says.
        let sequence = known[0].int(0, 0)
        if sequence == next {
          _ = try connection.transaction([], by: deadline)
          return
        }
        guard sequence == next - 1 else {
          throw StoreError(
            .failed, path: settings.name, "another process writes to the database \(settings.name) as \(node)")
        }
        try body(connection, batch, deadline)
      }
      outcomes.sequence = next
    }
  }
}

extension PostgreSQLConnection {
  /// Brings the tables up to date.
  func migrate(_ name: String, by deadline: MonotonicTime) throws(StoreError) {
    try script(PostgreSQLSchema.versions, by: deadline)
    // Whoever locks a row has a commit that waits for the standby.
    let version = try run([PostgreSQLStatement("SELECT version FROM schema_version")], by: deadline)[0].int(0, 0)
    let known = PostgreSQLSchema.migrations.count
    guard version != known else { return }
    for (index, migration) in PostgreSQLSchema.migrations.enumerated() {
      try script("BEGIN; SELECT version FROM schema_version FOR UPDATE", by: deadline)
      let found = try run([PostgreSQLStatement("SELECT version FROM schema_version")], by: deadline)[0].int(0, 0)
      if found <= index {
        try script(migration + "UPDATE schema_version SET version = \(index + 1);", by: deadline)
        if index + 1 == known {
          try script("UPDATE schema_version SET oldest = \(PostgreSQLSchema.oldest)", by: deadline)
        }
      }
      try script("COMMIT", by: deadline)
    }
    // A newer program may have made them, before or meanwhile.
    guard try isUsable(by: deadline) else {
      throw StoreError(
        .unusable, path: name,
        "the database \(name) was written by a newer version of carillon, which this one cannot run beside; "
          + "use the newer one")
    }
  }

  /// Whether this program can use tables that a newer one has made.
  func isUsable(by deadline: MonotonicTime) throws(StoreError) -> Bool {
    try run([PostgreSQLStatement("SELECT oldest FROM schema_version")], by: deadline)[0].int(0, 0)
      <= PostgreSQLSchema.migrations.count
  }
}

/// Names of apps, languages, time zones and tags by number, and back. Never removed, so what is
/// known stays right.
final class PostgreSQLNames: Sendable {
  private struct State {
    var numbers: [String: Int64] = [:]
    var names: [Int64: String] = [:]
  }

  private let pool: PostgreSQLPool
  private let state = Mutex(State())

  init(_ pool: PostgreSQLPool) { self.pool = pool }

  /// As a tag of an app is called: others' tags of the same name do not make lists longer.
  static func tag(_ tag: String, app: Int64) -> String { "#\(app) \(tag)" }

  /// The numbers of names, without those that nobody has used.
  func find(_ names: some Sequence<String>) async throws(StoreError) -> [String: Int64] {
    try await numbers(of: Array(names), makes: false)
  }

  func find(_ name: String) async throws(StoreError) -> Int64? { try await find([name])[name] }

  /// The numbers of names; new ones get one.
  func make(_ names: some Sequence<String>) async throws(StoreError) -> [String: Int64] {
    try await numbers(of: Array(names), makes: true)
  }

  func make(_ name: String) async throws(StoreError) -> Int64 { try await make([name])[name] ?? 0 }

  private func numbers(of names: [String], makes: Bool) async throws(StoreError) -> [String: Int64] {
    var found: [String: Int64] = [:]
    let missing = state.withLock { state in
      var missing: Set<String> = []
      for name in names { if let number = state.numbers[name] { found[name] = number } else { missing.insert(name) } }
      return missing.sorted()
    }
    guard !missing.isEmpty else { return found }
    let rows = try await pool.run(limit: PostgreSQLStore.Limit.request) { connection, deadline throws(StoreError) in
      let select = PostgreSQLStatement("SELECT number, name FROM names WHERE name = ANY ($1)", .texts(missing))
      guard makes else { return try connection.run([select], by: deadline)[0] }
      return try connection.transaction(
        [
          PostgreSQLStatement(
            "INSERT INTO names (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING", .texts(missing)),
          select,
        ], by: deadline)[1]
    }
    state.withLock { state in
      for row in 0..<rows.count {
        let (number, name) = (rows.int(row, 0), rows.text(row, 1))
        state.numbers[name] = number
        state.names[number] = name
        found[name] = number
      }
    }
    return found
  }

  /// Those with one of these beginnings, or equal to it without its last character.
  func languages(_ ranges: [String]) async throws(StoreError) -> [Int64] {
    let rows = try await pool.run(limit: PostgreSQLStore.Limit.request) { connection, deadline throws(StoreError) in
      try connection.run(
        [
          PostgreSQLStatement(
            """
            SELECT number FROM names JOIN unnest($1::text[]) AS range
            ON name = range OR (name COLLATE "C" >= range || '-' AND name COLLATE "C" < range || '.')
            """, .texts(ranges))
        ], by: deadline)[0]
    }
    return rows.map { $0.int($1, 0) }
  }

  /// Names of numbers that rows have.
  func names(_ numbers: Set<Int64>) async throws(StoreError) -> [Int64: String] {
    var found: [Int64: String] = [:]
    let missing = state.withLock { state in
      var missing: [Int64] = []
      for number in numbers {
        if let name = state.names[number] { found[number] = name } else { missing.append(number) }
      }
      return missing
    }
    guard !missing.isEmpty else { return found }
    let rows = try await pool.run(limit: PostgreSQLStore.Limit.request) { connection, deadline throws(StoreError) in
      try connection.run(
        [PostgreSQLStatement("SELECT number, name FROM names WHERE number = ANY ($1)", .ints(missing))], by: deadline)[
          0]
    }
    state.withLock { state in
      for row in 0..<rows.count {
        let (number, name) = (rows.int(row, 0), rows.text(row, 1))
        state.numbers[name] = number
        state.names[number] = name
        found[number] = name
      }
    }
    return found
  }
}
