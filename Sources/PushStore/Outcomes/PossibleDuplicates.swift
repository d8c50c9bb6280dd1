internal import GRDB

/// Notifications that may have arrived and were sent again.
enum PossibleDuplicateSchema {
  /// Ranges of lines. They may overlap: after a crash some are reported again.
  static let tables = """
    CREATE TABLE doubted (
      run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE, first INTEGER NOT NULL,
      last INTEGER NOT NULL, PRIMARY KEY (run, first)
    ) STRICT, WITHOUT ROWID;
    """
}

extension SQLiteStore {
  package func isDoubted(_ notification: StoredNotificationID) async throws(StoreError) -> Bool {
    let (run, line) = (notification.run, Int64(notification.line))
    return try await read { database in
      try Bool.fetchOne(
        database,
        sql: """
          SELECT EXISTS (
            SELECT 1 FROM doubted JOIN runs ON runs.number = doubted.run
            WHERE high = ? AND low = ? AND first <= ?3 AND last >= ?3)
          """, arguments: [run.high.stored, Int64(run.low), line]) ?? false
    }
  }
}

extension OutcomeCounts {
  /// Counts the lines of a run that a copy may have been sent of.
  mutating func addDoubted(run: Int64, lines: ClosedRange<Int64>, _ database: Database) throws {
    let rows = try Row.fetchCursor(
      database, sql: "SELECT first, last FROM doubted WHERE run = ? AND first <= ? AND last >= ? ORDER BY first",
      arguments: [run, lines.upperBound, lines.lowerBound])
    var next = lines.lowerBound
    while let row = try rows.next() {
      let (first, last) = (max(row["first"] as Int64, next), min(row["last"] as Int64, lines.upperBound))
      guard first <= last else { continue }
      doubted += Int(last - first + 1)
      next = last + 1
    }
  }
}

extension OutcomeWriter {
  mutating func write(_ entry: IntakeChanges.PossibleDuplicates) throws {
    let insert = try database.cachedStatement(
      sql: """
        INSERT INTO doubted (run, first, last) VALUES (?, ?, ?)
        ON CONFLICT DO UPDATE SET last = max(last, excluded.last)
        """)
    try insert.execute(
      arguments: [try number(of: entry.run), Int64(entry.lines.lowerBound), Int64(entry.lines.upperBound)])
  }
}
