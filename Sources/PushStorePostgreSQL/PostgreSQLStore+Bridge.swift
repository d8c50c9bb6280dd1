package import PushStore

extension PostgreSQLStore {
  /// All answers are older than the instant `$1`. Without its run nothing is known but the arrival.
  private static let isOver =
    "(f.at < $1 AND (r.number IS NULL OR r.ended_at IS NOT NULL AND r.ended_at < $1))"

  package func forwardedFrames(since instant: StoreInstant) async throws(StoreError) -> [RememberedFrames] {
    let frames = """
      bridge_frames AS f LEFT JOIN bridge_ends AS e ON e.connection = f.connection
      LEFT JOIN runs AS r ON r.high = f.high AND r.low = f.low
      """
    let rows = try await read([
      PostgreSQLStatement(
        """
        SELECT f.app, f.client, f.position, f.connection, f.first_frame, f.high, f.low, f.first_line, f.at, f.digests,
          f.is_recognised, e.at, e.from_frame, e.recent_from, e.last_sign, r.ended_at
        FROM \(frames) WHERE NOT \(Self.isOver)
        ORDER BY f.app COLLATE "C", f.client COLLATE "C", f.position, f.connection, f.first_frame
        """, .instant(instant)),
      PostgreSQLStatement(
        """
        SELECT f.connection, f.first_frame, a.first, a.last
        FROM \(frames) JOIN accepted AS a ON a.run = r.number AND a.first < f.first_line + f.count
          AND a.last >= f.first_line
        WHERE NOT \(Self.isOver) ORDER BY a.first
        """, .instant(instant)),
      PostgreSQLStatement(
        """
        SELECT f.connection, f.first_frame, n.line, n.state, n.detail
        FROM \(frames) JOIN not_accepted AS n ON n.run = r.number AND n.line >= f.first_line
          AND n.line < f.first_line + f.count
        WHERE NOT \(Self.isOver)
        """, .instant(instant)),
    ])
    var found = rows[0].map { RememberedFrames($0, $1) }
    var places: [[Int64]: Int] = [:]
    for (index, entry) in found.enumerated() {
      places[[entry.frames.connection.stored, Int64(clamping: entry.frames.firstFrame)]] = index
    }
    for row in 0..<rows[1].count {
      guard let place = places[[rows[1].int(row, 0), rows[1].int(row, 1)]] else { continue }
      found[place].acceptedLines.append(
        UInt32(clamping: rows[1].int(row, 2))...UInt32(clamping: rows[1].int(row, 3)))
    }
    for row in 0..<rows[2].count {
      guard let place = places[[rows[2].int(row, 0), rows[2].int(row, 1)]] else { continue }
      found[place].notAccepted[UInt32(clamping: rows[2].int(row, 2))] = StoredOutcome(
        state: rows[2].text(row, 3), detail: rows[2].text(row, 4), app: found[place].frames.app)
    }
    return found
  }

  package func alreadyDelivered(app: String) async throws(StoreError) -> (count: Int, last: StoreInstant?) {
    let rows = try await read(
      "SELECT already_delivered, already_delivered_at FROM bridge_apps WHERE app = $1", .text(app))
    return rows.count == 0 ? (0, nil) : (Int(rows.int(0, 0)), rows.optionalInstant(0, 1))
  }

  package func bridgeLife() async throws(StoreError) -> BridgeLife? {
    let rows = try await read(
      """
      SELECT greatest((SELECT max(at) FROM bridge_frames), (SELECT at FROM bridge_life)),
        coalesce((SELECT pause FROM bridge_life), 0)
      """)
    return rows.optionalInstant(0, 0).map { BridgeLife(lastSign: $0, pause: rows.int(0, 1)) }
  }

