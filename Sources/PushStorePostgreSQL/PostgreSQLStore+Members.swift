package import PushStore

extension PostgreSQLStore {
  package func cut(
    _ campaign: StoredUUID, from key: Int64, through end: Int64, adding pieces: [MemberPiece]
  ) async throws(StoreError) -> Bool {
    let rows = try await write(
      [
        PostgreSQLStatement(
          """
          WITH cut AS (UPDATE campaigns SET cut_key = $3 WHERE id = $1 AND cut_key = $2 RETURNING id), added AS (
            INSERT INTO campaign_members (campaign, part, first_key, last_key, count, keys)
            SELECT id, piece.* FROM cut, unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[])
              AS piece
            ON CONFLICT DO NOTHING)
          SELECT id FROM cut
          """, .uuid(campaign), .int(key), .int(end), .ints(pieces.map { Int64($0.part) }), .ints(pieces.map(\.first)),
          .ints(pieces.map(\.last)), .ints(pieces.map { Int64($0.keys.count) }), .blobs(pieces.map(\.bytes)))
      ], .bulk)
    return rows[0].count == 1
  }

  package func removeMembers(of campaign: StoredUUID) async throws(StoreError) {
    try await write(
      [
        PostgreSQLStatement("DELETE FROM campaign_members WHERE campaign = $1", .uuid(campaign)),
        PostgreSQLStatement("UPDATE campaigns SET cut_key = 0 WHERE id = $1", .uuid(campaign)),
      ], .bulk)
  }

  package func members(of campaign: StoredUUID, part: Int, after key: Int64) async throws(StoreError) -> [Int64] {
    let rows = try await read(
      """
      SELECT keys FROM campaign_members WHERE campaign = $1 AND part = $2 AND last_key > $3 ORDER BY last_key LIMIT 1
      """, .uuid(campaign), .int(part), .int(key))
    return rows.count == 0 ? [] : try keys(in: rows.bytes(0, 0)).filter { $0 > key }
  }

  package func memberParts(of campaign: StoredUUID, keys: [Int64]) async throws(StoreError) -> [Int64: Int] {
    let rows = try await read(
      """
      SELECT part, keys FROM campaign_members
      WHERE campaign = $1 AND EXISTS (
        SELECT 1 FROM unnest($2::bigint[]) AS asked (key) WHERE key BETWEEN first_key AND last_key)
      """, .uuid(campaign), .ints(keys))
    let asked = Set(keys)
    var found: [Int64: Int] = [:]
    for row in 0..<rows.count {
      for key in try self.keys(in: rows.bytes(row, 1)) where asked.contains(key) { found[key] = Int(rows.int(row, 0)) }
    }
    return found
  }

  package func memberCount(of campaign: StoredUUID) async throws(StoreError) -> Int {
    Int(
      try await read(
        "SELECT coalesce(sum(count), 0)::bigint FROM campaign_members WHERE campaign = $1", .uuid(campaign)
      ).int(0, 0))
  }

  private func keys(in bytes: [UInt8]) throws(StoreError) -> [Int64] {
    guard let keys = MemberPiece.keys(in: bytes) else {
      throw StoreError(
        .unusable, path: settings.name,
        "the database \(settings.name) is damaged: a list of a campaign's devices")
    }
    return keys
  }
}
