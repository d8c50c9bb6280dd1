internal import Foundation
internal import GRDB
package import PushStore
internal import Synchronization

extension SQLiteStore {
  package func write(_ changes: IntakeChanges) throws(StoreError) {
    try writes.withLock { count throws(StoreError) in
      let next = count + 1
      try writeNow { database in
        try OutcomeWriter(database, path: path).write(changes)
        try database.cachedStatement(sql: "UPDATE writes SET count = ?").execute(arguments: [next])
      }
      count = next
    }
  }

  package var writeCount: Int64 { writes.withLock { $0 } }

  package func notification(_ id: StoredNotificationID) async throws(StoreError) -> StoredNotification {
    let (high, low, line) = (id.run.high.stored, Int64(id.run.low), Int64(id.line))
    return try await read { database in
      var found = StoredNotification()
      found.reference = try String.fetchOne(
        database.cachedStatement(
          sql: "SELECT reference FROM notificationReferences WHERE high = ? AND low = ? AND line = ?"),
        arguments: [high, low, line])
      let run = try Row.fetchOne(
        database.cachedStatement(sql: "SELECT number, app FROM runs WHERE high = ? AND low = ?"),
        arguments: [high, low])
      guard let run else { return found }
      let (number, app): (Int64, String) = (run["number"], run["app"])
      found.isDoubted =
        try Bool.fetchOne(
          database.cachedStatement(
            sql: "SELECT EXISTS (SELECT 1 FROM copies WHERE run = ? AND first <= ?2 AND last >= ?2)"),
          arguments: [number, line]) ?? false
      // What was sent again after a crash may have both: it was accepted then.
      let confirmation = try String.fetchOne(
        database.cachedStatement(
          sql: """
            SELECT confirmation FROM (
              SELECT last, confirmation FROM accepted WHERE run = ? AND first <= ? ORDER BY first DESC LIMIT 1
            ) WHERE last >= ?
            """),
        arguments: [number, line, line])
      if let confirmation {
        found.outcome = StoredOutcome(state: "accepted", detail: confirmation, app: app)
        return found
      }
      found.outcome = try Row.fetchOne(
        database.cachedStatement(sql: "SELECT state, detail FROM notAccepted WHERE run = ? AND line = ?"),
        arguments: [number, line]
      ).map { StoredOutcome(state: $0["state"], detail: $0["detail"], app: app) }
      return found
    }
  }

  package func batch(_ id: StoredUUID) async throws(StoreError) -> StoredBatch? {
    let key: StatementArguments = [id.high.stored, id.low.stored]
    return try await read { database in
      guard
        let row = try Row.fetchOne(database, sql: "SELECT * FROM batches WHERE high = ? AND low = ?", arguments: key)
      else { return nil }
      let parts = try Row.fetchAll(
        database, sql: "SELECT * FROM batchParts WHERE high = ? AND low = ? ORDER BY part", arguments: key)
      return StoredBatch(
        id: id, app: row["app"], parts: parts.map(StoredLines.init), rejectedCount: row["rejectedCount"],
        createdAt: StoreInstant(milliseconds: row["createdAt"]))
    }
  }

  package func outcomes(of parts: [StoredLines]) async throws(StoreError) -> OutcomeCounts {
    try await read { database in
      var counts = OutcomeCounts()
      for part in parts { try counts.add(part, database) }
      return counts
    }
  }

  package func goneDevices(
    app: String, after cursor: Int64, limit: Int
  ) async throws(StoreError) -> [StoredGoneDevice] {
    try await read { database in
      try Row.fetchAll(
        database, sql: "SELECT * FROM gone WHERE app = ? AND number > ? ORDER BY number LIMIT ?",
        arguments: [app, cursor, limit]
      ).map(StoredGoneDevice.init)
    }
  }

