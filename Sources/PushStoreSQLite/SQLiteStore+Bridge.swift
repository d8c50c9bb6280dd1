internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  package func forwardedFrames(since instant: StoreInstant) async throws(StoreError) -> [RememberedFrames] {
    try await read { database in
      let rows = try Row.fetchAll(
        database,
        sql: """
          SELECT f.*, e.at AS connectionEnd, e.fromFrame, e.recentFrom, e.lastSign, r.endedAt FROM bridgeFrames f
          LEFT JOIN bridgeEnds e ON e.connection = f.connection \(Self.runOfFrames)
          WHERE NOT \(Self.isOver) ORDER BY f.app, f.client, f.position
          """, arguments: ["instant": instant.milliseconds])
      return try rows.map { row in
        var found = RememberedFrames(frames: ForwardedFrames(row))
        if let at = row["connectionEnd"] as Int64? {
          found.end = EndedConnection(
            connection: found.frames.connection, from: (row["fromFrame"] as Int64?).map { UInt64(clamping: $0) },
            recentFrom: (row["recentFrom"] as Int64?).map { UInt64(clamping: $0) },
            at: StoreInstant(milliseconds: at),
            lastSign: (row["lastSign"] as Int64?).map(StoreInstant.init(milliseconds:)))
        }
        found.answeredBy = (row["endedAt"] as Int64?).map(StoreInstant.init(milliseconds:))
        try found.addOutcomes(database)
        return found
      }
    }
  }

  private static let runOfFrames = "LEFT JOIN runs r ON r.high = f.runHigh AND r.low = f.runLow"
  /// All answers are older than the instant. Without its run nothing is known but the arrival.
  private static let isOver = """
    (f.at < :instant AND (r.number IS NULL OR r.endedAt IS NOT NULL AND r.endedAt < :instant))
    """

  package func alreadyDelivered(app: String) async throws(StoreError) -> (count: Int, last: StoreInstant?) {
    try await read { database in
      let row = try Row.fetchOne(
        database, sql: "SELECT alreadyDelivered, alreadyDeliveredAt FROM bridgeApps WHERE app = ?", arguments: [app])
      guard let row else { return (0, nil) }
      return (row["alreadyDelivered"], (row["alreadyDeliveredAt"] as Int64?).map(StoreInstant.init(milliseconds:)))
    }
  }

  package func bridgeLife() async throws(StoreError) -> BridgeLife? {
    try await read { database in
      let row = try Row.fetchOne(
        database,
        sql: """
          SELECT max(at) AS at, max(pause) AS pause FROM (
            SELECT max(at) AS at, 0 AS pause FROM bridgeFrames UNION ALL SELECT at, pause FROM bridgeLife)
          """)
      guard let row, let at = row["at"] as Int64? else { return nil }
      return BridgeLife(lastSign: StoreInstant(milliseconds: at), pause: row["pause"])
    }
  }

  package func undeliveredFeedback(
    app: String, after number: Int64, through last: Int64, limit: Int
  ) async throws(StoreError) -> [StoredGoneDevice] {
    try await read { database in
      try Row.fetchAll(
        database,
        sql: """
          SELECT g.* FROM gone g WHERE g.app = ?1 AND g.number > ?2 AND g.number <= ?3 AND NOT EXISTS (
            SELECT 1 FROM gone later INDEXED BY goneByToken
            WHERE later.app = g.app AND later.token = g.token AND later.number > g.number AND later.number <= ?3)
          AND NOT EXISTS (
            SELECT 1 FROM devices d JOIN deviceNames n ON n.number = d.app
            WHERE n.name = g.app AND d.token = g.token AND d.registeredAt > coalesce(g.since, g.foundAt))
          ORDER BY g.number LIMIT ?4
          """, arguments: [app, number, last, limit]
      ).map(StoredGoneDevice.init)
    }
  }

  package func lastFeedback(app: String) async throws(StoreError) -> Int64 {
    try await read { database in
      try Int64.fetchOne(database, sql: "SELECT max(number) FROM gone WHERE app = ?", arguments: [app]) ?? 0
    }
  }

  package func feedbackCursor(app: String) async throws(StoreError) -> Int64 {
    try await read { database in
      try Int64.fetchOne(database, sql: "SELECT feedbackCursor FROM bridgeApps WHERE app = ?", arguments: [app]) ?? 0
    }
  }

  package func setFeedbackCursor(app: String, to number: Int64) async throws(StoreError) {
    try await execute(
      """
      INSERT INTO bridgeApps (app, feedbackCursor) VALUES (?, ?)
      ON CONFLICT DO UPDATE SET feedbackCursor = max(feedbackCursor, excluded.feedbackCursor)
      """, [app, number])
  }

  package func forgetForwarded(before instant: StoreInstant, life: BridgeLife?) async throws(StoreError) {
    try await writer.write { database in
      if let life {
        try database.execute(
          sql: """
            INSERT INTO bridgeLife (number, at, pause) VALUES (1, ?, ?)
            ON CONFLICT DO UPDATE SET at = max(at, excluded.at), pause = excluded.pause
            """, arguments: [life.lastSign.milliseconds, life.pause])
      }
      try database.execute(
        sql: """
          DELETE FROM bridgeFrames WHERE at < :instant AND (app, client, position) IN (
            SELECT f.app, f.client, f.position FROM bridgeFrames f INDEXED BY bridgeFramesByTime \(Self.runOfFrames)
            WHERE \(Self.isOver))
          """, arguments: ["instant": instant.milliseconds])
      // Frames without the end of their connection would count as sent again.
      try database.execute(
        sql: "DELETE FROM bridgeEnds WHERE at < ? AND connection NOT IN (SELECT connection FROM bridgeFrames)",
        arguments: [instant.milliseconds])
    }
  }
}

