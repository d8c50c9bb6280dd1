package import PushStore

extension PostgreSQLStore {
  package func pausedApps() async throws(StoreError) -> [String: StoreInstant] {
    let rows = try await read("SELECT app, paused_at FROM app_states")
    return Dictionary(rows.map { ($0.text($1, 0), $0.instant($1, 1)) }) { first, _ in first }
  }

  package func pause(app: String, at instant: StoreInstant) async throws(StoreError) {
    try await write("INSERT INTO app_states VALUES ($1, $2) ON CONFLICT DO NOTHING", .text(app), .instant(instant))
  }

  package func resume(app: String) async throws(StoreError) {
    try await write("DELETE FROM app_states WHERE app = $1", .text(app))
  }

  package func lastFeedbackPoll(app: String) async throws(StoreError) -> StoreInstant? {
    let rows = try await read("SELECT polled_at FROM feedback_polls WHERE app = $1", .text(app))
    return rows.count == 0 ? nil : rows.instant(0, 0)
  }

  package func noteFeedbackPoll(app: String, at instant: StoreInstant) async throws(StoreError) {
    try await write(
      "INSERT INTO feedback_polls VALUES ($1, $2) ON CONFLICT (app) DO UPDATE SET polled_at = excluded.polled_at",
      .text(app), .instant(instant))
  }
}

// MARK: Requests that callers may repeat

extension PostgreSQLStore {
  package func begin(
    _ request: IdempotentRequest, oldest: StoreInstant
  ) async throws(StoreError) -> IdempotentBeginning {
    let insert = PostgreSQLStatement(
      """
      INSERT INTO requests (caller, key, digest, begun_at, holder, attempt) VALUES ($1, $2, $3, $4, $6, $7)
      ON CONFLICT (caller, key) DO UPDATE SET digest = excluded.digest, begun_at = excluded.begun_at, status = NULL,
        header_names = NULL, header_values = NULL, body = NULL, holder = excluded.holder, attempt = excluded.attempt
      WHERE requests.begun_at < $5
      """, .text(request.caller), .text(request.key), .bytes(request.digest), .instant(request.begunAt),
      .instant(oldest), .int(request.holder), .int(request.attempt))
    let find = PostgreSQLStatement(
      """
      SELECT digest, status, header_names, header_values, body, attempt = $4,
        holder <> $3 AND EXISTS (SELECT 1 FROM nodes WHERE is_alive AND incarnation = holder)
      FROM requests WHERE caller = $1 AND key = $2
      """, .text(request.caller), .text(request.key), .int(request.holder), .int(request.attempt))
    let rows = try await write([insert, find])
    if rows[0].changedCount == 1 { return .new }
    let found = rows[1]
    guard found.count == 1 else { return .begun }
    guard found.bytes(0, 0) == request.digest else { return .different }
    guard let status = found.optionalInt(0, 1) else {
      // The answer to this very attempt was lost.
      if found.flag(0, 5) { return .new }
      return found.flag(0, 6) ? .begunElsewhere : .begun
    }
    let headers = Dictionary(zip(found.texts(0, 2), found.texts(0, 3))) { first, _ in first }
    return .answered(StoredAnswer(status: Int(status), headers: headers, body: found.bytes(0, 4)))
  }

  package func finish(_ request: IdempotentRequest, _ answer: StoredAnswer) async throws(StoreError) {
    let headers = answer.headers.sorted { $0.key < $1.key }
    try await write(
      """
      UPDATE requests SET status = $3, header_names = $4, header_values = $5, body = $6
      WHERE caller = $1 AND key = $2
      """, .text(request.caller), .text(request.key), .int(answer.status), .texts(headers.map(\.key)),
      .texts(headers.map(\.value)), .bytes(answer.body))
  }

  package func withdraw(_ request: IdempotentRequest) async throws(StoreError) {
    try await write("DELETE FROM requests WHERE caller = $1 AND key = $2", .text(request.caller), .text(request.key))
  }

  package func forgetRequests(begunBefore instant: StoreInstant) async throws(StoreError) {
    try await delete(
      """
      DELETE FROM requests WHERE (caller, key) IN (
        SELECT caller, key FROM requests WHERE begun_at < $1 ORDER BY begun_at LIMIT $2)
      """, .instant(instant), portion: 2_000)
  }
}
