internal import PushStore
internal import Support
internal import Testing

@Suite("Live Activities in the store")
struct ActivityTests {
  private static func at(_ number: Int64) -> StoreInstant { StoreInstant(milliseconds: number) }

  private static func token(
    _ activity: String, _ device: UInt8, _ token: UInt8, at number: Int64 = 5
  ) -> StoredActivityToken {
    StoredActivityToken(activity: .shown(activity), device: [device], token: [token], registeredAt: at(number))
  }

  @Test("a device has one token of an activity, and a token one activity on one device", arguments: StoreKind.allCases)
  func registration(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func register(_ token: StoredActivityToken, _ app: String = "news") async throws -> RegisteredActivity {
      try await store.register(token, app: app, limit: 2)
    }
    func tokens(_ activity: String, since instant: StoreInstant = Self.at(0)) async throws -> [UInt8] {
      try await store.activityTokens(of: .shown(activity), app: "news", devices: nil, since: instant).flatMap(\.token)
    }
    #expect(try await register(Self.token("match", 2, 20)) == .created)
    #expect(try await register(Self.token("match", 1, 10)) == .created)
    #expect(try await register(Self.token("match", 1, 11, at: 9)) == .updated)
    #expect(try await tokens("match") == [11, 20])
    #expect(try await tokens("match", since: Self.at(6)) == [11])
    // What is refused changes nothing.
    #expect(try await register(Self.token("match", 3, 20)) == .refused)
    #expect(try await tokens("match") == [11, 20])
    #expect(try await register(Self.token("match", 3, 20), "chat") == .created)
    #expect(try await register(Self.token("order", 1, 11)) == .created)
    #expect(try await tokens("match") == [20])
    #expect(try await tokens("order") == [11])
    let expected = [Self.token("order", 1, 11)]
    #expect(
      try await store.activityTokens(of: .shown("order"), app: "news", devices: nil, since: Self.at(0)) == expected)
    try store.close()
  }

  @Test("it is forgotten on a device, everywhere, with its device, and when it is old", arguments: StoreKind.allCases)
  func forgetting(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func tokens(_ activity: String) async throws -> [UInt8] {
      try await store.activityTokens(of: .shown(activity), app: "news", devices: nil, since: Self.at(0)).flatMap(
        \.token)
    }
    for activity in ["a", "b"] as [String] {
      for device in 1...6 as ClosedRange<UInt8> {
        let token = activity == "a" ? device + 10 : device + 20
        let registration = Self.token(activity, device, token, at: Int64(device))
        _ = try await store.register(registration, app: "news", limit: 9)
      }
    }
    #expect(try await store.forgetActivity(.shown("a"), device: [6], app: "news", until: Self.at(9)))
    #expect(try await !store.forgetActivity(.shown("a"), device: [6], app: "news", until: Self.at(9)))
    #expect(try await !store.forgetActivity(.shown("a"), device: [5], app: "chat", until: Self.at(9)))
    #expect(try await tokens("a") == [11, 12, 13, 14, 15])
    // The token of an activity, and that of a device; both as they were registered before.
    var changes = IntakeChanges()
    for (token, at) in [(15, 5), (2, 2), (14, 3), (3, 2)] as [(UInt8, Int64)] {
      changes.gone.append(StoredGoneDevice(app: "news", token: [token], since: Self.at(at), foundAt: Self.at(99)))
    }
    try store.write(changes)
    #expect(try await tokens("a") == [11, 13, 14])
    #expect(try await tokens("b") == [21, 23, 24, 25, 26])
    // The second one is the token of an activity, and no device.
    for token in [1, 13] as [UInt8] { #expect(try await !store.removeDevice(token: [token], app: "news")) }
    #expect(try await tokens("a") == [13, 14])
    try await store.forgetActivities(registeredBefore: Self.at(4))
    #expect(try await tokens("a") == [14])
    #expect(try await tokens("b") == [24, 25, 26])
    #expect(try await store.forgetActivity(.shown("b"), device: nil, app: "news", until: Self.at(5)))
    #expect(try await tokens("b") == [26])
    try store.close()
  }

  @Test(
    "what can be started on a device is kept apart, whatever its age, and moves to its next token",
    arguments: StoreKind.allCases)
  func startable(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let type = ActivityName.startable("match")
    func register(_ name: ActivityName, _ device: UInt8, _ token: UInt8) async throws -> RegisteredActivity {
      let registration = StoredActivityToken(activity: name, device: [device], token: [token], registeredAt: Self.at(5))
      return try await store.register(registration, app: "news", limit: .max)
    }
    func tokens(_ name: ActivityName, _ devices: [[UInt8]]? = nil) async throws -> [UInt8] {
      try await store.activityTokens(of: name, app: "news", devices: devices, since: Self.at(0)).flatMap(\.token)
    }
    for device in 1...4 as ClosedRange<UInt8> {
      #expect(try await register(type, device, device + 10) == .created)
      #expect(try await register(.shown("match"), device, device + 20) == .created)
    }
    #expect(try await register(type, 1, 15) == .updated)
    #expect(try await tokens(type) == [15, 12, 13, 14])
    #expect(try await tokens(type, [[4], [2], [9], [4]]) == [12, 14])
    #expect(try await tokens(type, []).isEmpty)
    try await store.forgetActivities(registeredBefore: Self.at(6))
    #expect(try await tokens(.shown("match")).isEmpty)
    #expect(try await tokens(type).count == 4)
    #expect(try await register(.shown("match"), 2, 22) == .created)
    #expect(try await store.forgetActivity(type, device: [2], app: "news", until: Self.at(9)))
    #expect(try await tokens(.shown("match")) == [22])

    // The app says that it has another token: also a device that is not registered itself.
    func replace(_ former: UInt8, by token: UInt8) async throws {
      var device = DeviceRegistration(
        token: [token], newID: StoredUUID(high: 1, low: UInt64(token)), registeredAt: Self.at(9))
      device.replacedToken = [former]
      _ = try await store.register(device, app: "news")
    }
    try await replace(3, by: 30)
    #expect(try await tokens(type, [[3], [30]]) == [13])
    // What the other token has already stays.
    #expect(try await register(type, 40, 44) == .created)
    #expect(try await register(.shown("order"), 4, 50) == .created)
    try await replace(4, by: 40)
    #expect(try await tokens(type) == [15, 13, 44])
    #expect(try await tokens(.shown("order"), [[40]]) == [50])
    try store.close()
  }

  @Test(
    "an audience can be of an activity: its members have its token, and leave with it", arguments: StoreKind.allCases)
  func audience(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let type = ActivityName.startable("match")
    for number in 1...40 as ClosedRange<UInt8> {
      var device = DeviceRegistration(
        token: [number], newID: StoredUUID(high: 1, low: UInt64(number)), registeredAt: Self.at(5))
      device.tags = .set(number.isMultiple(of: 2) ? ["even"] : [])
      _ = try await store.register(device, app: "news")
      guard number.isMultiple(of: 3) else { continue }
      let registration = StoredActivityToken(
        activity: type, device: [number], token: [number, 1], registeredAt: Self.at(5))
      _ = try await store.register(registration, app: "news", limit: .max)
    }
    for (tags, wanted) in [([], Array(1...13)), (["even"], [2, 4, 6, 8, 10, 12])] as [([String], [UInt8])] {
      let tokens = wanted.map { [$0 * 3, 1] }
      let filter = AudienceFilter(all: tags, activity: type)
      #expect(try await store.audienceCount(app: "news", filter: filter, through: .max) == tokens.count)
      let keys = try await store.audienceMembers(
        app: "news", filter: filter, after: 0, through: .max, withTimeZones: false
      ).members.map(\.key)
      // Dense, and each by itself.
      for keys in [keys, keys + [1_000_000]] {
        #expect(try await store.audienceDevices(app: "news", keys: keys, activity: type).map(\.token) == tokens)
      }
      #expect(
        try await store.audienceDevices(app: "news", keys: keys, activity: nil).map(\.token) == wanted.map { [$0 * 3] })
      #expect(try await store.audienceDevices(app: "news", keys: keys, activity: .shown("match")).isEmpty)
    }
    let keys = try await store.devices(app: "news", tag: nil, after: 0, limit: 99).map(\.key)
    #expect(try await store.audienceDevices(app: "news", keys: keys, activity: type).count == 13)
    #expect(try await store.forgetActivity(type, device: [3], app: "news", until: Self.at(9)))
    #expect(try await store.audienceDevices(app: "news", keys: keys, activity: type).first?.token == [6, 1])
    let other = AudienceFilter(activity: .startable("other"))
    #expect(try await store.audienceCount(app: "news", filter: other, through: .max) == 0)
    try store.close()
  }
}
