package import PushStore

extension PostgreSQLStore: Ledger {
  package var ledger: (any Ledger)? { self }

  /// Nobody who is alive has the segment.
  private static let isFree = """
    NOT segments.is_settled
    AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.is_alive AND nodes.incarnation = segments.owner)
    """
  private static let columns = """
    segments.campaign, segments.part, segments.first_key, segments.last_key, segments.count, segments.epoch,
    segments.granted, segments.inherited, segments.settled, segments.doubted, segments.account, segments.base,
    segments.row_count, segments.is_settled, segments.report, segments.is_withdrawn, segments.unsent
    """
  private static let columnCount = 17

  // MARK: Parts

  package func sharedParts(of apps: [String], orIn states: [String]) async throws(StoreError) -> [SharedPart] {
    try await read(
      """
      SELECT campaigns.id, parts.number, campaigns.state, parts.open_until,
        EXISTS (SELECT 1 FROM segments WHERE campaign = parts.campaign AND part = parts.number AND \(Self.isFree)),
        EXISTS (SELECT 1 FROM segments
          WHERE campaign = parts.campaign AND part = parts.number AND \(Self.isFree) AND epoch > 0)
      FROM campaigns JOIN campaign_parts AS parts ON parts.campaign = campaigns.id
      WHERE campaigns.ended_at IS NULL AND (campaigns.app = ANY ($1) OR campaigns.state = ANY ($2))
        AND parts.is_shared AND parts.ended_at IS NULL
      ORDER BY campaigns.id, parts.number
      """, .texts(apps), .texts(states)
    ).map(Self.part)
  }

  private static func part(_ rows: PostgreSQLRows, _ row: Int) -> SharedPart {
    SharedPart(
      campaign: rows.uuid(row, 0), part: Int(rows.int(row, 1)), state: rows.text(row, 2),
      openUntil: rows.optionalInstant(row, 3),
      hasFreeSegments: rows.flag(row, 4), hasBegunSegments: rows.flag(row, 5))
  }

  package func share(
    parts: [Int: StoreInstant], of campaign: StoredUUID, at instant: StoreInstant
  ) async throws(StoreError) {
    let ordered = parts.sorted { $0.key < $1.key }
    try await write(
      """
      UPDATE campaign_parts AS part SET open_until = told.until, is_shared = part.is_shared OR told.until IS NOT NULL,
        begun_at = CASE WHEN told.until IS NULL THEN part.begun_at ELSE coalesce(part.begun_at, $4) END
      FROM campaign_parts AS known LEFT JOIN unnest($2::bigint[], $3::bigint[]) AS told (number, until)
        ON told.number = known.number
      WHERE known.campaign = $1 AND part.campaign = $1 AND part.number = known.number
        AND part.open_until IS DISTINCT FROM told.until
      """, .uuid(campaign), .ints(ordered.map { Int64($0.key) }), .ints(ordered.map(\.value.milliseconds)),
      .instant(instant))
  }

  package func memberRanges(
    of campaign: StoredUUID, part: Int, after key: Int64, limit: Int
  ) async throws(StoreError) -> [MemberRange] {
    try await read(
      """
      SELECT first_key, last_key, count FROM campaign_members WHERE campaign = $1 AND part = $2 AND last_key > $3
      ORDER BY last_key LIMIT $4
      """, .uuid(campaign), .int(part), .int(key), .int(limit)
    ).map { rows, row in MemberRange(keys: rows.int(row, 0)...rows.int(row, 1), count: Int(rows.int(row, 2))) }
  }

  package func divide(
    _ ranges: [MemberRange], of campaign: StoredUUID, part: Int, after key: Int64
  ) async throws(StoreError) -> Bool {
    guard let last = ranges.last?.keys.upperBound else { return true }
    let rows = try await write([
      PostgreSQLStatement(
        """
        WITH divided AS (
          UPDATE campaign_parts SET divided_key = $4 WHERE campaign = $1 AND number = $2 AND divided_key = $3
          RETURNING campaign, number
        ), added AS (
          INSERT INTO segments (campaign, part, first_key, last_key, count)
          SELECT divided.campaign, divided.number, range.*
          FROM divided, unnest($5::bigint[], $6::bigint[], $7::bigint[]) AS range
        )
        SELECT 1 FROM divided
        """, .uuid(campaign), .int(part), .int(key), .int(last), .ints(ranges.map(\.keys.lowerBound)),
        .ints(ranges.map(\.keys.upperBound)), .ints(ranges.map { Int64($0.count) }))
    ])
    return rows[0].count == 1
  }

