package import PushStore

extension PostgreSQLStore {
  /// The cap is reached if the entry that would have to be too old for it is not.
  private static let isReached = """
    EXISTS (
      SELECT 1 FROM unnest($6::bigint[], $7::bytea[]) AS cap (size, oldest)
      WHERE length(known.campaigns) >= size
        AND substring(known.campaigns FROM (length(known.campaigns) - size + 17)::int FOR 8) > oldest)
    """

  package func notAdmitted(_ request: AdmissionRequest) async throws(StoreError) -> Set<[UInt8]> {
    let size = Admissions.entryByteCount
    let values: [PostgreSQLValue] = [
      .text(request.app), .blobs(request.members), .bytes(request.entry), .instant(request.now),
      .int((request.keptCount - 1) * size), .ints(request.caps.map { Int64($0.count * size) }),
      .blobs(
        request.caps.map { cap in Admissions.bytes(UInt64(clamping: request.now.milliseconds - cap.span)) }),
    ]
    // In one statement: whoever is admitted by two campaigns at once is counted for one after the
    // other.
    let admit = PostgreSQLStatement(
      """
      INSERT INTO admissions AS known (app, member, campaigns, last_at)
      SELECT $1, member, $3, $4 FROM unnest($2::bytea[]) AS asked (member)
      ON CONFLICT (app, member) DO UPDATE SET
        campaigns = substring(known.campaigns FROM greatest(1, length(known.campaigns) - $5 + 1)::int)
          || excluded.campaigns, last_at = greatest(known.last_at, excluded.last_at)
      WHERE position(substring($3 FROM 1 FOR 16) IN known.campaigns) = 0 AND NOT \(Self.isReached)
      """, values: values)
    let find = PostgreSQLStatement(
      """
      SELECT member FROM admissions AS known
      WHERE app = $1 AND member = ANY($2::bytea[]) AND position(substring($3 FROM 1 FOR 16) IN campaigns) = 0
        AND \(Self.isReached) AND $4::bigint IS NOT NULL AND $5::bigint IS NOT NULL
      """, values: values)
    let rows = request.isTrial ? try await read([find])[0] : try await write([admit, find], .bulk)[1]
    return Set((0..<rows.count).map { rows.bytes($0, 0) })
  }

  package func forgetAdmissions(of member: [UInt8], app: String) async throws(StoreError) {
    try await write(
      [PostgreSQLStatement("DELETE FROM admissions WHERE app = $1 AND member = $2", .text(app), .bytes(member))])
  }

  package func forgetAdmissions(before instant: StoreInstant) async throws(StoreError) {
    try await delete(
      """
      DELETE FROM admissions USING (
        SELECT app, member FROM admissions WHERE last_at < $1 ORDER BY last_at LIMIT $2) AS old
      WHERE admissions.app = old.app AND admissions.member = old.member
      """, .instant(instant), portion: 10_000)
  }
}
