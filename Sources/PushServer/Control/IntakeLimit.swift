internal import Carillon
internal import HTTPTypes

/// Whether the service takes anything in.
struct IntakeLimit: Sendable {
  /// By app: the bytes of memory that notifications may take that no connection has taken.
  let queueByteCount: @Sendable (String) -> Int
  /// False once the service ends: nothing is taken in any more.
  let isOpen: @Sendable () -> Bool
  /// Why the journal is not written any more; nil while it is.
  let journalFailure: @Sendable () -> String?

  /// - Throws: ``Problem`` with 429, 503 or 507. Nothing was taken in then.
  func demandRoom(_ app: PushApp) throws {
    guard isOpen() else { throw Problem.unavailable("The service is ending.", retryAfter: 30) }
    if let failure = journalFailure() {
      throw Problem(.init(code: 507, reasonPhrase: "Insufficient Storage"), "Not durable", failure.asSentence)
    }
    guard app.queuedByteCount < queueByteCount(app.id) else {
      var problem = Problem(
        .tooManyRequests, "Queue full", "The app's connections have no room, and its queue is full.",
        action: "Send more slowly, or see why the app's gateway takes nothing.")
      problem.retryAfter = 1
      throw problem
    }
  }
}
