package import Carillon
internal import Foundation
internal import PushService
internal import PushStore
internal import PushStoreSQLite

#if PostgreSQL
internal import PushStorePostgreSQL
#endif

/// What was moved from a file into a database.
package struct MovedStore: Sendable {
  /// Rows by table, there and here.
  package var counts: [(table: String, origin: Int, copy: Int)] = []
  /// Where the files of campaigns are now; nil: there were none.
  package var files: String?
}

extension StoreConfiguration {
  /// What a database says of itself; nil: the store is a file.
  package func contents() throws(CarillonError) -> (problems: [String], counts: [(table: String, count: Int)])? {
    guard case .postgreSQL(let settings) = self else { return nil }
    #if PostgreSQL
    do throws(StoreError) {
      let contents = try PostgreSQLContents(settings)
      return (contents.problems, contents.counts)
    } catch {
      throw CarillonError(.journal, error.description)
    }
    #else
    throw CarillonError(.configuration, Self.isMissing(settings).description)
    #endif
  }

  /// Brings the store up to date, or makes it.
  ///
  /// - Returns: what was done, as a sentence.
  package func migrate(besides file: String) throws(CarillonError) -> String {
    do throws(StoreError) {
      switch self {
      case .file:
        let path = base(besides: file)
        let isNew = !FileManager.default.fileExists(atPath: path)
        let pending = isNew ? [] : try StoreFile(path: path).pendingMigrations()
        try SQLiteStore(path: path).close()
        if isNew { return "\(path) was made." }
        return pending.isEmpty
          ? "\(path) is up to date." : "\(path) was brought up to date: \(pending.joined(separator: "; "))."
      case .postgreSQL(let settings):
        #if PostgreSQL
        let versions = try PostgreSQLStore.migrate(settings)
        let (before, now) = (versions.lowerBound, versions.upperBound)
        if before == now { return "The tables of \(settings.name) have version \(now), up to date." }
        return before == 0
          ? "The tables of \(settings.name) were made, with version \(now)."
          : "The tables of \(settings.name) had version \(before), and have \(now)."
        #else
        throw Self.isMissing(settings)
        #endif
      }
    } catch {
      throw CarillonError(.journal, error.description)
    }
  }

  /// Moves what a file has into the database of this configuration: all of it, or nothing. The file
  /// and its folder stay as they are.
  ///
  /// - Parameters:
  ///   - path: of the file.
  ///   - file: the configuration file.
  ///   - progress: gets the table, and how many of its rows are there.
  package func copy(
    from path: String, besides file: String, progress: (_ table: String, _ count: Int, _ total: Int) -> Void
  ) throws(CarillonError) -> MovedStore {
    guard case .postgreSQL(let settings) = self else {
      throw CarillonError(
        .configuration, "\(file) keeps its store in a file; write \"store: { postgres: … }\" into it first")
    }
    #if PostgreSQL
    do throws(StoreError) {
      let reader = try SQLiteTableReader(path: path)
      var settings = settings
      // As the journal will be called: see ``NodeFile``.
      settings.journal = ProcessInfo.processInfo.hostName
      let writer = try PostgreSQLTableWriter(settings)
      var moved = MovedStore()
      for table in StoreTable.all {
        let total = try reader.count(of: table)
        var count = 0
        try reader.read(table, portion: Self.portion) { rows throws(StoreError) in
          try writer.write(rows, to: table)
          count += rows.count
          progress(table.name, count, total)
        }
        moved.counts.append((table.name, total, 0))
      }
      let counts = try writer.finish(try reader.numbers())
      for index in moved.counts.indices { moved.counts[index].copy = counts[moved.counts[index].table] ?? 0 }
      if let wrong = moved.counts.first(where: { $0.origin != $0.copy }) {
        throw StoreError(
          .failed, path: path,
          "\(path) has \(wrong.origin) rows of \(wrong.table), but \(wrong.copy) arrived; nothing was copied")
      }
      let spool = CampaignSpool(besides: base(besides: file))
      let hasFiles = try spool.copy(from: CampaignSpool(besides: path))
      do throws(StoreError) { try writer.commit() } catch {
        // The files are of no use without it, unless it is there: see "away".
        if hasFiles, error.kind != .away { try? FileManager.default.removeItem(atPath: spool.directory) }
        throw error
      }
      try reader.close()
      moved.files = hasFiles ? spool.directory : nil
      return moved
    } catch {
      throw CarillonError(.journal, error.description)
    }
    #else
    throw CarillonError(.configuration, Self.isMissing(settings).description)
    #endif
  }

  private static let portion = 10_000
}

extension CampaignSpool {
  /// - Returns: false if there is nothing to copy.
  fileprivate func copy(from other: CampaignSpool) throws(StoreError) -> Bool {
    let files = FileManager.default
    func names(_ folder: String) -> [String] { (try? files.contentsOfDirectory(atPath: folder)) ?? [] }
    guard !names(other.directory).isEmpty else { return false }
    guard names(directory).isEmpty else {
      throw StoreError(
        .unusable, path: directory,
        "the folder \(directory) has files of campaigns already; move it away, or empty it, and nothing was copied")
    }
    let partial = directory + ".partial"
    do {
      try? files.removeItem(atPath: partial)
      try files.copyItem(atPath: other.directory, toPath: partial)
      try? files.removeItem(atPath: directory)
      try files.moveItem(atPath: partial, toPath: directory)
      // The store that names them is durable soon.
      sync()
    } catch {
      try? files.removeItem(atPath: partial)
      throw StoreError(
        .failed, path: directory,
        "the files of campaigns cannot be copied to \(directory): \(error.localizedDescription); nothing was copied")
    }
    return true
  }
}
