internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  package func cut(
    _ campaign: StoredUUID, from key: Int64, through end: Int64, adding pieces: [MemberPiece]
  ) async throws(StoreError) -> Bool {
    try await writer.write(isBulk: true) { database in
      try database.cachedStatement(sql: "UPDATE campaigns SET cutKey = ? WHERE high = ? AND low = ? AND cutKey = ?")
        .execute(arguments: [end, campaign.high.stored, campaign.low.stored, key])
      guard database.changesCount == 1 else { return false }
      let statement = try database.cachedStatement(
        sql: """
          INSERT INTO campaignMembers (high, low, part, firstKey, lastKey, count, keys) VALUES (?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT DO NOTHING
          """)
      for piece in pieces {
        try statement.execute(arguments: [
          campaign.high.stored, campaign.low.stored, piece.part, piece.first, piece.last, piece.keys.count,
          Data(piece.bytes),
        ])
      }
      return true
    }
  }

  package func removeMembers(of campaign: StoredUUID) async throws(StoreError) {
    try await writer.write(isBulk: true) { database in
      let id: StatementArguments = [campaign.high.stored, campaign.low.stored]
      try database.execute(sql: "DELETE FROM campaignMembers WHERE high = ? AND low = ?", arguments: id)
      try database.execute(sql: "UPDATE campaigns SET cutKey = 0 WHERE high = ? AND low = ?", arguments: id)
    }
  }

  package func members(of campaign: StoredUUID, part: Int, after key: Int64) async throws(StoreError) -> [Int64] {
    let bytes = try await read { database in
      try Data.fetchOne(
        database.cachedStatement(
          sql: """
            SELECT keys FROM campaignMembers WHERE high = ? AND low = ? AND part = ? AND lastKey > ?
            ORDER BY lastKey LIMIT 1
            """), arguments: [campaign.high.stored, campaign.low.stored, part, key])
    }
    guard let bytes else { return [] }
    return try keys(in: bytes).filter { $0 > key }
  }

  package func memberParts(of campaign: StoredUUID, keys: [Int64]) async throws(StoreError) -> [Int64: Int] {
    var found: [Int64: Int] = [:]
    for key in keys {
      let pieces = try await read { database in
        try Row.fetchAll(
          database.cachedStatement(
            sql: """
              SELECT part, keys FROM campaignMembers WHERE high = ? AND low = ? AND firstKey <= ? AND lastKey >= ?
              """), arguments: [campaign.high.stored, campaign.low.stored, key, key]
        ).map { (part: $0[0] as Int, keys: $0[1] as Data) }
      }
      for piece in pieces where try self.keys(in: piece.keys).contains(key) { found[key] = piece.part }
    }
    return found
  }

  package func memberCount(of campaign: StoredUUID) async throws(StoreError) -> Int {
    try await read { database in
      try Int.fetchOne(
        database, sql: "SELECT coalesce(sum(count), 0) FROM campaignMembers WHERE high = ? AND low = ?",
        arguments: [campaign.high.stored, campaign.low.stored]) ?? 0
    }
  }

  private func keys(in bytes: Data) throws(StoreError) -> [Int64] {
    guard let keys = MemberPiece.keys(in: Array(bytes)) else {
      throw StoreError(.unusable, path: path, "the store \(path) is damaged: a list of a campaign's devices")
    }
    return keys
  }
}
