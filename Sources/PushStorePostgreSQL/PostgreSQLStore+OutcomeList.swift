package import PushStore

extension PostgreSQLStore {
  /// Groups of one read.
  private static let groupLimit = 256
  /// Rows of some ten kilobytes.
  private static let portion = 200

  package func outcomeGroups(app: String, after number: Int64, limit: Int) async throws(StoreError) -> [OutcomeGroup] {
    try await read(
      """
      SELECT app, last, count, at, is_bridge, high, low, campaign_high, campaign_low, state, detail, entries
      FROM (
        SELECT *, sum(count) OVER (ORDER BY last) - count AS before FROM (
          SELECT * FROM outcomes WHERE app = $1 AND last > $2 ORDER BY last LIMIT \(Self.groupLimit)
        ) AS next
      ) AS counted WHERE before < $3 ORDER BY last
      """, .text(app), .int(number), .int(limit)
    ).map { OutcomeGroup($0, $1) }
  }

  package func outcomeProgress(app: String) async throws(StoreError) -> OutcomeProgress {
    let rows = try await read(
      """
      SELECT coalesce((SELECT last FROM outcome_counts WHERE app = $1), 0),
        coalesce((SELECT delivered FROM deliveries WHERE app = $1), 0)
      """, .text(app))
    return OutcomeProgress(last: rows.int(0, 0), delivered: rows.int(0, 1))
  }

  package func noteDelivered(_ numbers: [String: Int64]) async throws(StoreError) {
    // In one order, so that two nodes do not wait for each other.
    let numbers = numbers.sorted { $0.key < $1.key }
    try await write(
      """
      INSERT INTO deliveries SELECT * FROM unnest($1::text[], $2::bigint[])
      ON CONFLICT (app) DO UPDATE SET delivered = greatest(deliveries.delivered, excluded.delivered)
      """, .texts(numbers.map(\.key)), .ints(numbers.map(\.value)))
  }

  package func labels(of parts: [StoredLines]) async throws(StoreError) -> NotificationLabels {
    var labels = NotificationLabels()
    guard !parts.isEmpty else { return labels }
    let values: [PostgreSQLValue] = [
      .ints(parts.map(\.run.high.stored)), .ints(parts.map { Int64($0.run.low) }),
      .ints(parts.map { Int64($0.lines.lowerBound) }), .ints(parts.map { Int64($0.lines.upperBound) }),
    ]
    let asked = """
      unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS asked (high, low, first, last)
      """
    let rows = try await read([
      PostgreSQLStatement(
        """
        SELECT high, low, line, reference FROM \(asked) JOIN notification_references USING (high, low)
        WHERE line BETWEEN first AND last
        """, values: values),
      PostgreSQLStatement(
        """
        SELECT part.high, part.low, part.first, part.last, batch FROM \(asked) JOIN batch_parts AS part
          ON part.high = asked.high AND part.low = asked.low AND part.first <= asked.last
            AND part.last >= asked.first AND part.first >= coalesce((
              SELECT max(first) FROM batch_parts AS other
              WHERE other.high = asked.high AND other.low = asked.low AND other.first <= asked.first), 0)
        """, values: values),
    ])
    for row in 0..<rows[0].count {
      let run = StoredRunID(rows[0], row)
      let line = UInt32(clamping: rows[0].int(row, 2))
      labels.references[StoredNotificationID(run: run, line: line)] = rows[0].text(row, 3)
    }
    for row in 0..<rows[1].count {
      let (first, last) = (UInt32(clamping: rows[1].int(row, 2)), UInt32(clamping: rows[1].int(row, 3)))
      let lines = StoredLines(run: StoredRunID(rows[1], row), lines: first...max(first, last))
      labels.batches.append((lines: lines, batch: rows[1].uuid(row, 4)))
    }
    return labels
  }

  func forgetOutcomes(before instant: StoreInstant) async throws(StoreError) {
    try await delete(
      "DELETE FROM outcomes WHERE ctid = ANY (ARRAY(SELECT ctid FROM outcomes WHERE at < $1 LIMIT $2))",
      .instant(instant), portion: Self.portion)
  }
}

extension [OutcomeGroup] {
  /// Numbers are given out under the lock of the app's row, which ends with the transaction: a
  /// reader behind its cursor never misses a lower one.
  var statement: PostgreSQLStatement {
    let origins = map { group -> (isBridge: Int64, high: Int64, low: Int64, campaign: StoredUUID?) in
      switch group.origin {
      case .run(let run, let isBridge): (isBridge ? 1 : 0, run.high.stored, Int64(run.low), nil)
      case .campaign(let id, let seed): (0, seed.high.stored, seed.low.stored, id)
      }
    }
    return PostgreSQLStatement(
      """
      WITH added AS (
        SELECT * FROM unnest(
          $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
          $9::text[], $10::text[], $11::bytea[]
        ) WITH ORDINALITY
          AS added (app, count, at, is_bridge, high, low, campaign_high, campaign_low, state, detail, entries, n)),
      counts AS (
        INSERT INTO outcome_counts SELECT app, sum(count)::bigint FROM added GROUP BY app ORDER BY app
        ON CONFLICT (app) DO UPDATE SET last = outcome_counts.last + excluded.last RETURNING app, last)
      INSERT INTO outcomes
      SELECT app, last - (sum(count) OVER (PARTITION BY app))::bigint
          + (sum(count) OVER (PARTITION BY app ORDER BY n))::bigint,
        count, at, is_bridge = 1, high, low, campaign_high, campaign_low, state, detail, entries
      FROM added JOIN counts USING (app)
      """, .texts(map(\.app)), .ints(map { Int64($0.count) }), .ints(map(\.at.milliseconds)),
      .ints(origins.map(\.isBridge)), .ints(origins.map(\.high)), .ints(origins.map(\.low)),
      .ints(origins.map { $0.campaign?.high.stored }), .ints(origins.map { $0.campaign?.low.stored }),
      .texts(map(\.state)), .texts(map(\.detail)), .blobs(map(\.entries)))
  }
}

extension OutcomeGroup {
  /// The columns in the order of the table.
  fileprivate init(_ rows: PostgreSQLRows, _ row: Int) {
    let (high, low) = (UInt64(bitPattern: rows.int(row, 5)), UInt64(bitPattern: rows.int(row, 6)))
    let origin: Origin
    if let campaignHigh = rows.optionalInt(row, 7), let campaignLow = rows.optionalInt(row, 8) {
      origin = .campaign(
        StoredUUID(high: UInt64(bitPattern: campaignHigh), low: UInt64(bitPattern: campaignLow)),
        seed: StoredUUID(high: high, low: low))
    } else {
      origin = .run(StoredRunID(high: high, low: UInt32(truncatingIfNeeded: low)), isBridge: rows.flag(row, 4))
    }
    self.init(
      app: rows.text(row, 0), origin: origin, state: rows.text(row, 9), detail: rows.text(row, 10),
      at: rows.instant(row, 3), count: Int(rows.int(row, 2)), entries: rows.bytes(row, 11))
    last = rows.int(row, 1)
  }
}

extension StoredRunID {
  /// The columns high and low.
  fileprivate init(_ rows: PostgreSQLRows, _ row: Int) {
    self.init(high: UInt64(bitPattern: rows.int(row, 0)), low: UInt32(truncatingIfNeeded: rows.int(row, 1)))
  }
}
