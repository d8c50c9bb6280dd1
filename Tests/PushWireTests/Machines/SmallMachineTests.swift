internal import Support
internal import Testing

@testable internal import PushWire

@Suite("Backoff")
struct BackoffTests {
  @Test(
    "each failure doubles the delay up to the limit, jitter takes up to half, and a success resets it",
    arguments: 1...50 as ClosedRange<UInt64>)
  func growth(_ seed: UInt64) {
    var backoff = Backoff(base: .milliseconds(100), limit: .seconds(30), seed: seed)
    for round in 0..<2 {
      for failure in 1...60 {
        let delay = backoff.failed()
        let full = failure > 9 ? Duration.seconds(30) : .milliseconds(100 * (1 << (failure - 1)))
        #expect(delay >= full / 2, "seed \(seed), round \(round), failure \(failure): \(delay)")
        #expect(delay <= full, "seed \(seed), round \(round), failure \(failure): \(delay)")
        #expect(backoff.failures == failure)
      }
      backoff.succeeded()
      #expect(backoff.failures == 0)
    }
  }

  @Test("the jitter spreads lanes over the whole half, and follows from the seed")
  func jitter() {
    let first = (0..<1_000 as Range<UInt64>).map { seed in
      var backoff = Backoff(base: .seconds(1), seed: seed)
      return backoff.failed()
    }
    let again = (0..<1_000 as Range<UInt64>).map { seed in
      var backoff = Backoff(base: .seconds(1), seed: seed)
      return backoff.failed()
    }
    #expect(first == again)
    for tenth in 0..<10 {
      let from = Duration.milliseconds(500 + 50 * tenth)
      #expect(first.contains { $0 >= from && $0 < from + .milliseconds(50) }, "none in \(from)…")
    }
  }

  @Test("a limit below the base holds from the first failure on")
  func lowLimit() {
    var backoff = Backoff(base: .seconds(10), limit: .seconds(1), seed: 1)
    #expect(backoff.failed() <= .seconds(1))
  }
}

@Suite("TokenBucket")
struct TokenBucketTests {
  private func at(_ milliseconds: UInt64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  @Test("a burst at once, then the rate; unused time never saves up more than a burst")
  func table() {
    var bucket = TokenBucket(perSecond: 10, burst: 5, now: at(0))
    for (time, wanted, got) in [
      (0, 3, 3), (0, 9, 2), (0, 1, 0), (99, 1, 0), (100, 1, 1), (250, 5, 1), (300, 5, 1), (100_000, 9, 5),
      (100_000, 1, 0),
    ]
      as [(UInt64, Int, Int)]
    {
      #expect(bucket.take(upTo: wanted, now: at(time)) == got, "at \(time) ms")
    }
  }

  @Test("a clock that stands still or goes back gives nothing")
  func backwards() {
    var bucket = TokenBucket(perSecond: 10, burst: 1, now: at(1_000))
    #expect(bucket.take(upTo: 1, now: at(1_000)) == 1)
    #expect(bucket.take(upTo: 1, now: at(500)) == 0)
    #expect(bucket.take(upTo: 1, now: at(1_000)) == 0)
    #expect(bucket.take(upTo: 1, now: at(1_100)) == 1)
  }

  @Test(
    "one is available exactly at the announced time, and none just before",
    arguments: 1...60 as ClosedRange<UInt64>)
  func nextAt(_ seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let rate = ([0.05, 0.3, 1, 7, 999.5, 1_000_000] as [Double]).randomElement(using: &random) ?? 1
    var now = at(UInt64.random(in: 0...1_000_000_000, using: &random))
    let burst = Double.random(in: 1...5, using: &random)
    var bucket = TokenBucket(perSecond: rate, burst: burst, now: now)
    #expect(bucket.nextAt(now: now) == now)
    _ = bucket.take(upTo: 10, now: now)
    for step in 0..<200 {
      let next = bucket.nextAt(now: now)
      #expect(next > now, "seed \(seed), step \(step)")
      let wait = next.since(now)
      var early = bucket
      #expect(early.take(upTo: 1, now: now + wait * 0.999) == 0, "seed \(seed), step \(step)")
      now = next
      #expect(
        bucket.take(upTo: 1, now: now) == 1, "seed \(seed), step \(step): nothing at the named moment, rate \(rate)")
    }
  }