  package func sharedProgress(
    of campaigns: [StoredUUID]
  ) async throws(StoreError) -> [StoredUUID: [Int: SharedPartProgress]] {
    let rows = try await read([
      PostgreSQLStatement(
        "SELECT campaign, number, divided_key, open_until FROM campaign_parts WHERE campaign = ANY ($1) AND is_shared",
        .uuids(campaigns)),
      PostgreSQLStatement(
        "SELECT campaign, part, is_settled, account FROM segments WHERE campaign = ANY ($1)", .uuids(campaigns)),
    ])
    var found: [StoredUUID: [Int: SharedPartProgress]] = [:]
    for row in 0..<rows[0].count {
      var part = SharedPartProgress()
      (part.dividedKey, part.openUntil) = (rows[0].int(row, 2), rows[0].optionalInstant(row, 3))
      found[rows[0].uuid(row, 0), default: [:]][Int(rows[0].int(row, 1))] = part
    }
    for row in 0..<rows[1].count {
      let (campaign, number) = (rows[1].uuid(row, 0), Int(rows[1].int(row, 1)))
      var part = found[campaign]?[number] ?? SharedPartProgress()
      part.segmentCount += 1
      if rows[1].flag(row, 2) { part.settledSegmentCount += 1 }
      if let account = rows[1].optionalBytes(row, 3) { part.accounts.append(account) }
      found[campaign, default: [:]][number] = part
    }
    return found
  }

  // MARK: Rates

  package func exchange(
    _ claims: [RateClaim], number: Int64, by incarnation: Int64
  ) async throws(StoreError) -> [String: RateShare] {
    let claims = claims.sorted { $0.name < $1.name }
    let names = PostgreSQLValue.texts(claims.map(\.name))
    let rows = try await write([
      // One after the other: none sees a sum that another one is changing.
      PostgreSQLStatement("SELECT version FROM schema_version FOR UPDATE"),
      PostgreSQLStatement(
        """
        UPDATE rate_shares SET share = 0, demand = 0, freed_at = clock_timestamp()
        WHERE freed_at IS NULL AND (node = $1 AND name <> ALL ($2) AND number <= $3
          OR NOT EXISTS (SELECT 1 FROM nodes WHERE is_alive AND incarnation = node))
        """, .int(incarnation), names, .int(number)),
      PostgreSQLStatement(
        "DELETE FROM rate_shares WHERE freed_at < clock_timestamp() - make_interval(secs => $1)",
        .int(RateShare.memory.components.seconds)),
      PostgreSQLStatement(
        """
        INSERT INTO rate_shares (name, node, number, share, demand)
        SELECT claim.name, $1, $6, greatest(0, least(claim.share, claim.most - coalesce(
          (SELECT sum(share) FROM rate_shares WHERE name = claim.name AND node <> $1), 0)::bigint)), claim.demand
        FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) AS claim (name, most, share, demand)
        WHERE EXISTS (SELECT 1 FROM nodes WHERE is_alive AND incarnation = $1)
        ON CONFLICT (name, node) DO UPDATE
          SET number = excluded.number, share = excluded.share, demand = excluded.demand, freed_at = NULL
          WHERE rate_shares.number <= excluded.number
        RETURNING name, share
        """, .int(incarnation), names, .ints(claims.map(\.limit)), .ints(claims.map(\.share)),
        .ints(claims.map(\.demand)), .int(number)),
      PostgreSQLStatement(
        """
        SELECT name, share, demand, freed_at IS NULL FROM rate_shares WHERE name = ANY ($2) AND node <> $1
        """, .int(incarnation), names),
    ])
    var shares = Dictionary(
      rows[3].map { ($0.text($1, 0), RateShare(share: $0.int($1, 1))) }, uniquingKeysWith: { first, _ in first })
    for row in 0..<rows[4].count {
      let name = rows[4].text(row, 0)
      shares[name]?.isUsed = true
      guard rows[4].flag(row, 3) else { continue }
      shares[name]?.peers.append(RateShare.Peer(share: rows[4].int(row, 1), demand: rows[4].int(row, 2)))
    }
    return shares
  }

