internal import Carillon
internal import Hummingbird
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushWire

struct AppRoutes: Sendable {
  let access: ControlAccess
  let store: any Store
  let statistics: ServiceStatistics
  let membership: NodeMembership

  func add(to router: Router<ControlContext>) {
    router.get("v1/apps", use: getApps)
    router.get("v1/apps/{app}", use: getApp)
    router.post("v1/apps/{app}:pause", use: pauseApp)
    router.post("v1/apps/{app}:resume", use: resumeApp)
  }

  private func getApps(_ request: Request, _ context: ControlContext) async throws -> Response {
    let caller = try await access.caller(request, context, .read)
    let parameters = request.uri.queryParameters
    let limit = try parameters.integer("limit", in: 1...1000) ?? 100
    let cursor = parameters["cursor"].map { String($0) } ?? ""
    let apps = access.deployment.apps.filter { caller.sees(app: $0.id) && $0.id > cursor }
      .sorted { $0.id < $1.id }
    let page = ListPage(apps, limit: limit)
    return .json { json in
      json.array("items", page.items) { write($0, to: &$1) }
      json.field("nextCursor", page.last?.id)
    }
  }

  private func getApp(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .read)
    let nodes = await membership.figures(of: app, statistics)
    return .json { json in
      write(app, to: &json)
      guard membership.isShared else { return }
      json.array("nodes", nodes) { node, json in
        json.field("name", node.name)
        json.field("settledPerSecond", node.figures[.rate])
        json.field("pending", node.figures.count(.pending))
        json.object("queue") {
          $0.field("notifications", node.figures.count(.queued))
          $0.field("bytes", node.figures.count(.queuedBytes))
        }
        json.object("connections") { $0.field("open", node.figures.count(.connections)) }
      }
    }
  }

  private func pauseApp(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .admin)
    // A pause that was answered outlasts the process.
    try await store.pause(app: app.id, at: access.clock.now)
    app.pause()
    return .json(.accepted) { write(app, to: &$0) }
  }

  private func resumeApp(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .admin)
    try await store.resume(app: app.id)
    await app.resumeWithCredential()
    return .json(.accepted) { write(app, to: &$0) }
  }

  private func write(_ app: PushApp, to json: inout JSONWriter) {
    let status = app.status
    json.field("id", app.id)
    json.field("topic", app.configuration.topic)
    json.field("transport", status.transport)
    json.field("gateway", status.gateway)
    json.field("state", status.state.rawValue)
    json.field("reason", status.reason)
    json.field(
      "nextTryAt", status.nextTryIn.map { InstantText.text(access.clock.now.after(seconds: $0.components.seconds)) })
    json.field("waitsFor", status.obstacle?.cause)
    json.object("connections") {
      $0.field("open", status.connections.open)
      $0.field("opening", status.connections.opening)
      $0.field("closed", status.connections.closed)
    }
    json.object("queue") {
      $0.field("notifications", status.queue.notifications)
      $0.field("bytes", status.queue.byteCount)
      $0.field("oldestSeconds", Double(status.queue.oldestAge.components.seconds))
    }
    json.field("inFlight", status.windowNotifications)
    json.object("rates") {
      $0.field("settledPerSecond", statistics.rate(app.id))
      if let limit = status.rateLimit { $0.field("limitPerSecond", limit) }
    }
    json.field("weight", status.weight)
    json.field(
      "credentialExpiresAt", status.credentialExpiry.map { InstantText.text(StoreInstant(milliseconds: $0 * 1000)) })
  }
}

extension NodeMembership {
  /// What each node that lives has of an app, in the order of their names. Of this one it is of
  /// this moment, of others some seconds old.
  func figures(
    of app: PushApp, _ statistics: ServiceStatistics
  ) async -> [(name: String, figures: NodeStatus.Figures)] {
    let own = (name: name, figures: statistics.figures(of: app, app.status))
    let others = await others().map { (name: $0.name, figures: $0.status.figures(of: app.id)) }
    return (others + [own]).sorted { $0.name < $1.name }
  }
}