  @Test("never more than a burst and the rate over any time", arguments: 1...30 as ClosedRange<UInt64>)
  func bound(_ seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let rate = Double.random(in: 0.1...10_000, using: &random)
    let burst = Double.random(in: 1...500, using: &random)
    var bucket = TokenBucket(perSecond: rate, burst: burst, now: at(0))
    var now = at(0)
    var taken = 0
    for step in 0..<2_000 {
      now = now + .nanoseconds(Int64.random(in: 0...20_000_000, using: &random))
      taken += bucket.take(upTo: Int.random(in: 0...50, using: &random), now: now)
      #expect(Double(taken) <= burst + rate * now.since(at(0)).inSeconds + 1e-6, "seed \(seed), step \(step)")
    }
  }
}

@Suite("BatchTimer")
struct BatchTimerTests {
  private func at(_ milliseconds: UInt64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  @Test("a batch is written at once if the socket is idle or the batch is full; otherwise at the deadline")
  func table() {
    for (waiting, isIdle, decision) in [
      (1, true, .write), (1, false, .wait(until: at(105))), (999, false, .wait(until: at(105))), (1_000, false, .write),
      (5_000, false, .write),
    ]
      as [(Int, Bool, BatchTimer.Decision)]
    {
      var timer = BatchTimer(byteCountBound: 1_000, delay: .milliseconds(5))
      #expect(timer.decide(waiting: waiting, socketIsIdle: isIdle, now: at(100)) == decision, "\(waiting) bytes")
    }
  }

  @Test("the deadline is that of the oldest frame, so a steady trickle is not delayed further")
  func trickle() {
    var timer = BatchTimer(delay: .milliseconds(5))
    var writes: [UInt64] = []
    var waiting = 0
    for millisecond in 0..<100 as Range<UInt64> {
      waiting += 200
      switch timer.decide(waiting: waiting, socketIsIdle: false, now: at(millisecond)) {
      case .write:
        writes.append(millisecond)
        timer.wrote()
        waiting = 0
      case .wait(let until):
        let oldest = millisecond - UInt64(waiting / 200 - 1)
        #expect(until == at(oldest + 5))
      }
    }
    #expect(writes == stride(from: 5, to: 100, by: 6).map { $0 })
  }

  @Test("a frame that comes after a write has a deadline of its own")
  func afterWrite() {
    var timer = BatchTimer(delay: .milliseconds(5))
    #expect(timer.decide(waiting: 1, socketIsIdle: false, now: at(0)) == .wait(until: at(5)))
    #expect(timer.decide(waiting: 1, socketIsIdle: true, now: at(3)) == .write)
    timer.wrote()
    #expect(timer.decide(waiting: 1, socketIsIdle: false, now: at(4)) == .wait(until: at(9)))
  }

  @Test("without a delay nothing ever waits")
  func noDelay() {
    var timer = BatchTimer(delay: .zero)
    #expect(timer.decide(waiting: 1, socketIsIdle: false, now: at(0)) == .write)
  }
}

@Suite("Queue")
struct QueueTests {
  @Test("the queue equals an array after any operations, at every size", arguments: 1...20 as ClosedRange<UInt64>)
  func model(_ seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var queue = Queue<Int>()
    var model: [Int] = []
    // First growing, then shrinking: the circular buffer wraps at many sizes.
    for step in 0..<3_000 {
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<(step < 1_500 ? 60 : 40):
        queue.append(step)
        model.append(step)
      case 98 where random.chance(20):
        queue.removeAll()
        model.removeAll()
      case 90... where !model.isEmpty:
        queue.replaceFirst(with: -step)
        model[0] = -step
      default:
        guard !model.isEmpty else { continue }
        queue.removeFirst()
        model.removeFirst()
      }
      #expect(queue.count == model.count, "seed \(seed), step \(step)")
      #expect(queue.first == model.first, "seed \(seed), step \(step)")
    }
    #expect((0..<queue.count).map { queue[$0] } == model, "seed \(seed)")
  }
}
