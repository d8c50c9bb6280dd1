internal import PushStore
internal import Synchronization

/// How the deliveries of an app go.
struct WebhookState: Hashable, Sendable {
  /// Where they go, without what may be secret.
  var receiver: String
  /// Outcomes that the receiver has not acknowledged.
  var waitingCount = 0
  /// When the first of them came; nil: there is none.
  var oldest: StoreInstant?
  /// Why the last delivery was not acknowledged, as the rest of a sentence that begins with the
  /// receiver; nil: it was.
  var failure: String?
  var acknowledgedCount = 0
  var failedCount = 0

  init(receiver: String) { self.receiver = receiver }

  /// How long the oldest one has waited.
  func lag(at now: StoreInstant) -> Duration {
    oldest.map { .milliseconds(max(0, now.milliseconds - $0.milliseconds)) } ?? .zero
  }
}

/// How deliveries go, by app. Empty at a process that makes none.
final class WebhookStates: Sendable {
  private let states = Mutex<[String: WebhookState]>([:])

  subscript(app: String) -> WebhookState? { states.withLock { $0[app] } }

  var all: [String: WebhookState] { states.withLock { $0 } }

  func begin(_ app: String, receiver: String) {
    states.withLock { $0[app] = WebhookState(receiver: receiver) }
  }

  func end(_ app: String) { states.withLock { $0[app] = nil } }

  func change(_ app: String, _ change: (inout WebhookState) -> Void) {
    states.withLock { states in if var state = states[app] { change(&state); states[app] = state } }
  }
}
