internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  package func add(_ parts: [StoredCampaignPart], of campaign: StoredUUID) async throws(StoreError) {
    try await writer.write { database in
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

  package func progress(of campaigns: [StoredUUID]) async throws(StoreError) -> [StoredUUID: [CampaignPartProgress]] {
    try await read { database in
      var found: [StoredUUID: [CampaignPartProgress]] = [:]
      // A statement has room for 32,766 arguments.
      for start in stride(from: 0, to: campaigns.count, by: 1000) {
        let some = campaigns[start..<min(start + 1000, campaigns.count)]
        let rows = try Row.fetchCursor(
          database,
          sql: """
            SELECT high, low, number, dueAt, begunAt, endedAt, account FROM campaignParts
            WHERE (high, low) IN (VALUES \(some.map { _ in "(?, ?)" }.joined(separator: ", "))) ORDER BY number
            """,
          arguments: StatementArguments(some.flatMap { [$0.high.stored, $0.low.stored] }))
        while let row = try rows.next() {
          let campaign = StoredUUID(high: UInt64(bitPattern: row["high"]), low: UInt64(bitPattern: row["low"]))
          found[campaign, default: []].append(CampaignPartProgress(row))
        }
      }
      return found
    }
  }

  package func begin(part number: Int, of campaign: StoredUUID, at instant: StoreInstant) async throws(StoreError) {
    try await execute(
      "UPDATE campaignParts SET begunAt = coalesce(begunAt, ?) WHERE high = ? AND low = ? AND number = ?",
      [instant.milliseconds, campaign.high.stored, campaign.low.stored, number])
  }

  package func renew(parts numbers: [Int], of campaign: StoredUUID) async throws(StoreError) {
    try await writer.write { database in
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
    try writeNow { database in
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

extension CampaignPartProgress {
  fileprivate init(_ row: Row) {
    self.init(number: row["number"], dueAt: StoreInstant(milliseconds: row["dueAt"]))
    begunAt = (row["begunAt"] as Int64?).map(StoreInstant.init(milliseconds:))
    account = (row["account"] as Data?).map { Array($0) }
    endedAt = (row["endedAt"] as Int64?).map(StoreInstant.init(milliseconds:))
  }
}
