internal import PushWire
internal import Testing

@Suite("BacklogLimit")
struct BacklogLimitTests {
  /// The limit of a lane that sends `perSecond` blocks a second and whose reader keeps the backlog
  /// full.
  private func settledLimit(
    perSecond: Double, start: Int = 512, largest: Int = 65_536, smallest: Int = 512, seconds: Double = 5
  ) -> Int {
    var limit = BacklogLimit(start: start, largest: largest)
    var (now, published, done) = (Instant.start, UInt64(0), 0.0)
    let step = 0.001
    var time = 0.0
    while time < seconds {
      published = max(published, UInt64(done) + UInt64(limit.blockCount))
      limit.update(published: published, done: UInt64(done), smallest: smallest, now: now)
      done = min(Double(published), done + perSecond * step)
      time += step
      now = Instant.start + .nanoseconds(Int64(time * 1e9))
      limit.update(published: published, done: UInt64(done), smallest: smallest, now: now)
    }
    return limit.blockCount
  }

  @Test("a lane takes ahead what it sends in a few hundred milliseconds", arguments: [5_000.0, 20_000, 100_000])
  func proportional(perSecond: Double) {
    let seconds = Double(settledLimit(perSecond: perSecond)) / perSecond
    #expect(seconds >= 0.1)
    #expect(seconds <= 0.5)
  }

  @Test("a fast lane is soon bounded by the ring alone")
  func fast() {
    #expect(settledLimit(perSecond: 4_000_000, seconds: 0.05) == 65_536)
  }

  @Test("a slow lane keeps two batches")
  func slow() {
    #expect(settledLimit(perSecond: 100) == 512)
  }

  @Test("a lane that becomes slow takes less ahead")
  func slowsDown() {
    var limit = BacklogLimit(start: 40_000, largest: 65_536)
    let start = Instant.start
    limit.update(published: 40_000, done: 0, smallest: 512, now: start)
    limit.update(published: 40_000, done: 40_000, smallest: 512, now: start + .seconds(4))
    #expect(limit.blockCount == 3_000)
  }

  @Test("a slow reader does not change the lane's limit")
  func idleReader() {
    var limit = BacklogLimit(start: 1_000, largest: 65_536)
    for step in 0..<100 {
      let now = Instant.start + .milliseconds(step * 10)
      limit.update(published: UInt64(step * 10 + 10), done: UInt64(step * 10), smallest: 512, now: now)
      limit.update(
        published: UInt64(step * 10 + 10), done: UInt64(step * 10 + 10), smallest: 512, now: now + .milliseconds(1))
    }
    #expect(limit.blockCount == 1_000)
  }
}
