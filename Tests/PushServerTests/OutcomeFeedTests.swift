internal import PushService
internal import PushStore
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushServer

@Suite("The feed of outcomes")
struct OutcomeFeedTests {
  @Test("what waited for its reference is read soon after it is there, also if nothing else comes")
  func pending() async throws {
    let store = SimulatedStore(StoreDisk())
    let feed = OutcomeFeed(store: store, recorder: OutcomeRecorder(store: store), pending: PendingLabels())
    let entries = OutcomeEntries(line: 1, token: String(repeating: "ab", count: 32), goneSince: nil, isDoubted: false)
    let at = StoreInstant(milliseconds: 1_000)
    var changes = IntakeChanges()
    changes.outcomes = OutcomeList([
      OutcomeGroup(
        app: "news", origin: .run(StoredRunID(high: 1, low: 2), isBridge: false), state: "accepted", detail: "quiet",
        at: at, count: 1, entries: entries.bytes)
    ])
    try store.write(changes)
    let (clock, comma) = (MachineClock(), UInt8(ascii: ","))
    var hold: PendingLabels.Hold? = feed.pending.hold("news", since: at)
    #expect(try await feed.page("news", after: 0, limit: 10, separator: comma, wait: .zero, clock: clock).count == 0)
    async let waiting = feed.page("news", after: 0, limit: 10, separator: comma, wait: .seconds(600), clock: clock)
    try await clock.sleep(for: .milliseconds(300))
    withExtendedLifetime(hold) {}
    hold = nil
    let began = clock.uptime
    let page = try await waiting
    #expect(page.count == 1)
    #expect(clock.uptime.since(began) < .seconds(300))
    #expect(String(decoding: page.object(), as: UTF8.self).hasSuffix(#"],"nextCursor":"1"}"#))
  }
}
