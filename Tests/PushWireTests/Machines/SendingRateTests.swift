internal import Support
internal import Testing

@testable internal import PushWire

/// A sender that is woken late, as by a busy event loop, keeps its rate.
@Suite("TokenBucket of senders")
struct SendingRateTests {
  /// What was sent when, and the bounds that must hold.
  private struct Sent {
    var times: [(at: Instant, count: Int)] = []
    var total = 0
    private var first = 0
    private var lastSecond = 0
    /// The most in one second.
    private var most = 0

    mutating func add(_ count: Int, at now: Instant) {
      times.append((now, count))
      total += count
      lastSecond += count
      while now.since(times[first].at) >= .seconds(1) {
        lastSecond -= times[first].count
        first += 1
      }
      most = max(most, lastSecond)
    }

    func check(rate: Double, chunk: Int, over duration: Duration, _ seed: UInt64) {
      let expected = rate * duration.inSeconds
      #expect(Double(total) >= 0.97 * expected - 1, "seed \(seed): \(total) of \(expected)")
      #expect(Double(total) <= expected * 1.001 + rate / 4 + Double(chunk) + 1, "seed \(seed): \(total) of \(expected)")
      #expect(Double(most) <= rate * 1.25 + Double(chunk) + 1, "seed \(seed): \(most) in a second")
    }
  }

  private static let rates: [Double] = [1, 7.5, 200, 800, 20_000]
  private static let duration = Duration.seconds(120)

  @Test("whoever takes what there is", arguments: Self.rates, 1...6 as ClosedRange<UInt64>)
  func taking(rate: Double, seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var now = Instant.start
    var bucket = TokenBucket.sending(perSecond: rate, now: now)
    var sent = Sent()
    while now.since(.start) < Self.duration {
      let count = bucket.take(upTo: 1024, now: now)
      if count > 0 {
        sent.add(count, at: now)
      } else {
        now = bucket.nextAt(now: now) + .milliseconds(Int64.random(in: 0...200, using: &random))
      }
      now = now + .microseconds(Int64.random(in: 0...5_000, using: &random))
    }
    sent.check(rate: rate, chunk: 0, over: Self.duration, seed)
  }

  @Test("whoever sends chunks, and waits for what was missing", arguments: Self.rates, 1...6 as ClosedRange<UInt64>)
  func spending(rate: Double, seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var now = Instant.start
    var bucket = TokenBucket.sending(perSecond: rate, now: now)
    var sent = Sent()
    let chunk = max(1, Int(rate / 20))
    while now.since(.start) < Self.duration {
      let next = bucket.nextAt(now: now)
      if next > now {
        now = min(next, now + .milliseconds(100)) + .milliseconds(Int64.random(in: 0...150, using: &random))
        continue
      }
      bucket.spend(chunk, now: now)
      sent.add(chunk, at: now)
      now = now + .microseconds(Int64.random(in: 0...5_000, using: &random))
    }
    sent.check(rate: rate, chunk: chunk, over: Self.duration, seed)
  }

  @Test("nothing is saved up while nobody sends, and a sender begins without a burst")
  func bounds() {
    var bucket = TokenBucket.sending(perSecond: 1_000, now: .start)
    #expect(bucket.take(upTo: 10_000, now: .start) == 20)
    #expect(bucket.take(upTo: 10_000, now: .start + .seconds(3600)) == 251)
    #expect(bucket.take(upTo: 10_000, now: .start + .seconds(3600)) == 0)
  }
}
