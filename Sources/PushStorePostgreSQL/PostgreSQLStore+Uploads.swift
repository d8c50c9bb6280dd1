package import PushStore

extension PostgreSQLStore {
  /// This transaction has changed the campaign `$1`. Its version does not say that: somebody else
  /// may have given it the same one.
  static let hasChangedCampaign =
    "EXISTS (SELECT 1 FROM campaigns WHERE id = $1 AND xmin = pg_current_xact_id()::xid)"

  /// Replaces what an upload has from the first piece's start on.
  static func statements(adding pieces: [AudiencePiece], to campaign: StoredUUID) -> [PostgreSQLStatement] {
    guard let first = pieces.first else { return [] }
    let delete = PostgreSQLStatement(
      "DELETE FROM audience_pieces WHERE campaign = $1 AND start >= $2 AND \(hasChangedCampaign)", .uuid(campaign),
      .int(first.start))
    return [delete]
      + pieces.map { piece in
        PostgreSQLStatement(
          "INSERT INTO audience_pieces SELECT $1, $2, $3, $4, $5 WHERE \(hasChangedCampaign)", .uuid(campaign),
          .int(piece.start), .int(piece.id), .int(piece.bytes.count), .bytes(piece.bytes))
      }
  }

  package func audiencePieces(of campaign: StoredUUID) async throws(StoreError) -> [AudiencePiece.Head] {
    try await read(
      """
      SELECT start, pieces.id, pieces.byte_count FROM audience_pieces AS pieces JOIN campaigns ON campaigns.id = campaign
      WHERE campaign = $1 AND start < campaigns.byte_count ORDER BY start
      """, .uuid(campaign)
    ).map { AudiencePiece.Head(start: $0.int($1, 0), id: $0.int($1, 1), byteCount: Int($0.int($1, 2))) }
  }

  package func bytes(
    of piece: AudiencePiece.Head, of campaign: StoredUUID
  ) async throws(StoreError) -> [UInt8]? {
    let find = PostgreSQLStatement(
      "SELECT bytes FROM audience_pieces WHERE campaign = $1 AND start = $2 AND id = $3", .uuid(campaign),
      .int(piece.start), .int(piece.id))
    return try await pool.run(.bulk, limit: Limit.bulk) { connection, deadline throws(StoreError) in
      try connection.run([find], by: deadline)[0].map { $0.bytes($1, 0) }.first
    }
  }

  package func list(
    leftOut rows: [UInt8], number: Int, of campaign: StoredUUID
  ) async throws(StoreError) {
    try await write([
      PostgreSQLStatement(
        "DELETE FROM segment_rows WHERE campaign = $1 AND part = -1 AND after >= $2", .uuid(campaign), .int(number)),
      // A campaign that was forgotten meanwhile is of no interest.
      PostgreSQLStatement(
        "INSERT INTO segment_rows SELECT id, -1, 0, 0, $2, 0, $3 FROM campaigns WHERE id = $1", .uuid(campaign),
        .int(number), .bytes(rows)),
    ])
  }
}
