package import PushStore

extension PostgreSQLStore {
  /// By the database's clock, in milliseconds since 1970.
  static let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

  package func nodes() async throws(StoreError) -> [StoredNode]? {
    let rows = try await read(
      """
      SELECT nodes.name, incarnation, beat, is_alive, is_alive AND leases.holder IS NOT NULL, is_lost, is_draining,
        joined_at, greatest(0, \(Self.now) - coalesce(beat_at, \(Self.now))), version, configuration, address,
        pending_count, lease, clock_offset
      FROM nodes LEFT JOIN leases ON leases.holder = nodes.incarnation ORDER BY nodes.name
      """)
    return rows.map(Self.node)
  }

  package func nodeStatuses() async throws(StoreError) -> [Int64: [UInt8]] {
    let rows = try await read("SELECT incarnation, status FROM nodes WHERE is_alive")
    return Dictionary(rows.map { ($0.int($1, 0), $0.bytes($1, 1)) }) { first, _ in first }
  }

  private static func node(_ rows: PostgreSQLRows, _ row: Int) -> StoredNode {
    var node = StoredNode(
      name: rows.text(row, 0), incarnation: rows.int(row, 1), beat: rows.int(row, 2), isAlive: rows.flag(row, 3),
      leads: rows.flag(row, 4))
    (node.isLost, node.isDraining) = (rows.flag(row, 5), rows.flag(row, 6))
    node.joinedAt = rows.optionalInstant(row, 7)
    node.silence = .milliseconds(rows.int(row, 8))
    node.facts.version = rows.text(row, 9)
    node.facts.configuration = rows.text(row, 10)
    node.facts.address = rows.text(row, 11)
    node.facts.pendingCount = Int(rows.int(row, 12))
    node.facts.lease = .milliseconds(rows.int(row, 13))
    node.facts.clockOffset = rows.optionalInt(row, 14).map { .milliseconds($0) }
    return node
  }

  package func join(_ node: String, replacing former: Int64?) async throws(StoreError) -> Int64? {
    let rows = try await write([
      // One after the other: what two have seen before is no reason for both.
      PostgreSQLStatement("SELECT version FROM schema_version FOR UPDATE"),
      // Its journal has another process's notifications, or none.
      PostgreSQLStatement(
        """
        WITH gone AS (
          SELECT incarnation FROM nodes WHERE name = $1 AND NOT is_alive AND incarnation <> $2 FOR UPDATE)
        UPDATE intake_blocks SET owner = 0 FROM gone WHERE owner = gone.incarnation
        """, .text(node), .int(former ?? 0)),
      // What its former process has told counts no more.
      PostgreSQLStatement(
        """
        INSERT INTO nodes (name, incarnation, beat, is_alive, joined_at, beat_at, journal)
        SELECT $1, nextval('incarnations'), 0, true, \(Self.now), \(Self.now), $3
        WHERE NOT EXISTS (SELECT 1 FROM nodes WHERE is_alive AND name = $1 AND incarnation <> $2)
        ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, beat = 0, is_alive = true,
          is_lost = false, is_draining = false, joined_at = excluded.joined_at, beat_at = excluded.beat_at,
          version = '', configuration = '', address = '', pending_count = 0, lease = excluded.lease, clock_offset = NULL,
          status = '', journal = excluded.journal
        RETURNING incarnation
        """, .text(node), .int(former ?? 0), .text(settings.writer)),
      // What its former process did, it goes on with.
      PostgreSQLStatement(
        """
        UPDATE leases SET holder = nodes.incarnation FROM nodes
        WHERE nodes.name = $1 AND nodes.is_alive AND nodes.incarnation > $2 AND leases.holder = $2
        """, .text(node), .int(former ?? 0)),
      PostgreSQLStatement(
        """
        UPDATE segments SET owner = nodes.incarnation FROM nodes
        WHERE nodes.name = $1 AND nodes.is_alive AND nodes.incarnation > $2 AND segments.owner = $2
          AND NOT segments.is_settled
        """, .text(node), .int(former ?? 0)),
      PostgreSQLStatement(
        """
        UPDATE intake_blocks SET owner = nodes.incarnation FROM nodes
        WHERE nodes.name = $1 AND nodes.is_alive AND nodes.incarnation > $2 AND owner = $2 AND owner <> 0
        """, .text(node), .int(former ?? 0)),
    ])[2]
    return rows.count == 0 ? nil : rows.int(0, 0)
  }

  package func beat(of incarnation: Int64, telling facts: NodeFacts) async throws(StoreError) -> StoreInstant? {
    let rows = try await write(
      """
      UPDATE nodes SET beat = beat + 1, beat_at = \(Self.now), version = $2, configuration = $3, address = $4,
        pending_count = $5, lease = $6, clock_offset = $7, status = $8
      WHERE incarnation = $1 AND is_alive RETURNING beat_at
      """, .int(incarnation), .text(facts.version), .text(facts.configuration), .text(facts.address),
      .int(facts.pendingCount), .int(facts.lease.milliseconds), PostgreSQLValue(facts.clockOffset?.milliseconds),
      .bytes(facts.status))
    return rows.count == 0 ? nil : rows.instant(0, 0)
  }

