internal import Foundation
internal import GRDB
package import PushStore

/// Reads all tables of a store that no service uses, for another store.
package struct SQLiteTableReader {
  private let path: String
  private let queue: DatabaseQueue

  /// Brings the file up to date, and keeps others from opening it.
  ///
  /// - Throws: ``StoreError``: it is not there, or another process has it open.
  package init(path: String) throws(StoreError) {
    self.path = path
    guard FileManager.default.fileExists(atPath: path) else {
      throw StoreError(.unusable, path: path, "there is no store \(path)")
    }
    do {
      var configuration = Configuration()
      configuration.busyMode = .immediateError
      configuration.prepareDatabase { try $0.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
      queue = try DatabaseQueue(path: path, configuration: configuration)
      let migrator = Schema.migrator
      if try queue.read(migrator.hasBeenSuperseded) { throw StoreError.newer(path) }
      try migrator.migrate(queue)
      // The lock is held from the first change on.
      try queue.write { try $0.execute(sql: "PRAGMA user_version = 0") }
    } catch {
      let error = StoreError(error, path: path)
      guard error.kind == .away else { throw error }
      throw StoreError(
        .unusable, path: path, "the store \(path) is open in another process; stop the service that uses it first")
    }
  }

  package func close() throws(StoreError) { do { try queue.close() } catch { throw StoreError(error, path: path) } }

  package func count(of table: StoreTable) throws(StoreError) -> Int {
    do {
      return try queue.read { database in
        try Int.fetchOne(database, sql: "SELECT count(*) FROM \(table.origin)") ?? 0
      }
    } catch {
      throw StoreError(error, path: path)
    }
  }

  /// Reads all rows of a table.
  ///
  /// - Parameter body: gets them in portions.
  package func read(
    _ table: StoreTable, portion: Int, _ body: ([[StoredCell]]) throws(StoreError) -> Void
  ) throws(StoreError) {
    do {
      try queue.read { database in
        let rows = try Row.fetchCursor(database, sql: table.selection)
        var found: [[StoredCell]] = []
        while let row = try rows.next() {
          found.append(try table.cells(row))
          guard found.count == portion else { continue }
          try body(found)
          found = []
        }
        if !found.isEmpty { try body(found) }
      }
    } catch {
      throw StoreError(error, path: path)
    }
  }

  package func numbers() throws(StoreError) -> StoreNumbers {
    do {
      return try queue.read { database in
        func last(_ table: String) throws -> Int64 {
          try Int64.fetchOne(database, sql: "SELECT seq FROM sqlite_sequence WHERE name = ?", arguments: [table]) ?? 0
        }
        return StoreNumbers(lastDevice: try last("devices"), lastGone: try last("gone"))
      }
    } catch {
      throw StoreError(error, path: path)
    }
  }
}

extension StoreTable {
  /// Where the rows are, if the table is called otherwise here or has others as well.
  private static let origins = [
    "app_states": "appStates WHERE pausedAt IS NOT NULL", "requests": "idempotency",
  ]

  /// What is selected, if columns are called otherwise or have another form.
  private static let selections = [
    "keys": """
    id, name, digest, CASE scopes WHEN '' THEN '[]' ELSE '["' || replace(scopes, ' ', '","') || '"]' END,
    CASE apps WHEN '*' THEN NULL WHEN '' THEN '[]' ELSE '["' || replace(apps, ' ', '","') || '"]' END,
    createdAt, lastUsedAt, revokedAt
    """,
    "batch_parts": "high, low, part, runHigh, runLow, first, last",
    "requests": """
    caller, key, digest, begunAt, status,
    CASE WHEN headers IS NOT NULL THEN (SELECT json_group_array(entry.key) FROM json_each(headers) AS entry)
      WHEN contentType IS NOT NULL THEN '["content-type"]' END,
    CASE WHEN headers IS NOT NULL THEN (SELECT json_group_array(entry.value) FROM json_each(headers) AS entry)
      WHEN contentType IS NOT NULL THEN json_array(contentType) END,
    body
    """,
    "devices": """
    (SELECT name FROM deviceNames AS names WHERE names.number = app), number, high, low, token,
    (SELECT name FROM deviceNames AS names WHERE names.number = language),
    (SELECT name FROM deviceNames AS names WHERE names.number = timeZone), tags, createdAt, registeredAt, goneAt, userID
    """,
    "device_merges": "(SELECT name FROM deviceNames AS names WHERE names.number = app), formerKey, keptKey",
    "bridge_frames": """
    app, client, position, connection, firstFrame, runHigh, runLow, firstLine, count, at, digests, isRecognised
    """,
  ]

  fileprivate var origin: String { Self.origins[name] ?? Self.local(name) }

  fileprivate var selection: String {
    let columns = columns.map { $0.form == .uuid ? "high, low" : Self.local($0.name) }.joined(separator: ", ")
    return "SELECT \(Self.selections[name] ?? columns) FROM \(origin)"
  }

  /// As names are written here: `firstKey` instead of `first_key`.
  private static func local(_ name: String) -> String {
    let words = name.split(separator: "_")
    return words[0] + words.dropFirst().map(\.capitalized).joined()
  }

  fileprivate func cells(_ row: Row) throws -> [StoredCell] {
    var index = 0
    return try columns.map { column in
      defer { index += column.form == .uuid ? 2 : 1 }
      if column.form == .uuid {
        return .uuid(
          StoredUUID(high: UInt64(bitPattern: row[index] as Int64), low: UInt64(bitPattern: row[index + 1] as Int64)))
      }
      switch column.form {
      case .integer, .flag: return (row[index] as Int64?).map(StoredCell.integer) ?? .null
      case .text, .name: return (row[index] as String?).map(StoredCell.text) ?? .null
      case .bytes: return (row[index] as Data?).map { .bytes(Array($0)) } ?? .null
      case .tags: return .texts((row[index] as String).split(separator: " ").map(String.init))
      case .texts, .uuid:
        guard let text = row[index] as String? else { return .null }
        return .texts(try JSONDecoder().decode([String].self, from: Data(text.utf8)))
      }
    }
  }
}
