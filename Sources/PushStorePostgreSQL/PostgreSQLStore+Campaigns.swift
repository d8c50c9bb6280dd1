package import PushStore

extension PostgreSQLStore {
  /// The columns of a head, in this order. None of them can be large.
  private static let columns = """
    id, app, state, version, name, is_for_devices, is_dry_run, begins_at, last_begins_at, reason, is_doubtful,
    line_count, byte_count, is_complete, format, created_at, changed_at, started_at, ended_at, last_key,
    audience_count, plan_byte_count, cut_key
    """

  /// In the order of ``columns``.
  private static func values(_ campaign: StoredCampaign, version: Int64) -> [PostgreSQLValue] {
    let head = campaign.head
    return [
      .uuid(head.id), .text(head.app), .text(head.state), .int(version), .text(head.summary.name),
      .flag(head.summary.isForDevices), .flag(head.summary.isDryRun), PostgreSQLValue(head.summary.beginsAt),
      PostgreSQLValue(head.summary.lastBeginsAt), .text(head.reason), .flag(head.isDoubtful),
      .int(head.upload.lineCount), .int(head.upload.byteCount), .flag(head.upload.isComplete),
      .text(head.upload.format), .instant(head.createdAt), .instant(head.changedAt), PostgreSQLValue(head.startedAt),
      PostgreSQLValue(head.endedAt), PostgreSQLValue(head.lastKey), PostgreSQLValue(head.audienceCount),
      .int(campaign.content.count), .int(head.cutKey),
    ]
  }

  private static let marks = (1...23).map { "$\($0)" }.joined(separator: ", ")

  package func add(_ campaign: StoredCampaign, openLimit: Int) async throws(StoreError) -> Bool {
    // Two at the same time wait for each other, so that they do not both take the last place. The
    // same one again is there already, and counts.
    let lock = PostgreSQLStatement(
      "INSERT INTO names (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = excluded.name",
      .text("campaigns of " + campaign.app))
    let insert = PostgreSQLStatement(
      """
      INSERT INTO campaigns (\(Self.columns)) SELECT \(Self.marks)
      WHERE (SELECT count(*) FROM campaigns WHERE app = $2 AND ended_at IS NULL) < $24
      ON CONFLICT DO NOTHING
      """, values: Self.values(campaign, version: campaign.version) + [.int(openLimit)])
    let plan = PostgreSQLStatement(
      """
      INSERT INTO campaign_plans SELECT id, $2 FROM campaigns WHERE id = $1 ON CONFLICT DO NOTHING
      """, .uuid(campaign.id), .bytes(campaign.content))
    let find = PostgreSQLStatement("SELECT 1 FROM campaigns WHERE id = $1", .uuid(campaign.id))
    return try await write([lock, insert, plan, find])[3].count == 1
  }

  package func campaign(_ id: StoredUUID) async throws(StoreError) -> StoredCampaign? {
    let rows = try await read(
      "SELECT \(Self.columns), content FROM campaigns JOIN campaign_plans ON campaign = id WHERE id = $1", .uuid(id))
    guard rows.count == 1 else { return nil }
    return StoredCampaign(head: Self.head(rows, 0), content: rows.bytes(0, 23))
  }

  package func campaignHead(_ id: StoredUUID) async throws(StoreError) -> CampaignHead? {
    try await read("SELECT \(Self.columns) FROM campaigns WHERE id = $1", .uuid(id)).map(Self.head).first
  }

  package func plan(of id: StoredUUID) async throws(StoreError) -> [UInt8]? {
    try await read("SELECT content FROM campaign_plans WHERE campaign = $1", .uuid(id)).map { $0.bytes($1, 0) }.first
  }

  package func campaigns(
    app: String, before cursor: StoredUUID?, limit: Int
  ) async throws(StoreError) -> [CampaignHead] {
    try await heads(
      where: "app = $1 AND id < $2", [.text(app), .uuid(cursor ?? StoredUUID(high: .max, low: .max))], limit: limit)
  }

  package func latestCampaigns(of apps: AppReach, limit: Int) async throws(StoreError) -> [CampaignHead] {
    let (condition, values) = Self.condition(apps)
    return try await heads(where: condition, values, limit: limit)
  }

  package func openCampaigns(
    of apps: AppReach, in states: [String]?, limit: Int?
  ) async throws(StoreError) -> [CampaignHead] {
    let (condition, values) = Self.openCondition(apps, states)
    return try await heads(where: condition, values, limit: limit)
  }

