internal import Foundation
internal import GRDB
package import PushStore

/// What a look at every page of a store has found.
package struct StoreReport: Sendable {
  /// Such as `row 7 missing from index devicesByToken`. Empty: the file is whole.
  package var problems: [String] = []
  /// The last change of the tables that the file has.
  package var version = ""
  /// Rows by table.
  package var counts: [(table: String, count: Int)] = []
}

/// A store's file, for looking at it and copying it, also while a service writes to it.
package struct StoreFile: Sendable {
  private let path: String
  private let queue: DatabaseQueue

  /// Opens the file without changing it.
  ///
  /// - Throws: ``StoreError``: it is not there, or is no store.
  package init(path: String) throws(StoreError) {
    self.path = path
    guard FileManager.default.fileExists(atPath: path) else {
      throw StoreError(.unusable, path: path, "there is no store \(path); \"carillon serve\" makes it")
    }
    do {
      var configuration = Configuration()
      configuration.readonly = true
      configuration.busyMode = .timeout(5)
      queue = try DatabaseQueue(path: path, configuration: configuration)
    } catch {
      throw StoreError(error, path: path)
    }
  }

  package func close() throws(StoreError) { do { try queue.close() } catch { throw StoreError(error, path: path) } }

  /// Which migrations the store lacks.
  ///
  /// - Throws: ``StoreError``: it was written by a newer version, or is none.
  package func pendingMigrations() throws(StoreError) -> [String] {
    do {
      let migrator = Schema.migrator
      if try queue.read(migrator.hasBeenSuperseded) { throw StoreError.newer(path) }
      let applied = try Set(queue.read(migrator.appliedMigrations))
      return migrator.migrations.filter { !applied.contains($0) }
    } catch {
      throw StoreError(error, path: path)
    }
  }

  /// Reads the whole file.
  package func check() async throws(StoreError) -> StoreReport {
    do {
      return try await queue.read { database in
        var report = StoreReport()
        let migrator = Schema.migrator
        guard let version = try migrator.appliedIdentifiers(database).max(by: Self.isOlder) else {
          report.problems = ["it is an SQLite file without the tables of a store"]
          return report
        }
        report.version = version
        report.problems = try String.fetchAll(database, sql: "PRAGMA integrity_check(100)").filter { $0 != "ok" }
        // Further checks would report the same damage.
        guard report.problems.isEmpty else { return report }
        if try migrator.hasBeenSuperseded(database) {
          report.problems.append("it was written by a newer version of carillon")
        }
        for violation in try Array(database.foreignKeyViolations().prefix(100)) {
          report.problems.append(
            "a row of \(violation.originTable) names a missing row of \(violation.destinationTable)")
        }
        report.problems += try Self.tagProblems(database)
        let tables = try String.fetchAll(
          database,
          sql: "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name")
        for table in tables where table != "grdb_migrations" {
          report.counts.append(
            (table, try Int.fetchOne(database, sql: "SELECT count(*) FROM \(table.quotedDatabaseIdentifier)") ?? 0))
        }
        return report
      }
    } catch {
      throw StoreError(error, path: path)
    }
  }

  private static func isOlder(_ first: String, _ second: String) -> Bool {
    func number(_ text: String) -> Int { Int(text.prefix { $0.isNumber }) ?? 0 }
    return number(first) < number(second)
  }

  /// Tags stand in the rows of devices and in an index of tags, which must agree.
  private static func tagProblems(_ database: Database) throws -> [String] {
    guard try database.tableExists("deviceTags") else { return [] }
    let wrongCounts =
      try Int.fetchOne(
        database,
        sql: """
          SELECT count(*) FROM deviceTagNames AS name
          WHERE deviceCount <> (SELECT count(*) FROM deviceTags WHERE tag = name.number)
          """) ?? 0
    let lostTags =
      try Int.fetchOne(
        database,
        sql: """
          SELECT count(*) FROM deviceTags AS entry
          JOIN deviceTagNames AS name ON name.number = entry.tag
          LEFT JOIN devices ON devices.number = entry.device
          WHERE devices.number IS NULL OR instr(' ' || devices.tags || ' ', ' ' || name.tag || ' ') = 0
          """) ?? 0
    let tagCount = try Int.fetchOne(database, sql: "SELECT count(*) FROM deviceTags") ?? 0
    let listedCount =
      try Int.fetchOne(
        database,
        sql: "SELECT sum(length(tags) - length(replace(tags, ' ', '')) + 1) FROM devices WHERE tags <> ''") ?? 0
    var problems: [String] = []
    if wrongCounts > 0 { problems.append("\(wrongCounts) tags have a wrong number of devices") }
    if lostTags > 0 || tagCount != listedCount { problems.append("devices and the index of tags do not agree") }
    return problems
  }

  /// Writes a consistent copy to a new file. Other connections continue to write.
  package func backUp(to copy: String) async throws(StoreError) {
    // Empty, so that SQLite takes it, and private before anything is in it.
    guard !FileManager.default.fileExists(atPath: copy),
      FileManager.default.createFile(atPath: copy, contents: nil, attributes: [.posixPermissions: 0o600])
    else { throw StoreError(.failed, path: copy, "\(copy) is there already, or cannot be written") }
    do {
      try await queue.writeWithoutTransaction { database in
        try database.execute(sql: "VACUUM INTO ?", arguments: [copy])
      }
      let file = try FileHandle(forUpdating: URL(filePath: copy))
      try file.synchronize()
      try file.close()
    } catch {
      try? FileManager.default.removeItem(atPath: copy)
      let reason = StoreError(error, path: path)
      throw StoreError(reason.kind, path: copy, "the copy \(copy) cannot be written: \(reason.description)")
    }
  }
}