  // MARK: Segments

  package func claimSegments(
    of campaign: StoredUUID, part: Int, limit: Int, by incarnation: Int64, known: [SegmentID]
  ) async throws(StoreError) -> [StoredSegment] {
    let keys = known.filter { $0.campaign == campaign && $0.part == part }.map(\.firstKey)
    let rows = try await write(
      """
      UPDATE segments SET owner = $4, epoch = segments.epoch + 1, report = 0, inherited = segments.granted,
        base = NULL, row_count = 0, is_withdrawn = false
      FROM (
        SELECT campaign, part, first_key, owner FROM segments
        WHERE campaign = $1 AND part = $2
          AND (\(Self.isFree) OR NOT is_settled AND owner = $4 AND first_key <> ALL ($5))
        ORDER BY first_key LIMIT $3 FOR UPDATE SKIP LOCKED
      ) AS free
      WHERE segments.campaign = free.campaign AND segments.part = free.part AND segments.first_key = free.first_key
        AND EXISTS (SELECT 1 FROM nodes WHERE is_alive AND incarnation = $4)
      RETURNING \(Self.columns), (SELECT name FROM nodes WHERE NOT is_alive AND incarnation = free.owner)
      """, .uuid(campaign), .int(part), .int(limit), .int(incarnation), .ints(keys))
    return rows.map { rows, row in
      var segment = Self.segment(rows, row)
      segment.lostOwner = rows.optionalText(row, Self.columnCount)
      return segment
    }.sorted { $0.id.firstKey < $1.id.firstKey }
  }

  package func release(_ segments: [SegmentID: Int64], by incarnation: Int64) async throws(StoreError) {
    let ordered = segments.sorted { $0.key.comes(before: $1.key) }
    try await write(
      """
      UPDATE segments SET owner = NULL
      FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[]) AS given (campaign, part, first_key, epoch)
      WHERE segments.campaign = given.campaign AND segments.part = given.part
        AND segments.first_key = given.first_key AND segments.epoch = given.epoch AND segments.owner = $1
      """, .int(incarnation), .uuids(ordered.map(\.key.campaign)), .ints(ordered.map { Int64($0.key.part) }),
      .ints(ordered.map(\.key.firstKey)), .ints(ordered.map(\.value)))
  }

  package func segments(of incarnation: Int64) async throws(StoreError) -> [StoredSegment] {
    try await read(
      """
      SELECT \(Self.columns) FROM segments WHERE owner = $1 AND NOT is_settled ORDER BY campaign, part, first_key
      """, .int(incarnation)
    ).map(Self.segment)
  }

  private static func segment(_ rows: PostgreSQLRows, _ row: Int) -> StoredSegment {
    let id = SegmentID(campaign: rows.uuid(row, 0), part: Int(rows.int(row, 1)), firstKey: rows.int(row, 2))
    var segment = StoredSegment(id: id, lastKey: rows.int(row, 3), count: Int(rows.int(row, 4)))
    segment.epoch = rows.int(row, 5)
    segment.granted = Int(rows.int(row, 6))
    segment.inherited = Int(rows.int(row, 7))
    segment.settled = rows.bytes(row, 8)
    segment.doubted = rows.bytes(row, 9)
    segment.account = rows.optionalBytes(row, 10)
    segment.base = rows.optionalBytes(row, 11)
    segment.rowCount = Int(rows.int(row, 12))
    segment.isSettled = rows.flag(row, 13)
    segment.reportNumber = rows.int(row, 14)
    segment.isWithdrawn = rows.flag(row, 15)
    segment.unsent = rows.bytes(row, 16)
    return segment
  }

  // MARK: Reports

