internal import Carillon
internal import Hummingbird

/// The apps and their state.
struct AppRoutes: Sendable {
  let access: ControlAccess

  func add(to router: Router<ControlContext>) {
    router.get("v1/apps", use: getApps)
    router.get("v1/apps/{app}", use: getApp)
  }

  private func getApps(_ request: Request, _ context: ControlContext) async throws -> Response {
    let caller = try await access.caller(request, .read)
    let apps = access.deployment.apps.filter { caller.sees(app: $0.id) }
    return .json { json in json.array("items", apps) { write($0, to: &$1) } }
  }

  private func getApp(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .read)
    return .json { write(app, to: &$0) }
  }

  private func write(_ app: PushApp, to json: inout JSONWriter) {
    json.field("id", app.id)
    json.field("topic", app.configuration.topic)
    json.field("state", app.stopReason == nil ? "running" : "stopped")
    json.field("reason", app.stopReason)
  }
}
