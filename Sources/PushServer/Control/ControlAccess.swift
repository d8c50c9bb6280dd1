internal import Carillon
internal import Hummingbird

/// Who may do what.
struct ControlAccess: Sendable {
  let deployment: Deployment
  let keys: KeyRing
  let settings: ServerConfiguration.API

  /// The app of the request's path, if the caller may do this with it.
  ///
  /// - Parameter other: a scope that allows it as well.
  /// - Throws: ``Problem``: 401, 403, or 404, also for an app that the key is not for.
  func app(
    _ request: Request, _ context: ControlContext, _ scope: Scope, or other: Scope? = nil
  ) async throws -> PushApp {
    let caller = try await caller(request, context)
    guard let id = context.parameters.get("app"), caller.sees(app: id),
      let app = try? deployment.app(id)
    else { throw Problem.notFound }
    if let other, caller.may(other) { return app }
    try demand(scope, of: caller)
    return app
  }

  /// The caller of a request that concerns no single app.
  ///
  /// - Throws: ``Problem``: 401 or 403.
  func caller(_ request: Request, _ context: ControlContext, _ scope: Scope) async throws -> Caller {
    let caller = try await caller(request, context)
    try demand(scope, of: caller)
    return caller
  }

  /// The caller of a request that concerns the service as a whole: its key is for every app.
  ///
  /// - Parameter what: why it concerns every app, as a sentence begins.
  /// - Throws: ``Problem``: 401 or 403.
  @discardableResult
  func serviceCaller(
    _ request: Request, _ context: ControlContext, _ scope: Scope, because what: String
  ) async throws -> Caller {
    let caller = try await caller(request, context, scope)
    guard caller.seesAllApps else {
      throw Problem(
        .forbidden, "Not allowed", "\(what), and the key is not for all of them.",
        action: "Make a key for all of them: carillon key create --all-apps --scope \(scope.rawValue).")
    }
    return caller
  }

  /// The caller of a request. The request counts once against the rate of its key, however often
  /// this is called.
  ///
  /// - Throws: ``Problem``: 401 or 429.
  func caller(_ request: Request, _ context: ControlContext) async throws -> Caller {
    if let caller = context.caller { return caller }
    return try await keys.caller(request.headers[.authorization])
  }

  /// The whole body of a request, within the limits of the interface.
  ///
  /// - Parameters:
  ///   - caller: whose share of the memory it takes; nil: the share of all who show no key.
  ///   - limit: of bytes; nil: as many as any request may have.
  func body(of request: Request, by caller: Caller?, limit: Int? = nil) async throws -> [UInt8] {
    try await request.wholeBody(
      limit: limit ?? settings.maxBody, patience: settings.idleTimeout, owner: caller?.keyID ?? "")
  }

  private func demand(_ scope: Scope, of caller: Caller) throws {
    guard caller.may(scope) else {
      throw Problem(
        .forbidden, "Not allowed", "The key lacks the scope \"\(scope.rawValue)\".",
        action: "Make a key with this scope: carillon key create --scope \(scope.rawValue).")
    }
  }
}
