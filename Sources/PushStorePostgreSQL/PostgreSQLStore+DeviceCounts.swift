package import PushStore

extension PostgreSQLStore {
  package func deviceCounts(
    app: String, after key: Int64, limit: Int, from first: StoreInstant
  ) async throws(StoreError) -> DeviceCounts {
    var counts = DeviceCounts()
    guard let number = try await names.find(app) else { return counts }
    let found = try await read(
      """
      SELECT count(*), max(number) FROM (
        SELECT number FROM devices WHERE app = $1 AND number > $2 ORDER BY number LIMIT $3) AS found
      """, .int(number), .int(key), .int(limit))
    guard let last = found.optionalInt(0, 1) else { return counts }
    if found.int(0, 0) == Int64(limit) { counts.end = last }
    let range: [PostgreSQLValue] = [.int(number), .int(key), .int(last)]
    let rows = try await read([
      PostgreSQLStatement(
        """
        SELECT name, count, gone FROM (
          SELECT language, count(*), count(*) FILTER (WHERE gone_at >= registered_at) AS gone
          FROM devices WHERE app = $1 AND number > $2 AND number <= $3 GROUP BY language) AS found
        LEFT JOIN names ON names.number = language
        """, values: range),
      PostgreSQLStatement(
        """
        SELECT name, count FROM (
          SELECT tag, count(*) FROM devices, unnest(tags) AS tag
          WHERE app = $1 AND devices.number > $2 AND devices.number <= $3 GROUP BY tag) AS found
        JOIN names ON names.number = tag
        """, values: range),
      PostgreSQLStatement(
        """
        SELECT created_at / 86400000, count(*), 0::bigint FROM devices
        WHERE app = $1 AND number > $2 AND number <= $3 AND created_at >= $4 GROUP BY 1
        UNION ALL SELECT gone_at / 86400000, 0::bigint, count(*) FROM devices
        WHERE app = $1 AND number > $2 AND number <= $3 AND gone_at >= $4 AND gone_at >= registered_at GROUP BY 1
        """, values: range + [.instant(first)]),
    ])
    for row in 0..<rows[0].count {
      let (count, gone) = (Int(rows[0].int(row, 1)), Int(rows[0].int(row, 2)))
      counts.languages[rows[0].optionalText(row, 0)] = count
      counts.active += count - gone
      counts.gone += gone
    }
    for row in 0..<rows[1].count {
      // Behind the number of its app.
      let tag = rows[1].text(row, 0).drop { $0 != " " }.dropFirst()
      counts.tags[String(tag)] = Int(rows[1].int(row, 1))
    }
    for row in 0..<rows[2].count {
      let day = rows[2].int(row, 0)
      counts.days[day, default: .init()].new += Int(rows[2].int(row, 1))
      counts.days[day, default: .init()].gone += Int(rows[2].int(row, 2))
    }
    return counts
  }
}
