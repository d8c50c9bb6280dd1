internal import PushWire
internal import Support
internal import Testing

@testable internal import PushGateway

struct DelayLineTests {
  private func at(_ milliseconds: Int64) -> Instant { .start + .milliseconds(milliseconds) }

  @Test(
    "elements come out in order, never early, and at most one step of the grid late", arguments: 0..<50 as Range<UInt64>
  )
  func order(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let delay = Duration.nanoseconds(Int64.random(in: 0...60_000_000, using: &random))
    var line = DelayLine<Int>(delay: delay)
    var now = at(1)
    var sent: [Instant] = []
    var received = 0
    while received < 500 {
      if sent.count < 500, Bool.random(using: &random) {
        line.append(sent.count, byteCount: 3, now: now)
        sent.append(now)
      }
      while let element = line.next(now: now) {
        #expect(element == received)
        #expect(now.since(sent[element]) >= delay)
        received += 1
      }
      #expect(line.byteCount == 3 * (sent.count - received))
      #expect((line.nextDue == nil) == (sent.count == received))
      if let due = line.nextDue {
        #expect(due > now)
        #expect(due.since(sent[received]) < delay + .nanoseconds(Int64(DelayLine<Int>.grid)))
        // Sometimes the clock jumps to the exact due time, as with a timer.
        now = Bool.random(using: &random) ? due : now + .nanoseconds(Int64.random(in: 0...3_000_000, using: &random))
      } else {
        now = now + .nanoseconds(Int64.random(in: 0...3_000_000, using: &random))
      }
    }
  }

  @Test("elements that go in before the opening count as gone in at the opening")
  func opening() {
    var line = DelayLine<Int>(delay: .milliseconds(25), opening: at(50))
    line.append(1, now: at(0))
    line.append(2, now: at(49))
    line.append(3, now: at(60))
    #expect(line.nextDue == at(75))
    #expect(line.next(now: at(74)) == nil)
    #expect([line.next(now: at(75)), line.next(now: at(75)), line.next(now: at(75))] == [1, 2, nil])
    #expect(line.nextDue == at(85))
    #expect(line.removeFirst() == 3)
    #expect(line.removeFirst() == nil)
  }
}
