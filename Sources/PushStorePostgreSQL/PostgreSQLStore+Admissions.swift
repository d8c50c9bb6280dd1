package import PushStore

extension PostgreSQLStore {
  /// A cap is reached if the entry that would have to be too old for it is not.
  ///
  /// - Parameters:
  ///   - sizes: of as many entries as each cap allows.
  ///   - instants: before which an entry is too old.
  private static func isReached(_ sizes: String, _ instants: String) -> String {
    """
    EXISTS (
      SELECT 1 FROM unnest(\(sizes)::bigint[], \(instants)::bytea[]) AS cap (size, oldest)
      WHERE length(known.campaigns) >= size
        AND substring(known.campaigns FROM (length(known.campaigns) - size + 17)::int FOR 8) > oldest)
    """
  }

  package func notAdmitted(_ request: AdmissionRequest) async throws(StoreError) -> Set<[UInt8]> {
    let size = Admissions.entryByteCount
    let caps: [PostgreSQLValue] = [
      .ints(request.caps.map { Int64($0.count * size) }),
      .blobs(request.caps.map { Admissions.bytes(UInt64(clamping: request.now.milliseconds - $0.span)) }),
    ]
    let members: [PostgreSQLValue] = [.text(request.app), .blobs(request.members), .bytes(request.entry)]
    guard !request.isTrial else {
      return try await self.members(
        of: PostgreSQLStatement("\(Self.others) AND \(Self.isReached("$4", "$5"))", values: members + caps))
    }
    // In one statement: who is admitted by two campaigns at once is counted for one after the
    // other.
    let admitted = try await write(
      [
        PostgreSQLStatement(
          """
          INSERT INTO admissions AS known (app, member, campaigns, last_day)
          SELECT $1, member, $3, $6 FROM unnest($2::bytea[]) AS asked (member)
          ON CONFLICT (app, member) DO UPDATE SET
            campaigns = substring(known.campaigns FROM greatest(1, length(known.campaigns) - $7 + 1)::int)
              || excluded.campaigns, last_day = greatest(known.last_day, excluded.last_day)
          WHERE position(substring($3 FROM 1 FOR 16) IN known.campaigns) = 0 AND NOT \(Self.isReached("$4", "$5"))
          """,
          values: members + caps + [.instant(request.now.endOfDay), .int((request.keptCount - 1) * size)])
      ], .bulk)[0].changedCount
    // The others have it already, or do not get it.
    return admitted == request.members.count
      ? [] : try await self.members(of: PostgreSQLStatement(Self.others, values: members))
  }

  private func members(of statement: PostgreSQLStatement) async throws(StoreError) -> Set<[UInt8]> {
    let rows = try await read([statement])[0]
    return Set((0..<rows.count).map { rows.bytes($0, 0) })
  }

  /// Those of the members `$2` of the app `$1` that have others than the campaign `$3`.
  private static let others = """
    SELECT member FROM admissions AS known
    WHERE app = $1 AND member = ANY($2::bytea[]) AND position(substring($3::bytea FROM 1 FOR 16) IN campaigns) = 0
    """

  package func forgetAdmissions(of member: [UInt8], app: String) async throws(StoreError) {
    try await write(
      [PostgreSQLStatement("DELETE FROM admissions WHERE app = $1 AND member = $2", .text(app), .bytes(member))])
  }

  package func forgetAdmissions(before instant: StoreInstant) async throws(StoreError) {
    try await delete(
      """
      DELETE FROM admissions USING (
        SELECT app, member FROM admissions WHERE last_day < $1 ORDER BY last_day LIMIT $2) AS old
      WHERE admissions.app = old.app AND admissions.member = old.member
      """, .instant(instant), portion: 10_000)
  }
}
