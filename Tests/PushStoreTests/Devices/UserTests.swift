internal import PushStore
internal import Support
internal import Testing

@Suite("Users in the store")
struct UserTests {
  private static func device(_ token: UInt8, of user: String?, at number: Int64 = 5) -> DeviceRegistration {
    var device = DeviceRegistration(
      token: [token], newID: StoredUUID(high: 1, low: UInt64(token)), registeredAt: StoreInstant(milliseconds: number))
    if let user { device.userID = .set(user) }
    return device
  }

  @Test(
    "a device belongs to the user that was named last, and a user has its newest devices", arguments: StoreKind.allCases
  )
  func devices(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func tokens(_ users: [String], limit: Int = 9) async throws -> [String: [UInt8]] {
      try await store.devices(ofUsers: users, app: "news", limit: limit).mapValues { $0.flatMap(\.token) }
    }
    #expect(try await tokens(["ada"]).isEmpty)
    for token in 1...4 as ClosedRange<UInt8> {
      _ = try await store.register(Self.device(token, of: "ada"), app: "news")
    }
    var other = Self.device(1, of: "ada")
    other.newID = StoredUUID(high: 2, low: 1)
    _ = try await store.register(other, app: "chat")
    _ = try await store.register(Self.device(5, of: "bob"), app: "news")
    // It says nothing of its user, then another one, then none.
    _ = try await store.register(Self.device(1, of: nil, at: 6), app: "news")
    _ = try await store.register(Self.device(2, of: "bob", at: 6), app: "news")
    var nobody = Self.device(3, of: nil)
    nobody.userID = .set(nil)
    _ = try await store.register(nobody, app: "news")
    #expect(try await tokens(["ada", "bob", "Ada", "ada"]) == ["ada": [4, 1], "bob": [5, 2]])
    #expect(try await tokens(["ada"], limit: 1) == ["ada": [4]])
    #expect(try await tokens([]).isEmpty)
    #expect(try await store.device(token: [2], app: "news")?.userID == "bob")
    #expect(try await store.device(token: [3], app: "news")?.userID == nil)
    // With its user, a device gets another token.
    var moved = Self.device(9, of: nil)
    moved.replacedToken = [5]
    _ = try await store.register(moved, app: "news")
    #expect(try await tokens(["bob"]) == ["bob": [9, 2]])
    try store.close()
  }

  @Test("a user's devices are removed some at a time, with what can be started on them", arguments: StoreKind.allCases)
  func removal(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    for token in 1...7 as ClosedRange<UInt8> {
      var device = Self.device(token, of: token == 7 ? "bob" : "ada")
      device.tags = .set(["all"])
      _ = try await store.register(device, app: "news")
      let activity = StoredActivityToken(
        activity: .startable("A"), device: [token], token: [token, 1], registeredAt: StoreInstant(milliseconds: 1))
      _ = try await store.register(activity, app: "news", limit: .max)
    }
    let known = try await store.activityTokens(ofDevices: [[1], [7], [9]], app: "news")
    #expect(Set(known.map(\.token)) == [[1, 1], [7, 1]])
    #expect(known.allSatisfy { $0.activity == .startable("A") })
    var changes = IntakeChanges()
    for token in [1, 7] as [UInt8] {
      let at = StoreInstant(milliseconds: 0)
      changes.gone.append(StoredGoneDevice(app: "news", token: [token], since: at, foundAt: at))
    }
    try store.write(changes)
    #expect(try await store.removeDevices(ofUser: "ada", app: "chat", limit: 4) == 0)
    #expect(try await store.removeDevices(ofUser: "ada", app: "news", limit: 4) == 4)
    #expect(try await store.removeDevices(ofUser: "ada", app: "news", limit: 4) == 2)
    #expect(try await store.removeDevices(ofUser: "ada", app: "news", limit: 4) == 0)
    #expect(try await store.devices(app: "news", tag: "all", after: 0, limit: 9).flatMap(\.token) == [7])
    #expect(try await store.goneDevices(app: "news", after: 0, limit: 9).map(\.token) == [[7]])
    try await store.scrub()
    let left = try await store.activityTokens(
      of: .startable("A"), app: "news", devices: nil, since: StoreInstant(milliseconds: 0))
    #expect(left.map(\.token) == [[7, 1]])
    try store.close()
  }
}
