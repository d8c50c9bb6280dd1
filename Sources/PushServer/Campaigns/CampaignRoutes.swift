internal import Carillon
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import PushSend
internal import PushService
internal import PushStore

struct CampaignRoutes: Sendable {
  let access: ControlAccess
  let runner: CampaignRunner
  let reports: CampaignReports
  let intake: IntakeLimit

  var isOpen: @Sendable () -> Bool { intake.isOpen }
  var controller: CampaignController { runner.controller }

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

  func campaign(_ context: ControlContext, of app: PushApp) async throws -> CampaignHead {
    guard let id = context.parameters.get("id").flatMap({ StoredUUID($0) }),
      let record = try await controller.store.campaignHead(id), record.app == app.id
    else { throw context.missing("campaign", of: app) }
    return record
  }

  private func post(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .campaigns)
    try request.bodyType([.json])
    let body = try await access.body(of: request, context, under: grant)
    let plan = try await withParsingPool {
      try await ParsingPool.shared.turn(of: grant.keyID) { try CampaignPlan(parsing: body[...]) }
    }
    try plan.check(for: app, now: access.clock.now)
    try plan.checkTime(now: controller.clock.now)
    let room = try context.answerRoom(plan.content.count * Self.copiesOfPlan)
    let record = try await runner.add(plan, app: app.id)
    var response = try await answer(record.head, room, .created)
    response.headers[.location] = "/v1/apps/\(app.id)/campaigns/\(record.id.text)"
    return response
  }

  private func list(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await readable(request, context)
    let parameters = request.uri.queryParameters
    let limit = try parameters.integer("limit", in: 1...1000) ?? 100
    let cursor = try parameters.identifierCursor()
    let found = try await controller.store.campaigns(
      app: app.id, before: cursor, limit: ListPage<CampaignHead>.readLimit(limit))
    let page = ListPage(found, limit: limit, byteLimit: Self.pageByteLimit) { $0.planByteCount }
    // One plan at a time is in memory.
    let largest = page.items.map(\.planByteCount).max() ?? 0
    let room = try context.answerRoom(largest * Self.copiesOfPlan)
    return Response(
      status: .ok, headers: [.contentType: "application/json"],
      body: ResponseBody { [controller, reports] writer in
        var separator = #"{"items":["#
        try await reports.forEach(of: page.items) { report in
          guard let plan = try await controller.store.plan(of: report.record.id) else { return }
          var bytes = ByteBuffer(string: separator)
          bytes.writeBytes(report.json(plan: plan))
          try await writer.write(bytes)
          separator = ","
        }
        let start = separator == "," ? "]" : separator + "]"
        try await writer.write(
          ByteBuffer(string: start + (page.last.map { #","nextCursor":"\#($0.id.text)""# } ?? "") + "}"))
        try await writer.finish(nil)
        withExtendedLifetime(room) {}
      })
  }

  /// Of the plans on a page; one that is larger is a page.
  private static let pageByteLimit = 1 << 20
  /// A plan is read, put into the answer, and sent.
  private static let copiesOfPlan = 3

  private func get(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await readable(request, context)
    let record = try await campaign(context, of: app)
    return try await answer(record, room(context, record))
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
    let changes = try await access.body(of: request, context, under: grant)
    _ = try JSONBody.members(changes[...])
    let room = try room(context, record, besides: changes.count)
    try await runner.files.fetch(record)
    let changed = try await controller.change(record.id, { _ in .edited }) { record in
      let tags = expected.split(separator: ",").map { $0.trimmingPrefix { $0 == " " } }
      guard expected == "*" || tags.contains(where: { $0 == record.tag }) else {
        throw Problem(
          .preconditionFailed, "Changed meanwhile", "The campaign has changed since it was read.",
          action: "Read the current state and try again.")
      }
      let old = try CampaignPlan(parsing: record.content[...])
      let plan = try old.changed(by: changes[...])
      try plan.check(for: app, now: access.clock.now)
      if plan.start != old.start { try plan.checkTime(now: controller.clock.now) }
      try AudienceColumns(runner.spool.audience(of: record)).check(plan, insteadOf: old)
      record.set(plan)
    }
    return try await answer(changed.head, room)
  }

  private func act(
    _ request: Request, _ context: ControlContext, _ body: (CampaignHead) async throws -> StoredCampaign
  ) async throws -> Response {
    let app = try await access.app(request, context, .campaigns)
    let record = try await campaign(context, of: app)
    let room = try room(context, record)
    return try await answer(try await body(record).head, room, .accepted)
  }

  private func change(
    _ request: Request, _ context: ControlContext, _ event: @escaping @Sendable (StoredCampaign) -> CampaignEvent
  ) async throws -> Response { try await act(request, context) { try await controller.change($0.id, event) } }

  private func start(_ record: CampaignHead) async throws -> StoredCampaign {
    try intake.demandOpen()
    return try await controller.start(record.id)
  }

  private func getAccount(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await readable(request, context)
    let report = try await reports.report(try await campaign(context, of: app))
    return .json(text: AccountJSON.text(report.snapshot(now: controller.clock.now)))
  }

  /// Room for an answer with a plan: before anything is done that is not answered without it.
  private func room(
    _ context: ControlContext, _ record: CampaignHead, besides byteCount: Int = 0
  ) throws -> MemoryRoom { try context.answerRoom((record.planByteCount + byteCount) * Self.copiesOfPlan) }

  private func answer(
    _ record: CampaignHead, _ room: MemoryRoom, _ status: HTTPResponse.Status = .ok
  ) async throws -> Response {
    guard let plan = try await controller.store.plan(of: record.id) else { throw Problem.notFound }
    let json = try await reports.report(record).json(plan: plan)
    var response = Response(
      status: status, headers: [.contentType: "application/json"],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: json)))
    response.headers[.eTag] = record.tag
    return response.holding(room)
  }
}

extension CampaignHead {
  /// Another one after every change.
  var tag: String { "\"\(version)\"" }
}
