internal import Foundation
internal import GRDB

extension SQLiteStore {
  package func add(_ campaign: StoredCampaign) async throws(StoreError) {
    try await write { database in
      try database.execute(
        sql: """
          INSERT INTO campaigns (high, low, app, state, version, content, reason, lineCount, byteCount, isComplete,
            format, createdAt, startedAt, endedAt, lastKey, isDoubtful, changedAt)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
          """,
        arguments: [
          campaign.id.high.stored, campaign.id.low.stored, campaign.app, campaign.state, campaign.version,
          Data(campaign.content), campaign.reason, campaign.upload.lineCount, campaign.upload.byteCount,
          campaign.upload.isComplete ? 1 : 0, campaign.upload.format, campaign.createdAt.milliseconds,
          campaign.startedAt?.milliseconds, campaign.endedAt?.milliseconds, campaign.lastKey,
          campaign.isDoubtful ? 1 : 0, campaign.changedAt.milliseconds,
        ])
    }
  }

  package func campaign(_ id: StoredUUID) async throws(StoreError) -> StoredCampaign? {
    try await read { database in
      try Row.fetchOne(
        database, sql: "SELECT * FROM campaigns WHERE high = ? AND low = ?", arguments: [id.high.stored, id.low.stored]
      ).map(StoredCampaign.init)
    }
  }

  package func campaigns(
    app: String, before cursor: StoredUUID?, limit: Int
  ) async throws(StoreError) -> [StoredCampaign] {
    try await read { database in
      try Row.fetchAll(
        database,
        sql: """
          SELECT * FROM campaigns WHERE app = ? AND (high, low) < (?, ?) ORDER BY high DESC, low DESC LIMIT ?
          """,
        arguments: [app, cursor?.high.stored ?? .max, cursor?.low.stored ?? .max, limit]
      ).map(StoredCampaign.init)
    }
  }

  package func latestCampaigns(limit: Int) async throws(StoreError) -> [StoredCampaign] {
    try await read { database in
      try Row.fetchAll(
        database, sql: "SELECT * FROM campaigns ORDER BY high DESC, low DESC LIMIT ?", arguments: [limit]
      ).map(StoredCampaign.init)
    }
  }

  package func openCampaigns() async throws(StoreError) -> [StoredCampaign] {
    try await read { database in
      try Row.fetchAll(database, sql: "SELECT * FROM campaigns WHERE endedAt IS NULL ORDER BY high, low")
        .map(StoredCampaign.init)
    }
  }

  package func update(_ campaign: StoredCampaign, from version: Int64) async throws(StoreError) -> Bool {
    try await write { database in
      try database.execute(
        sql: """
          UPDATE campaigns SET state = ?, version = ? + 1, content = ?, reason = ?, lineCount = ?, byteCount = ?,
            isComplete = ?, format = ?, startedAt = ?, endedAt = ?, lastKey = ?, isDoubtful = ?, changedAt = ?
          WHERE high = ? AND low = ? AND version = ?
          """,
        arguments: [
          campaign.state, version, Data(campaign.content), campaign.reason, campaign.upload.lineCount,
          campaign.upload.byteCount, campaign.upload.isComplete ? 1 : 0, campaign.upload.format,
          campaign.startedAt?.milliseconds, campaign.endedAt?.milliseconds, campaign.lastKey,
          campaign.isDoubtful ? 1 : 0, campaign.changedAt.milliseconds, campaign.id.high.stored,
          campaign.id.low.stored, version,
        ])
      return database.changesCount == 1
    }
  }

  package func add(_ parts: [StoredCampaignPart], of campaign: StoredUUID) async throws(StoreError) {
    try await write { database in
      let statement = try database.cachedStatement(
        sql: """
          INSERT INTO campaignParts (high, low, number, dueAt, content, account, endedAt)
          VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
          """)
      for part in parts {
        try statement.execute(
          arguments: [
            campaign.high.stored, campaign.low.stored, part.number, part.dueAt.milliseconds, Data(part.content),
            part.account.map { Data($0) }, part.endedAt?.milliseconds,
          ])
      }
    }
  }

