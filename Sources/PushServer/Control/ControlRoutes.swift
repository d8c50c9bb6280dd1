internal import Carillon
internal import Hummingbird
internal import PushStore
internal import PushTransport
internal import Synchronization

/// The control interface, version 1.
struct ControlRoutes: Sendable {
  let deployment: Deployment
  let store: any Store
  let book: OutcomeBook
  let keys: KeyRing
  let settings: ServerConfiguration.API
  /// By app: how many bytes of payloads may wait to be acknowledged.
  let queueByteCount: @Sendable (String) -> Int
  /// False once the service ends: nothing is taken in any more.
  let isOpen: @Sendable () -> Bool

  var responder: ControlResponder<RouterResponder<ControlContext>> {
    let router = Router(context: ControlContext.self)
    let app = router.group("v1/apps/{app}")
    app.post("notifications", use: postNotification)
    app.post("notifications:batch", use: postBatch)
    app.get("notifications/{id}", use: getNotification)
    app.get("batches/{id}", use: getBatch)
    app.get("feedback", use: getFeedback)
    app.get(use: getApp)
    router.get("v1/apps", use: getApps)
    return ControlResponder(router: router.buildResponder())
  }

  // MARK: Who may do what

  /// The app of the request's path, if the caller may do this with it.
  ///
  /// - Throws: ``Problem``: 401, 403, or 404, also for an app that the key is not for.
  private func app(_ request: Request, _ context: ControlContext, _ scope: Scope) async throws -> PushApp {
    let caller = try await keys.caller(request.headers[.authorization])
    guard let id = context.parameters.get("app"), caller.sees(app: id),
      let app = try? deployment.app(id)
    else { throw Problem.notFound }
    try demand(scope, of: caller)
    return app
  }

  private func demand(_ scope: Scope, of caller: Caller) throws {
    guard caller.may(scope) else {
      throw Problem(
        .forbidden, "Not allowed", "The key lacks the scope \"\(scope.rawValue)\".",
        action: "Make a key with this scope: carillon key create --scope \(scope.rawValue).")
    }
  }

  // MARK: Notifications

  private func postNotification(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await app(request, context, .send)
    try demandRoom(app)
    let body = try NotificationRequest(parsing: try await request.wholeBody(limit: settings.maxBody)[...])
    let ids = try await app.submit([(body.notification, body.token)])
    guard let id = ids.first else { throw Problem.unavailable("The notification was not taken in.") }
    return .json(.accepted) { json in
      json.field("id", "\(id)")
      json.field("state", "queued")
    }
  }

  private func postBatch(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await app(request, context, .send)
    try demandRoom(app)
    let body = BatchRequest(parsing: try await request.wholeBody(limit: settings.maxBody), app: app)
    var parts: [StoredBatch.Part] = []
    if !body.notifications.isEmpty {
      for id in try await app.submit(body.notifications) { parts.append(id) }
    }
    let run = IntakeRunID(milliseconds: UInt64(StoreInstant.now.milliseconds), random: .random(in: 0 ... .max))
    let name = NotificationID(run: run, line: .random(in: 0 ... .max))
    let batch = StoredBatch(
      id: StoredUUID(name), app: app.id, parts: parts, rejectedCount: body.rejectedCount, createdAt: .now)
    try await store.add(batch)
    return .json(.accepted) { json in
      json.field("batchId", "\(name)")
      json.field("accepted", body.notifications.count)
      json.field("rejected", body.rejectedCount)
      json.array("errors", body.errors) { error, json in
        json.field("line", error.line)
        json.field("detail", error.detail)
      }
    }
  }

  private func getNotification(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await app(request, context, .read)
    guard let id = context.parameters.get("id").flatMap({ NotificationID($0) }) else { throw Problem.notFound }
    let stored = StoredNotificationID(run: StoredRunID(id.run), line: id.line)
    // The book is asked first: what leaves it is in the store by then.
    let pending = book.app(of: stored)
    let outcome = try await store.outcome(of: stored)
    guard let owner = outcome?.app ?? pending, owner == app.id else { throw Problem.notFound }
    return .json { json in
      json.field("id", "\(id)")
      json.field("state", outcome == nil ? "queued" : "finished")
      json.field("outcome", outcome?.state)
      json.field("reason", outcome.flatMap { $0.detail.isEmpty ? nil : $0.detail })
    }
  }

