internal import Carillon
internal import PushStore
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushServer
@testable internal import PushService

@Suite("The feed of outcomes")
struct OutcomeFeedTests {
  @Test("who waits at another node reads an outcome with its reference and its batch, soon after it is written")
  func labels() async throws {
    let disk = StoreDisk()
    let (store, other) = (SimulatedStore(disk, node: "1"), SimulatedStore(disk, node: "2"))
    let (recorder, clock) = (OutcomeRecorder(store: store), MachineClock())
    let feed = OutcomeFeed(store: other, recorder: OutcomeRecorder(store: other))
    let id = IntakeRunID(milliseconds: 1, random: 2)
    let run = StoredRunID(id)
    let token = String(repeating: "ab", count: 32)
    let comma = UInt8(ascii: ",")
    async let waiting = feed.page("news", after: 0, limit: 10, separator: comma, wait: .seconds(600), clock: clock)
    let batch = StoredBatch(
      id: StoredUUID(high: 3, low: 4), app: "news", parts: [StoredLines(run: run, lines: 1...1)], rejectedCount: 0,
      createdAt: clock.now)
    recorder.change { changes in
      changes.references = [(StoredNotificationID(run: run, line: 1), "order 7")]
      changes.batches = [batch]
    }
    recorder.began(id, app: "news", isBridge: false, channel: nil)
    let entries = OutcomeEntries(line: 1, token: token, goneSince: nil, isDoubted: false)
    recorder.accepted(id, entries, .quiet)
    let began = clock.uptime
    try recorder.makeDurable()
    let page = try await waiting
    #expect(page.count == 1)
    #expect(clock.uptime.since(began) < .seconds(300))
    let text = String(decoding: page.object(), as: UTF8.self)
    #expect(text.contains(#""reference":"order 7""#), "\(text)")
    #expect(text.contains(#""batch":""#), "\(text)")
    #expect(text.hasSuffix(#"],"nextCursor":"1"}"#))
  }

  @Test("who waits for outcomes of an app is woken by these, and by no other app's")
  func followers() async {
    let (followers, clock) = (OutcomeFollowers(), MachineClock())
    await followers.following("news") { signal in
      followers.tell("other")
      let began = clock.uptime
      await clock.sleep(for: .milliseconds(20), orUntil: signal)
      #expect(clock.uptime.since(began) >= .milliseconds(20))
      followers.tell("news")
      await clock.sleep(for: .seconds(600), orUntil: signal)
      #expect(clock.uptime.since(began) < .seconds(300))
    }
  }
}
