internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  /// The columns of a head, in this order. None of them can be large.
  private static let headColumns = """
    high, low, app, state, version, name, isForDevices, isDryRun, beginsAt, lastBeginsAt, reason, isDoubtful,
    lineCount, byteCount, isComplete, format, createdAt, changedAt, startedAt, endedAt, lastKey, audienceCount,
    planByteCount, cutKey
    """

  package func add(_ campaign: StoredCampaign, openLimit: Int) async throws(StoreError) -> Bool {
    let head = campaign.head
    return try await writer.write { database in
      if try Self.head(head.id, database) != nil { return true }
      let count = try Int.fetchOne(
        database, sql: "SELECT count(*) FROM campaigns WHERE app = ? AND endedAt IS NULL", arguments: [head.app])
      guard count ?? 0 < openLimit else { return false }
      try database.execute(
        sql: """
          INSERT INTO campaigns (\(Self.headColumns))
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
          """,
        arguments: [
          head.id.high.stored, head.id.low.stored, head.app, head.state, head.version, head.summary.name,
          head.summary.isForDevices ? 1 : 0, head.summary.isDryRun ? 1 : 0, head.summary.beginsAt?.milliseconds,
          head.summary.lastBeginsAt?.milliseconds, head.reason, head.isDoubtful ? 1 : 0, head.upload.lineCount,
          head.upload.byteCount, head.upload.isComplete ? 1 : 0, head.upload.format, head.createdAt.milliseconds,
          head.changedAt.milliseconds, head.startedAt?.milliseconds, head.endedAt?.milliseconds, head.lastKey,
          head.audienceCount, campaign.content.count, head.cutKey,
        ])
      try database.execute(
        sql: "INSERT INTO campaignPlans (high, low, content) VALUES (?, ?, ?)",
        arguments: [head.id.high.stored, head.id.low.stored, Data(campaign.content)])
      return true
    }
  }

  package func campaign(_ id: StoredUUID) async throws(StoreError) -> StoredCampaign? {
    try await read { database in
      guard let head = try Self.head(id, database), let content = try Self.plan(id, database) else { return nil }
      return StoredCampaign(head: head, content: content)
    }
  }

  package func campaignHead(_ id: StoredUUID) async throws(StoreError) -> CampaignHead? {
    try await read { try Self.head(id, $0) }
  }

  package func plan(of id: StoredUUID) async throws(StoreError) -> [UInt8]? { try await read { try Self.plan(id, $0) } }

  private static func head(_ id: StoredUUID, _ database: Database) throws -> CampaignHead? {
    try Row.fetchOne(
      database.cachedStatement(sql: "SELECT \(headColumns) FROM campaigns WHERE high = ? AND low = ?"),
      arguments: [id.high.stored, id.low.stored]
    ).map(CampaignHead.init)
  }

  private static func plan(_ id: StoredUUID, _ database: Database) throws -> [UInt8]? {
    try Data.fetchOne(
      database.cachedStatement(sql: "SELECT content FROM campaignPlans WHERE high = ? AND low = ?"),
      arguments: [id.high.stored, id.low.stored]
    ).map { Array($0) }
  }

  package func campaigns(
    app: String, before cursor: StoredUUID?, limit: Int
  ) async throws(StoreError) -> [CampaignHead] {
    try await heads(
      where: "app = ? AND (high, low) < (?, ?)",
      [app, cursor?.high.stored ?? .max, cursor?.low.stored ?? .max], limit: limit)
  }

  package func latestCampaigns(of apps: AppReach, limit: Int) async throws(StoreError) -> [CampaignHead] {
    let (condition, arguments) = Self.condition(apps)
    return try await heads(where: condition, arguments, limit: limit)
  }

  package func openCampaigns(
    of apps: AppReach, in states: [String]?, limit: Int?
  ) async throws(StoreError) -> [CampaignHead] {
    let (condition, arguments) = Self.openCondition(apps, states)
    return try await heads(where: condition, arguments, limit: limit ?? -1)
  }

  package func openCampaignCount(of apps: AppReach, in states: [String]) async throws(StoreError) -> Int {
    let (condition, arguments) = Self.openCondition(apps, states)
    return try await read { database in
      try Int.fetchOne(database, sql: "SELECT count(*) FROM campaigns WHERE \(condition)", arguments: arguments) ?? 0
    }
  }

  /// The newest first.
  private func heads(
    where condition: String, _ arguments: StatementArguments, limit: Int
  ) async throws(StoreError) -> [CampaignHead] {
    try await read { database in
      try Row.fetchAll(
        database.cachedStatement(
          sql: """
            SELECT \(Self.headColumns) FROM campaigns WHERE \(condition) ORDER BY high DESC, low DESC LIMIT ?
            """),
        arguments: arguments + [limit]
      ).map(CampaignHead.init)
    }
  }

  private static func openCondition(_ apps: AppReach, _ states: [String]?) -> (String, StatementArguments) {
    var (condition, arguments) = condition(apps)
    condition += " AND endedAt IS NULL"
    if let states {
      condition += " AND state IN (SELECT value FROM json_each(?))"
      arguments += [list(states)]
    }
    return (condition, arguments)
  }

  static func condition(_ apps: AppReach) -> (String, StatementArguments) {
    switch apps {
    case .all: ("TRUE", [])
    case .only(let apps): ("app IN (SELECT value FROM json_each(?))", [list(apps.sorted())])
    }
  }

  /// A list of any length as one argument.
  private static func list(_ texts: [String]) -> String {
    (try? JSONEncoder().encode(texts)).map { String(decoding: $0, as: UTF8.self) } ?? "[]"
  }

  package func update(_ campaign: StoredCampaign, from version: Int64) async throws(StoreError) -> Bool {
    let head = campaign.head
    return try await writer.write { database in
      try database.execute(
        sql: """
          UPDATE campaigns SET state = ?, version = ? + 1, name = ?, isForDevices = ?, isDryRun = ?, beginsAt = ?,
            lastBeginsAt = ?, reason = ?, lineCount = ?, byteCount = ?, isComplete = ?, format = ?, startedAt = ?,
            endedAt = ?, lastKey = ?, isDoubtful = ?, changedAt = ?, audienceCount = ?, planByteCount = ?
          WHERE high = ? AND low = ? AND version = ?
          """,
        arguments: [
          head.state, version, head.summary.name, head.summary.isForDevices ? 1 : 0, head.summary.isDryRun ? 1 : 0,
          head.summary.beginsAt?.milliseconds, head.summary.lastBeginsAt?.milliseconds, head.reason,
          head.upload.lineCount, head.upload.byteCount, head.upload.isComplete ? 1 : 0, head.upload.format,
          head.startedAt?.milliseconds, head.endedAt?.milliseconds, head.lastKey, head.isDoubtful ? 1 : 0,
          head.changedAt.milliseconds, head.audienceCount, campaign.content.count, head.id.high.stored,
          head.id.low.stored, version,
        ])
      guard database.changesCount == 1 else { return false }
      try database.execute(
        sql: "UPDATE campaignPlans SET content = ?1 WHERE high = ?2 AND low = ?3 AND content IS NOT ?1",
        arguments: [Data(campaign.content), head.id.high.stored, head.id.low.stored])
      return true
    }
  }

  package func forgetCampaigns(endedBefore instant: StoreInstant, limit: Int) async throws(StoreError) -> [StoredUUID] {
    try await forget(where: "endedAt < ? ORDER BY endedAt LIMIT ?", [instant.milliseconds, limit])
  }

  package func forgetCampaigns(
    in states: [String], unchangedSince instant: StoreInstant, limit: Int
  ) async throws(StoreError) -> [StoredUUID] {
    let marks = states.map { _ in "?" }.joined(separator: ", ")
    return try await forget(
      where: "endedAt IS NULL AND changedAt < ? AND state IN (\(marks)) LIMIT ?",
      [instant.milliseconds] + StatementArguments(states) + [limit])
  }

  private func forget(
    where condition: String, _ arguments: StatementArguments
  ) async throws(StoreError) -> [StoredUUID] {
    try await writer.write { database in
      let rows = try Row.fetchAll(
        database, sql: "SELECT high, low FROM campaigns WHERE \(condition)", arguments: arguments)
      let statement = try database.cachedStatement(sql: "DELETE FROM campaigns WHERE high = ? AND low = ?")
      for row in rows { try statement.execute(arguments: [row["high"] as Int64, row["low"] as Int64]) }
      return rows.map(StoredUUID.init)
    }
  }

  package func audienceByteCount(app: String, besides other: StoredUUID) async throws(StoreError) -> Int64 {
    try await read { database in
      try Int64.fetchOne(
        database, sql: "SELECT coalesce(sum(byteCount), 0) FROM campaigns WHERE app = ? AND (high, low) <> (?, ?)",
        arguments: [app, other.high.stored, other.low.stored]) ?? 0
    }
  }
}