  private func getBatch(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await app(request, context, .read)
    guard let id = context.parameters.get("id").flatMap({ NotificationID($0) }),
      let batch = try await store.batch(StoredUUID(id)), batch.app == app.id
    else { throw Problem.notFound }
    let counts = try await store.outcomes(of: batch.parts)
    return .json { json in
      json.field("id", "\(id)")
      json.field("state", counts.total == batch.acceptedCount ? "finished" : "queued")
      json.field("rejectedLines", batch.rejectedCount)
      json.object("account") { write(counts, submitted: batch.acceptedCount, to: &$0) }
    }
  }

  /// As `carillon send --json` has an account, as far as single outcomes tell it.
  private func write(_ counts: OutcomeCounts, submitted: Int, to json: inout JSONWriter) {
    json.field("submitted", submitted)
    json.object("accepted") {
      $0.field("confirmed", counts.accepted["confirmed"] ?? 0)
      $0.field("quiet", counts.accepted["quiet"] ?? 0)
    }
    let rejected = counts.others["rejected"] ?? [:]
    json.object("rejected") {
      $0.field("total", rejected.values.reduce(0, +))
      $0.object("byReason") {
        for (reason, count) in rejected.sorted(by: { $0.key < $1.key }) { $0.field(reason, count) }
      }
    }
    for state in ["suppressed", "expired", "held", "cancelled", "unknown"] {
      json.field(state, counts.others[state]?.values.reduce(0, +) ?? 0)
    }
    json.field("inFlight", submitted - counts.total)
  }

  private func demandRoom(_ app: PushApp) throws {
    guard isOpen() else { throw Problem.unavailable("The service is ending.", retryAfter: 30) }
    guard app.waitingByteCount < queueByteCount(app.id) else {
      var problem = Problem(
        .tooManyRequests, "Queue full", "The app's connections have no room, and its queue is full.",
        action: "Send more slowly, or see why the app's gateway takes nothing.")
      problem.retryAfter = 1
      throw problem
    }
  }

  // MARK: Apps

  private func getApps(_ request: Request, _ context: ControlContext) async throws -> Response {
    let caller = try await keys.caller(request.headers[.authorization])
    try demand(.read, of: caller)
    let apps = deployment.apps.filter { caller.sees(app: $0.id) }
    return .json { json in json.array("items", apps) { write($0, to: &$1) } }
  }

  private func getApp(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await app(request, context, .read)
    return .json { write(app, to: &$0) }
  }

  private func write(_ app: PushApp, to json: inout JSONWriter) {
    json.field("id", app.id)
    json.field("topic", app.configuration.topic)
    json.field("state", app.stopReason == nil ? "running" : "stopped")
    json.field("reason", app.stopReason)
  }

  // MARK: Feedback

  private func getFeedback(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await app(request, context, .feedback)
    let parameters = request.uri.queryParameters
    let limit = try number(parameters["limit"].map(String.init), "limit", 1...1000) ?? 100
    let cursor = try number(parameters["cursor"].map(String.init), "cursor", 0...Int.max) ?? 0
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

  private func number(_ text: String?, _ name: String, _ range: ClosedRange<Int>) throws -> Int? {
    guard let text else { return nil }
    guard let number = Int(text), range.contains(number) else {
      throw Problem.malformed("The parameter \(name) must be from \(range.lowerBound) to \(range.upperBound).")
    }
    return number
  }
}

extension [StoredBatch.Part] {
  /// Adds a notification. Neighbours become one part.
  fileprivate mutating func append(_ id: NotificationID) {
    let run = StoredRunID(id.run)
    if let last, last.run == run, last.lines.upperBound &+ 1 == id.line {
      self[count - 1].lines = last.lines.lowerBound...id.line
    } else {
      append(StoredBatch.Part(run: run, lines: id.line...id.line))
    }
  }
}

extension StoredUUID {
  init(_ id: NotificationID) { self.init(high: id.run.high, low: UInt64(id.run.low) << 32 | UInt64(id.line)) }
}
