internal import GRDB
internal import PushStore

/// Notifications that may have arrived and were sent again.
enum PossibleDuplicateSchema {
  /// Ranges of lines.
  static let tables = """
    CREATE TABLE doubted (
      run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE, first INTEGER NOT NULL,
      last INTEGER NOT NULL, PRIMARY KEY (run, first)
    ) STRICT, WITHOUT ROWID;
    """

  /// Ranges overlap where a line was sent again more than once.
  static let copies = """
    CREATE TABLE copies (
      run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE, first INTEGER NOT NULL,
      last INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (run, first, last)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO copies SELECT run, first, last, 1 FROM doubted;
    DROP TABLE doubted;
    """
}

extension OutcomeCounts {
  /// Counts the lines of a run of which copies may have arrived, and those copies.
  mutating func addDoubted(run: Int64, lines: ClosedRange<Int64>, _ database: Database) throws {
    let rows = try Row.fetchCursor(
      database, sql: "SELECT first, last, count FROM copies WHERE run = ? AND first <= ? AND last >= ? ORDER BY first",
      arguments: [run, lines.upperBound, lines.lowerBound])
    var next = lines.lowerBound
    while let row = try rows.next() {
      let (first, last) = (max(row["first"] as Int64, lines.lowerBound), min(row["last"] as Int64, lines.upperBound))
      copies += Int(last - first + 1) * (row["count"] as Int)
      guard last >= next else { continue }
      doubted += Int(last - max(first, next) + 1)
      next = last + 1
    }
  }
}

extension OutcomeWriter {
  mutating func write(_ entry: StoredLines) throws {
    let insert = try database.cachedStatement(
      sql: """
        INSERT INTO copies (run, first, last, count) VALUES (?, ?, ?, 1)
        ON CONFLICT DO UPDATE SET count = count + 1
        """)
    try insert.execute(
      arguments: [try number(of: entry.run), Int64(entry.lines.lowerBound), Int64(entry.lines.upperBound)])
  }
}
