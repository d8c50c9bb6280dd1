package import PushEngine
internal import Synchronization

/// Who waits for the next outcomes of apps.
package final class OutcomeFollowers: Sendable {
  private let followers = Mutex<[String: [ObjectIdentifier: ReaderSignal]]>([:])

  package init() {}

  /// Calls `body` with a signal that is set whenever outcomes of the app are in the store.
  package func following<Result>(_ app: String, _ body: (ReaderSignal) async throws -> Result) async rethrows -> Result
  {
    let signal = ReaderSignal()
    followers.withLock { $0[app, default: [:]][ObjectIdentifier(signal)] = signal }
    defer {
      followers.withLock { followers in
        followers[app]?[ObjectIdentifier(signal)] = nil
        if followers[app]?.isEmpty == true { followers[app] = nil }
      }
    }
    return try await body(signal)
  }

  /// Outcomes of an app are in the store.
  func tell(_ app: String) {
    for signal in followers.withLock({ Array(($0[app] ?? [:]).values) }) { signal.set() }
  }
}
