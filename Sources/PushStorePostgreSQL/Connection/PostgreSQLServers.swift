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

  /// Whether no later primary is known. A former one may come back, accept writes again, and wait
  /// for its standby for ever.
  func admit(_ timeline: PostgreSQLTimeline?) -> Bool {
    state.withLock { state in
      guard !isReplaced(timeline, by: state.latest) else { return false }
      state.wasReached = true
      if let timeline { state.latest = timeline }
      return true
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

  /// Keeps a connection whose commit waits for a standby. Closed, it would hold its place on the
  /// server, too, and each attempt would add one.
  func keep(_ connection: PostgreSQLConnection) { state.withLock { $0.waiting.append(connection) } }

  /// Whether a further connection may be opened: at most as many wait as work.
  func hasRoom() -> Bool {
    state.withLock { state in
      let latest = state.latest
      state.waiting.removeAll { $0.hasInput || isReplaced($0.timeline, by: latest) }
      return state.waiting.count < settings.connectionCount
    }
  }
}
