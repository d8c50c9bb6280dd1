internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@Suite("What the memories of the bridge take together")
struct MemoryBudgetTests {
  private static func digest(_ number: UInt64) -> FrameDigest { FrameDigest(high: number, low: 1) }

  private static func entry(_ line: UInt32, _ answer: FrameAnswer? = .accepted) -> ForwardedMemory.Entry {
    ForwardedMemory.Entry(line: ForwardedLine(high: 1, low: 1, line: line), answer: answer, answeredAt: .start)
  }

  @Test("connections share a budget; each has some frames whatever the others have")
  func budget() {
    let limit = 1 << 20
    let budget = MemoryBudget(byteCount: limit)
    var trails = (0..<100).map { _ in BridgeTrail(.frames(65_536), pool: budget) }
    for index in trails.indices {
      // Runs that alternate make a stretch of each frame.
      trails[index].fill(5000, stretch: index.isMultiple(of: 2) ? 1 : 50)
      #expect(budget.usedByteCount <= limit)
      #expect(trails[index].frames(from: 0, now: .start).count >= 32)
    }
    // What one gives back, others get.
    trails.removeFirst(90)
    #expect(budget.usedByteCount < limit / 2)
    for index in trails.indices {
      trails[index].sweep(limit: 65_536, now: .start)
      trails[index].fill(2000)
      #expect(trails[index].frames(from: 0, now: .start).count >= 2000)
    }
    trails = []
    #expect(budget.usedByteCount == 0)
  }

  @Test("frames without an answer are kept although the budget is used up")
  func needed() {
    let budget = MemoryBudget(byteCount: 0)
    var trail = BridgeTrail(.frames(100), pool: budget)
    trail.fill(3000, stretch: 1, isAnswered: false)
    #expect(trail.frames(from: 0, now: .start).count == 3000)
    trail.answered(0, count: 3000, .accepted)
    trail.sweep(limit: 100, now: .start)
    #expect(trail.frames(from: 0, now: .start).count == 100)
    #expect(budget.usedByteCount < 20_000)
  }

  @Test("a connection that has been idle long enough gives everything back")
  func idle() {
    let budget = MemoryBudget(byteCount: 64 << 20)
    var trail = BridgeTrail(.frames(100_000, age: 600), pool: budget)
    trail.fill(20_000)
    #expect(budget.usedByteCount > 20_000 * 18)
    var now = Instant(nanoseconds: 1_000_000_000_000)
    trail.sweep(limit: 100_000, now: now)
    now = now + .seconds(601)
    trail.sweep(limit: 100_000, now: now)
    #expect(budget.usedByteCount == 0)
  }

  @Test("memories share a budget and give everything back")
  func memories() {
    let limit = 1 << 20
    let budget = MemoryBudget(byteCount: limit)
    var kept = (0..<10).map { _ in ForwardedMemory(pool: budget) }
    for index in kept.indices {
      for number in 0..<5000 as Range<UInt64> {
        kept[index].remember(Self.digest(number), Self.entry(UInt32(number)))
      }
      #expect(budget.usedByteCount <= limit + 10 * 16 * ForwardedMemory.byteCountPerPlace)
      #expect(kept[index].take(Self.digest(4999), now: .start) != nil)
    }
    // Entries without an answer are kept all the same.
    var waiting = ForwardedMemory(pool: budget)
    for number in 0..<5000 as Range<UInt64> {
      #expect(waiting.remember(Self.digest(number), Self.entry(UInt32(number), nil)).isEmpty)
    }
    #expect(waiting.count == 5000)
    kept = []
    for number in 0..<5000 as Range<UInt64> {
      waiting.answered(Self.entry(UInt32(number)).line, Self.digest(number), .accepted, now: .start)
    }
    waiting.sweep(now: .start + .seconds(700))
    #expect(waiting.isEmpty)
    #expect(budget.usedByteCount == 16 * ForwardedMemory.byteCountPerPlace)
  }
}
