package import PushStore

extension PostgreSQLStore {
  package func write(_ changes: IntakeChanges) throws(StoreError) {
    try writeBatch { connection, batch, deadline throws(StoreError) in
      try days.prepare(changes.began.map(\.at), connection, by: deadline)
      guard changes.shared.needsLife else {
        let free = try changes.acceptedLines(besides: connection, by: deadline)
        let statements = changes.statements(accepting: free, node: settings.writer)
        _ = try connection.transaction([batch] + statements, by: deadline)
        return
      }
      try connection.transaction([batch, changes.shared.aliveStatement], by: deadline) { rows throws(StoreError) in
        let isAlive = rows.count == 1
        let changes = isAlive ? changes : changes.withoutShared
        let free = try changes.acceptedLines(besides: connection, by: deadline)
        return changes.statements(accepting: free, node: settings.writer)
          + changes.shared.statements(owner: isAlive ? changes.shared.incarnation : 0)
      }
    }
  }

  package func notification(_ id: StoredNotificationID) async throws(StoreError) -> StoredNotification {
    let key: [PostgreSQLValue] = [.int(id.run.high.stored), .int(Int64(id.run.low)), .int(Int64(id.line))]
    let rows = try await read([
      PostgreSQLStatement(
        """
        SELECT reference FROM notification_references
        WHERE high = $1 AND low = $2 AND line = $3
          AND day IN (0, coalesce((SELECT first FROM run_days WHERE first <= $4 AND next > $4), 0)) LIMIT 1
        """, values: key + [.int(id.run.day)]),
      // What was sent again after a crash may have both: it was accepted then.
      PostgreSQLStatement(
        """
        SELECT app, EXISTS (SELECT 1 FROM copies WHERE run = number AND first <= $3 AND last >= $3),
          (SELECT confirmation FROM (
            SELECT last, confirmation FROM accepted WHERE run = number AND first <= $3 ORDER BY first DESC LIMIT 1
          ) AS found WHERE last >= $3), state, detail, ended_at IS NULL, is_lost
        FROM runs LEFT JOIN not_accepted ON run = number AND line = $3 WHERE high = $1 AND low = $2
        """, values: key),
    ])
    var found = StoredNotification()
    found.reference = rows[0].count == 0 ? nil : rows[0].text(0, 0)
    guard rows[1].count == 1 else { return found }
    let app = rows[1].text(0, 0)
    found.isDoubted = rows[1].flag(0, 1)
    if rows[1].flag(0, 5) { found.sharedApp = app }
    if let confirmation = rows[1].optionalText(0, 2) {
      found.outcome = StoredOutcome(state: "accepted", detail: confirmation, app: app)
    } else if let state = rows[1].optionalText(0, 3) {
      found.outcome = StoredOutcome(state: state, detail: rows[1].text(0, 4), app: app)
    } else if rows[1].flag(0, 6) {
      found.outcome = .withoutNode(app: app)
    }
    return found
  }

  package func batch(_ id: StoredUUID) async throws(StoreError) -> StoredBatch? {
    let rows = try await read([
      PostgreSQLStatement("SELECT app, rejected_count, created_at FROM batches WHERE id = $1", .uuid(id)),
      PostgreSQLStatement("SELECT high, low, first, last FROM batch_parts WHERE batch = $1 ORDER BY part", .uuid(id)),
    ])
    guard rows[0].count == 1 else { return nil }
    return StoredBatch(
      id: id, app: rows[0].text(0, 0), parts: rows[1].map { StoredLines($0, $1) },
      rejectedCount: Int(rows[0].int(0, 1)), createdAt: rows[0].instant(0, 2))
  }

