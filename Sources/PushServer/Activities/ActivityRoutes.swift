internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire

/// The Live Activities of an app. The app says what an activity is called, and each device that
/// shows it registers the token that the system has made for it there.
struct ActivityRoutes: Sendable {
  let notifications: NotificationRoutes

  private static let fields = ["token"]

  private var access: ControlAccess { notifications.access }
  private var store: any Store { notifications.store }

  func add(to router: Router<ControlContext>) {
    let app = router.group("v1/apps/{app}")
    app.put("devices/{token}/activities/{activity}") { try await put($0, $1, Self.shown($1)) }
    app.put("devices/{token}/activity-types/{type}") { try await put($0, $1, Self.startable($1)) }
    app.delete("devices/{token}/activities/{activity}") { try await delete($0, $1, Self.shown($1)) }
    app.delete("devices/{token}/activity-types/{type}") { try await delete($0, $1, Self.startable($1)) }
    app.get("activities/{activity}", use: getActivity)
    app.post("activities/{activity}:update") { try await post($0, $1, .update, Self.shown($1)) }
    app.post("activities/{activity}:end") { try await post($0, $1, .end, Self.shown($1)) }
    app.post("activity-types/{type}:start") { try await post($0, $1, .start, Self.startable($1)) }
  }

  private func put(_ request: Request, _ context: ControlContext, _ activity: ActivityName) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .devices)
    let device = try DeviceToken(registered: context.parameters.get("token") ?? "", pointer: nil)
    try request.bodyType([.json])
    let body = try await access.body(of: request, context, under: grant, limit: DeviceImport.lineLimit)
    let fields = try FieldReader(parsing: body[...], fields: Self.fields)
    guard let text = try fields.text("token") else { throw fields.wrong("token", "The activity's token is missing.") }
    let token = try DeviceToken(registered: text, pointer: "/token")
    guard token != device else {
      throw fields.wrong("token", "It is the device's own token: an activity has another one.")
    }
    let registration = StoredActivityToken(
      activity: activity, device: device.bytes, token: token.bytes, registeredAt: access.clock.now)
    let limit = activity.isType ? .max : StoredActivityToken.deviceLimit
    let result = try await store.register(registration, app: app.id, limit: limit)
    guard result != .refused else {
      throw Problem(
        .conflict, "Too many devices", "\(StoredActivityToken.deviceLimit) devices show this activity.",
        action: "Let the app subscribe to a broadcast channel instead.")
    }
    return .json(result == .created ? .created : .ok) { Self.write(registration, to: &$0) }
  }

  private func delete(
    _ request: Request, _ context: ControlContext, _ activity: ActivityName
  ) async throws -> Response {
    let app = try await access.app(request, context, .devices)
    let device = try DeviceToken(registered: context.parameters.get("token") ?? "", pointer: nil)
    let isForgotten = try await store.forgetActivity(
      activity, device: device.bytes, app: app.id, until: StoreInstant(milliseconds: .max))
    guard isForgotten else { throw missing(activity, app, context) }
    return Response(status: .noContent)
  }

  private func getActivity(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices, or: .read)
    let activity = try Self.shown(context)
    let tokens = try await tokens(of: activity, app, context)
    return .json { json in
      json.field("activity", activity.text)
      json.field("devices", tokens.count)
      json.field("lastRegisteredAt", tokens.map(\.registeredAt).max().map(InstantText.text))
    }
  }

  private func post(
    _ request: Request, _ context: ControlContext, _ event: ActivityRules.Event, _ activity: ActivityName
  ) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .send)
    try notifications.intake.demandRoom(app)
    try request.bodyType([.json])
    let bytes = try await access.body(of: request, context, under: grant)
    let wanted = try ActivityRequest(parsing: bytes[...], event, of: activity, now: access.clock.now)
    let notification = try app.prepare(wanted.notification)
    let devices = try wanted.devices.enumerated().map { place, text in
      try DeviceToken(registered: text, pointer: "/devices/\(place)").bytes
    }
    let tokens = try await tokens(of: activity, on: activity.isType ? devices : nil, app, context)
    let room = try notifications.intake.reserve(bytes.count + tokens.count * NotificationRoutes.entryByteCount, app)
    try notifications.demandStore()
    let (name, batch) = notifications.makeBatch(of: app)
    let entries = try tokens.map { (notification, try DeviceToken(bytes: $0.token)) }
    try await notifications.submit(entries, to: app, as: batch) { room.release() }
    try await notifications.demandChanges()
    // Those that were told, and no later ones. Another node's clock may be ahead of this one's.
    if event == .end, let last = tokens.map(\.registeredAt).max() {
      try await store.forgetActivity(activity, device: nil, app: app.id, until: last)
    }
    let known = Set(tokens.map(\.device))
    let unknown = devices.filter { !known.contains($0) }.map(Digest.hexadecimal)
    return .json(.accepted) { json in
      json.field("batchId", "\(name)")
      json.field("queued", entries.count)
      if !unknown.isEmpty { json.field("withoutToken", unknown) }
      if !notification.requestWarnings.isEmpty { json.field("warnings", notification.requestWarnings) }
    }
  }

  /// - Throws: ``Problem`` with 404 if there is none.
  private func tokens(
    of activity: ActivityName, on devices: [[UInt8]]? = nil, _ app: PushApp, _ context: ControlContext
  ) async throws -> [StoredActivityToken] {
    let first =
      activity.isType
      ? StoreInstant(milliseconds: 0) : access.clock.now.after(seconds: -StoredActivityToken.lifetime)
    let tokens = try await store.activityTokens(of: activity, app: app.id, devices: devices, since: first)
    guard !tokens.isEmpty else { throw missing(activity, app, context) }
    return tokens
  }

  private func missing(_ activity: ActivityName, _ app: PushApp, _ context: ControlContext) -> Problem {
    activity.isType
      ? context.missing("token for the type", of: app, parameter: "type")
      : context.missing("activity", of: app, parameter: "activity")
  }

  private static func shown(_ context: ControlContext) throws -> ActivityName {
    .shown(try name(context, "activity"))
  }

  private static func startable(_ context: ControlContext) throws -> ActivityName {
    .startable(try name(context, "type"))
  }

  private static func name(_ context: ControlContext, _ parameter: String) throws -> String {
    let name = context.parameters.get(parameter) ?? ""
    guard ActivityRules.isName(name) else {
      throw Problem.malformed("\(name.cited) names no \(parameter). \(ActivityRules.nameRule)")
    }
    return name
  }

  static func write(_ registration: StoredActivityToken, to json: inout JSONWriter) {
    json.field(registration.activity.isType ? "type" : "activity", registration.activity.text)
    json.field("device", Digest.hexadecimal(registration.device))
    json.field("token", Digest.hexadecimal(registration.token))
    json.field("registeredAt", InstantText.text(registration.registeredAt))
  }
}