  package func forget(endedBefore instant: StoreInstant) async throws(StoreError) {
    // A run with millions of rows would hold the writer up: its rows go first, in portions.
    let runs = try await read { database in
      try Int64.fetchAll(database, sql: "SELECT number FROM runs WHERE endedAt < ?", arguments: [instant.milliseconds])
    }
    for run in runs {
      for (table, key) in [("accepted", "first"), ("notAccepted", "line"), ("copies", "first")] {
        // Several ranges of copies may begin with the same line.
        try await writer.delete(
          "\(table) WHERE run = ?1 AND \(key) IN (SELECT \(key) FROM \(table) WHERE run = ?1 LIMIT ?2)", [run],
          portion: 5_000)
      }
      try await execute("DELETE FROM runs WHERE number = ?", [run])
    }
    try await forgetReferences(begunBefore: instant)
    try await forgetOutcomes(before: instant)
    // A batch can be asked for as long as one of its runs.
    try await execute(
      """
      DELETE FROM batches WHERE createdAt < ? AND NOT EXISTS (
        SELECT 1 FROM batchParts AS part JOIN runs ON runs.high = part.runHigh AND runs.low = part.runLow
        WHERE part.high = batches.high AND part.low = batches.low)
      """, [instant.milliseconds])
  }

  package func endRuns(except open: Set<StoredRunID>, at instant: StoreInstant) async throws(StoreError) {
    try await writer.write { database in
      let rows = try Row.fetchAll(database, sql: "SELECT number, high, low FROM runs WHERE endedAt IS NULL")
      let end = try database.cachedStatement(sql: "UPDATE runs SET endedAt = ? WHERE number = ?")
      for row in rows {
        let run = StoredRunID(storedHigh: row["high"], low: row["low"])
        if !open.contains(run) { try end.execute(arguments: [instant.milliseconds, row["number"] as Int64]) }
      }
    }
  }
}

extension OutcomeCounts {
  fileprivate mutating func add(_ part: StoredLines, _ database: Database) throws {
    guard let run = try part.run.number(in: database) else { return }
    let (first, last) = (Int64(part.lines.lowerBound), Int64(part.lines.upperBound))
    let ranges = try Row.fetchCursor(
      database,
      sql: """
        SELECT first, last, confirmation FROM accepted
        WHERE run = ?1 AND first <= ?3 AND first >= coalesce(
          (SELECT max(first) FROM accepted WHERE run = ?1 AND first <= ?2), 0)
        ORDER BY first
        """, arguments: [run, first, last])
    while let row = try ranges.next() {
      let (from, to) = (max(row["first"] as Int64, first), min(row["last"] as Int64, last))
      if from <= to { accepted[row["confirmation"], default: 0] += Int(to - from + 1) }
    }
    let rows = try Row.fetchCursor(
      database,
      sql: """
        SELECT state, detail, count(*) AS number FROM notAccepted AS entry
        WHERE run = ?1 AND line BETWEEN ?2 AND ?3 AND NOT EXISTS (
          SELECT 1 FROM accepted WHERE run = ?1 AND first <= entry.line AND last >= entry.line)
        GROUP BY state, detail
        """, arguments: [run, first, last])
    while let row = try rows.next() { others[row["state"], default: [:]][row["detail"], default: 0] += row["number"] }
    try addDoubted(run: run, lines: first...last, database)
  }
}

extension StoredLines {
  fileprivate init(_ row: Row) {
    let run = StoredRunID(storedHigh: row["runHigh"], low: row["runLow"])
    let (first, last): (Int64, Int64) = (row["first"], row["last"])
    self.init(run: run, lines: UInt32(clamping: first)...UInt32(clamping: max(first, last)))
  }
}

extension StoredGoneDevice {
  init(_ row: Row) {
    self.init(
      app: row["app"], token: Array(row["token"] as Data),
      since: (row["since"] as Int64?).map(StoreInstant.init(milliseconds:)),
      foundAt: StoreInstant(milliseconds: row["foundAt"]))
    number = row["number"]
  }
}

/// Writes the intake's changes within a transaction.
struct OutcomeWriter {
  let database: Database
  private var numbers: [StoredRunID: Int64] = [:]