  package func fence(_ node: StoredNode) async throws(StoreError) -> Bool {
    try await write([
      PostgreSQLStatement(
        """
        UPDATE nodes SET is_alive = false, is_lost = true
        WHERE name = $1 AND incarnation = $2 AND beat = $3 AND is_alive
        """, .text(node.name), .int(node.incarnation), .int(node.beat)),
      PostgreSQLStatement(
        """
        UPDATE intake_blocks SET owner = 0 FROM nodes
        WHERE name = $1 AND incarnation = $2 AND NOT is_alive AND is_lost AND owner = incarnation
        """, .text(node.name), .int(node.incarnation)),
    ])[0].changedCount == 1
  }

  package func lead(_ incarnation: Int64) async throws(StoreError) -> Bool {
    try await write(
      """
      INSERT INTO leases (name, holder) SELECT 'lead', incarnation FROM nodes WHERE is_alive AND incarnation = $1
      ON CONFLICT (name) DO UPDATE SET holder = excluded.holder
        WHERE leases.holder = $1
          OR NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.is_alive AND nodes.incarnation = leases.holder)
      RETURNING 1
      """, .int(incarnation)
    ).count == 1
  }

  package func yield(_ incarnation: Int64) async throws(StoreError) {
    try await write("DELETE FROM leases WHERE name = 'lead' AND holder = $1", .int(incarnation))
  }

  package func leave(_ incarnation: Int64) async throws(StoreError) {
    try await write("UPDATE nodes SET is_alive = false WHERE incarnation = $1", .int(incarnation))
  }

  package func setDraining(_ isDraining: Bool, node: String) async throws(StoreError) -> Bool {
    try await write(
      "UPDATE nodes SET is_draining = $2 WHERE name = $1 AND is_alive", .text(node), .flag(isDraining)
    ).changedCount == 1
  }

  package func forget(node: String) async throws(StoreError) -> Bool {
    let rows = try await write([
      PostgreSQLStatement(
        """
        UPDATE runs SET is_lost = true, ended_at = \(Self.now) FROM nodes
        WHERE name = $1 AND NOT is_alive AND runs.node = journal AND ended_at IS NULL
          AND NOT EXISTS (SELECT 1 FROM nodes AS other WHERE other.is_alive AND other.journal = nodes.journal)
          AND NOT EXISTS (SELECT 1 FROM intake_blocks AS block WHERE block.high = runs.high AND block.low = runs.low)
        """, .text(node)),
      PostgreSQLStatement(
        """
        WITH gone AS (SELECT incarnation FROM nodes WHERE name = $1 AND NOT is_alive FOR UPDATE)
        UPDATE intake_blocks SET owner = 0 FROM gone WHERE owner = gone.incarnation
        """, .text(node)),
      PostgreSQLStatement("DELETE FROM nodes WHERE name = $1 AND NOT is_alive", .text(node)),
      PostgreSQLStatement(
        "DELETE FROM takeovers WHERE node = $1 AND NOT EXISTS (SELECT 1 FROM nodes WHERE name = $1)", .text(node)),
    ])
    return rows[2].changedCount == 1
  }

  // MARK: Their work

  package func nodeWork() async throws(StoreError) -> [String: NodeWork] {
    let rows = try await read([
      PostgreSQLStatement(
        """
        SELECT nodes.name, count(*) FROM segments JOIN nodes ON nodes.incarnation = segments.owner
        WHERE NOT segments.is_settled GROUP BY nodes.name
        """),
      PostgreSQLStatement(
        "SELECT node, count(*), sum(possible_duplicates)::bigint, max(at) FROM takeovers GROUP BY node"),
    ])
    var found: [String: NodeWork] = [:]
    for row in 0..<rows[0].count {
      found[rows[0].text(row, 0), default: NodeWork()].segmentCount = Int(rows[0].int(row, 1))
    }
    for row in 0..<rows[1].count {
      var work = found[rows[1].text(row, 0)] ?? NodeWork()
      (work.takenOverCount, work.possibleDuplicateCount) = (Int(rows[1].int(row, 1)), Int(rows[1].int(row, 2)))
      work.lastTakeover = rows[1].instant(row, 3)
      found[rows[1].text(row, 0)] = work
    }
    return found
  }

  package func note(_ takeover: SegmentTakeover) async throws(StoreError) {
    let id = takeover.segment
    // A campaign that was forgotten meanwhile is of no interest.
    try await write(
      """
      INSERT INTO takeovers SELECT id, $2, $3, $4, $5, $6, $7 FROM campaigns WHERE id = $1 ON CONFLICT DO NOTHING
      """, .uuid(id.campaign), .int(id.part), .int(id.firstKey), .int(takeover.epoch), .text(takeover.node),
      .instant(takeover.at), .int(takeover.possibleDuplicateCount))
  }
}

extension Duration {
  fileprivate var milliseconds: Int64 { Int64(self / .milliseconds(1)) }
}
