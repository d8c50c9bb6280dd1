internal import PushStore
internal import Synchronization

/// Callers that have handed notifications over, and are about to say what belongs to them. Whoever
/// reads outcomes reads none of later ones until they have: an outcome is read with its reference.
final class PendingLabels: Sendable {
  private struct State {
    var next = 0
    /// By app.
    var begun: [String: [Int: StoreInstant]] = [:]
  }

  private let state = Mutex(State())

  /// Ends with the last reference.
  final class Hold: Sendable {
    private let labels: PendingLabels
    private let app: String
    private let number: Int

    fileprivate init(_ labels: PendingLabels, _ app: String, _ number: Int) {
      (self.labels, self.app, self.number) = (labels, app, number)
    }

    deinit { labels.state.withLock { $0.begun[app]?[number] = nil } }
  }

  /// To be called before notifications are handed over.
  func hold(_ app: String, since instant: StoreInstant) -> Hold {
    state.withLock { state in
      state.next += 1
      state.begun[app, default: [:]][state.next] = instant
      return Hold(self, app, state.next)
    }
  }

  /// When the first of an app's callers has begun; nil: there are none.
  func oldest(_ app: String) -> StoreInstant? { state.withLock { $0.begun[app]?.values.min() } }
}
