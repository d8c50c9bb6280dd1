internal import PushStore
internal import Support
internal import Testing

@Suite("Live Activities in the store")
struct ActivityTests {
  private static func at(_ number: Int64) -> StoreInstant { StoreInstant(milliseconds: number) }

  private static func token(
    _ activity: String, _ device: UInt8, _ token: UInt8, at number: Int64 = 5
  ) -> StoredActivityToken {
    StoredActivityToken(activity: activity, device: [device], token: [token], registeredAt: at(number))
  }

  @Test("a device has one token of an activity, and a token one activity on one device", arguments: StoreKind.allCases)
  func registration(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func register(_ token: StoredActivityToken, _ app: String = "news") async throws -> RegisteredActivity {
      try await store.register(token, app: app, limit: 2)
    }
    func tokens(_ activity: String, since instant: StoreInstant = Self.at(0)) async throws -> [UInt8] {
      try await store.activityTokens(of: activity, app: "news", since: instant).flatMap(\.token)
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
    #expect(try await store.activityTokens(of: "order", app: "news", since: Self.at(0)) == expected)
    try store.close()
  }

  @Test("it is forgotten on a device, everywhere, with its device, and when it is old", arguments: StoreKind.allCases)
  func forgetting(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func tokens(_ activity: String) async throws -> [UInt8] {
      try await store.activityTokens(of: activity, app: "news", since: Self.at(0)).flatMap(\.token)
    }
    for activity in ["a", "b"] as [String] {
      for device in 1...6 as ClosedRange<UInt8> {
        let token = activity == "a" ? device + 10 : device + 20
        let registration = Self.token(activity, device, token, at: Int64(device))
        _ = try await store.register(registration, app: "news", limit: 9)
      }
    }
    #expect(try await store.forgetActivity("a", device: [6], app: "news", until: Self.at(9)))
    #expect(try await !store.forgetActivity("a", device: [6], app: "news", until: Self.at(9)))
    #expect(try await !store.forgetActivity("a", device: [5], app: "chat", until: Self.at(9)))
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
    #expect(try await store.forgetActivity("b", device: nil, app: "news", until: Self.at(5)))
    #expect(try await tokens("b") == [26])
    try store.close()
  }
}