  package func openCampaignCount(of apps: AppReach, in states: [String]) async throws(StoreError) -> Int {
    let (condition, values) = Self.openCondition(apps, states)
    let rows = try await read([
      PostgreSQLStatement("SELECT count(*) FROM campaigns WHERE \(condition)", values: values)
    ])
    return Int(rows[0].int(0, 0))
  }

  /// The newest first.
  private func heads(
    where condition: String, _ values: [PostgreSQLValue], limit: Int?
  ) async throws(StoreError) -> [CampaignHead] {
    let sql = "SELECT \(Self.columns) FROM campaigns WHERE \(condition) ORDER BY id DESC LIMIT $\(values.count + 1)"
    return try await read([PostgreSQLStatement(sql, values: values + [.int(limit ?? .max)])])[0].map(Self.head)
  }

  private static func openCondition(_ apps: AppReach, _ states: [String]?) -> (String, [PostgreSQLValue]) {
    var (condition, values) = condition(apps)
    condition += " AND ended_at IS NULL"
    if let states {
      values.append(.texts(states))
      condition += " AND state = ANY ($\(values.count))"
    }
    return (condition, values)
  }

  static func condition(_ apps: AppReach) -> (String, [PostgreSQLValue]) {
    switch apps {
    case .all: ("TRUE", [])
    case .only(let apps): ("app = ANY ($1)", [.texts(apps.sorted())])
    }
  }

  package func update(_ campaign: StoredCampaign, from version: Int64) async throws(StoreError) -> Bool {
    try await update(campaign, from: version, adding: [])
  }

  package func update(
    _ campaign: StoredCampaign, from version: Int64, adding pieces: [AudiencePiece]
  ) async throws(StoreError) -> Bool {
    // Its id, its app, when it was created and how far it is cut stay as they are.
    let update = PostgreSQLStatement(
      """
      UPDATE campaigns SET (state, version, name, is_for_devices, is_dry_run, begins_at, last_begins_at, reason,
        is_doubtful, line_count, byte_count, is_complete, format, changed_at, started_at, ended_at, last_key,
        audience_count, plan_byte_count) = ($3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $17, $18, $19,
        $20, $21, $22)
      WHERE id = $1 AND app = $2 AND version = $4 - 1 AND ($16::bigint, $23::bigint) IS NOT NULL
      """, values: Self.values(campaign, version: version + 1))
    let plan = PostgreSQLStatement(
      """
      UPDATE campaign_plans SET content = $2 WHERE campaign = $1 AND content <> $2 AND \(Self.hasChangedCampaign)
      """, .uuid(campaign.id), .bytes(campaign.content))
    let find = PostgreSQLStatement("SELECT \(Self.columns) FROM campaigns WHERE id = $1", .uuid(campaign.id))
    var head = campaign.head
    head.version = version + 1
    head.planByteCount = campaign.content.count
    let new = head
    let added = Self.statements(adding: pieces, to: campaign.id)
    return try await pool.run(
      pieces.isEmpty ? .request : .bulk, limit: pieces.isEmpty ? Limit.request : Limit.bulk
    ) { connection, deadline throws(StoreError) in
      let rows = try connection.transaction([update, plan, find] + added, by: deadline)
      var found = rows[2].map(Self.head).first
      found?.cutKey = new.cutKey
      return rows[0].changedCount == 1 || connection.isRepeating && found == new
    }
  }

  package func forgetCampaigns(endedBefore instant: StoreInstant, limit: Int) async throws(StoreError) -> [StoredUUID] {
    try await write(
      """
      DELETE FROM campaigns WHERE id IN (
        SELECT id FROM campaigns WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)
      RETURNING id
      """, .instant(instant), .int(limit)
    ).map { $0.uuid($1, 0) }
  }

  package func forgetCampaigns(
    in states: [String], unchangedSince instant: StoreInstant, limit: Int
  ) async throws(StoreError) -> [StoredUUID] {
    try await write(
      """
      DELETE FROM campaigns WHERE id IN (
        SELECT id FROM campaigns WHERE ended_at IS NULL AND changed_at < $1 AND state = ANY ($2) LIMIT $3)
      RETURNING id
      """, .instant(instant), .texts(states), .int(limit)
    ).map { $0.uuid($1, 0) }
  }

  package func audienceByteCount(app: String, besides other: StoredUUID) async throws(StoreError) -> Int64 {
    try await read(
      "SELECT coalesce(sum(byte_count), 0)::bigint FROM campaigns WHERE app = $1 AND id <> $2", .text(app),
      .uuid(other)
    ).int(0, 0)
  }

