internal import PushServer
internal import PushStore
internal import Support
internal import Testing

@Suite("When feedback services are read")
struct FeedbackScheduleTests {
  @Test(
    "soon after the start, then about once in an interval; after a failure sooner", arguments: 0..<200 as Range<UInt64>)
  func next(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let interval = Duration.seconds(Int.random(in: 1...200_000, using: &random))
    let now = StoreInstant(milliseconds: Int64.random(in: 0...2_000_000_000_000, using: &random))
    let chance = Double.random(in: 0...1, using: &random)
    func seconds(_ instant: StoreInstant) -> Double { Double(instant.milliseconds - now.milliseconds) / 1000 }
    let length = Double(interval.components.seconds)

    let first = seconds(FeedbackSchedule.next(after: nil, every: interval, now: now, chance: chance))
    #expect((0...min(600, length)).contains(first), "seed \(seed)")
    let second = seconds(FeedbackSchedule.next(after: now, every: interval, now: now, chance: chance))
    #expect(((0.9 * length - 0.01)...(max(1.1 * length, 600))).contains(second), "seed \(seed)")
    // The service did not run for long.
    let long = StoreInstant(milliseconds: now.milliseconds - 3 * interval.components.seconds * 1000)
    let overdue = seconds(FeedbackSchedule.next(after: long, every: interval, now: now, chance: chance))
    #expect((0...min(600, length)).contains(overdue), "seed \(seed)")
    let failed = seconds(FeedbackSchedule.afterFailure(every: interval, now: now, chance: chance))
    #expect(((0.5 * min(1800, length) - 0.01)...min(1800, length)).contains(failed), "seed \(seed)")
  }

  @Test("it looks again when the next one is due, at most ten times a second and at least once a minute")
  func pauses() {
    let now = StoreInstant(milliseconds: 1_000_000)
    func pause(_ left: Int64) -> Duration {
      FeedbackSchedule.pause(until: StoreInstant(milliseconds: now.milliseconds + left), now: now)
    }
    #expect(FeedbackSchedule.pause(until: nil, now: now) == .seconds(60))
    #expect([-5_000, 30_000, 90_000].map(pause) == [.milliseconds(100), .seconds(30), .seconds(60)])
  }

  @Test("a reading is planned again when its app's interval has become shorter")
  func shorterInterval() {
    let now = StoreInstant(milliseconds: 0)
    let due = FeedbackSchedule.next(after: now, every: .seconds(86_400), now: now, chance: 1)
    #expect(FeedbackSchedule.stands(due, every: .seconds(86_400), now: now))
    #expect(!FeedbackSchedule.stands(due, every: .seconds(3_600), now: now))
  }
}
