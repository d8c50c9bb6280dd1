internal import HTTPTypes
internal import PushService

/// What the key of a request has to allow. It is asked for again while the request lasts, because
/// the key may be revoked meanwhile.
struct Grant: Sendable {
  let keyID: String
  /// Nil: the request concerns no single app.
  let app: String?
  let scope: Scope
  /// It allows the request as well.
  let other: Scope?
  /// Why the key must be for every app, as a sentence begins; nil: it need not.
  let allAppsReason: String?
  private let keys: KeyRing
  private let reading: UInt64

  init(
    _ caller: Caller, _ keys: KeyRing, app: String? = nil, scope: Scope, or other: Scope? = nil,
    allAppsReason: String? = nil
  ) {
    keyID = caller.keyID
    reading = caller.reading
    (self.keys, self.app, self.scope, self.other, self.allAppsReason) = (keys, app, scope, other, allAppsReason)
  }

  /// - Throws: ``Problem``: 403, or 404 for an app that the caller's key is not for.
  func check(_ caller: Caller) throws {
    if let app, !caller.sees(app: app) { throw Problem.notFound }
    guard caller.may(scope) || other.map(caller.may) == true else {
      throw Problem(
        .forbidden, "Not allowed", "The key lacks the scope \"\(scope.rawValue)\".",
        action: "Make a key with this scope: carillon key create --scope \(scope.rawValue).")
    }
    if let allAppsReason, !caller.seesAllApps {
      throw Problem(
        .forbidden, "Not allowed", "\(allAppsReason), and the key is not for all of them.",
        action: "Make a key for all of them: carillon key create --all-apps --scope \(scope.rawValue).")
    }
  }

  /// Asks again, unless the keys are known as they were when the caller was asked.
  ///
  /// - Throws: as ``demand()``.
  func demandIfChanged() async throws { if !keys.isPresent(reading) { try await demand() } }

  /// Asks again.
  ///
  /// - Returns: the caller as its key is at present.
  /// - Throws: ``Problem``: 401 if the key was revoked, otherwise as ``check(_:)``.
  @discardableResult
  func demand() async throws -> Caller {
    let caller = try await keys.current(keyID)
    try check(caller)
    return caller
  }

  /// Whether the key still allows it, for an answer that has begun: it can only end.
  func isValid() async throws -> Bool {
    do { try await demand() } catch is Problem { return false }
    return true
  }
}