  package func outcomes(of parts: [StoredLines]) async throws(StoreError) -> OutcomeCounts {
    var counts = OutcomeCounts()
    guard !parts.isEmpty else { return counts }
    let values: [PostgreSQLValue] = [
      .ints(parts.map(\.run.high.stored)), .ints(parts.map { Int64($0.run.low) }),
      .ints(parts.map { Int64($0.lines.lowerBound) }), .ints(parts.map { Int64($0.lines.upperBound) }),
    ]
    let asked = """
      unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS asked (high, low, first, last, n)
      JOIN runs ON runs.high = asked.high AND runs.low = asked.low
      """
    let rows = try await read([
      // Ranges do not overlap, so only the last that begins before the first line can reach it.
      PostgreSQLStatement(
        """
        SELECT confirmation,
          sum(least(found.last, asked.last) - greatest(found.first, asked.first) + 1)::bigint
        FROM \(asked) JOIN accepted AS found ON found.run = number AND found.first <= asked.last
          AND found.last >= asked.first AND found.first >= coalesce(
            (SELECT max(first) FROM accepted WHERE run = number AND first <= asked.first), 0)
        GROUP BY confirmation
        """, values: values),
      PostgreSQLStatement(
        """
        SELECT state, detail, count(*) FROM \(asked)
        JOIN not_accepted AS found ON found.run = number AND line BETWEEN asked.first AND asked.last
        WHERE NOT EXISTS (
          SELECT 1 FROM accepted WHERE run = number AND accepted.first <= line AND accepted.last >= line)
        GROUP BY state, detail
        """, values: values),
      PostgreSQLStatement(
        """
        SELECT n, greatest(found.first, asked.first), least(found.last, asked.last), count FROM \(asked)
        JOIN copies AS found ON found.run = number AND found.first <= asked.last AND found.last >= asked.first
        ORDER BY n, 2
        """, values: values),
      PostgreSQLStatement(
        """
        SELECT sum(asked.last - asked.first + 1
          - coalesce((
            SELECT sum(least(found.last, asked.last) - greatest(found.first, asked.first) + 1) FROM accepted AS found
            WHERE found.run = number AND found.first <= asked.last AND found.last >= asked.first), 0)
          - (SELECT count(*) FROM not_accepted AS found
            WHERE found.run = number AND line BETWEEN asked.first AND asked.last AND NOT EXISTS (
              SELECT 1 FROM accepted WHERE run = number AND accepted.first <= line AND accepted.last >= line)))::bigint
        FROM \(asked) WHERE is_lost
        """, values: values),
    ])
    for row in 0..<rows[0].count { counts.accepted[rows[0].text(row, 0), default: 0] += Int(rows[0].int(row, 1)) }
    for row in 0..<rows[1].count {
      counts.others[rows[1].text(row, 0), default: [:]][rows[1].text(row, 1), default: 0] += Int(rows[1].int(row, 2))
    }
    counts.add(Int(rows[3].optionalInt(0, 0) ?? 0), of: .withoutNode(app: ""))
    var (part, next) = (Int64(0), Int64(0))
    for row in 0..<rows[2].count {
      let (first, last) = (rows[2].int(row, 1), rows[2].int(row, 2))
      if rows[2].int(row, 0) != part { (part, next) = (rows[2].int(row, 0), 0) }
      counts.copies += Int((last - first + 1) * rows[2].int(row, 3))
      guard last >= next else { continue }
      counts.doubted += Int(last - max(first, next) + 1)
      next = last + 1
    }
    return counts
  }

  package func goneDevices(
    app: String, after cursor: Int64, limit: Int
  ) async throws(StoreError) -> [StoredGoneDevice] {
    try await read(
      """
      SELECT app, number, token, since, found_at FROM gone WHERE app = $1 AND number > $2 ORDER BY number LIMIT $3
      """, .text(app), .int(cursor), .int(limit)
    ).map { StoredGoneDevice($0, $1) }
  }