  private let path: String

  init(_ database: Database, path: String) { (self.database, self.path) = (database, path) }

  func write(_ changes: IntakeChanges) throws {
    var writer = self
    try writer.writeAll(changes)
  }

  private mutating func writeAll(_ changes: IntakeChanges) throws {
    let begin = try database.cachedStatement(
      sql: "INSERT INTO runs (high, low, app, beganAt) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET endedAt = NULL")
    for entry in changes.began {
      try begin.execute(arguments: [entry.run.high.stored, Int64(entry.run.low), entry.app, entry.at.milliseconds])
    }
    for entry in changes.references { try database.add(entry.text, to: entry.notification) }
    for batch in changes.batches { try database.add(batch) }
    for entry in changes.accepted { try writeAccepted(entry.run, entry.lines, entry.confirmation) }
    for entry in changes.doubted { try write(entry) }
    let refuse = try database.cachedStatement(
      sql: """
        INSERT INTO notAccepted (run, line, state, detail) VALUES (?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET state = excluded.state, detail = excluded.detail
        """)
    for entry in changes.notAccepted {
      try refuse.execute(
        arguments: [
          try number(of: entry.notification.run), Int64(entry.notification.line), entry.state, entry.detail,
        ])
    }
    let add = try database.cachedStatement(sql: "INSERT INTO gone (app, token, since, foundAt) VALUES (?, ?, ?, ?)")
    let suppress = try database.cachedStatement(
      sql: """
        UPDATE devices SET goneAt = max(coalesce(goneAt, ?1), ?1)
        WHERE app = (SELECT number FROM deviceNames WHERE name = ?2) AND token = ?3
        """)
    for entry in changes.gone {
      let at = (entry.since ?? entry.foundAt).milliseconds
      try add.execute(arguments: [entry.app, Data(entry.token), entry.since?.milliseconds, entry.foundAt.milliseconds])
      try suppress.execute(arguments: [at, entry.app, Data(entry.token)])
      try database.forgetActivities(of: entry.token, app: entry.app, until: at)
    }
    for group in changes.passed.groups + changes.outcomes.groups { try database.add(group) }
    if !changes.bridge.isEmpty { try BridgeWriter(database: database).write(changes.bridge) }
    let end = try database.cachedStatement(sql: "UPDATE runs SET endedAt = ? WHERE high = ? AND low = ?")
    for entry in changes.ended {
      try end.execute(arguments: [entry.at.milliseconds, entry.run.high.stored, Int64(entry.run.low)])
    }
  }

  /// Ranges never overlap: after a crash, the first time that a notification was sent counts.
  private mutating func writeAccepted(_ id: StoredRunID, _ lines: ClosedRange<UInt32>, _ confirmation: String) throws {
    let run = try number(of: id)
    let insert = try database.cachedStatement(
      sql: "INSERT INTO accepted (run, first, last, confirmation) VALUES (?, ?, ?, ?)")
    let next = try database.cachedStatement(
      sql: "SELECT first, last FROM accepted WHERE run = ? AND first <= ? ORDER BY first DESC LIMIT 1")
    // From the end: what lies before the range found is looked at next.
    var last = Int64(lines.upperBound)
    let first = Int64(lines.lowerBound)
    while first <= last {
      let found = try Row.fetchOne(next, arguments: [run, last])
      let (from, to): (Int64, Int64) = found.map { ($0["first"], $0["last"]) } ?? (0, 0)
      let start = max(first, to + 1)
      if start <= last { try insert.execute(arguments: [run, start, last, confirmation]) }
      guard to >= first else { return }
      last = from - 1
    }
  }

  mutating func number(of run: StoredRunID) throws -> Int64 {
    if let number = numbers[run] { return number }
    guard let number = try run.number(in: database) else {
      throw StoreError(.unusable, path: path, "a run of notifications is missing in the store")
    }
    numbers[run] = number
    return number
  }
}
