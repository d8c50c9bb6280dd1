internal import PushStore
internal import Synchronization

/// Days whose runs have partitions of their own, which are dropped once all of these runs may be
/// forgotten.
///
/// The upper half of a run's number is the first day of its partition, so outcomes are found
/// without knowing when their run began. It is 0 for runs of days that have no partitions: the
/// partition of day 0 is always there, and its rows are deleted in portions. So nothing waits for
/// a partition, and two machines need not agree before they write.
struct PostgreSQLDays: Sendable {
  /// Tables with partitions, in the order in which they are locked.
  static let tables = ["accepted", "copies", "not_accepted", "notification_references"]
  /// The number of a day, which the numbers of its runs begin with.
  static let shift: Int64 = 32

  /// Since 1970, in order. They do not overlap.
  let ranges: [Range<Int64>]

  /// Of an instant.
  static func day(_ instant: StoreInstant) -> Int64 { max(0, instant.day) }

  /// New partitions have one of this many parts of the time for which rows are kept: each costs
  /// every reader a lock.
  private static let partCount: Int64 = 8

  /// The days that share new partitions with this one; nil: it has some, or can have none.
  ///
  /// Usually one. If rows are kept for months, as many as give a few dozen partitions.
  func partition(for day: Int64) -> Range<Int64>? {
    guard day > 0, !ranges.contains(where: { $0.contains(day) }) else { return nil }
    let age = ranges.map(\.lowerBound).filter { $0 < day }.first.map { day - $0 } ?? 0
    let next = ranges.first { $0.lowerBound > day }?.lowerBound ?? .max
    return day..<min(next, day + max(1, age / Self.partCount))
  }

  static func name(_ table: String, _ first: Int64) -> String { "\(table)_\(first)" }

  /// Makes the partitions of some days.
  static func creation(_ days: Range<Int64>) -> String {
    tables.map { table in
      let name = name(table, days.lowerBound)
      let bounds =
        table == "notification_references"
        ? (days.lowerBound, days.lowerBound + 1) : (days.lowerBound << shift, days.upperBound << shift)
      // Who attaches a partition locks out nobody, other than who creates one in its place.
      return """
        CREATE TABLE \(name) (LIKE \(table) INCLUDING ALL);
        ALTER TABLE \(table) ATTACH PARTITION \(name) FOR VALUES FROM (\(bounds.0)) TO (\(bounds.1));

        """
    }.joined() + "INSERT INTO run_days VALUES (\(days.lowerBound), \(days.upperBound));"
  }
}

/// The days that this process has seen partitions of. A day that another machine has dropped since
/// is in no one's way: see ``PostgreSQLDays``.
final class PostgreSQLKnownDays: Sendable {
  private let days = Mutex(Set<Int64>())

  /// Makes partitions for what begins at these times, and for the day after, so that nothing has
  /// to wait at midnight.
  ///
  /// - Throws: ``StoreError``, only if the connection was lost: without partitions it goes on.
  func prepare(
    _ instants: [StoreInstant], _ connection: PostgreSQLConnection, by deadline: MonotonicTime
  ) throws(StoreError) {
    let wanted = Set(instants.map(PostgreSQLDays.day)).filter { $0 > 0 }
    let missing = days.withLock { days in wanted.filter { !days.contains($0) || !days.contains($0 + 1) } }
    for day in missing.sorted() {
      for day in [day, day + 1] {
        do throws(StoreError) {
          try connection.addPartition(for: day, by: deadline)
        } catch {
          if connection.isBroken { throw error }
          // Someone holds a lock, or the user may not make tables. The next run tries again.
          return
        }
        days.withLock { _ = $0.insert(day) }
      }
    }
  }
}

extension PostgreSQLConnection {
  /// Others wait for a lock that has to wait itself. So it does not wait for long.
  private static let begin = "BEGIN; SET LOCAL lock_timeout = '250ms'; SELECT version FROM schema_version FOR UPDATE"

  private func days(by deadline: MonotonicTime) throws(StoreError) -> PostgreSQLDays {
    let rows = try run([PostgreSQLStatement("SELECT first, next FROM run_days ORDER BY first")], by: deadline)[0]
    return PostgreSQLDays(ranges: rows.map { $0.int($1, 0)..<$0.int($1, 1) })
  }

  fileprivate func addPartition(for day: Int64, by deadline: MonotonicTime) throws(StoreError) {
    guard try days(by: deadline).partition(for: day) != nil else { return }
    // The row of the schema's version is locked while tables are changed.
    try script(Self.begin, by: deadline)
    if let days = try days(by: deadline).partition(for: day) {
      try script(PostgreSQLDays.creation(days), by: deadline)
    }
    _ = try run([PostgreSQLStatement("COMMIT")], by: deadline)
  }

  /// Drops the partitions of days before an instant, with their runs, if each of them ended before
  /// it.
  fileprivate func dropPartitions(
    endedBefore instant: StoreInstant, by deadline: MonotonicTime
  ) throws(StoreError) {
    let day = PostgreSQLDays.day(instant)
    for days in try days(by: deadline).ranges where days.upperBound <= day {
      // References of these days may belong to runs that began later.
      let isNeeded = PostgreSQLStatement(
        """
        SELECT EXISTS (
          SELECT 1 FROM runs WHERE (ended_at IS NULL OR ended_at >= $1)
            AND (number >= $2 AND number < $3 OR high >= $4 AND high < $5))
        """, .instant(instant), .int(days.lowerBound << PostgreSQLDays.shift),
        .int(days.upperBound << PostgreSQLDays.shift), .int(days.lowerBound * StoreInstant.millisecondsPerDay << 16),
        .int(days.upperBound * StoreInstant.millisecondsPerDay << 16))
      if try run([isNeeded], by: deadline)[0].flag(0, 0) { continue }
      try script(Self.begin, by: deadline)
      // Who begins a run of these days holds the row: a run is in the database before the question
      // is asked again, or belongs to day 0.
      let found = try run(
        [
          PostgreSQLStatement("DELETE FROM run_days WHERE first = $1", .int(days.lowerBound)),
          PostgreSQLStatement(
            "DELETE FROM runs WHERE ended_at < $1 AND number >= $2 AND number < $3", .instant(instant),
            .int(days.lowerBound << PostgreSQLDays.shift), .int(days.upperBound << PostgreSQLDays.shift)),
          isNeeded,
        ], by: deadline)
      if found[2].flag(0, 0) {
        try script("ROLLBACK", by: deadline)
        continue
      }
      let tables = PostgreSQLDays.tables.map { PostgreSQLDays.name($0, days.lowerBound) }
      try script("DROP TABLE IF EXISTS \(tables.joined(separator: ", "))", by: deadline)
      _ = try run([PostgreSQLStatement("COMMIT")], by: deadline)
    }
  }
}

extension PostgreSQLStore {
  /// Drops whole partitions. What stays because a run is open, or because someone reads it for
  /// long, is deleted by ``forget(endedBefore:)`` itself.
  func dropPartitions(endedBefore instant: StoreInstant) async throws(StoreError) {
    try await pool.run(.bulk, limit: Limit.bulk) { connection, deadline throws(StoreError) in
      do throws(StoreError) {
        try connection.dropPartitions(endedBefore: instant, by: deadline)
      } catch {
        guard error.kind == .away, !connection.isBroken else { throw error }
      }
    }
  }
}
