internal import Support
internal import Testing

@testable internal import PushWire

@Suite("What a connection of the bridge remembers of its frames")
struct BridgeTrailTests {
  /// Each frame for itself.
  private struct Model {
    var frames: [BridgeTrail.Frame] = []
    var first = 0
    let limit: Int

    mutating func took(_ frame: BridgeTrail.Frame) {
      while frames.count > first, frames.count - first >= limit, frames[first].answer != nil { first += 1 }
      frames.append(frame)
    }

    mutating func sweep() {
      while frames.count > first, frames.count - first > limit, frames[first].answer != nil { first += 1 }
    }

    func found(from number: Int) -> [Int] {
      frames.indices.filter { $0 >= max(first, number) && frames[$0].line != nil }
    }
  }

  @Test("it is the same as each frame for itself", arguments: 0..<200)
  func model(seed: Int) {
    var random = SeededGenerator(seed: UInt64(seed))
    let limit = Int.random(in: 1...300, using: &random)
    var trail = BridgeTrail(.frames(limit))
    var model = Model(limit: limit)
    var now = Instant(nanoseconds: 5_000_000_000)
    var nextLine: UInt32 = 1
    for _ in 0..<100 {
      now = now + .milliseconds(Int.random(in: 0...1500, using: &random))
      let begin = model.frames.count
      for _ in 0..<Int.random(in: 1...100, using: &random) {
        // One that was recognised has its line, and perhaps its answer.
        let known = random.chance(20) ? ForwardedLine(high: 9, low: 9, line: UInt32(random.next() % 50)) : nil
        let frame = BridgeTrail.Frame(
          digest: FrameDigest(high: random.next(), low: 1), line: known,
          answer: known != nil && random.chance(50) ? .accepted : nil, answeredAt: .start)
        trail.took(frame.digest, line: frame.line, answer: frame.answer)
        model.took(frame)
      }
      forward(begin, &trail, &model, &nextLine, &random)
      answer(&trail, &model, &random)
      #expect(trail.next == UInt64(model.frames.count))
      let from = Int.random(in: 0...model.frames.count, using: &random)
      if random.chance(20) {
        trail.sweep(limit: limit, now: now)
        model.sweep()
      }
      let found = trail.frames(from: UInt64(from), now: now)
      let expected = model.found(from: from)
      #expect(found.map(\.number) == expected.map(UInt64.init), "seed \(seed)")
      let frames = found.map { entry in
        BridgeTrail.Frame(
          digest: entry.frame.digest, line: entry.frame.line, answer: entry.frame.answer, answeredAt: .start)
      }
      #expect(frames == expected.map { model.frames[$0] }, "seed \(seed)")
      #expect(found.allSatisfy { $0.frame.answeredAt <= now }, "seed \(seed)")
    }
  }

  @Test("frames without an answer stay, the others go after their time")
  func age() {
    var trail = BridgeTrail(.frames(100_000, age: 600))
    var now = Instant(nanoseconds: 1_000_000_000_000)
    trail.fill(20_000, isAnswered: false)
    for _ in 0..<30 {
      now = now + .seconds(30)
      trail.sweep(limit: 100_000, now: now)
    }
    #expect(trail.frames(from: 0, now: now).count == 20_000)
    trail.answered(0, count: 19_999, .accepted)
    for step in 0..<24 {
      trail.sweep(limit: 100_000, now: now)
      #expect(trail.frames(from: 0, now: now).count == (step <= 20 ? 20_000 : 1), "\(step) half minutes later")
      now = now + .seconds(30)
    }
  }

  /// The new frames become lines, those in the middle of them too.
  private func forward(
    _ begin: Int, _ trail: inout BridgeTrail, _ model: inout Model, _ nextLine: inout UInt32,
    _ random: inout SeededGenerator
  ) {
    var index = begin
    while index < model.frames.count {
      var end = index
      let limit = Int.random(in: 1...60, using: &random)
      while end < model.frames.count, end - index < limit, model.frames[end].line == nil { end += 1 }
      if end > index, random.chance(90) {
        let line = ForwardedLine(high: 1, low: 2, line: nextLine)
        trail.forwarded(UInt64(index), count: end - index, as: line)
        for offset in 0..<(end - index) { model.frames[index + offset].line = line.advanced(by: offset) }
        nextLine += UInt32(end - index) + (random.chance(30) ? 1 : 0)
      }
      index = max(end, index + 1)
    }
  }

  private func answer(_ trail: inout BridgeTrail, _ model: inout Model, _ random: inout SeededGenerator) {
    for _ in 0..<Int.random(in: 0...8, using: &random) {
      let from = random.chance(50) ? model.first : Int.random(in: 0..<model.frames.count, using: &random)
      let count = Int.random(in: 1...80, using: &random)
      let answer: FrameAnswer = random.chance(90) ? .accepted : .refused(.invalidToken)
      trail.answered(UInt64(from), count: count, answer)
      for index in from..<min(model.frames.count, from + count) where index >= model.first {
        model.frames[index].answer = answer
      }
    }
  }
}
