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
  /// Characters.
  private static let nameLimit = 64

  private var access: ControlAccess { notifications.access }
  private var store: any Store { notifications.store }

  func add(to router: Router<ControlContext>) {
    let app = router.group("v1/apps/{app}")
    app.put("devices/{token}/activities/{activity}", use: putActivity)
    app.delete("devices/{token}/activities/{activity}", use: deleteActivity)
    app.get("activities/{activity}", use: getActivity)
    app.post("activities/{activity}:update") { try await post($0, $1, .update) }
    app.post("activities/{activity}:end") { try await post($0, $1, .end) }
  }

  private func putActivity(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .devices)
    let device = try DeviceToken(registered: context.parameters.get("token") ?? "", pointer: nil)
    let activity = try Self.activity(context)
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
    let result = try await store.register(registration, app: app.id, limit: StoredActivityToken.deviceLimit)
    guard result != .refused else {
      throw Problem(
        .conflict, "Too many devices", "\(StoredActivityToken.deviceLimit) devices show this activity.",
        action: "Let the app subscribe to a broadcast channel instead.")
    }
    return .json(result == .created ? .created : .ok) { Self.write(registration, to: &$0) }
  }

  private func deleteActivity(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices)
    let device = try DeviceToken(registered: context.parameters.get("token") ?? "", pointer: nil)
    let activity = try Self.activity(context)
    let isForgotten = try await store.forgetActivity(
      activity, device: device.bytes, app: app.id, until: StoreInstant(milliseconds: .max))
    guard isForgotten else { throw context.missing("activity", of: app, parameter: "activity") }
    return Response(status: .noContent)
  }

  private func getActivity(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices, or: .read)
    let activity = try Self.activity(context)
    let tokens = try await tokens(of: activity, app, context)
    return .json { json in
      json.field("activity", activity)
      json.field("devices", tokens.count)
      json.field("lastRegisteredAt", tokens.map(\.registeredAt).max().map(InstantText.text))
    }
  }

  private func post(
    _ request: Request, _ context: ControlContext, _ event: ActivityRequest.Event
  ) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .send)
    let activity = try Self.activity(context)
    try notifications.intake.demandRoom(app)
    try request.bodyType([.json])
    let bytes = try await access.body(of: request, context, under: grant)
    let notification = try app.prepare(
      ActivityRequest(parsing: bytes[...], event, now: access.clock.now).notification)
    let tokens = try await tokens(of: activity, app, context)
    let room = try notifications.intake.reserve(bytes.count + tokens.count * Self.entryByteCount, app)
    try notifications.demandStore()
    let (name, batch) = notifications.makeBatch(of: app)
    let entries = try tokens.map { (notification, try DeviceToken(bytes: $0.token)) }
    try await notifications.submit(entries, to: app, as: batch) { room.release() }
    try await notifications.demandChanges()
    // Those that were told, and no later ones. Another node's clock may be ahead of this one's.
    if event == .end, let last = tokens.map(\.registeredAt).max() {
      try await store.forgetActivity(activity, device: nil, app: app.id, until: last)
    }
    return .json(.accepted) { json in
      json.field("batchId", "\(name)")
      json.field("queued", entries.count)
      if !notification.requestWarnings.isEmpty { json.field("warnings", notification.requestWarnings) }
    }
  }

  /// Memory that a notification takes besides its text, which all of them share.
  private static let entryByteCount = 64

  /// - Throws: ``Problem`` with 404 if no device shows the activity.
  private func tokens(
    of activity: String, _ app: PushApp, _ context: ControlContext
  ) async throws -> [StoredActivityToken] {
    let first = access.clock.now.after(seconds: -StoredActivityToken.lifetime)
    let tokens = try await store.activityTokens(of: activity, app: app.id, since: first)
    guard !tokens.isEmpty else { throw context.missing("activity", of: app, parameter: "activity") }
    return tokens
  }

  private static func activity(_ context: ControlContext) throws -> String {
    let name = context.parameters.get("activity") ?? ""
    guard (1...nameLimit).contains(name.utf8.count), name.utf8.allSatisfy(\.isUnreserved) else {
      throw Problem.malformed(
        "An activity is called by at most \(nameLimit) letters, digits and - . _ ~, not \(name.cited).")
    }
    return name
  }

  private static func write(_ registration: StoredActivityToken, to json: inout JSONWriter) {
    json.field("activity", registration.activity)
    json.field("device", Digest.hexadecimal(registration.device))
    json.field("token", Digest.hexadecimal(registration.token))
    json.field("registeredAt", InstantText.text(registration.registeredAt))
  }
}

extension UInt8 {
  /// In an address they stand for themselves (RFC 3986, section 2.3).
  fileprivate var isUnreserved: Bool {
    switch self {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
      UInt8(ascii: "~"):
      true
    default: false
    }
  }
}