  package func undeliveredFeedback(
    app: String, after number: Int64, through last: Int64, limit: Int
  ) async throws(StoreError) -> [StoredGoneDevice] {
    try await read(
      """
      SELECT app, number, token, since, found_at FROM gone AS g
      WHERE app = $1 AND number > $2 AND number <= $3 AND NOT EXISTS (
        SELECT 1 FROM gone AS later
        WHERE later.app = g.app AND later.token = g.token AND later.number > g.number AND later.number <= $3)
      AND NOT EXISTS (
        SELECT 1 FROM devices AS d JOIN names AS n ON n.number = d.app
        WHERE n.name = g.app AND d.token = g.token AND d.registered_at > coalesce(g.since, g.found_at))
      ORDER BY number LIMIT $4
      """, .text(app), .int(number), .int(last), .int(limit)
    ).map { StoredGoneDevice($0, $1) }
  }

  package func lastFeedback(app: String) async throws(StoreError) -> Int64 {
    try await read("SELECT max(number) FROM gone WHERE app = $1", .text(app)).int(0, 0)
  }

  package func feedbackCursor(app: String) async throws(StoreError) -> Int64 {
    try await read("SELECT max(feedback_cursor) FROM bridge_apps WHERE app = $1", .text(app)).int(0, 0)
  }

  package func setFeedbackCursor(app: String, to number: Int64) async throws(StoreError) {
    try await write(
      """
      INSERT INTO bridge_apps (app, feedback_cursor) VALUES ($1, $2)
      ON CONFLICT (app) DO UPDATE
      SET feedback_cursor = greatest(bridge_apps.feedback_cursor, excluded.feedback_cursor)
      """, .text(app), .int(number))
  }

  package func forgetForwarded(before instant: StoreInstant, life: BridgeLife?) async throws(StoreError) {
    var statements: [PostgreSQLStatement] = []
    if let life {
      statements.append(
        PostgreSQLStatement(
          """
          INSERT INTO bridge_life (number, at, pause) VALUES (1, $1, $2) ON CONFLICT (number) DO UPDATE
          SET at = greatest(bridge_life.at, excluded.at), pause = excluded.pause
          """, .instant(life.lastSign), .int(life.pause)))
    }
    statements += [
      PostgreSQLStatement(
        """
        DELETE FROM bridge_frames WHERE ctid = ANY (ARRAY(
          SELECT f.ctid FROM bridge_frames AS f LEFT JOIN runs AS r ON r.high = f.high AND r.low = f.low
          WHERE \(Self.isOver)))
        """, .instant(instant)),
      // Frames without the end of their connection would count as sent again.
      PostgreSQLStatement(
        """
        DELETE FROM bridge_ends WHERE at < $1
          AND NOT EXISTS (SELECT 1 FROM bridge_frames AS f WHERE f.connection = bridge_ends.connection)
        """, .instant(instant)),
    ]
    try await write(statements, .bulk)
  }
}

extension RememberedFrames {
  /// The columns of ``PostgreSQLStore/forwardedFrames(since:)``.
  fileprivate init(_ rows: PostgreSQLRows, _ row: Int) {
    self.init(
      frames: ForwardedFrames(
        app: rows.text(row, 0), client: rows.text(row, 1), position: rows.int(row, 2),
        connection: UInt64(bitPattern: rows.int(row, 3)), firstFrame: UInt64(clamping: rows.int(row, 4)),
        run: StoredRunID(
          high: UInt64(bitPattern: rows.int(row, 5)), low: UInt32(truncatingIfNeeded: rows.int(row, 6))),
        firstLine: UInt32(truncatingIfNeeded: rows.int(row, 7)), digests: rows.bytes(row, 9),
        at: rows.instant(row, 8), isRecognised: rows.flag(row, 10)))
    if let at = rows.optionalInstant(row, 11) {
      end = EndedConnection(
        connection: frames.connection, from: rows.optionalInt(row, 12).map { UInt64(clamping: $0) },
        recentFrom: rows.optionalInt(row, 13).map { UInt64(clamping: $0) }, at: at,
        lastSign: rows.optionalInstant(row, 14))
    }
    answeredBy = rows.optionalInstant(row, 15)
  }
}

