internal import Foundation
internal import GRDB
package import PushStore

enum OutcomeSchema {
  /// `high` and `low` are those of a run, or of the seed of a campaign.
  static let tables = """
    CREATE TABLE outcomeCounts (app TEXT PRIMARY KEY NOT NULL, last INTEGER NOT NULL) STRICT, WITHOUT ROWID;

    CREATE TABLE outcomes (
      app TEXT NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL,
      isBridge INTEGER NOT NULL, high INTEGER NOT NULL, low INTEGER NOT NULL, campaignHigh INTEGER,
      campaignLow INTEGER, state TEXT NOT NULL, detail TEXT NOT NULL, entries BLOB NOT NULL, UNIQUE (app, last)
    ) STRICT;
    CREATE INDEX outcomesByTime ON outcomes (at);
    CREATE INDEX batchPartsByRun ON batchParts (runHigh, runLow, first);
    """

  /// Through which outcome receivers have them.
  static let deliveries = """
    CREATE TABLE deliveries (app TEXT PRIMARY KEY NOT NULL, delivered INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    """
}

extension SQLiteStore {
  /// Groups of one read.
  private static let groupLimit = 256
  /// Rows of some ten kilobytes.
  private static let portion = 200

  package func outcomeGroups(app: String, after number: Int64, limit: Int) async throws(StoreError) -> [OutcomeGroup] {
    try await read { database in
      let rows = try Row.fetchCursor(
        database.cachedStatement(
          sql: "SELECT * FROM outcomes WHERE app = ? AND last > ? ORDER BY last LIMIT \(Self.groupLimit)"),
        arguments: [app, number])
      var (found, count): ([OutcomeGroup], Int) = ([], 0)
      while count < limit, let row = try rows.next() {
        let group = OutcomeGroup(row)
        count += group.count
        found.append(group)
      }
      return found
    }
  }

  package func outcomeProgress(app: String) async throws(StoreError) -> OutcomeProgress {
    try await read { database in
      func number(_ sql: String) throws -> Int64 { try Int64.fetchOne(database, sql: sql, arguments: [app]) ?? 0 }
      return OutcomeProgress(
        last: try number("SELECT last FROM outcomeCounts WHERE app = ?"),
        delivered: try number("SELECT delivered FROM deliveries WHERE app = ?"))
    }
  }

  package func noteDelivered(_ numbers: [String: Int64]) async throws(StoreError) {
    try await writer.write { database in
      let note = try database.cachedStatement(
        sql: """
          INSERT INTO deliveries VALUES (?, ?)
          ON CONFLICT DO UPDATE SET delivered = max(delivered, excluded.delivered)
          """)
      for (app, number) in numbers { try note.execute(arguments: [app, number]) }
    }
  }

  package func labels(of parts: [StoredLines]) async throws(StoreError) -> NotificationLabels {
    try await read { database in
      var labels = NotificationLabels()
      let references = try database.cachedStatement(
        sql: "SELECT line, reference FROM notificationReferences WHERE high = ? AND low = ? AND line BETWEEN ? AND ?")
      // The parts of batches do not overlap, so only the last that begins before the first line can
      // reach it.
      let batches = try database.cachedStatement(
        sql: """
          SELECT high, low, first, last FROM batchParts
          WHERE runHigh = ?1 AND runLow = ?2 AND first <= ?4 AND last >= ?3 AND first >= coalesce(
            (SELECT max(first) FROM batchParts WHERE runHigh = ?1 AND runLow = ?2 AND first <= ?3), 0)
          """)
      for part in parts {
        let (first, last) = (Int64(part.lines.lowerBound), Int64(part.lines.upperBound))
        let arguments: StatementArguments = [part.run.high.stored, Int64(part.run.low), first, last]
        for row in try Row.fetchAll(references, arguments: arguments) {
          labels.references[StoredNotificationID(run: part.run, line: UInt32(clamping: row[0] as Int64))] = row[1]
        }
        for row in try Row.fetchAll(batches, arguments: arguments) {
          let (first, last): (Int64, Int64) = (row[2], row[3])
          let lines = StoredLines(run: part.run, lines: UInt32(clamping: first)...UInt32(clamping: max(first, last)))
          let (high, low): (Int64, Int64) = (row[0], row[1])
          let id = StoredUUID(high: UInt64(bitPattern: high), low: UInt64(bitPattern: low))
          labels.batches.append((lines: lines, batch: id))
        }
      }
      return labels
    }
  }

  func forgetOutcomes(before instant: StoreInstant) async throws(StoreError) {
    try await writer.delete(
      "outcomes WHERE rowid IN (SELECT rowid FROM outcomes WHERE at < ? LIMIT ?)", [instant.milliseconds],
      portion: Self.portion)
  }
}

extension Database {
  func add(_ group: OutcomeGroup) throws {
    let count = try cachedStatement(
      sql: """
        INSERT INTO outcomeCounts VALUES (?, ?) ON CONFLICT DO UPDATE SET last = last + excluded.last RETURNING last
        """)
    let last = try Int64.fetchOne(count, arguments: [group.app, group.count])
    let (isBridge, high, low, campaign): (Bool, Int64, Int64, StoredUUID?) =
      switch group.origin {
      case .run(let run, let isBridge): (isBridge, run.high.stored, Int64(run.low), nil)
      case .campaign(let id, let seed): (false, seed.high.stored, seed.low.stored, id)
      }
    try cachedStatement(sql: "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)").execute(
      arguments: [
        group.app, last, group.count, group.at.milliseconds, isBridge, high, low, campaign?.high.stored,
        campaign?.low.stored, group.state, group.detail, Data(group.entries),
      ])
  }
}

extension OutcomeGroup {
  fileprivate init(_ row: Row) {
    let (high, low): (Int64, Int64) = (row["high"], row["low"])
    let origin: Origin
    if let campaignHigh = row["campaignHigh"] as Int64?, let campaignLow = row["campaignLow"] as Int64? {
      origin = .campaign(
        StoredUUID(high: UInt64(bitPattern: campaignHigh), low: UInt64(bitPattern: campaignLow)),
        seed: StoredUUID(high: UInt64(bitPattern: high), low: UInt64(bitPattern: low)))
    } else {
      origin = .run(StoredRunID(storedHigh: high, low: low), isBridge: row["isBridge"])
    }
    self.init(
      app: row["app"], origin: origin, state: row["state"], detail: row["detail"],
      at: StoreInstant(milliseconds: row["at"]), count: row["count"], entries: (row["entries"] as Blob).bytes)
    last = row["last"]
  }
}
