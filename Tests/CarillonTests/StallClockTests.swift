internal import PushWire
internal import Testing

@testable internal import Carillon

@Suite struct StallClockTests {
  private static func at(_ seconds: Int) -> Instant { .start + .seconds(seconds) }

  @Test("a campaign stands still from the first look that finds the same number, unless it is paused")
  func looks() {
    var clock = StallClock()
    #expect(clock.look(settledCount: 0, isPaused: false, now: Self.at(1)) == .zero)
    #expect(clock.look(settledCount: 0, isPaused: false, now: Self.at(6)) == .seconds(5))
    #expect(clock.look(settledCount: 7, isPaused: false, now: Self.at(10)) == .zero)
    #expect(clock.look(settledCount: 7, isPaused: false, now: Self.at(80)) == .seconds(70))
    #expect(clock.look(settledCount: 7, isPaused: true, now: Self.at(90)) == .zero)
    // After a pause it has time to begin again.
    #expect(clock.look(settledCount: 7, isPaused: false, now: Self.at(200)) == .zero)
    #expect(clock.look(settledCount: 7, isPaused: false, now: Self.at(203)) == .seconds(3))
  }
}
