package import PushStore

/// Notifications that nodes share. Whoever makes a node lost, lets it join or forgets it locks its
/// row first, and then gives its blocks to others: either all of them, or none.
extension PostgreSQLStore {
  /// How long a node that ended in good order keeps its blocks, in milliseconds: it may be on its
  /// way back.
  private static let returnTime: Int64 = 60_000

  package func claimBlocks(
    of apps: [String], limit: Int, by incarnation: Int64
  ) async throws(StoreError) -> [OwnedIntakeBlock] {
    // Nodes ask every second, and there is hardly ever one.
    let found = try await read(
      """
      SELECT EXISTS (SELECT 1 FROM intake_blocks WHERE owner = 0)
        OR EXISTS (SELECT 1 FROM nodes JOIN intake_blocks ON owner = incarnation WHERE NOT is_alive)
      """)
    guard found.flag(0, 0) else { return [] }
    let rows = try await write([
      PostgreSQLStatement(
        """
        WITH gone AS (
          SELECT incarnation FROM nodes WHERE NOT is_alive AND beat_at < \(Self.now) - $1
            AND EXISTS (SELECT 1 FROM intake_blocks WHERE owner = incarnation) FOR UPDATE)
        UPDATE intake_blocks SET owner = 0 FROM gone WHERE owner = gone.incarnation
        """, .int(Self.returnTime)),
      PostgreSQLStatement(
        """
        UPDATE intake_blocks AS block SET owner = $3
        FROM (
          SELECT high, low, first FROM intake_blocks WHERE owner = 0 AND app = ANY ($1)
          ORDER BY high, low, first LIMIT $2 FOR UPDATE SKIP LOCKED
        ) AS free
        WHERE block.high = free.high AND block.low = free.low AND block.first = free.first
          AND EXISTS (SELECT 1 FROM nodes WHERE is_alive AND incarnation = $3)
        RETURNING block.high, block.low, block.first, app, count, is_bridge, common, bytes
        """, .texts(apps), .int(limit), .int(incarnation)),
    ])[1]
    let blocks = rows.map { rows, row in
      var block = IntakeBlock(rows, row)
      (block.common, block.bytes) = (rows.bytes(row, 6), rows.bytes(row, 7))
      return block
    }
    return try await owned(blocks.sorted { ($0.id.run.high, $0.id.first) < ($1.id.run.high, $1.id.first) })
  }

  package func blocks(
    of incarnation: Int64, after block: IntakeBlock.ID?, limit: Int
  ) async throws(StoreError) -> [OwnedIntakeBlock] {
    let rows = try await read(
      """
      SELECT high, low, first, app, count, is_bridge FROM intake_blocks
      WHERE owner = $1 AND (high, low, first) > ($2, $3, $4) ORDER BY high, low, first LIMIT $5
      """, .int(incarnation), .int(block?.run.high.stored ?? .min), .int(Int64(block?.run.low ?? 0)),
      .int(Int64(block?.first ?? 0)), .int(limit))
    return try await owned(rows.map { IntakeBlock($0, $1) })
  }

  package func carriages(in runs: [StoredRunID]) async throws(StoreError) -> [IntakeCarriage] {
    try await read(
      """
      SELECT high, low, first, lines, run_high, run_low, run_first FROM intake_carriages
      JOIN unnest($1::bigint[], $2::bigint[]) AS asked (run_high, run_low) USING (run_high, run_low)
      ORDER BY run_high, run_low, run_first
      """, .ints(runs.map(\.high.stored)), .ints(runs.map { Int64($0.low) })
    ).map { rows, row in
      IntakeCarriage(
        block: IntakeBlock.ID(run: StoredRunID(rows, row, 0), first: UInt32(clamping: rows.int(row, 2))),
        lines: rows.ints(row, 3).map { UInt32(clamping: $0) }, run: StoredRunID(rows, row, 4),
        first: UInt32(clamping: rows.int(row, 6)))
    }
  }

