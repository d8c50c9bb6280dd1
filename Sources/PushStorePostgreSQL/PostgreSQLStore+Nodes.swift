package import PushStore

extension PostgreSQLStore {
  package func nodes() async throws(StoreError) -> [StoredNode]? {
    let rows = try await read(
      """
      SELECT nodes.name, incarnation, beat, is_alive, is_alive AND leases.holder IS NOT NULL
      FROM nodes LEFT JOIN leases ON leases.holder = nodes.incarnation ORDER BY nodes.name
      """)
    return rows.map { rows, row in
      StoredNode(
        name: rows.text(row, 0), incarnation: rows.int(row, 1), beat: rows.int(row, 2), isAlive: rows.flag(row, 3),
        leads: rows.flag(row, 4))
    }
  }

  package func join(_ node: String, replacing former: Int64?) async throws(StoreError) -> Int64? {
    let rows = try await write([
      // One after the other: what two have seen before is no reason for both.
      PostgreSQLStatement("SELECT version FROM schema_version FOR UPDATE"),
      PostgreSQLStatement(
        """
        INSERT INTO nodes (name, incarnation, beat, is_alive)
        SELECT $1, nextval('incarnations'), 0, true
        WHERE NOT EXISTS (SELECT 1 FROM nodes WHERE is_alive AND name = $1 AND incarnation <> $2)
        ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, beat = 0, is_alive = true
        RETURNING incarnation
        """, .text(node), .int(former ?? 0)),
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
    ])[1]
    return rows.count == 0 ? nil : rows.int(0, 0)
  }

  package func beat(of incarnation: Int64) async throws(StoreError) -> Bool {
    try await write("UPDATE nodes SET beat = beat + 1 WHERE incarnation = $1 AND is_alive", .int(incarnation))
      .changedCount == 1
  }

  package func fence(_ node: StoredNode) async throws(StoreError) -> Bool {
    try await write(
      "UPDATE nodes SET is_alive = false WHERE name = $1 AND incarnation = $2 AND beat = $3 AND is_alive",
      .text(node.name), .int(node.incarnation), .int(node.beat)
    ).changedCount == 1
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

  package func leave(_ incarnation: Int64) async throws(StoreError) {
    try await write("UPDATE nodes SET is_alive = false WHERE incarnation = $1", .int(incarnation))
  }
}
