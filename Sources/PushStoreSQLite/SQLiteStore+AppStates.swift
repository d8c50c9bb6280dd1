internal import GRDB
package import PushStore

extension Schema {
  static let appStates = """
    CREATE TABLE appStates (app TEXT PRIMARY KEY NOT NULL, pausedAt INTEGER) STRICT, WITHOUT ROWID;
    """
}

extension SQLiteStore {
  package func pausedApps() async throws(StoreError) -> [String: StoreInstant] {
    try await read { database in
      let rows = try Row.fetchAll(database, sql: "SELECT app, pausedAt FROM appStates WHERE pausedAt IS NOT NULL")
      return Dictionary(
        rows.map { ($0["app"], StoreInstant(milliseconds: $0["pausedAt"])) }, uniquingKeysWith: { first, _ in first })
    }
  }

  package func pause(app: String, at instant: StoreInstant) async throws(StoreError) {
    try await execute(
      """
      INSERT INTO appStates (app, pausedAt) VALUES (?, ?)
      ON CONFLICT (app) DO UPDATE SET pausedAt = coalesce(pausedAt, excluded.pausedAt)
      """, [app, instant.milliseconds])
  }

  package func resume(app: String) async throws(StoreError) {
    try await execute("DELETE FROM appStates WHERE app = ?", [app])
  }
}

enum FeedbackSchema {
  static let tables = "CREATE TABLE feedbackPolls (app TEXT PRIMARY KEY NOT NULL, polledAt INTEGER NOT NULL) STRICT;"
}

extension SQLiteStore {
  package func lastFeedbackPoll(app: String) async throws(StoreError) -> StoreInstant? {
    try await read { database in
      try Int64.fetchOne(database, sql: "SELECT polledAt FROM feedbackPolls WHERE app = ?", arguments: [app])
        .map(StoreInstant.init(milliseconds:))
    }
  }

  package func noteFeedbackPoll(app: String, at instant: StoreInstant) async throws(StoreError) {
    try await execute(
      "INSERT INTO feedbackPolls VALUES (?, ?) ON CONFLICT DO UPDATE SET polledAt = excluded.polledAt",
      [app, instant.milliseconds])
  }
}
