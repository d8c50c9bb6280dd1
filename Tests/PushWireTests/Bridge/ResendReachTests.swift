internal import Testing

@testable internal import PushWire

@Suite("What a client may send again after a break")
struct ResendReachTests {
  @Test("the frames of the last ten seconds")
  func duration() {
    var reach = ResendReach()
    let begin = Instant.start + .seconds(100)
    #expect(reach.first(now: begin, next: 0) == 0)
    reach.arrive(0, now: begin)
    reach.arrive(5, now: begin + .seconds(30))
    // It counts with the read a moment before it.
    reach.arrive(7, now: begin + .milliseconds(30_200))
    #expect(reach.first(now: begin + .seconds(31), next: 9) == 5)
    #expect(reach.first(now: begin + .seconds(40), next: 9) == 5)
    #expect(reach.first(now: begin + .seconds(42), next: 9) == 9)
    // A connection that lives on forgets what can come again no more.
    reach.arrive(20, now: begin + .seconds(60))
    #expect(reach.first(now: begin + .seconds(61), next: 21) == 20)
  }

  @Test("time that passes after the last frame was taken does not count")
  func stopped() {
    var reach = ResendReach()
    let begin = Instant.start + .seconds(100)
    reach.arrive(3, now: begin)
    reach.stop(now: begin + .seconds(2))
    reach.stop(now: begin + .seconds(50))
    #expect(reach.first(now: begin + .seconds(50), next: 9) == 3)
  }
}
