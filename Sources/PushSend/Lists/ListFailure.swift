internal import Synchronization

/// Why a list can no longer be written. The first reason counts, and is reported once.
final class ListFailure: Sendable {
  private struct State {
    var problem: String?
    var handler: (@Sendable (String) -> Void)?
  }

  /// How sentences about the list begin.
  let title: String
  private let state = Mutex(State())

  init(title: String) { self.title = title }

  /// The sentence for the handler; nil if nothing has failed.
  var sentence: String? { problem.map(sentence) }
  func sentence(_ problem: String) -> String { "\(title) cannot be written: \(problem)" }

  /// That the list is not complete, in a sentence; nil if it is.
  var incompleteness: String? { problem.map { "\(title) is not complete: \($0)" } }

  var problem: String? { state.withLock { $0.problem } }

  /// Notes a failure, for the next ``report()``.
  func note(_ problem: String) { state.withLock { $0.problem = $0.problem ?? problem } }

  /// Calls `handler` once with a sentence when the list can no longer be written, from any thread.
  func onFailure(_ handler: @escaping @Sendable (String) -> Void) { state.withLock { $0.handler = handler } }

  /// Calls the handler if there is a failure. Not to be called under a lock.
  func report() {
    let (problem, handler) = state.withLock { state in
      (state.problem, state.problem == nil ? nil : exchange(&state.handler, with: nil))
    }
    if let problem { handler?(sentence(problem)) }
  }
}
