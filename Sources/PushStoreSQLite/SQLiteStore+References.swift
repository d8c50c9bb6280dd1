internal import GRDB
internal import PushStore

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

extension Database {
  func add(_ reference: String, to id: StoredNotificationID) throws {
    try cachedStatement(sql: "INSERT INTO notificationReferences VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")
      .execute(arguments: [id.run.high.stored, Int64(id.run.low), Int64(id.line), reference])
  }

  func add(_ batch: StoredBatch) throws {
    let (high, low) = (batch.id.high.stored, batch.id.low.stored)
    try cachedStatement(
      sql: """
        INSERT INTO batches (high, low, app, rejectedCount, createdAt) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
        """
    ).execute(arguments: [high, low, batch.app, batch.rejectedCount, batch.createdAt.milliseconds])
    let add = try cachedStatement(
      sql: """
        INSERT INTO batchParts SELECT
          ?1, ?2, coalesce((SELECT max(part) + 1 FROM batchParts WHERE high = ?1 AND low = ?2), 0), ?3, ?4, ?5, ?6
        """)
    for part in batch.parts {
      try add.execute(
        arguments: [
          high, low, part.run.high.stored, Int64(part.run.low), Int64(part.lines.lowerBound),
          Int64(part.lines.upperBound),
        ])
    }
  }
}
