internal import Testing

@testable internal import PushWire

@Suite struct BadTokenBreakerTests {
  @Test("few answers do not trip it, and neither does a share below the limit")
  func quiet() {
    var breaker = BadTokenBreaker(share: 0.5, sampleCount: 200)
    #expect(breaker.answered(199, bad: 199) == nil)
    var other = BadTokenBreaker(share: 0.5, sampleCount: 200)
    for _ in 0..<1_000 { #expect(other.answered(10, bad: 4) == nil) }
  }

  @Test("an environment that is wrong from the beginning trips it with the first sample", arguments: [1, 7, 200])
  func wrongFromTheStart(batch: Int) {
    var breaker = BadTokenBreaker(share: 0.5, sampleCount: 200)
    var answers = 0
    var reason: String?
    while reason == nil, answers < 1_000 {
      reason = breaker.answered(batch, bad: batch)
      answers += batch
    }
    #expect(answers >= 200)
    #expect(answers < 200 + batch)
    #expect(reason?.hasPrefix("\(answers) of the last \(answers) answers call the device token bad") == true)
    #expect(breaker.answered(batch, bad: batch) == nil, "once")
  }

  @Test("after any number of good answers a jump is noticed within a sample")
  func jump() {
    var breaker = BadTokenBreaker(share: 0.5, sampleCount: 200)
    for _ in 0..<10_000 { #expect(breaker.answered(13, bad: 0) == nil) }
    var bad = 0
    while bad < 1_000, breaker.answered(1, bad: 1) == nil { bad += 1 }
    #expect(bad < 250)
  }
}