  package func parts(of campaign: StoredUUID) async throws(StoreError) -> [StoredCampaignPart] {
    try await read { database in
      try Row.fetchAll(
        database, sql: "SELECT * FROM campaignParts WHERE high = ? AND low = ? ORDER BY number",
        arguments: [campaign.high.stored, campaign.low.stored]
      ).map(StoredCampaignPart.init)
    }
  }

  package func begin(
    part number: Int, of campaign: StoredUUID, at instant: StoreInstant
  ) async throws(StoreError) {
    try await write { database in
      try database.execute(
        sql: "UPDATE campaignParts SET begunAt = coalesce(begunAt, ?) WHERE high = ? AND low = ? AND number = ?",
        arguments: [instant.milliseconds, campaign.high.stored, campaign.low.stored, number])
    }
  }

  package func renew(parts numbers: [Int], of campaign: StoredUUID) async throws(StoreError) {
    try await write { database in
      for number in numbers {
        try database.execute(
          sql: """
            UPDATE campaignParts SET begunAt = NULL WHERE high = ? AND low = ? AND number = ? AND endedAt IS NULL
            """,
          arguments: [campaign.high.stored, campaign.low.stored, number])
      }
    }
  }

  package func end(_ parts: [EndedCampaignPart]) throws(StoreError) {
    do {
      try pool.write { database in
        let statement = try database.cachedStatement(
          sql: "UPDATE campaignParts SET account = ?, endedAt = ? WHERE high = ? AND low = ? AND number = ?")
        for part in parts {
          try statement.execute(
            arguments: [
              Data(part.account), part.endedAt.milliseconds, part.campaign.high.stored, part.campaign.low.stored,
              part.number,
            ])
        }
      }
    } catch {
      throw StoreError(error, path: path)
    }
  }

  package func forgetCampaigns(
    endedBefore instant: StoreInstant, limit: Int
  ) async throws(StoreError) -> [StoredUUID] {
    try await forget(
      where: "endedAt < ? ORDER BY endedAt LIMIT ?", [instant.milliseconds, limit])
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
    try await write { database in
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
        database,
        sql: "SELECT coalesce(sum(byteCount), 0) FROM campaigns WHERE app = ? AND (high, low) <> (?, ?)",
        arguments: [app, other.high.stored, other.low.stored]) ?? 0
    }
  }
}

extension StoredUUID {
  fileprivate init(_ row: Row) {
    self.init(high: UInt64(bitPattern: row["high"]), low: UInt64(bitPattern: row["low"]))
  }
}

extension StoredCampaign {
  fileprivate init(_ row: Row) {
    self.init(
      id: StoredUUID(row), app: row["app"], state: row["state"], content: Array(row["content"] as Data),
      createdAt: StoreInstant(milliseconds: row["createdAt"]))
    version = row["version"]
    reason = row["reason"]
    isDoubtful = (row["isDoubtful"] as Int64) != 0
    changedAt = StoreInstant(milliseconds: row["changedAt"])
    upload.lineCount = row["lineCount"]
    upload.byteCount = row["byteCount"]
    upload.isComplete = (row["isComplete"] as Int64) != 0
    upload.format = row["format"]
    startedAt = (row["startedAt"] as Int64?).map(StoreInstant.init(milliseconds:))
    endedAt = (row["endedAt"] as Int64?).map(StoreInstant.init(milliseconds:))
    lastKey = row["lastKey"]
  }
}

extension StoredCampaignPart {
  fileprivate init(_ row: Row) {
    self.init(
      number: row["number"], dueAt: StoreInstant(milliseconds: row["dueAt"]), content: Array(row["content"] as Data))
    begunAt = (row["begunAt"] as Int64?).map(StoreInstant.init(milliseconds:))
    account = (row["account"] as Data?).map { Array($0) }
    endedAt = (row["endedAt"] as Int64?).map(StoreInstant.init(milliseconds:))
  }
}
