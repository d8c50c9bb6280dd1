internal import Foundation
internal import GRDB
package import PushStore

/// Requests with keys. Those without a status have begun, and were not answered.
enum IdempotencySchema {
  static let tables = """
    CREATE TABLE idempotency (
      caller TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL, begunAt INTEGER NOT NULL,
      status INTEGER, contentType TEXT, body BLOB,
      PRIMARY KEY (caller, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX idempotencyByTime ON idempotency (begunAt);
    """

  /// A JSON object; null in rows of older versions, which have `contentType` instead.
  static let headers = "ALTER TABLE idempotency ADD COLUMN headers TEXT"
}

extension SQLiteStore {
  package func begin(
    _ request: IdempotentRequest, oldest: StoreInstant
  ) async throws(StoreError) -> IdempotentBeginning {
    try await writer.write { database in
      let insert = try database.cachedStatement(
        sql: """
          INSERT INTO idempotency (caller, key, digest, begunAt) VALUES (?, ?, ?, ?)
          ON CONFLICT DO UPDATE SET digest = excluded.digest, begunAt = excluded.begunAt, status = NULL,
            contentType = NULL, body = NULL, headers = NULL
          WHERE begunAt < ?
          """)
      try insert.execute(arguments: [
        request.caller, request.key, Data(request.digest), request.begunAt.milliseconds, oldest.milliseconds,
      ])
      if database.changesCount == 1 { return .new }
      let find = try database.cachedStatement(
        sql: "SELECT digest, status, contentType, body, headers FROM idempotency WHERE caller = ? AND key = ?")
      guard let row = try Row.fetchOne(find, arguments: [request.caller, request.key]) else { return .begun }
      guard Array(row[0] as Data) == request.digest else { return .different }
      guard let status = row[1] as Int? else { return .begun }
      var headers: [String: String] = [:]
      if let text = row[4] as String? {
        headers = try JSONDecoder().decode([String: String].self, from: Data(text.utf8))
      } else if let type = row[2] as String? {
        headers["content-type"] = type
      }
      return .answered(StoredAnswer(status: status, headers: headers, body: Array(row[3] as Data)))
    }
  }

  package func finish(_ request: IdempotentRequest, _ answer: StoredAnswer) async throws(StoreError) {
    try await writer.write { database in
      let statement = try database.cachedStatement(
        sql: "UPDATE idempotency SET status = ?, headers = ?, body = ? WHERE caller = ? AND key = ?")
      let headers = String(decoding: try JSONEncoder().encode(answer.headers), as: UTF8.self)
      try statement.execute(arguments: [answer.status, headers, Data(answer.body), request.caller, request.key])
    }
  }

  package func withdraw(_ request: IdempotentRequest) async throws(StoreError) {
    try await execute("DELETE FROM idempotency WHERE caller = ? AND key = ?", [request.caller, request.key])
  }

  package func forgetRequests(begunBefore instant: StoreInstant) async throws(StoreError) {
    try await writer.delete(
      """
      idempotency WHERE (caller, key) IN (
        SELECT caller, key FROM idempotency WHERE begunAt < ? ORDER BY begunAt LIMIT ?)
      """, [instant.milliseconds], portion: 2_000)
  }
}
