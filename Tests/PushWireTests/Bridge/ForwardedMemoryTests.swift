internal import Support
internal import Testing

@testable internal import PushWire

@Suite("What the bridge remembers")
struct ForwardedMemoryTests {
  private func digest(_ number: UInt64) -> FrameDigest { FrameDigest(high: number, low: 0) }
  private func entry(_ line: UInt32, _ answer: FrameAnswer? = .accepted) -> ForwardedMemory.Entry {
    ForwardedMemory.Entry(line: ForwardedLine(high: 1, low: 1, line: line), answer: answer, answeredAt: .start)
  }
  private func limits(_ count: Int) -> ForwardedMemory.Limits {
    var limits = ForwardedMemory.Limits()
    limits.count = count
    return limits
  }

  @Test("equal notifications are as many as were remembered, the oldest first")
  func multiset() {
    var memory = ForwardedMemory()
    memory.remember(digest(1), entry(1))
    memory.remember(digest(1), entry(2))
    #expect(memory.take(digest(1), now: .start) == entry(1))
    #expect(memory.take(digest(2), now: .start) == nil)
    #expect(memory.take(digest(1), now: .start) == entry(2))
    #expect(memory.take(digest(1), now: .start) == nil)
    #expect(memory.isEmpty)
  }

  @Test("an answer that comes later is the entry's")
  func lateAnswer() {
    var memory = ForwardedMemory()
    memory.remember(digest(1), entry(1, nil))
    memory.answered(entry(1).line, digest(1), .refused(.invalidToken), now: .start)
    #expect(memory.take(digest(1), now: .start)?.answer == .refused(.invalidToken))
  }

  @Test("the number is bounded: the oldest with an answer goes first")
  func number() {
    var memory = ForwardedMemory(limits(100))
    for number in 0..<1000 as Range<UInt64> {
      let forgotten = memory.remember(digest(number), entry(UInt32(number), nil))
      #expect(forgotten.map(\.line) == (number < 100 ? [] : [UInt32(number) - 100]))
    }
    #expect(memory.count == 100)
    memory.answered(entry(950).line, digest(950), .accepted, now: .start)
    #expect(memory.remember(digest(1000), entry(1000, nil)).isEmpty)
    #expect(memory.take(digest(950), now: .start) == nil)
    #expect(memory.take(digest(899), now: .start) == nil)
    #expect(memory.take(digest(900), now: .start) != nil)
  }

  @Test("the age counts from the answer, and without one there is none")
  func age() {
    var memory = ForwardedMemory()
    for number in 0..<100 as Range<UInt64> { memory.remember(digest(number), entry(UInt32(number), nil)) }
    var now = Instant.start + .seconds(900)
    memory.sweep(now: now)
    #expect(memory.count == 100)
    for number in 0..<50 as Range<UInt64> {
      memory.answered(entry(UInt32(number)).line, digest(number), .accepted, now: now)
    }
    now = now + .seconds(599)
    memory.sweep(now: now)
    #expect(memory.count == 100)
    #expect(memory.take(digest(1), now: now) != nil)
    now = now + .seconds(2)
    #expect(memory.take(digest(2), now: now) == nil)
    memory.sweep(now: now)
    #expect(memory.count == 50)
  }

  @Test("it is the same as a plain list", arguments: 0..<100)
  func model(seed: Int) {
    var random = SeededGenerator(seed: UInt64(seed))
    var memory = ForwardedMemory(limits(1_000_000))
    var model: [(digest: FrameDigest, entry: ForwardedMemory.Entry)] = []
    var line: UInt32 = 0
    // Few contents, so that many are equal and stand beside each other.
    let kinds = UInt64.random(in: 1...200, using: &random)
    for _ in 0..<2000 {
      let digest = digest(UInt64.random(in: 0..<kinds, using: &random))
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<50:
        line += 1
        let entry = entry(line, random.chance(50) ? .accepted : nil)
        memory.remember(digest, entry)
        model.append((digest, entry))
      case 50..<80:
        let taken = memory.take(digest, now: .start)
        let index = model.firstIndex { $0.digest == digest }
        // A sweep puts those without an answer behind the others.
        let all = model.filter { $0.digest == digest }.map(\.entry)
        #expect((taken == nil) == (index == nil), "seed \(seed)")
        #expect(taken.map { taken in all.contains { $0.line == taken.line } } ?? true, "seed \(seed)")
        if let taken { model.removeAll { $0.entry.line == taken.line } }
      case 80..<95:
        guard let index = model.indices.randomElement(using: &random), model[index].entry.answer == nil else { break }
        memory.answered(model[index].entry.line, model[index].digest, .refused(.invalidToken), now: .start)
        model[index].entry.answer = .refused(.invalidToken)
      default: memory.sweep(now: .start)
      }
      #expect(memory.count == model.count, "seed \(seed)")
    }
    for (digest, _) in model { #expect(memory.take(digest, now: .start) != nil, "seed \(seed)") }
    #expect(memory.isEmpty)
  }
}
