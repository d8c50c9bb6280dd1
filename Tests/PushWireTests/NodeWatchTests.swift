internal import Support
internal import Testing

@testable internal import PushWire

@Suite("Who is silent")
struct NodeWatchTests {
  @Test("whoever beats is never silent; whoever does not is, after the lease, as far as the store was read")
  func silence() {
    for seed in UInt64(0)..<500 {
      var random = SeededGenerator(seed: seed)
      let lease = Duration.seconds(10)
      var watch = NodeWatch(lease: lease)
      var now = Instant.start
      var (beat, lastBeat): (Int64, Instant) = (0, now)
      // Since when the store has been looked at without a gap.
      var watched: Instant?
      var lastLook = now
      for _ in 0..<200 {
        now = now + .milliseconds(Int.random(in: 200...2_000, using: &random))
        if Int.random(in: 0..<20, using: &random) == 0 { now = now + .seconds(Int.random(in: 1...60, using: &random)) }
        if Int.random(in: 0..<8, using: &random) == 0 { (beat, lastBeat) = (beat + 1, now) }
        if watched == nil || now.since(lastLook) > NodeWatch.longestPause { watched = now }
        lastLook = now
        let silent = watch.note([NodeWatch.Sign(node: "a", incarnation: 1, beat: beat)], at: now)
        let since = max(lastBeat, watched ?? now)
        #expect(silent.isEmpty == (now.since(since) < lease), "seed \(seed)")
      }
    }
  }

  @Test("the next process of a node is another one")
  func incarnations() {
    var watch = NodeWatch(lease: .seconds(10))
    for second in 0..<30 {
      let sign = NodeWatch.Sign(node: "a", incarnation: Int64(second / 8), beat: 0)
      #expect(watch.note([sign], at: .start + .seconds(second)).isEmpty)
    }
  }
}
