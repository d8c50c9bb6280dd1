internal import Carillon
internal import HTTPTypes
internal import Hummingbird
internal import PushService
internal import PushWire

struct ReloadRoutes: Sendable {
  let access: ControlAccess
  let reload: @Sendable () async -> ReloadReport

  func add(to router: Router<ControlContext>) { router.post("v1/reload", use: postReload) }

  private func postReload(_ request: Request, _ context: ControlContext) async throws -> Response {
    try await access.serviceGrant(request, context, .admin, because: "A reload concerns every app")
    let report = await reload()
    guard report.problems.isEmpty else {
      context.trail?.isDone()
      throw Problem(
        .unprocessableContent, "Not all was reloaded", report.problems.joined(separator: " "),
        action: "Correct the configuration: \"carillon serve --check\" reads it without changing anything.",
        errors: report.problems.count > 1 ? report.problems.map { .init(detail: $0) } : [])
    }
    return .json { json in
      json.field("added", report.added)
      json.field("removed", report.removed)
      json.field("refreshed", report.refreshed)
      json.field("waiting", report.waiting)
    }
  }
}
