internal import PushWire
internal import Testing

@testable internal import PushServer

@Suite("Limits of uploads")
struct UploadLimitsTests {
  @Test("a body has its patience, and the time that its bytes take at the lowest rate")
  func pace() {
    let pace = UploadPace(beganAt: Instant(nanoseconds: 7), patience: .seconds(2))
    let start = Instant(nanoseconds: 7)
    #expect(!pace.isTooSlow(byteCount: 0, now: start + .seconds(2)))
    #expect(pace.isTooSlow(byteCount: 0, now: start + .milliseconds(2_001)))
    #expect(!pace.isTooSlow(byteCount: 40_960, now: start + .seconds(12)))
    #expect(pace.isTooSlow(byteCount: 40_960, now: start + .milliseconds(12_001)))
  }

  @Test("bodies together have a limit, and what ends makes room")
  func memory() {
    let memory = BodyMemory(limit: 100)
    let taken = [memory.take(60), memory.take(41), memory.take(40), memory.take(1)]
    #expect(taken == [true, false, true, false])
    memory.give(60)
    let again = memory.take(60)
    #expect(again)
  }
}