  private static func head(_ rows: PostgreSQLRows, _ row: Int) -> CampaignHead {
    var head = CampaignHead(
      id: rows.uuid(row, 0), app: rows.text(row, 1), state: rows.text(row, 2), createdAt: rows.instant(row, 15),
      changedAt: rows.instant(row, 16))
    head.version = rows.int(row, 3)
    head.summary.name = rows.text(row, 4)
    head.summary.isForDevices = rows.flag(row, 5)
    head.summary.isDryRun = rows.flag(row, 6)
    head.summary.beginsAt = rows.optionalInstant(row, 7)
    head.summary.lastBeginsAt = rows.optionalInstant(row, 8)
    head.reason = rows.text(row, 9)
    head.isDoubtful = rows.flag(row, 10)
    head.upload.lineCount = rows.int(row, 11)
    head.upload.byteCount = rows.int(row, 12)
    head.upload.isComplete = rows.flag(row, 13)
    head.upload.format = rows.text(row, 14)
    head.startedAt = rows.optionalInstant(row, 17)
    head.endedAt = rows.optionalInstant(row, 18)
    head.lastKey = rows.optionalInt(row, 19)
    head.audienceCount = rows.optionalInt(row, 20)
    head.planByteCount = Int(rows.int(row, 21))
    head.cutKey = rows.int(row, 22)
    return head
  }

  // MARK: Parts

  package func add(_ parts: [StoredCampaignPart], of campaign: StoredUUID) async throws(StoreError) {
    try await write(
      """
      INSERT INTO campaign_parts (campaign, number, due_at, content, account, ended_at)
      SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bigint[])
      ON CONFLICT DO NOTHING
      """, .uuid(campaign), .ints(parts.map { Int64($0.number) }), .ints(parts.map(\.dueAt.milliseconds)),
      .blobs(parts.map(\.content)), .blobs(parts.map(\.account)), .ints(parts.map { $0.endedAt?.milliseconds }))
  }

  package func parts(of campaign: StoredUUID) async throws(StoreError) -> [StoredCampaignPart] {
    try await read(
      """
      SELECT number, due_at, content, begun_at, account, ended_at FROM campaign_parts WHERE campaign = $1
      ORDER BY number
      """, .uuid(campaign)
    ).map { rows, row in
      var part = StoredCampaignPart(
        number: Int(rows.int(row, 0)), dueAt: rows.instant(row, 1), content: rows.bytes(row, 2))
      part.begunAt = rows.optionalInstant(row, 3)
      part.account = rows.optionalBytes(row, 4)
      part.endedAt = rows.optionalInstant(row, 5)
      return part
    }
  }

  package func progress(of campaigns: [StoredUUID]) async throws(StoreError) -> [StoredUUID: [CampaignPartProgress]] {
    let rows = try await read(
      """
      SELECT campaign, number, due_at, begun_at, account, ended_at FROM campaign_parts WHERE campaign = ANY ($1)
      ORDER BY number
      """, .uuids(campaigns))
    var found: [StoredUUID: [CampaignPartProgress]] = [:]
    for row in 0..<rows.count {
      var part = CampaignPartProgress(number: Int(rows.int(row, 1)), dueAt: rows.instant(row, 2))
      part.begunAt = rows.optionalInstant(row, 3)
      part.account = rows.optionalBytes(row, 4)
      part.endedAt = rows.optionalInstant(row, 5)
      found[rows.uuid(row, 0), default: []].append(part)
    }
    return found
  }

  package func begin(part number: Int, of campaign: StoredUUID, at instant: StoreInstant) async throws(StoreError) {
    try await write(
      "UPDATE campaign_parts SET begun_at = coalesce(begun_at, $3) WHERE campaign = $1 AND number = $2",
      .uuid(campaign), .int(number), .instant(instant))
  }

  package func renew(parts numbers: [Int], of campaign: StoredUUID) async throws(StoreError) {
    try await write(
      """
      UPDATE campaign_parts SET begun_at = NULL WHERE campaign = $1 AND number = ANY ($2) AND ended_at IS NULL
      """, .uuid(campaign), .ints(numbers.map { Int64($0) }))
  }

  package func end(_ parts: [EndedCampaignPart]) throws(StoreError) {
    try writeNow([
      PostgreSQLStatement(
        """
        UPDATE campaign_parts AS part SET account = ended.account, ended_at = ended.at
        FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[]) AS ended (campaign, number, account, at)
        WHERE part.campaign = ended.campaign AND part.number = ended.number
        """, .uuids(parts.map(\.campaign)), .ints(parts.map { Int64($0.number) }), .blobs(parts.map(\.account)),
        .ints(parts.map(\.endedAt.milliseconds)))
    ])
  }
}
