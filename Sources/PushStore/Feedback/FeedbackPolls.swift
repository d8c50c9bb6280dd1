internal import GRDB

/// When the feedback services of apps were read.
package protocol FeedbackPolls: Sendable {
  /// When the list was last read to its end; nil: never.
  func lastFeedbackPoll(app: String) async throws(StoreError) -> StoreInstant?
  func noteFeedbackPoll(app: String, at instant: StoreInstant) async throws(StoreError)
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
    try await write { database in
      try database.execute(
        sql: "INSERT INTO feedbackPolls VALUES (?, ?) ON CONFLICT DO UPDATE SET polledAt = excluded.polledAt",
        arguments: [app, instant.milliseconds])
    }
  }
}