  package func knownRuns(_ parts: [StoredLines]) async throws(StoreError) -> [StoredRunID: KnownRun] {
    guard !parts.isEmpty else { return [:] }
    let lines = StoredLines.columns(of: parts)
    let asked = """
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS asked (high, low, first, last)
      """
    // Outcomes last: what was settled meanwhile is in no block any more.
    let rows = try await read([
      PostgreSQLStatement(
        """
        SELECT high, low, ended_at IS NULL AND node <> $3
            AND EXISTS (SELECT 1 FROM nodes WHERE is_alive AND journal = runs.node)
        FROM (SELECT DISTINCT high, low FROM unnest($1::bigint[], $2::bigint[]) AS asked (high, low)) AS asked
        JOIN runs USING (high, low)
        """, .ints(parts.map(\.run.high.stored)), .ints(parts.map { Int64($0.run.low) }), .text(settings.writer)),
      PostgreSQLStatement(
        """
        SELECT high, low, block.first, block.first + count - 1 \(asked)
        JOIN intake_blocks AS block USING (high, low)
        WHERE block.first <= asked.last AND block.first + count > asked.first
        """, values: lines),
      PostgreSQLStatement(
        """
        SELECT high, low, known.first, known.last \(asked) JOIN runs USING (high, low)
        JOIN accepted AS known ON known.run = number AND known.first <= asked.last AND known.last >= asked.first
        """, values: lines),
      PostgreSQLStatement(
        """
        SELECT high, low, line, state, detail, app \(asked) JOIN runs USING (high, low)
        JOIN not_accepted AS known ON known.run = number AND line BETWEEN asked.first AND asked.last
        """, values: lines),
    ])
    var found: [StoredRunID: KnownRun] = [:]
    for row in 0..<rows[0].count {
      found[StoredRunID(rows[0], row, 0), default: KnownRun()].isElsewhere = rows[0].flag(row, 2)
    }
    func range(_ rows: PostgreSQLRows, _ row: Int) -> ClosedRange<UInt32> {
      UInt32(clamping: rows.int(row, 2))...UInt32(clamping: rows.int(row, 3))
    }
    for row in 0..<rows[1].count { found[StoredRunID(rows[1], row, 0)]?.kept.append(range(rows[1], row)) }
    for row in 0..<rows[2].count { found[StoredRunID(rows[2], row, 0)]?.accepted.append(range(rows[2], row)) }
    for row in 0..<rows[3].count {
      found[StoredRunID(rows[3], row, 0)]?.notAccepted[UInt32(clamping: rows[3].int(row, 2))] = StoredOutcome(
        state: rows[3].text(row, 3), detail: rows[3].text(row, 4), app: rows[3].text(row, 5))
    }
    return found
  }

  package func notifications(of block: IntakeBlock.ID) async throws(StoreError) -> IntakeBlock? {
    let rows = try await read(
      """
      SELECT high, low, first, app, count, is_bridge, common, bytes FROM intake_blocks
      WHERE high = $1 AND low = $2 AND first = $3
      """, .int(block.run.high.stored), .int(Int64(block.run.low)), .int(Int64(block.first)))
    guard rows.count == 1 else { return nil }
    var found = IntakeBlock(rows, 0)
    (found.common, found.bytes) = (rows.bytes(0, 6), rows.bytes(0, 7))
    return found
  }

  /// What is known of blocks besides their notifications.
  private func owned(_ blocks: [IntakeBlock]) async throws(StoreError) -> [OwnedIntakeBlock] {
    guard !blocks.isEmpty else { return [] }
    let values: [PostgreSQLValue] = [
      .ints(blocks.map(\.id.run.high.stored)), .ints(blocks.map { Int64($0.id.run.low) }),
      .ints(blocks.map { Int64($0.lines.lowerBound) }), .ints(blocks.map { Int64($0.lines.upperBound) }),
    ]
    let asked = """
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
        WITH ORDINALITY AS asked (high, low, first, last, n)
      """
    let rows = try await read([
      PostgreSQLStatement(
        """
        SELECT n, known.first, known.last \(asked) JOIN runs USING (high, low)
        JOIN accepted AS known ON known.run = number AND known.first <= asked.last AND known.last >= asked.first
          AND known.first >= coalesce((
            SELECT max(first) FROM accepted WHERE run = number AND first <= asked.first), 0)
        """, values: values),
      PostgreSQLStatement(
        """
        SELECT n, line, line \(asked) JOIN runs USING (high, low)
        JOIN not_accepted AS known ON known.run = number AND line BETWEEN asked.first AND asked.last
        """, values: values),
    ])
    var found = blocks.map { OwnedIntakeBlock($0, settled: []) }
    for part in rows {
      for row in 0..<part.count {
        let lines = UInt32(clamping: part.int(row, 1))...UInt32(clamping: part.int(row, 2))
        let place = Int(part.int(row, 0)) - 1
        found[place].settled.append(lines.clamped(to: blocks[place].lines))
      }
    }
    return found
  }
}

