internal import Hummingbird
internal import Logging
internal import NIOCore
internal import PushService
internal import PushStore
internal import PushWire
internal import Synchronization

/// What a handler knows of an action that the log gets.
final class TrailNote: Sendable {
  private struct State {
    var keyID: String?
    var details: Logger.Metadata = [:]
    var failure: String?
    var isDone = false
  }

  private let state: Mutex<State>

  init(keyID: String?) { state = Mutex(State(keyID: keyID)) }

  /// The key of a client that had not shown it before.
  func isBy(_ keyID: String?) { state.withLock { $0.keyID = keyID } }
  func add(_ name: String, _ value: String) { state.withLock { $0.details[name] = "\(value)" } }
  /// It is logged that it failed, and why.
  func fails(_ reason: String) { state.withLock { $0.failure = reason } }
  /// Something was done, although the answer is a refusal.
  func isDone() { state.withLock { $0.isDone = true } }

  fileprivate var content: (keyID: String?, details: Logger.Metadata, failure: String?, isDone: Bool) {
    state.withLock { ($0.keyID, $0.details, $0.failure, $0.isDone) }
  }
}

/// Notes who has changed what, with the key and the client's address: a notice for each action, and
/// an event in the store before the client has its answer.
///
/// The addresses that change something are listed here, those of the API and those of the pages.
struct Trail: RouterMiddleware {
  typealias Context = ControlContext

  /// The session's key of a request of a page.
  let sessionKey: @Sendable (Request) async -> String?
  private let clock: any ServiceClock
  private let events: EventLog
  private let failures = FailureLimit()

  init(clock: any ServiceClock, events: EventLog, sessionKey: @escaping @Sendable (Request) async -> String?) {
    (self.clock, self.events, self.sessionKey) = (clock, events, sessionKey)
  }

  static let login = "/login"
  /// What is logged, by the address of a POST as it is registered.
  static let actions: [String: String] = [
    "/v1/apps/{app}:pause": "app paused", "/v1/apps/{app}:resume": "app resumed",
    "/v1/apps/{app}/campaigns/{id}:start": "campaign started",
    "/v1/apps/{app}/campaigns/{id}:pause": "campaign paused",
    "/v1/apps/{app}/campaigns/{id}:resume": "campaign resumed",
    "/v1/apps/{app}/campaigns/{id}:cancel": "campaign cancelled",
    "/v1/nodes/{node}:drain": "node drained", "/v1/nodes/{node}:resume": "node resumed",
    "/v1/nodes/{node}:forget": "node forgotten",
    "/nodes/{node}/drain": "node drained", "/nodes/{node}/resume": "node resumed",
    "/nodes/{node}/forget": "node forgotten",
    "/v1/apps/{app}/channels": "channel created",
    "/v1/store:backup": "store copied", "/v1/reload": "configuration reloaded",
    login: "logged in", "/logout": "logged out",
    "/apps/{app}/pause": "app paused", "/apps/{app}/resume": "app resumed",
    "/apps/{app}/test": "test notification sent",
    "/apps/{app}/campaigns/{id}/start": "campaign started",
    "/apps/{app}/campaigns/{id}/duplicate": "campaign duplicated",
    "/apps/{app}/campaigns/{id}/pause": "campaign paused", "/apps/{app}/campaigns/{id}/resume": "campaign resumed",
    "/apps/{app}/campaigns/{id}/cancel": "campaign cancelled",
    "/keys": "key created", "/keys/{id}/revoke": "key revoked",
  ]
  /// The same for a DELETE.
  static let deletions = [
    "/v1/apps/{app}/channels/{channel}": "channel deleted",
    // Not who: that is forgotten.
    "/v1/apps/{app}/users/{user}": "user forgotten",
  ]

  private static func action(_ request: Request, _ route: String) -> String? {
    switch request.method {
    case .post: actions[route]
    case .delete: deletions[route]
    default: nil
    }
  }

  func handle(
    _ request: Request, context: ControlContext, next: (Request, ControlContext) async throws -> Response
  ) async throws -> Response {
    guard let action = context.route.flatMap({ Self.action(request, $0) }) else {
      return try await next(request, context)
    }
    let keyID = if let caller = context.caller { caller.keyID } else { await sessionKey(request) }
    let note = TrailNote(keyID: keyID)
    var context = context
    context.trail = note
    do {
      let response = try await next(request, context)
      await log(action, context, note, isDone: response.status.code < 400)
      return response
    } catch {
      // What is doubtful may have been done.
      await log(action, context, note, isDone: Problem(describing: error).isDoubtful)
      throw error
    }
  }

  private func log(_ action: String, _ context: ControlContext, _ note: TrailNote, isDone: Bool) async {
    let (keyID, details, failure, isNoted) = note.content
    guard isDone || isNoted || failure != nil else { return }
    var metadata = details
    let address = context.channel.remoteAddress?.ipAddress
    metadata["key"] = "\(keyID ?? "unknown")"
    metadata["address"] = "\(address ?? "unknown")"
    for name in ["app", "id", "node", "channel"] where metadata[name] == nil {
      if let value = context.parameters.get(name) { metadata[name] = "\(value)" }
    }
    let names = ["created", "id", "node", "channel"]
    let subject = names.lazy.compactMap { metadata[$0] }.first.map { "\($0)" }
    var message = action
    if let failure {
      guard let unlogged = failures.admit(now: clock.uptime) else { return }
      message = Self.failedLogin
      metadata["why"] = "\(failure)"
      if unlogged > 0 { metadata["unlogged before"] = "\(unlogged)" }
    }
    context.logger.notice("\(message)", metadata: metadata)
    await events.record(
      failure == nil ? .action : .refusal, message, app: context.parameters.get("app"), subject: subject, key: keyID,
      address: address, reason: failure)
  }

  private static let failedLogin = "login failed"
}

/// Bounds the lines about failed logins: ten at once, and ten a minute.
final class FailureLimit: Sendable {
  private struct State {
    var bucket = TokenBucket(perSecond: 10.0 / 60, burst: 10, now: .start)
    var unloggedCount = 0
  }

  private let state = Mutex(State())

  /// - Returns: how many were not logged since the last one that was; nil: this one is not either.
  func admit(now: Instant) -> Int? {
    state.withLock { state in
      guard state.bucket.take(upTo: 1, now: now) == 1 else {
        state.unloggedCount += 1
        return nil
      }
      return exchange(&state.unloggedCount, with: 0)
    }
  }
}
