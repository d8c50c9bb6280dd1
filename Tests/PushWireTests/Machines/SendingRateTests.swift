internal import Support
internal import Testing

@testable internal import PushWire

/// A sender that is woken late, as by a busy event loop, keeps its rate, and no second has more.
@Suite("SendingRate")
struct SendingRateTests {
  private static let rates: [Double] = [1, 7.5, 200, 800, 20_000]
  private static let duration = Duration.seconds(120)

  @Test("whoever takes what there is", arguments: Self.rates, 1...6 as ClosedRange<UInt64>)
  func taking(rate: Double, seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var now = Instant.start
    var bucket = SendingRate(perSecond: rate, now: now)
    var sent = BusiestSecond()
    while now.since(.start) < Self.duration {
      let count = bucket.take(upTo: 1024, now: now)
      if count > 0 {
        sent.add(count, at: now)
      } else {
        now = bucket.nextAt(now: now) + .milliseconds(Int64.random(in: 0...50, using: &random))
      }
      now = now + .microseconds(Int64.random(in: 0...5_000, using: &random))
    }
    sent.check(rate: rate, chunk: 0, over: Self.duration, seed)
  }

  @Test("whoever sends chunks, and waits for what was missing", arguments: Self.rates, 1...6 as ClosedRange<UInt64>)
  func spending(rate: Double, seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var now = Instant.start
    var bucket = SendingRate(perSecond: rate, now: now)
    var sent = BusiestSecond()
    let chunk = SendingRate.unconnectedLimit(perSecond: rate)
    while now.since(.start) < Self.duration {
      let next = bucket.nextAt(now: now)
      if next > now {
        now = min(next, now + .milliseconds(100)) + .milliseconds(Int64.random(in: 0...60, using: &random))
        continue
      }
      bucket.spend(chunk, now: now)
      sent.add(chunk, at: now)
      now = now + .microseconds(Int64.random(in: 0...5_000, using: &random))
    }
    sent.check(rate: rate, chunk: chunk, over: Self.duration, seed)
  }

