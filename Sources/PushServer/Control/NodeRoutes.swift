internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire

/// The processes that share the store: who they are, and who is to take nothing more.
struct NodeRoutes: Sendable {
  let access: ControlAccess
  let membership: NodeMembership

  func add(to router: Router<ControlContext>) {
    router.get("v1/nodes", use: getNodes)
    router.post("v1/nodes/{node}:drain") { try await change($0, $1) { try await membership.setDraining(true, $0) } }
    router.post("v1/nodes/{node}:resume") { try await change($0, $1) { try await membership.setDraining(false, $0) } }
    router.post("v1/nodes/{node}:forget", use: forget)
  }

  private static let reason = "The nodes carry every app"

  private func getNodes(_ request: Request, _ context: ControlContext) async throws -> Response {
    try await access.serviceGrant(request, context, .read, because: Self.reason)
    let reports = try await membership.reports()
    return .json { json in json.array("items", reports) { write($0, to: &$1) } }
  }

  private func change(
    _ request: Request, _ context: ControlContext, _ body: (String) async throws -> NodeReport
  ) async throws -> Response {
    try await access.serviceGrant(request, context, .admin, because: Self.reason)
    let report = try await body(context.parameters.get("node") ?? "")
    return .json(.accepted) { write(report, to: &$0) }
  }

  private func forget(_ request: Request, _ context: ControlContext) async throws -> Response {
    try await access.serviceGrant(request, context, .admin, because: Self.reason)
    let report = try await membership.forget(context.parameters.get("node") ?? "")
    return .json { write(report, to: &$0) }
  }

  private func write(_ report: NodeReport, to json: inout JSONWriter) {
    let (node, work) = (report.node, report.work)
    json.field("name", node.name)
    json.field("state", node.state.rawValue)
    json.field("leads", node.leads)
    json.field("since", node.joinedAt.map(InstantText.text))
    json.field("lastBeatSeconds", node.silence / .seconds(1))
    json.field("leaseSeconds", node.facts.lease / .seconds(1))
    json.field("version", node.facts.version.isEmpty ? nil : node.facts.version)
    json.field("configuration", node.facts.configuration.isEmpty ? nil : node.facts.configuration)
    json.field("configurationDiffers", report.isConfiguredOtherwise)
    json.field("address", node.facts.address.isEmpty ? nil : node.facts.address)
    if let offset = node.facts.clockOffset { json.field("clockOffsetSeconds", offset / .seconds(1)) }
    json.field("segments", work.segmentCount)
    json.field("pending", node.facts.pendingCount)
    json.object("takenOver") {
      $0.field("segments", work.takenOverCount)
      $0.field("possibleDuplicates", work.possibleDuplicateCount)
      $0.field("lastAt", work.lastTakeover.map(InstantText.text))
    }
  }
}