/// Writes the bridge's changes within a transaction.
struct BridgeWriter {
  let database: Database

  func write(_ changes: BridgeChanges) throws {
    let insert = try database.cachedStatement(
      sql: """
        INSERT OR REPLACE INTO bridgeFrames
        (app, client, position, connection, firstFrame, runHigh, runLow, firstLine, count, at, digests,
         isRecognised)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """)
    let trim = try database.cachedStatement(
      sql: "DELETE FROM bridgeFrames WHERE app = ? AND client = ? AND position < ?")
    for entry in changes.forwarded {
      try insert.execute(
        arguments: [
          entry.app, entry.client, entry.position, entry.connection.stored, Int64(clamping: entry.firstFrame),
          entry.run.high.stored, Int64(entry.run.low), Int64(entry.firstLine), entry.count, entry.at.milliseconds,
          Data(entry.digests), entry.isRecognised,
        ])
      let oldest = entry.position - Int64(changes.countLimit)
      if oldest > 0 { try trim.execute(arguments: [entry.app, entry.client, oldest]) }
    }
    let end = try database.cachedStatement(
      sql: "INSERT OR REPLACE INTO bridgeEnds (connection, fromFrame, recentFrom, at, lastSign) VALUES (?, ?, ?, ?, ?)")
    for entry in changes.ended {
      try end.execute(
        arguments: [
          entry.connection.stored, entry.from.map { Int64(clamping: $0) },
          entry.recentFrom.map { Int64(clamping: $0) }, entry.at.milliseconds, entry.lastSign?.milliseconds,
        ])
    }
    for (app, found) in changes.alreadyDelivered {
      try database.execute(
        sql: """
          INSERT INTO bridgeApps (app, alreadyDelivered, alreadyDeliveredAt) VALUES (?, ?, ?)
          ON CONFLICT DO UPDATE SET alreadyDelivered = alreadyDelivered + excluded.alreadyDelivered,
          alreadyDeliveredAt = max(coalesce(alreadyDeliveredAt, 0), excluded.alreadyDeliveredAt)
          """, arguments: [app, found.count, found.last.milliseconds])
    }
  }
}

extension ForwardedFrames {
  fileprivate init(_ row: Row) {
    self.init(
      app: row["app"], client: row["client"], position: row["position"],
      connection: UInt64(bitPattern: row["connection"]), firstFrame: UInt64(clamping: row["firstFrame"] as Int64),
      run: StoredRunID(storedHigh: row["runHigh"], low: row["runLow"]),
      firstLine: UInt32(truncatingIfNeeded: row["firstLine"] as Int64), digests: Array(row["digests"] as Data),
      at: StoreInstant(milliseconds: row["at"]), isRecognised: row["isRecognised"])
  }
}

extension RememberedFrames {
  fileprivate mutating func addOutcomes(_ database: Database) throws {
    guard let run = try frames.run.number(in: database), frames.count > 0 else { return }
    let first = Int64(frames.firstLine)
    let last = first + Int64(frames.count) - 1
    let accepted = try Row.fetchAll(
      database,
      sql: """
        SELECT first, last FROM accepted WHERE run = ?1 AND first <= ?3 AND last >= ?2 AND first >= coalesce(
          (SELECT max(first) FROM accepted WHERE run = ?1 AND first <= ?2), 0)
        """, arguments: [run, first, last])
    acceptedLines = accepted.map { row in
      let (from, to): (Int64, Int64) = (row["first"], row["last"])
      return UInt32(clamping: from)...UInt32(clamping: max(from, to))
    }
    let others = try Row.fetchAll(
      database, sql: "SELECT line, state, detail FROM notAccepted WHERE run = ? AND line BETWEEN ? AND ?",
      arguments: [run, first, last])
    for row in others {
      notAccepted[UInt32(truncatingIfNeeded: row["line"] as Int64)] = StoredOutcome(
        state: row["state"], detail: row["detail"], app: frames.app)
    }
  }
}
