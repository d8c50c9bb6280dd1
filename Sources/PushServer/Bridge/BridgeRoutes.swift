internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire

struct BridgeRoutes: Sendable {
  let access: ControlAccess
  let store: any Store
  let bridge: Bridge?

  func add(to router: Router<ControlContext>) { router.get("v1/apps/{app}/bridge", use: getBridge) }

  private func getBridge(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .read)
    guard let bridge else { throw Problem.notFound }
    let counts = bridge.counts[app.id] ?? BridgeCounts()
    let alreadyDelivered = try await store.alreadyDelivered(app: app.id)
    return .json { json in
      json.field("clients", counts.clients)
      json.field("frames", counts.frames)
      json.field("forwarded", counts.forwarded)
      json.field("alreadyDelivered", counts.alreadyDelivered)
      json.field("alreadyDeliveredEver", alreadyDelivered.count)
      if let last = counts.lastAlreadyDelivered ?? alreadyDelivered.last {
        json.field("lastAlreadyDeliveredAt", InstantText.text(last))
      }
      json.object("responses") {
        for (status, count) in counts.responses.sorted(by: { $0.key < $1.key }) { $0.field("\(status)", count) }
      }
      json.field("silentCloses", counts.silentCloses)
      json.field("feedback", counts.feedback)
    }
  }
}