extension StoredUUID {
  fileprivate init(_ row: Row) { self.init(high: UInt64(bitPattern: row["high"]), low: UInt64(bitPattern: row["low"])) }
}

extension CampaignHead {
  fileprivate init(_ row: Row) {
    self.init(
      id: StoredUUID(row), app: row["app"], state: row["state"],
      createdAt: StoreInstant(milliseconds: row["createdAt"]),
      changedAt: StoreInstant(milliseconds: row["changedAt"]))
    version = row["version"]
    summary.name = row["name"]
    summary.isForDevices = (row["isForDevices"] as Int64) != 0
    summary.isDryRun = (row["isDryRun"] as Int64) != 0
    summary.beginsAt = (row["beginsAt"] as Int64?).map(StoreInstant.init(milliseconds:))
    summary.lastBeginsAt = (row["lastBeginsAt"] as Int64?).map(StoreInstant.init(milliseconds:))
    reason = row["reason"]
    isDoubtful = (row["isDoubtful"] as Int64) != 0
    upload.lineCount = row["lineCount"]
    upload.byteCount = row["byteCount"]
    upload.isComplete = (row["isComplete"] as Int64) != 0
    upload.format = row["format"]
    startedAt = (row["startedAt"] as Int64?).map(StoreInstant.init(milliseconds:))
    endedAt = (row["endedAt"] as Int64?).map(StoreInstant.init(milliseconds:))
    lastKey = row["lastKey"]
    audienceCount = row["audienceCount"]
    planByteCount = row["planByteCount"]
    cutKey = row["cutKey"]
  }
}
