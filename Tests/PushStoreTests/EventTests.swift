internal import PushStore
internal import Support
internal import Testing

@Suite("Events in the store")
struct EventTests {
  private static func event(
    _ number: UInt64, _ kind: StoredEvent.Kind = .action, app: String? = nil
  ) -> StoredEvent {
    StoredEvent(
      id: StoredUUID(high: number / 4, low: number % 4 | 1 << 63), at: StoreInstant(milliseconds: Int64(number)), kind,
      "event \(number)", app: app)
  }

  @Test("pages have the newest events first, each once, of the apps that one sees", arguments: StoreKind.allCases)
  func pages(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let apps = [nil, "news", "chat"]
    var events = (0..<50).map { Self.event(UInt64($0), app: apps[$0 % 3]) }
    (events[7].subject, events[7].key, events[7].address) = ("s", "k", "127.0.0.1")
    (events[7].node, events[7].reason) = ("n", "\"why\"")
    try await store.add(Array(events[20...]), keeping: 99)
    try await store.add(Array(events[..<30]), keeping: 99)
    func all(_ reach: AppReach) async throws -> [StoredEvent] {
      var found: [StoredEvent] = []
      while true {
        let page = try await store.events(of: reach, before: found.last?.id, limit: 7)
        found += page
        if page.count < 7 { return found }
      }
    }
    #expect(try await all(.all) == events.reversed())
    #expect(try await all(.only(["news"])) == events.reversed().filter { $0.app == "news" })
    #expect(try await all(.only(["news", "chat", "none"])) == events.reversed().filter { $0.app != nil })
    #expect(try await all(.only([])).isEmpty)
    try store.close()
  }

  @Test("the last ones of each app and kind are kept: one flood drives out no other", arguments: StoreKind.allCases)
  func floods(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let quiet = [Self.event(0), Self.event(1, app: "news"), Self.event(2, .refusal)]
    try await store.add(quiet, keeping: 5)
    let flood = (10..<40).map { Self.event(UInt64($0), .change, app: $0 % 2 == 0 ? "news" : nil) }
    for events in [flood[..<20], flood[20...]] { try await store.add(Array(events), keeping: 5) }
    let kept = try await store.events(of: .all, before: nil, limit: 99)
    #expect(kept == flood.suffix(10).reversed() + quiet.reversed())
    // What is added again is forgotten again.
    try await store.add([flood[0], quiet[0]], keeping: 5)
    #expect(try await store.events(of: .all, before: nil, limit: 99) == kept)
    try store.close()
  }
}