  package func endRuns(except open: Set<StoredRunID>, at instant: StoreInstant) async throws(StoreError) {
    let kept = open.sorted { ($0.high, $0.low) < ($1.high, $1.low) }
    // Those of other machines are in their journals.
    try await write(
      """
      UPDATE runs SET ended_at = $4 WHERE node = $1 AND ended_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM unnest($2::bigint[], $3::bigint[]) AS kept (high, low)
        WHERE kept.high = runs.high AND kept.low = runs.low)
        AND NOT EXISTS (SELECT 1 FROM intake_blocks AS block WHERE block.high = runs.high AND block.low = runs.low)
      """, .text(settings.writer), .ints(kept.map(\.high.stored)), .ints(kept.map { Int64($0.low) }), .instant(instant))
  }

  package func forget(endedBefore instant: StoreInstant) async throws(StoreError) {
    try await dropPartitions(endedBefore: instant)
    // A run with millions of rows would hold others up: its rows go first, in portions.
    let runs = try await read("SELECT number FROM runs WHERE ended_at < $1", .instant(instant)).map { $0.int($1, 0) }
    for run in runs {
      for table in ["accepted", "not_accepted", "copies"] {
        try await delete(
          // A row's place is that in its partition.
          """
          DELETE FROM \(table) WHERE run = $1 AND ctid = ANY (ARRAY(SELECT ctid FROM \(table) WHERE run = $1 LIMIT $2))
          """,
          .int(run), portion: 5_000)
      }
      try await write([PostgreSQLStatement("DELETE FROM runs WHERE number = $1", .int(run))], .bulk)
    }
    // Of runs that are forgotten, or never were. Their identifiers begin with the milliseconds.
    try await delete(
      """
      DELETE FROM notification_references WHERE (day, high, low, line) IN (
        SELECT day, high, low, line FROM notification_references AS entry WHERE high < $1 AND NOT EXISTS (
          SELECT 1 FROM runs WHERE runs.high = entry.high AND runs.low = entry.low) LIMIT $2)
      """, .int(max(0, instant.milliseconds) << 16), portion: 2_000)
    try await forgetOutcomes(before: instant)
    try await write(
      "DELETE FROM intake_carriages WHERE NOT EXISTS (SELECT 1 FROM runs WHERE high = run_high AND low = run_low)")
    // A batch can be asked for as long as one of its runs.
    try await delete(
      """
      DELETE FROM batches WHERE id IN (
        SELECT id FROM batches WHERE created_at < $1 AND NOT EXISTS (
          SELECT 1 FROM batch_parts JOIN runs USING (high, low) WHERE batch = id) LIMIT $2)
      """, .instant(instant), portion: 2_000)
  }
}

extension StoredLines {
  /// The columns high, low, first and last.
  fileprivate init(_ rows: PostgreSQLRows, _ row: Int) {
    let run = StoredRunID(high: UInt64(bitPattern: rows.int(row, 0)), low: UInt32(truncatingIfNeeded: rows.int(row, 1)))
    let (first, last) = (UInt32(clamping: rows.int(row, 2)), UInt32(clamping: rows.int(row, 3)))
    self.init(run: run, lines: first...max(first, last))
  }
}

extension StoredGoneDevice {
  /// The columns app, number, token, since and found_at.
  init(_ rows: PostgreSQLRows, _ row: Int) {
    self.init(
      app: rows.text(row, 0), token: rows.bytes(row, 2), since: rows.optionalInstant(row, 3),
      foundAt: rows.instant(row, 4))
    number = rows.int(row, 1)
  }
}

extension StoredLines {
  /// Counts one more copy of each, of runs that are there.
  static let addCopies = """
    INSERT INTO copies SELECT number, first, last, count(*)
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS added (high, low, first, last)
    JOIN runs USING (high, low) GROUP BY number, first, last ORDER BY number, first, last
    ON CONFLICT (run, first, last) DO UPDATE SET count = copies.count + excluded.count
    """

  static func columns(of lines: [StoredLines]) -> [PostgreSQLValue] {
    [
      .ints(lines.map(\.run.high.stored)), .ints(lines.map { Int64($0.run.low) }),
      .ints(lines.map { Int64($0.lines.lowerBound) }), .ints(lines.map { Int64($0.lines.upperBound) }),
    ]
  }
}