extension IntakeBlock {
  /// The columns high, low, first, app, count and is_bridge.
  fileprivate init(_ rows: PostgreSQLRows, _ row: Int) {
    self.init(
      ID(run: StoredRunID(rows, row, 0), first: UInt32(clamping: rows.int(row, 2))), app: rows.text(row, 3),
      count: Int(rows.int(row, 4)), isBridge: rows.flag(row, 5))
  }
}

extension StoredRunID {
  /// The columns high and low.
  fileprivate init(_ rows: PostgreSQLRows, _ row: Int, _ column: Int) {
    self.init(
      high: UInt64(bitPattern: rows.int(row, column)), low: UInt32(truncatingIfNeeded: rows.int(row, column + 1)))
  }
}

extension SharedIntakeChanges {
  /// Whether the process is alive; nothing comes in between before the end of the transaction.
  var aliveStatement: PostgreSQLStatement {
    PostgreSQLStatement("SELECT 1 FROM nodes WHERE is_alive AND incarnation = $1 FOR SHARE", .int(incarnation))
  }

  /// Whether it must be known that the process is alive.
  var needsLife: Bool { !isEmpty || !runs.isEmpty }

  /// - Parameter owner: of new blocks; 0: nobody.
  func statements(owner: Int64) -> [PostgreSQLStatement] {
    var statements: [PostgreSQLStatement] = []
    if !blocks.isEmpty {
      statements.append(
        PostgreSQLStatement(
          """
          INSERT INTO intake_blocks (high, low, first, app, count, common, bytes, is_bridge, owner)
          SELECT high, low, first, app, count, common, bytes, mark = 1, $8
          FROM unnest(
            $1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bytea[], $7::bytea[], $9::bigint[])
            AS added (high, low, first, app, count, common, bytes, mark)
          """, .ints(blocks.map(\.id.run.high.stored)), .ints(blocks.map { Int64($0.id.run.low) }),
          .ints(blocks.map { Int64($0.id.first) }), .texts(blocks.map(\.app)), .ints(blocks.map { Int64($0.count) }),
          .blobs(blocks.map(\.common)), .blobs(blocks.map(\.bytes)), .int(owner),
          .ints(blocks.map { $0.isBridge ? 1 : 0 })))
    }
    for carriage in carriages {
      statements.append(
        PostgreSQLStatement(
          """
          INSERT INTO intake_carriages (high, low, first, run_high, run_low, run_first, lines)
          VALUES ($1, $2, $3, $4, $5, $6, $7::bigint[]) ON CONFLICT DO NOTHING
          """, .int(carriage.block.run.high.stored), .int(Int64(carriage.block.run.low)),
          .int(Int64(carriage.block.first)), .int(carriage.run.high.stored), .int(Int64(carriage.run.low)),
          .int(Int64(carriage.first)), .ints(carriage.lines.map { Int64($0) })))
    }
    if !copies.isEmpty {
      statements.append(PostgreSQLStatement(StoredLines.addCopies, values: StoredLines.columns(of: copies)))
    }
    if !settled.isEmpty {
      statements.append(
        PostgreSQLStatement(
          """
          DELETE FROM intake_blocks AS block
          USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS settled (high, low, first)
          WHERE block.high = settled.high AND block.low = settled.low AND block.first = settled.first
          """, .ints(settled.map(\.run.high.stored)), .ints(settled.map { Int64($0.run.low) }),
          .ints(settled.map { Int64($0.first) })))
    }
    if !left.isEmpty {
      let runs = left.sorted { ($0.high, $0.low) < ($1.high, $1.low) }
      statements.append(
        PostgreSQLStatement(
          """
          UPDATE runs SET ended_at = \(PostgreSQLStore.now)
          FROM unnest($1::bigint[], $2::bigint[]) AS left_runs (high, low)
          WHERE runs.high = left_runs.high AND runs.low = left_runs.low AND ended_at IS NULL AND NOT EXISTS (
            SELECT 1 FROM intake_blocks AS block WHERE block.high = runs.high AND block.low = runs.low)
          """, .ints(runs.map(\.high.stored)), .ints(runs.map { Int64($0.low) })))
    }
    return statements
  }
}
