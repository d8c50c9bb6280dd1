internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire

/// Who has done what, and what the service noticed.
struct AuditRoutes: Sendable {
  let access: ControlAccess
  let store: any Store

  func add(to router: Router<ControlContext>) { router.get("v1/audit", use: getAudit) }

  private func getAudit(_ request: Request, _ context: ControlContext) async throws -> Response {
    let caller = try await access.caller(request, context, .admin)
    let parameters = request.uri.queryParameters
    let limit = try parameters.integer("limit", in: 1...1000) ?? 100
    let cursor = try parameters.identifierCursor()
    let reach = try caller.reach(of: parameters["app"].map(String.init))
    let found = try await store.events(of: reach, before: cursor, limit: ListPage<StoredEvent>.readLimit(limit))
    let page = ListPage(found, limit: limit)
    let names = try await store.keyNames()
    return .json { json in
      json.array("items", page.items) { event, json in
        json.field("id", event.id.text)
        json.field("at", InstantText.text(event.at))
        json.field("kind", event.kind.rawValue)
        json.field("action", event.action)
        json.field("app", event.app)
        json.field("subject", event.subject)
        json.field("key", event.key)
        json.field("keyName", event.key.flatMap { names[$0] })
        json.field("address", event.address)
        json.field("node", event.node)
        json.field("reason", event.reason)
      }
      json.field("nextCursor", page.last?.id.text)
    }
  }
}

extension Store {
  /// Of all keys, also of those that were revoked, by id.
  func keyNames() async throws(StoreError) -> [String: String] {
    Dictionary(try await keys().map { ($0.id, $0.name) }) { _, last in last }
  }
}

extension Caller {
  /// The apps whose events the caller wants to see.
  ///
  /// - Parameter app: only this one; nil: all that the caller sees.
  /// - Throws: ``Problem`` with 404 for an app that the key is not for.
  func reach(of app: String?) throws -> AppReach {
    guard let app else { return reach }
    // No app's name has a zero, and a database would refuse it.
    guard sees(app: app), !app.utf8.contains(0) else { throw Problem.missing(app: app) }
    return .only([app])
  }
}