extension StoredRunID {
  /// The day in whose partition its references are: identifiers begin with the milliseconds.
  fileprivate var day: Int64 { Int64(high >> 16) / StoreInstant.millisecondsPerDay }
}

extension UInt64 {
  /// The same bits, as the server's integers have them.
  var stored: Int64 { Int64(bitPattern: self) }
}

// MARK: Writing

extension IntakeChanges {
  /// Neighbouring lines that are accepted, without those that were before: after a crash, the first
  /// time that a notification was sent counts.
  fileprivate func acceptedLines(
    besides connection: PostgreSQLConnection, by deadline: MonotonicTime
  ) throws(StoreError) -> [(run: StoredRunID, lines: ClosedRange<UInt32>, confirmation: String)] {
    guard !accepted.isEmpty else { return [] }
    let rows = try connection.run(
      [
        PostgreSQLStatement(
          """
          SELECT n, found.first, found.last
          FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
            WITH ORDINALITY AS added (high, low, first, last, n)
          JOIN runs ON runs.high = added.high AND runs.low = added.low
          JOIN accepted AS found ON found.run = number AND found.first <= added.last AND found.last >= added.first
            AND found.first >= coalesce(
              (SELECT max(first) FROM accepted WHERE run = number AND first <= added.first), 0)
          """, .ints(accepted.map(\.run.high.stored)), .ints(accepted.map { Int64($0.run.low) }),
          .ints(accepted.map { Int64($0.lines.lowerBound) }), .ints(accepted.map { Int64($0.lines.upperBound) }))
      ], by: deadline)[0]
    var known: [Int: [ClosedRange<UInt32>]] = [:]
    for row in 0..<rows.count {
      known[Int(rows.int(row, 0)) - 1, default: []].append(
        UInt32(clamping: rows.int(row, 1))...UInt32(clamping: rows.int(row, 2)))
    }
    var taken: [StoredRunID: [ClosedRange<UInt32>]] = [:]
    var free: [(run: StoredRunID, lines: ClosedRange<UInt32>, confirmation: String)] = []
    for (index, entry) in accepted.enumerated() {
      for lines in entry.lines.without((known[index] ?? []) + (taken[entry.run] ?? [])) {
        free.append((entry.run, lines, entry.confirmation))
      }
      taken[entry.run, default: []].append(entry.lines)
    }
    return free
  }

