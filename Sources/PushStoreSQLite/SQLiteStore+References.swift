internal import GRDB
package import PushStore

enum ReferenceSchema {
  /// Without a reference to `runs`: those are written later than a notification is acknowledged.
  static let tables = """
    CREATE TABLE notificationReferences (
      high INTEGER NOT NULL, low INTEGER NOT NULL, line INTEGER NOT NULL, reference TEXT NOT NULL,
      PRIMARY KEY (high, low, line)
    ) STRICT, WITHOUT ROWID;
    """
}

extension SQLiteStore {
  /// This many are written in a few milliseconds.
  private static let portion = 2_000

  package func add(_ references: [(StoredNotificationID, String)]) async throws(StoreError) {
    for start in stride(from: 0, to: references.count, by: Self.portion) {
      let part = references[start..<min(references.count, start + Self.portion)]
      try await writer.write { database in
        let insert = try database.cachedStatement(
          sql: "INSERT INTO notificationReferences VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")
        for (id, reference) in part {
          try insert.execute(arguments: [id.run.high.stored, Int64(id.run.low), Int64(id.line), reference])
        }
      }
    }
  }

  package func settle(_ changes: IntakeChanges) async throws(StoreError) {
    let path = path
    try await writer.write { database in try OutcomeWriter(database, path: path).write(changes) }
  }

  /// Forgets references to runs that are forgotten or never were.
  ///
  /// - Parameter instant: runs that began before it and are not in the store. A run's identifier
  ///   begins with the milliseconds of its beginning.
  func forgetReferences(begunBefore instant: StoreInstant) async throws(StoreError) {
    try await writer.delete(
      """
      notificationReferences WHERE (high, low, line) IN (
        SELECT high, low, line FROM notificationReferences AS entry
        WHERE high < ? AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.high = entry.high AND runs.low = entry.low)
        LIMIT ?)
      """, [max(0, instant.milliseconds) << 16], portion: Self.portion)
  }
}
