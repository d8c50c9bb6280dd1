internal import Support
internal import Testing

@testable internal import PushWire

@Suite("Who is silent")
struct NodeWatchTests {
  @Test("whoever beats is never silent; whoever does not is, after the lease, as far as the store was read")
  func silence() {
    for seed in UInt64(0)..<500 {
      var random = SeededGenerator(seed: seed)
      let (lease, longestPause) = (Duration.seconds(10), Duration.seconds(3))
      var watch = NodeWatch(longestPause: longestPause)
      var now = Instant.start
      var (beat, lastBeat): (Int64, Instant) = (0, now)
      // Since when the store has been looked at without a gap.
      var watched: Instant?
      var lastLook = now
      for _ in 0..<200 {
        now = now + .milliseconds(Int.random(in: 200...2_000, using: &random))
        if Int.random(in: 0..<20, using: &random) == 0 { now = now + .seconds(Int.random(in: 1...60, using: &random)) }
        if Int.random(in: 0..<8, using: &random) == 0 { (beat, lastBeat) = (beat + 1, now) }
        if watched == nil || now.since(lastLook) > longestPause { watched = now }
        lastLook = now
        let silent = watch.note([NodeWatch.Sign(node: "a", incarnation: 1, beat: beat, lease: lease)], at: now)
        let since = max(lastBeat, watched ?? now)
        #expect(silent.isEmpty == (now.since(since) < lease), "seed \(seed)")
      }
    }
  }

  @Test("each node has the time that it relies on, whatever others have")
  func leases() {
    var watch = NodeWatch(longestPause: .seconds(3))
    for second in 0...30 {
      let signs = [5, 20].map { NodeWatch.Sign(node: "\($0)", incarnation: 1, beat: 0, lease: .seconds($0)) }
      let silent = watch.note(signs, at: .start + .seconds(second)).map(\.node)
      #expect(silent == ["5", "20"].filter { second >= Int($0) ?? 0 })
    }
  }

  @Test("the next process of a node is another one")
  func incarnations() {
    var watch = NodeWatch(longestPause: .seconds(3))
    for second in 0..<30 {
      let sign = NodeWatch.Sign(node: "a", incarnation: Int64(second / 8), beat: 0, lease: .seconds(10))
      #expect(watch.note([sign], at: .start + .seconds(second)).isEmpty)
    }
  }
}