  fileprivate func statements(
    accepting accepted: [(run: StoredRunID, lines: ClosedRange<UInt32>, confirmation: String)], node: String
  ) -> [PostgreSQLStatement] {
    var statements: [PostgreSQLStatement] = []
    if !began.isEmpty {
      let days = began.map { PostgreSQLDays.day($0.at) }
      statements.append(
        PostgreSQLStatement(
          """
          WITH days AS (SELECT first, next FROM run_days WHERE next > $6 AND first <= $7 FOR KEY SHARE)
          INSERT INTO runs (number, high, low, app, node, began_at)
          SELECT DISTINCT ON (high, low) (coalesce(first, 0) << 32) + nextval('runs_number_seq'), high, low, app, $5, at
          FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $8::bigint[])
            AS began (high, low, app, at, day) LEFT JOIN days ON day >= first AND day < next
          ORDER BY high, low ON CONFLICT (high, low) DO UPDATE
            SET ended_at = NULL, node = excluded.node, is_lost = false
          """, .ints(began.map(\.run.high.stored)), .ints(began.map { Int64($0.run.low) }), .texts(began.map(\.app)),
          .ints(began.map(\.at.milliseconds)), .text(node), .int(days.min() ?? 0), .int(days.max() ?? 0),
          .ints(days)))
    }
    if !references.isEmpty { statements += referenceStatements }
    if !batches.isEmpty { statements += batchStatements }
    if !accepted.isEmpty {
      statements.append(
        PostgreSQLStatement(
          Self.checked(
            """
            INSERT INTO accepted SELECT number, first, last, confirmation
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
              AS added (high, low, first, last, confirmation) JOIN runs USING (high, low)
            """, by: "$6"), .ints(accepted.map(\.run.high.stored)), .ints(accepted.map { Int64($0.run.low) }),
          .ints(accepted.map { Int64($0.lines.lowerBound) }), .ints(accepted.map { Int64($0.lines.upperBound) }),
          .texts(accepted.map(\.confirmation)), .int(accepted.count)))
    }
    if !doubted.isEmpty {
      statements.append(
        PostgreSQLStatement(
          Self.checked(StoredLines.addCopies, by: "$5"),
          values: StoredLines.columns(of: doubted) + [.int(Set(doubted).count)]))
    }
    if !notAccepted.isEmpty { statements.append(notAcceptedStatement) }
    if !gone.isEmpty { statements += goneStatements }
    if !(passed.isEmpty && outcomes.isEmpty) { statements.append((passed.groups + outcomes.groups).statement) }
    statements += bridge.statements
    if !ended.isEmpty {
      statements.append(
        PostgreSQLStatement(
          """
          UPDATE runs SET ended_at = ended.at
          FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS ended (high, low, at)
          WHERE runs.high = ended.high AND runs.low = ended.low
          """, .ints(ended.map(\.run.high.stored)), .ints(ended.map { Int64($0.run.low) }),
          .ints(ended.map(\.at.milliseconds))))
    }
    return statements
  }

  /// Divides by zero unless the statement has written as many rows as it must: a run is missing.
  private static func checked(_ insert: String, by count: String) -> String {
    "WITH written AS (\(insert) RETURNING 1) SELECT 1 / (CASE WHEN count(*) = \(count) THEN 1 ELSE 0 END) FROM written"
  }

  private var referenceStatements: [PostgreSQLStatement] {
    stride(from: 0, to: references.count, by: 10_000).map { start in
      let part = references[start..<min(references.count, start + 10_000)]
      let runs = part.map(\.notification.run)
      // Who drops the partition of a day waits for this.
      return PostgreSQLStatement(
        """
        WITH days AS (SELECT first, next FROM run_days WHERE next > $5 AND first <= $6 FOR KEY SHARE)
        INSERT INTO notification_references (high, low, line, reference, day)
        SELECT high, low, line, reference, coalesce(first, 0)
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $7::bigint[])
          AS added (high, low, line, reference, of_day) LEFT JOIN days ON of_day >= first AND of_day < next
        ON CONFLICT DO NOTHING
        """, .ints(runs.map(\.high.stored)), .ints(runs.map { Int64($0.low) }),
        .ints(part.map { Int64($0.notification.line) }), .texts(part.map(\.text)), .int(runs.map(\.day).min() ?? 0),
        .int(runs.map(\.day).max() ?? 0), .ints(runs.map(\.day)))
    }
  }

  private var batchStatements: [PostgreSQLStatement] {
    let parts = batches.flatMap { batch in batch.parts.map { (batch: batch.id, lines: $0) } }
    return [
      PostgreSQLStatement(
        """
        INSERT INTO batches SELECT DISTINCT ON (id) *
        FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[]) AS added (id, app, rejected, at)
        ORDER BY id ON CONFLICT DO NOTHING
        """, .uuids(batches.map(\.id)), .texts(batches.map(\.app)), .ints(batches.map { Int64($0.rejectedCount) }),
        .ints(batches.map(\.createdAt.milliseconds))),
      PostgreSQLStatement(
        """
        INSERT INTO batch_parts SELECT batch,
          coalesce((SELECT max(part) FROM batch_parts AS known WHERE known.batch = added.batch), -1)
            + row_number() OVER (PARTITION BY batch ORDER BY n), high, low, first, last
        FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
          WITH ORDINALITY AS added (batch, high, low, first, last, n)
        """, .uuids(parts.map(\.batch)), .ints(parts.map(\.lines.run.high.stored)),
        .ints(parts.map { Int64($0.lines.run.low) }), .ints(parts.map { Int64($0.lines.lines.lowerBound) }),
        .ints(parts.map { Int64($0.lines.lines.upperBound) })),
    ]
  }

