internal import PushStore
internal import Synchronization

/// The connections of a process. Each has a thread of its own: libpq may wait for names and for
/// TLS, and neither event loops nor the threads of tasks may.
final class PostgreSQLPool: Sendable {
  /// What must not wait for each other.
  enum Use: Hashable, CaseIterable {
    /// Of a caller that waits for its answer.
    case request
    /// Portions of something long.
    case bulk
  }

  /// Connections for portions of something long.
  let bulkCount: Int
  private let lines: [Use: PostgreSQLLine]
  private let servers: PostgreSQLServers

  init(_ servers: PostgreSQLServers) {
    self.servers = servers
    let settings = servers.settings
    // Two are the store's own: see PostgreSQLStore.
    bulkCount = max(1, (settings.connectionCount - 2) / 3)
    let counts: [Use: Int] = [.bulk: bulkCount, .request: max(1, settings.connectionCount - 2 - bulkCount)]
    lines = counts.mapValues { PostgreSQLLine(servers, threadCount: $0) }
  }

  /// Runs `body` on a thread of the pool, again if the connection was lost or another transaction
  /// was in the way, until `limit` has passed. So it must be right to run it twice.
  ///
  /// - Throws: ``StoreError``; `away` at once if no connection can be had.
  func run<Value: Sendable>(
    _ use: Use = .request, limit: Duration,
    _ body: @escaping @Sendable (PostgreSQLConnection, MonotonicTime) throws(StoreError) -> Value
  ) async throws(StoreError) -> Value {
    guard let line = lines[use] else { throw .away(servers.settings.name, "it was closed") }
    let deadline = MonotonicTime.after(limit)
    let result: Result<Value, StoreError> = await withCheckedContinuation { continuation in
      line.add(deadline: deadline) { session in
        continuation.resume(
          returning: Result { () throws(StoreError) in try session.run(by: deadline, body) })
      } refused: { error in
        continuation.resume(returning: .failure(error))
      }
    }
    return try result.get()
  }

  func close() {
    for line in lines.values { line.close() }
    servers.close()
  }
}

/// A connection that is opened when it is needed, and again when it was lost.
///
/// Sync: whoever has it lets one thread use it at a time.
final class PostgreSQLSession: @unchecked Sendable {
  private let servers: PostgreSQLServers
  private var connection: PostgreSQLConnection?
  /// The last attempt to connect, if it failed: those who come soon after it get its error.
  private var failure: (error: StoreError, until: MonotonicTime)?

  /// A host that takes longer is given up.
  private static let dialLimit = Duration.seconds(1)
  private static let failurePause = Duration.milliseconds(250)
  private static let attemptLimit = 10

  init(_ servers: PostgreSQLServers) { self.servers = servers }

  func run<Value>(
    by deadline: MonotonicTime, _ body: (PostgreSQLConnection, MonotonicTime) throws(StoreError) -> Value
  ) throws(StoreError) -> Value {
    var attempt = 0
    var isRepeating = false
    while true {
      let connection = try open(by: deadline)
      connection.isRepeating = isRepeating
      do throws(StoreError) { return try body(connection, deadline) } catch {
        if connection.isBroken {
          self.connection = connection.successor
          isRepeating = true
        }
        attempt += 1
        let isOver = connection.refusesCommits || attempt == Self.attemptLimit || deadline.millisecondsLeft == 0
        guard error.kind == .away, !isOver else { throw error }
        // Two that were in each other's way do not begin again together.
        if !connection.isBroken { pauseThread(for: .milliseconds(Int.random(in: 0...(4 << min(attempt, 6))))) }
      }
    }
  }

  private func open(by deadline: MonotonicTime) throws(StoreError) -> PostgreSQLConnection {
    if let connection, !servers.isReplaced(connection.timeline) { return connection }
    connection = nil
    if let failure, failure.until.millisecondsLeft > 0 { throw failure.error }
    do throws(StoreError) {
      let opened = try PostgreSQLConnection.open(servers, by: min(deadline, .after(Self.dialLimit)))
      (connection, failure) = (opened, nil)
      return opened
    } catch {
      failure = (error, .after(Self.failurePause))
      throw error
    }
  }

  func close() { connection = nil }
}
