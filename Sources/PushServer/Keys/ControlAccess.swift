internal import Carillon
internal import Hummingbird
internal import PushService

/// Who may do what.
struct ControlAccess: Sendable {
  let deployment: Deployment
  let keys: KeyRing
  let settings: ServerConfiguration.API
  var clock: any ServiceClock { keys.clock }

  /// The app of the request's path, if the caller may do this with it.
  ///
  /// - Parameter other: a scope that allows it as well.
  /// - Throws: ``Problem``: 401, 403, or 404, also for an app that the key is not for.
  func app(
    _ request: Request, _ context: ControlContext, _ scope: Scope, or other: Scope? = nil
  ) async throws -> PushApp { try await grant(request, context, scope, or: other).app }

  /// As ``app(_:_:_:or:)``, with what is to be asked for again while the request lasts.
  func grant(
    _ request: Request, _ context: ControlContext, _ scope: Scope, or other: Scope? = nil
  ) async throws -> (app: PushApp, grant: Grant) {
    let caller = try await caller(request, context)
    let id = context.parameters.get("app") ?? ""
    guard caller.sees(app: id), let app = try? deployment.app(id) else { throw Problem.missing(app: id) }
    let grant = Grant(caller, keys, app: id, scope: scope, or: other)
    try grant.check(caller)
    return (app, grant)
  }

  /// The caller of a request that concerns no single app.
  ///
  /// - Throws: ``Problem``: 401 or 403.
  func caller(_ request: Request, _ context: ControlContext, _ scope: Scope) async throws -> Caller {
    let caller = try await caller(request, context)
    try Grant(caller, keys, scope: scope).check(caller)
    return caller
  }

  /// What allows a request that concerns the service as a whole: its key is for every app.
  ///
  /// - Parameter what: why it concerns every app, as a sentence begins.
  /// - Throws: ``Problem``: 401 or 403.
  @discardableResult
  func serviceGrant(
    _ request: Request, _ context: ControlContext, _ scope: Scope, because what: String
  ) async throws -> Grant {
    let caller = try await caller(request, context)
    let grant = Grant(caller, keys, scope: scope, allAppsReason: what)
    try grant.check(caller)
    return grant
  }

  /// The caller of a request, which counts once against its key's rate, however often it is asked.
  ///
  /// - Throws: ``Problem``: 401 or 429.
  func caller(_ request: Request, _ context: ControlContext) async throws -> Caller {
    if let caller = context.caller { return caller }
    return try await keys.caller(request.headers[.authorization])
  }

  /// The whole body of a request, within the limits of the interface. What allows the request is
  /// asked for again when it has come, if it can have changed. A large body counts as memory of the
  /// key until the request was answered.
  ///
  /// - Throws: as ``Grant/demand()``, and as `Request.wholeBody`.
  func body(
    of request: Request, _ context: ControlContext, under grant: Grant, limit: Int? = nil
  ) async throws -> [UInt8] {
    let body = try await body(of: request, by: grant.keyID, limit: limit, until: context.memory)
    try await grant.demandIfChanged()
    return body
  }

  /// The whole body of a request, within the limits of the interface.
  ///
  /// - Parameters:
  ///   - key: whose share of the memory it takes; nil: the share of all who show no key.
  ///   - limit: of bytes; nil: as many as any request may have.
  ///   - memory: see `Request.wholeBody`.
  func body(
    of request: Request, by key: String?, limit: Int? = nil, until memory: RequestMemory? = nil
  ) async throws -> [UInt8] {
    try await request.wholeBody(
      limit: limit ?? settings.maxBody, allowance: settings.idleTimeout, owner: key ?? "", clock: clock,
      until: memory)
  }
}