  private var notAcceptedStatement: PostgreSQLStatement {
    // The last one of each line.
    var last: [StoredNotificationID: (state: String, detail: String)] = [:]
    for entry in notAccepted { last[entry.notification] = (entry.state, entry.detail) }
    let entries = last.sorted {
      ($0.key.run.high, $0.key.run.low, $0.key.line) < ($1.key.run.high, $1.key.run.low, $1.key.line)
    }
    return PostgreSQLStatement(
      Self.checked(
        """
        INSERT INTO not_accepted SELECT number, line, state, detail
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[])
          AS added (high, low, line, state, detail) JOIN runs USING (high, low)
        ON CONFLICT (run, line) DO UPDATE SET state = excluded.state, detail = excluded.detail
        """, by: "$6"), .ints(entries.map(\.key.run.high.stored)), .ints(entries.map { Int64($0.key.run.low) }),
      .ints(entries.map { Int64($0.key.line) }), .texts(entries.map(\.value.state)),
      .texts(entries.map(\.value.detail)), .int(entries.count))
  }

  private var goneStatements: [PostgreSQLStatement] {
    let values: [PostgreSQLValue] = [
      .texts(gone.map(\.app)), .blobs(gone.map(\.token)), .ints(gone.map { $0.since?.milliseconds }),
      .ints(gone.map(\.foundAt.milliseconds)),
    ]
    let added = "unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[])"
    return [
      PostgreSQLStatement(
        """
        WITH added AS (SELECT * FROM \(added) WITH ORDINALITY AS added (app, token, since, found_at, n)),
        counts AS (
          INSERT INTO gone_counts SELECT app, count(*) FROM added GROUP BY app ORDER BY app
          ON CONFLICT (app) DO UPDATE SET last = gone_counts.last + excluded.last RETURNING app, last)
        INSERT INTO gone SELECT app,
          last - count(*) OVER (PARTITION BY app) + row_number() OVER (PARTITION BY app ORDER BY n), token, since,
          found_at
        FROM added JOIN counts USING (app)
        """, values: values),
      PostgreSQLStatement(
        """
        UPDATE devices SET gone_at = greatest(gone_at, latest.at)
        FROM (
          SELECT number, token, max(coalesce(since, found_at)) AS at
          FROM \(added) AS added (app, token, since, found_at) JOIN names ON name = app GROUP BY number, token
        ) AS latest
        WHERE devices.app = latest.number AND devices.token = latest.token
        """, values: values),
      // Of the device itself, or of the activity alone.
      PostgreSQLStatement(
        """
        DELETE FROM activity_tokens AS known USING \(added) AS added (app, token, since, found_at)
        WHERE known.app = added.app AND (known.token = added.token OR known.device = added.token)
          AND known.registered_at <= coalesce(since, found_at)
        """, values: values),
    ]
  }
}

extension ClosedRange<UInt32> {
  /// What is left of it when others are taken away.
  func without(_ others: [ClosedRange<UInt32>]) -> [ClosedRange<UInt32>] {
    var rest = [self]
    for other in others {
      rest = rest.flatMap { range -> [ClosedRange<UInt32>] in
        guard range.overlaps(other) else { return [range] }
        var parts: [ClosedRange<UInt32>] = []
        if range.lowerBound < other.lowerBound { parts.append(range.lowerBound...(other.lowerBound - 1)) }
        if range.upperBound > other.upperBound { parts.append((other.upperBound + 1)...range.upperBound) }
        return parts
      }
    }
    return rest
  }
}
