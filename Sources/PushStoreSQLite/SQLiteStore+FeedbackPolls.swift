internal import GRDB
package import PushStore

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
    try await writer.write { database in
      try database.execute(
        sql: "INSERT INTO feedbackPolls VALUES (?, ?) ON CONFLICT DO UPDATE SET polledAt = excluded.polledAt",
        arguments: [app, instant.milliseconds])
    }
  }
}