extension BridgeChanges {
  var statements: [PostgreSQLStatement] {
    var statements: [PostgreSQLStatement] = []
    if !forwarded.isEmpty { statements += forwardedStatements }
    if !ended.isEmpty { statements.append(endedStatement) }
    for (app, found) in alreadyDelivered.sorted(by: { $0.key < $1.key }) {
      statements.append(
        PostgreSQLStatement(
          """
          INSERT INTO bridge_apps (app, already_delivered, already_delivered_at) VALUES ($1, $2, $3)
          ON CONFLICT (app) DO UPDATE SET
            already_delivered = bridge_apps.already_delivered + excluded.already_delivered,
            already_delivered_at = greatest(bridge_apps.already_delivered_at, excluded.already_delivered_at)
          """, .text(app), .int(found.count), .instant(found.last)))
    }
    return statements
  }

  private var forwardedStatements: [PostgreSQLStatement] {
    // The last one of each place.
    var last: [[UInt64]: ForwardedFrames] = [:]
    for entry in forwarded { last[[entry.connection, entry.firstFrame]] = entry }
    let frames = last.values.sorted { ($0.connection, $0.firstFrame) < ($1.connection, $1.firstFrame) }
    let insert = PostgreSQLStatement(
      """
      INSERT INTO bridge_frames (app, client, position, connection, first_frame, high, low, first_line, count, at,
        digests, is_recognised)
      SELECT app, client, position, connection, first_frame, high, low, first_line, count, at, digests, mark = 1
      FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
        $8::bigint[], $9::bigint[], $10::bigint[], $11::bytea[], $12::bigint[])
        AS added (app, client, position, connection, first_frame, high, low, first_line, count, at, digests, mark)
      ON CONFLICT (app, client, connection, first_frame) DO UPDATE SET position = excluded.position,
        high = excluded.high, low = excluded.low, first_line = excluded.first_line, count = excluded.count,
        at = excluded.at, digests = excluded.digests, is_recognised = excluded.is_recognised
      """, .texts(frames.map(\.app)), .texts(frames.map(\.client)), .ints(frames.map(\.position)),
      .ints(frames.map(\.connection.stored)), .ints(frames.map { Int64(clamping: $0.firstFrame) }),
      .ints(frames.map(\.run.high.stored)), .ints(frames.map { Int64($0.run.low) }),
      .ints(frames.map { Int64($0.firstLine) }), .ints(frames.map { Int64($0.count) }),
      .ints(frames.map(\.at.milliseconds)), .blobs(frames.map(\.digests)),
      .ints(frames.map { $0.isRecognised ? 1 : 0 }))
    var oldest: [[String]: Int64] = [:]
    for entry in frames where entry.position > Int64(countLimit) {
      let key = [entry.app, entry.client]
      oldest[key] = max(oldest[key] ?? 0, entry.position - Int64(countLimit))
    }
    guard !oldest.isEmpty else { return [insert] }
    let kept = oldest.sorted { ($0.key[0], $0.key[1]) < ($1.key[0], $1.key[1]) }
    return [
      insert,
      PostgreSQLStatement(
        """
        DELETE FROM bridge_frames AS f USING unnest($1::text[], $2::text[], $3::bigint[]) AS kept (app, client, first)
        WHERE f.app = kept.app AND f.client = kept.client AND f.position < kept.first
        """, .texts(kept.map { $0.key[0] }), .texts(kept.map { $0.key[1] }), .ints(kept.map(\.value))),
    ]
  }

  private var endedStatement: PostgreSQLStatement {
    var last: [UInt64: EndedConnection] = [:]
    for entry in ended { last[entry.connection] = entry }
    let ends = last.values.sorted { $0.connection < $1.connection }
    return PostgreSQLStatement(
      """
      INSERT INTO bridge_ends (connection, from_frame, recent_from, at, last_sign)
      SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
      ON CONFLICT (connection) DO UPDATE SET from_frame = excluded.from_frame, recent_from = excluded.recent_from,
        at = excluded.at, last_sign = excluded.last_sign
      """, .ints(ends.map(\.connection.stored)), .ints(ends.map { $0.from.map { Int64(clamping: $0) } }),
      .ints(ends.map { $0.recentFrom.map { Int64(clamping: $0) } }), .ints(ends.map(\.at.milliseconds)),
      .ints(ends.map { $0.lastSign?.milliseconds }))
  }
}