  /// Demand comes and goes; wake-ups are late by anything; the first one comes at any time.
  @Test("no second has more than 0.5 % above the rate, whatever is asked for", arguments: 1...60 as ClosedRange<UInt64>)
  func anyDemand(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let rate = Double.random(in: 0.5...50_000, using: &random)
    var now = Instant.start + .milliseconds(Int64.random(in: 0...2_000, using: &random))
    var bucket = SendingRate(perSecond: rate, now: .start)
    var sent = BusiestSecond()
    let chunk = SendingRate.unconnectedLimit(perSecond: rate)
    let began = now
    for _ in 0..<5_000 {
      let next = bucket.nextAt(now: now)
      switch Int.random(in: 0..<20, using: &random) {
      case 0: now = now + .milliseconds(Int64.random(in: 0...3_000, using: &random))
      case 1..<12: now = max(now, next)
      case 12..<16: now = now + .microseconds(Int64.random(in: 0...20_000, using: &random))
      case 16 where next <= now:
        bucket.spend(chunk, now: now)
        sent.add(chunk, at: now)
      default: break
      }
      let count = bucket.take(upTo: Int.random(in: 1...1_024, using: &random), now: now)
      if next <= now { #expect(count > 0 || bucket.nextAt(now: now) > now, "seed \(seed)") }
      if count > 0 { sent.add(count, at: now) }
    }
    sent.check(rate: rate, chunk: chunk, over: now.since(began), "seed \(seed)")
  }

  @Test(
    "one is available exactly at the announced time, and none just before", arguments: 1...30 as ClosedRange<UInt64>)
  func announced(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var bucket = SendingRate(perSecond: Double.random(in: 1...5_000, using: &random), now: .start)
    var now = Instant.start + .milliseconds(Int64.random(in: 0...2_000, using: &random))
    for step in 0..<500 {
      let next = bucket.nextAt(now: now)
      if next > now {
        var early = bucket
        #expect(early.take(upTo: 1, now: Instant(nanoseconds: next.nanoseconds - 2)) == 0, "seed \(seed), step \(step)")
      }
      now = max(now, next)
      #expect(bucket.take(upTo: Int.random(in: 1...400, using: &random), now: now) > 0, "seed \(seed), step \(step)")
      if Int.random(in: 0..<40, using: &random) == 0 { now = now + .milliseconds(400) }
    }
  }

  @Test(
    "connections get no more in any second, whatever has waited and is given back",
    arguments: 1...40 as ClosedRange<UInt64>)
  func secondLimit(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let rate = Double.random(in: 0.5...50_000, using: &random)
    var now = Instant.start
    var limit = SecondLimit(perSecond: rate, now: now)
    var sent = BusiestSecond()
    var tenth = BusiestSecond(of: .milliseconds(100))
    for _ in 0..<5_000 {
      let taken = limit.take(upTo: Int.random(in: 1...4_096, using: &random), now: now)
      let unused = Bool.random(using: &random) ? Int.random(in: 0...taken, using: &random) : 0
      limit.give(back: unused, now: now)
      if taken > unused {
        sent.add(taken - unused, at: now)
        tenth.add(taken - unused, at: now)
      }
      let next = limit.nextAt(now: now)
      #expect(next <= now + .milliseconds(1_008), "seed \(seed)")
      switch Int.random(in: 0..<10, using: &random) {
      case 0: now = now + .milliseconds(Int64.random(in: 0...3_000, using: &random))
      case 1..<6:
        now = max(now, next)
        var copy = limit
        #expect(copy.take(upTo: 1, now: now) == 1, "seed \(seed)")
      default: now = now + .microseconds(Int64.random(in: 0...20_000, using: &random))
      }
    }
    #expect(Double(sent.most) <= rate * 1.005 + 1, "seed \(seed)")
    #expect(Double(tenth.most) <= rate * (0.1 * 1.02 + 0.025) + 2, "seed \(seed)")
  }

  @Test(
    "a rate that changes: no second has more than its largest rate allows, and a lower one is no reason to pause",
    arguments: 1...15 as ClosedRange<UInt64>)
  func changing(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var now = Instant.start
    var rate = 10_000.0
    var reader = SendingRate(perSecond: rate, now: now)
    var connections = SecondLimit(perSecond: rate, now: now)
    var waiting = 0
    var (changedAt, lastAt) = (now, now)
    // The rates that a second up to now has had, and what was sent in it.
    var rates = [(perSecond: rate, until: Instant?.none)]
    var sent: [(count: Int, at: Instant)] = []
    for step in 0..<6_000 {
      now = now + .milliseconds(Int64.random(in: 1...4, using: &random))
      if now.since(changedAt) > .milliseconds(Int64.random(in: 50...3_000, using: &random)) {
        rates[rates.count - 1].until = now
        rate = max(2_000, min(20_000, rate * Double.random(in: 0.5...1.5, using: &random)))
        rates.append((rate, nil))
        reader.change(perSecond: rate, now: now)
        connections.change(perSecond: rate, now: now)
        changedAt = now
      }
      waiting += reader.take(upTo: 1_000, now: now)
      let taken = connections.take(upTo: waiting, now: now)
      waiting -= taken
      if taken > 0 {
        sent.append((taken, now))
        lastAt = now
      }
      sent.removeAll { now.since($0.at) >= .seconds(1) }
      rates.removeAll { $0.until.map { now.since($0) >= .seconds(1) } ?? false }
      let most = rates.map(\.perSecond).max() ?? 0
      #expect(Double(sent.reduce(0) { $0 + $1.count }) <= most * 1.005 + 1, "seed \(seed), step \(step)")
      #expect(now.since(lastAt) < .milliseconds(100), "seed \(seed), step \(step)")
    }
  }

  @Test("what was late leaves evenly")
  func lateness() {
    var rate = SendingRate(perSecond: 10_000, now: .start)
    var limit = SecondLimit(perSecond: 10_000, now: .start)
    var now = Instant.start
    var waiting = 0
    var sent = BusiestSecond()
    var part = BusiestSecond(of: .milliseconds(50))
    for step in 0..<600 {
      waiting += rate.take(upTo: 1_000, now: now)
      let taken = limit.take(upTo: waiting, now: now)
      waiting -= taken
      sent.add(taken, at: now)
      part.add(taken, at: now)
      // Nobody is woken for a while, once.
      now = now + .milliseconds(step == 100 ? 200 : 10)
    }
    #expect(part.most <= 500 + 251 + 10)
    #expect(sent.most <= 10_051)
    #expect(sent.total >= 60_000)
  }

  @Test("the time before the first one fills nothing, however long a connection takes to open")
  func beginning() {
    for wait in [0, 10, 250, 5_000] {
      var bucket = SendingRate(perSecond: 3_000, now: .start)
      let now = Instant.start + .milliseconds(wait)
      #expect(bucket.take(upTo: 10_000, now: now) == 30, "after \(wait) ms")
      #expect(bucket.take(upTo: 10_000, now: now + .milliseconds(100)) == 300, "after \(wait) ms")
    }
  }

  @Test("nothing is saved up while nobody sends, and a sender begins without a burst")
  func bounds() {
    var bucket = SendingRate(perSecond: 1_000, now: .start)
    #expect(bucket.take(upTo: 10_000, now: .start) == 10)
    #expect(bucket.take(upTo: 10_000, now: .start + .seconds(3600)) == 251)
    #expect(bucket.take(upTo: 10_000, now: .start + .seconds(3600)) == 0)
  }
}

extension BusiestSecond {
  /// The bounds that must hold.
  fileprivate func check(rate: Double, chunk: Int, over duration: Duration, _ seed: UInt64) {
    let expected = rate * duration.inSeconds
    #expect(Double(total) >= 0.97 * expected - 1, "seed \(seed): \(total) of \(expected)")
    check(rate: rate, chunk: chunk, over: duration, "seed \(seed)")
  }

  fileprivate func check(rate: Double, chunk: Int, over duration: Duration, _ name: String) {
    let expected = rate * duration.inSeconds
    #expect(Double(total) <= expected + rate / 4 + Double(chunk) + 1, "\(name): \(total) of \(expected)")
    #expect(Double(most) <= rate * 1.005 + Double(chunk) + 1, "\(name): \(most) in a second")
  }
}
