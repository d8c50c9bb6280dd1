internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire

/// Devices that no longer have an app.
struct FeedbackRoutes: Sendable {
  let access: ControlAccess
  let store: any Store

  func add(to router: Router<ControlContext>) { router.get("v1/apps/{app}/feedback", use: getFeedback) }

  private func getFeedback(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .feedback)
    let parameters = request.uri.queryParameters
    let limit = try parameters.integer("limit", in: 1...1000) ?? 100
    let cursor = try parameters.integer("cursor", in: 0...Int.max) ?? 0
    let devices = try await store.goneDevices(app: app.id, after: Int64(cursor), limit: limit)
    return .json { json in
      json.array("items", devices) { device, json in
        json.field("token", Digest.hexadecimal(device.token))
        json.field("since", device.since.map(InstantText.text))
        json.field("foundAt", InstantText.text(device.foundAt))
      }
      json.field("nextCursor", String(devices.last?.number ?? Int64(cursor)))
    }
  }
}