  /// The outcomes of all, the next grants, and the rows of their lists in one commit: whoever takes
  /// a segment over counts each line once.
  package func report(
    _ reports: [SegmentReport], by incarnation: Int64
  ) throws(StoreError) -> [SegmentID: SharedPart] {
    guard !reports.isEmpty else { return [:] }
    // In one order for all, so that two never wait for each other.
    let ordered = reports.sorted { $0.id.comes(before: $1.id) }
    let statement = PostgreSQLStatement(
      """
      WITH told AS (
        SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
          $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bigint[], $13::bigint[], $14::bytea[],
          $15::bigint[], $16::bigint[], $17::bytea[]) AS told (campaign, part, first_key, epoch, report, granted,
          settled, doubted, account, base, after, count, rows, is_settled, is_withdrawn, unsent)
      ), written AS (
        UPDATE segments SET report = told.report, granted = greatest(segments.granted, told.granted),
          settled = told.settled, doubted = told.doubted, account = told.account, base = told.base,
          row_count = greatest(segments.row_count, told.after + told.count), is_settled = (told.is_settled = 1),
          is_withdrawn = (told.is_withdrawn = 1), unsent = told.unsent
        FROM told
        WHERE segments.campaign = told.campaign AND segments.part = told.part AND segments.first_key = told.first_key
          AND segments.owner = $1 AND segments.epoch = told.epoch
          AND (segments.report < told.report AND NOT segments.is_settled
            OR segments.report = told.report AND segments.settled = told.settled)
        RETURNING segments.campaign, segments.part, segments.first_key
      ), listed AS (
        INSERT INTO segment_rows (campaign, part, first_key, epoch, after, count, rows)
        SELECT told.campaign, told.part, told.first_key, told.epoch, told.after, told.count, told.rows
        FROM told JOIN written USING (campaign, part, first_key)
        WHERE told.count > 0
        ON CONFLICT (campaign, part, first_key, epoch, after) DO UPDATE
          SET count = excluded.count, rows = excluded.rows
      )
      SELECT written.campaign, written.part, campaigns.state, parts.open_until, false, false, written.first_key
      FROM written JOIN campaigns ON campaigns.id = written.campaign
        JOIN campaign_parts AS parts ON parts.campaign = written.campaign AND parts.number = written.part
      """, .int(incarnation), .uuids(ordered.map(\.id.campaign)), .ints(ordered.map { Int64($0.id.part) }),
      .ints(ordered.map(\.id.firstKey)), .ints(ordered.map(\.epoch)), .ints(ordered.map(\.number)),
      .ints(ordered.map { Int64($0.granted) }), .blobs(ordered.map(\.settled)), .blobs(ordered.map(\.doubted)),
      .blobs(ordered.map(\.account)), .blobs(ordered.map(\.base)), .ints(ordered.map { Int64($0.rows.after) }),
      .ints(ordered.map { Int64($0.rows.count) }), .blobs(ordered.map(\.rows.bytes)),
      .ints(ordered.map { $0.isSettled ? 1 : 0 }), .ints(ordered.map { $0.isWithdrawn ? 1 : 0 }),
      .blobs(ordered.map(\.unsent)))
    let rows = try writeToLedger([statement])[0]
    var written: [SegmentID: SharedPart] = [:]
    for row in 0..<rows.count {
      let part = Self.part(rows, row)
      written[SegmentID(campaign: part.campaign, part: part.part, firstKey: rows.int(row, 6))] = part
    }
    return written
  }

  package func outcomeRows(
    of campaign: StoredUUID, after cursor: OutcomeRowsCursor?, limit: Int
  ) async throws(StoreError) -> (rows: [UInt8], next: OutcomeRowsCursor)? {
    let found = try await read(
      """
      SELECT part, first_key, epoch, after, rows FROM segment_rows
      WHERE campaign = $1 AND (part, first_key, epoch, after) > ($2, $3, $4, $5)
      ORDER BY part, first_key, epoch, after LIMIT $6
      """, .uuid(campaign), .int(cursor?.segment.part ?? -1), .int(cursor?.segment.firstKey ?? 0),
      .int(cursor?.epoch ?? 0), .int(cursor?.after ?? 0), .int(limit))
    guard found.count > 0 else { return nil }
    let last = found.count - 1
    let segment = SegmentID(campaign: campaign, part: Int(found.int(last, 0)), firstKey: found.int(last, 1))
    return (
      (0..<found.count).flatMap { found.bytes($0, 4) },
      OutcomeRowsCursor(segment: segment, epoch: found.int(last, 2), after: Int(found.int(last, 3)))
    )
  }
}
