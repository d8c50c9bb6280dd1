internal import Carillon
internal import Foundation
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire

/// The users of an app, whose devices they are.
struct UserRoutes: Sendable {
  let devices: DeviceRoutes

  private var access: ControlAccess { devices.access }
  private var store: any Store { devices.store }

  /// Devices of one answer.
  private static let answerLimit = 200
  /// Devices of one turn of the store.
  private static let portion = 1_000

  func add(to router: Router<ControlContext>) {
    let user = router.group("v1/apps/{app}/users/{user}")
    user.get(use: getUser)
    user.delete(use: deleteUser)
    user.put("devices/{token}") { try await devices.put($0, $1, user: Self.user($1)) }
    user.delete("devices/{token}", use: deleteDevice)
  }

  private func getUser(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices, or: .read)
    let user = try Self.user(context)
    let known = try await store.devices(ofUsers: [user], app: app.id, limit: Self.answerLimit + 1)[user] ?? []
    guard !known.isEmpty else { throw Self.missing(user, app.id) }
    let some = known.prefix(Self.answerLimit)
    let room = try context.answerRoom(some.reduce(0) { $0 + 1_000 + $1.tags.reduce(0) { $0 + $1.utf8.count } })
    let activities = Dictionary(
      grouping: try await store.activityTokens(ofDevices: some.map(\.token), app: app.id), by: \.device)
    return .json { json in
      json.field("id", user)
      json.field("isComplete", some.count == known.count)
      json.array("devices", Array(some)) { device, json in
        DeviceRoutes.write(device, to: &json)
        json.array("activities", activities[device.token] ?? []) { ActivityRoutes.write($0, to: &$1) }
      }
    }.holding(room)
  }

  private func deleteUser(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices)
    let user = try Self.user(context)
    var (count, last) = (0, Self.portion)
    while last == Self.portion {
      last = try await store.removeDevices(ofUser: user, app: app.id, limit: Self.portion)
      count += last
    }
    guard count > 0 else { throw Self.missing(user, app.id) }
    try await store.forgetAdmissions(of: AudienceMemberDigest(user: user, app: app.id).bytes, app: app.id)
    return Response(status: .noContent)
  }

  private func deleteDevice(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices)
    let user = try Self.user(context)
    let token = try devices.token(context)
    guard try await store.device(token: token.bytes, app: app.id)?.userID == user,
      try await store.removeDevice(token: token.bytes, app: app.id)
    else { throw context.missing("device", of: app, parameter: "token") }
    return Response(status: .noContent)
  }

  private static func missing(_ user: String, _ app: String) -> Problem {
    Problem.missing("user \(user.cited) of the app \(app.cited)")
  }

  private static func user(_ context: ControlContext) throws -> String {
    guard let user = (context.parameters.get("user") ?? "").removingPercentEncoding, UserName.isValid(user) else {
      throw Problem.malformed(UserName.rule)
    }
    return user
  }
}
