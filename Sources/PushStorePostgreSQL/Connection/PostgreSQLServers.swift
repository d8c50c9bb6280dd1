internal import PushStore
internal import Synchronization

/// A history of a database. Each promotion of a standby begins a new one, with a higher number.
struct PostgreSQLTimeline: Hashable, Sendable {
  /// Of the database and its standbys, random.
  let system: Int64
  let number: Int64
}

/// The servers of a store, as all of its connections together know them.
final class PostgreSQLServers: Sendable {
  private struct State {
    var latest: PostgreSQLTimeline?
    var wasReached = false
    /// Given up by their callers while the server waits for its standby.
    var waiting: [PostgreSQLConnection] = []
  }

  let settings: PostgreSQLSettings
  private let state = Mutex(State())

  init(_ settings: PostgreSQLSettings) { self.settings = settings }

  // MARK: The primary

  /// Whether a server may be used. A former primary may come back, accept writes again, and wait
  /// for its standby for ever.
  ///
  /// - Returns: what is wrong with it, in words; nil: it is the primary, as far as is known.
  func objection(to timeline: PostgreSQLTimeline?) -> String? {
    state.withLock { state in
      if let timeline, let latest = state.latest, timeline.system != latest.system {
        return "has another database than before; if that is meant, restart the service"
      }
      guard !isReplaced(timeline, by: state.latest) else {
        return "was the primary before another one was promoted; end it"
      }
      state.wasReached = true
      if let timeline { state.latest = timeline }
      return nil
    }
  }

  var knowsPrimary: Bool { state.withLock { $0.latest != nil } }

  func isReplaced(_ timeline: PostgreSQLTimeline?) -> Bool { isReplaced(timeline, by: state.withLock { $0.latest }) }

  private func isReplaced(_ timeline: PostgreSQLTimeline?, by latest: PostgreSQLTimeline?) -> Bool {
    guard let timeline, let latest else { return false }
    return timeline.system == latest.system && timeline.number < latest.number
  }

  /// A refusal is a verdict before the first connection only: later somebody changes a password, or
  /// a certificate has run out, and the service waits until it is mended.
  func verdict(_ error: StoreError) -> StoreError {
    guard error.kind == .unusable, state.withLock({ $0.wasReached }) else { return error }
    return StoreError(.away, path: error.path, error.description)
  }

  // MARK: Commits that wait

  /// With so many the standby is away, and not only slow.
  private static let waitingLimit = 2

  /// Keeps a connection whose commit waits for a standby. It would have its place on the server
  /// also if it were closed, and each further attempt would add one.
  func keep(_ connection: PostgreSQLConnection) { state.withLock { $0.waiting.append(connection) } }

  /// Whether a commit may be tried: what comes behind those that wait would wait, too.
  func hasRoomForCommits() -> Bool {
    state.withLock { state in
      let latest = state.latest
      state.waiting.removeAll { $0.isMoving || isReplaced($0.timeline, by: latest) }
      return state.waiting.count < Self.waitingLimit
    }
  }

  /// Closes those that wait, which have this object.
  func close() { state.withLock { $0.waiting = [] } }
}
