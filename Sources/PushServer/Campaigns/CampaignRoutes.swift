internal import Carillon
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import PushStore

/// Campaigns: made, changed, started, watched.
struct CampaignRoutes: Sendable {
  let access: ControlAccess
  let runner: CampaignRunner
  let isOpen: @Sendable () -> Bool

  var controller: CampaignController { runner.controller }
  var reports: CampaignReports { CampaignReports(controller: runner.controller, deployment: access.deployment) }

  func add(to router: Router<ControlContext>) {
    let app = router.group("v1/apps/{app}")
    app.post("campaigns", use: post)
    app.get("campaigns", use: list)
    app.get("campaigns/{id}", use: get)
    app.patch("campaigns/{id}", use: patch)
    app.post("campaigns/{id}:start") { try await act($0, $1) { try await start($0) } }
    app.post("campaigns/{id}:pause") { try await change($0, $1) { _ in .paused } }
    app.post("campaigns/{id}:resume") { try await act($0, $1) { try await reports.forgotten.resume($0.id) } }
    app.post("campaigns/{id}:cancel") { try await change($0, $1) { _ in .cancelled } }
    app.post("campaigns/{id}/audience", use: postAudience)
    app.get("campaigns/{id}/account", use: getAccount)
    app.get("campaigns/{id}/outcomes.csv", use: getOutcomes)
    addEvents(to: router)
  }

  /// Campaigns may be read by those who may read anything, or make them.
  func readable(_ request: Request, _ context: ControlContext) async throws -> PushApp {
    try await readGrant(request, context).app
  }

  func readGrant(_ request: Request, _ context: ControlContext) async throws -> (app: PushApp, grant: Grant) {
    try await access.grant(request, context, .campaigns, or: .read)
  }

  func campaign(_ context: ControlContext, of app: PushApp) async throws -> StoredCampaign {
    guard let id = context.parameters.get("id").flatMap({ StoredUUID($0) }),
      let record = try await controller.store.campaign(id), record.app == app.id
    else { throw context.missing("campaign", of: app) }
    return record
  }

  private func post(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .campaigns)
    try request.bodyType([.json])
    let body = try await access.body(of: request, under: grant)
    let plan = try await withParsingPool {
      try await ParsingPool.shared.turn(of: grant.keyID) { try CampaignPlan(parsing: body[...]) }
    }
    try plan.check(for: app)
    try plan.checkTime(now: .now)
    let record = StoredCampaign(
      id: .make(), app: app.id, state: CampaignState.draft.rawValue, content: plan.content, createdAt: .now)
    try await controller.store.add(record)
    var response = try await answer(record, .created)
    response.headers[.location] = "/v1/apps/\(app.id)/campaigns/\(record.id.text)"
    return response
  }

  private func list(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await readable(request, context)
    let parameters = request.uri.queryParameters
    let limit = try parameters.integer("limit", in: 1...1000) ?? 100
    var cursor: StoredUUID?
    if let text = parameters["cursor"] {
      guard let id = StoredUUID(text) else {
        throw Problem.malformed("The parameter cursor must be the nextCursor of the page before.")
      }
      cursor = id
    }
    let page = ListPage(
      try await controller.store.campaigns(
        app: app.id, before: cursor, limit: ListPage<StoredCampaign>.readLimit(limit)),
      limit: limit)
    var items: [String] = []
    for record in page.items { items.append(try await reports.report(record).json) }
    var text = #"{"items":["# + items.joined(separator: ",") + "]"
    if let last = page.last { text += #","nextCursor":"\#(last.id.text)""# }
    return .json(text: text + "}")
  }

  private func get(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await readable(request, context)
    return try await answer(try await campaign(context, of: app))
  }

  private func patch(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .campaigns)
    let record = try await campaign(context, of: app)
    guard let expected = request.headers[.ifMatch] else {
      throw Problem(
        .preconditionRequired, "No If-Match", "The request has no header If-Match.",
        action: "Read the campaign, and send its ETag as If-Match, so that no other change is lost.")
    }
    try request.bodyType([.json])
    let changes = try await access.body(of: request, under: grant)
    _ = try JSONBody.value(changes[...])
    let changed = try await controller.change(record.id, { _ in .edited }) { record in
      let tags = expected.split(separator: ",").map { $0.trimmingPrefix { $0 == " " } }
      guard expected == "*" || tags.contains(where: { $0 == record.tag }) else {
        throw Problem(
          .preconditionFailed, "Changed meanwhile", "The campaign has changed since it was read.",
          action: "Read the current state and try again.")
      }
      let old = try CampaignPlan(parsing: record.content[...])
      let plan = try old.changed(by: changes[...])
      try plan.check(for: app)
      if plan.start != old.start { try plan.checkTime(now: .now) }
      try AudienceColumns(record.upload, path: runner.spool.audience(record.id)).check(plan, insteadOf: old)
      record.content = plan.content
    }
    return try await answer(changed)
  }

  private func act(
    _ request: Request, _ context: ControlContext, _ body: (StoredCampaign) async throws -> StoredCampaign
  ) async throws -> Response {
    let app = try await access.app(request, context, .campaigns)
    return try await answer(try await body(try await campaign(context, of: app)), .accepted)
  }

  private func change(
    _ request: Request, _ context: ControlContext, _ event: @escaping @Sendable (StoredCampaign) -> CampaignEvent
  ) async throws -> Response {
    try await act(request, context) { try await controller.change($0.id, event) }
  }

  private func start(_ record: StoredCampaign) async throws -> StoredCampaign {
    guard isOpen() else { throw Problem.unavailable("The service is ending.", retryAfter: 30) }
    return try await controller.change(record.id) { record in
      let plan = try CampaignPlan(parsing: record.content[...])
      if record.status == .draft, plan.source == .upload, !record.upload.isComplete {
        throw Problem(
          .conflict, "No audience", "The campaign has no audience yet.",
          action: "Upload one: POST …/campaigns/\(record.id.text)/audience.")
      }
      if record.status == .draft { try plan.checkTime(now: .now) }
      return .started(isDue: runner.isDue(plan))
    } _: { record in
      if record.status == .running { record.startedAt = record.startedAt ?? .now }
    }
  }

  private func getAccount(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await readable(request, context)
    let report = try await reports.report(try await campaign(context, of: app))
    return .json(text: AccountJSON.text(report.snapshot))
  }

  func answer(_ record: StoredCampaign, _ status: HTTPResponse.Status = .ok) async throws -> Response {
    var response = Response.json(status, text: try await reports.report(record).json)
    response.headers[.eTag] = record.tag
    return response
  }
}

extension StoredCampaign {
  /// Another one after every change.
  var tag: String { "\"\(version)\"" }
}

extension Response {
  static func json(_ status: HTTPResponse.Status = .ok, text: String) -> Response {
    Response(
      status: status, headers: [.contentType: "application/json"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }
}
