internal import Support
internal import Testing

@testable internal import PushWire

@Suite("IntentStep")
struct IntentStepTests {
  /// A lane that sends at a rate, and asks for the next step when half of the present one is used.
  ///
  /// - Parameter commit: how long an intent takes until it counts.
  /// - Returns: the steps of the last second, and for how long the lane waited in it.
  private func run(
    _ step: inout IntentStep, rate: Double, commit: Duration, from start: Instant, for duration: Duration,
    largest: Int = 8_192
  ) -> (steps: [Int], waited: Duration) {
    var (now, sent, through) = (start, 0.0, 0.0)
    var pending: (through: Double, at: Instant)?
    var (steps, waited) = ([Int](), Duration.zero)
    while now < start + duration {
      let isLast = now.since(start) + .seconds(1) >= duration
      if let (end, at) = pending, at <= now {
        through = end
        pending = nil
      }
      if pending == nil, through - sent <= Double(step.count) / 2 {
        step.advance(sent: UInt64(sent), blockCount: 1, largest: largest, now: now)
        pending = (sent + Double(min(largest, step.count)), now + commit)
        if isLast { steps.append(step.count) }
      }
      let wanted = rate / 1_000
      if sent + wanted > through {
        step.stalled()
        if isLast { waited += .milliseconds(1) }
      }
      sent = min(sent + wanted, max(through, sent))
      now = now + .milliseconds(1)
    }
    return (steps, waited)
  }

  @Test(
    "the step is what a lane sends within some tens of milliseconds, and the lane seldom waits",
    arguments: [50, 500, 5_000, 50_000] as [Double], [2, 5, 10, 15])
  func followsTheRate(rate: Double, commit: Int) {
    var step = IntentStep()
    let (steps, waited) = run(
      &step, rate: rate, commit: .milliseconds(commit), from: .start, for: .seconds(5))
    #expect(steps.allSatisfy { Double($0) <= max(2.0 * Double(IntentStep.smallest), rate * 0.17) }, "\(steps)")
    #expect(waited <= .milliseconds(60), "waited for \(waited)")
  }

  @Test("a lane that becomes fast has the largest step after a few intents, and a slow one a small one again")
  func changes() {
    var step = IntentStep()
    let slow = run(&step, rate: 100, commit: .milliseconds(5), from: .start, for: .seconds(2))
    #expect(slow.steps.max() ?? 0 <= 32)
    for sent in 0..<5 {
      step.stalled()
      step.advance(sent: UInt64(sent), blockCount: 1, largest: 8_192, now: .start + .seconds(3))
    }
    #expect(step.count == 8_192)
    let again = run(&step, rate: 100, commit: .milliseconds(5), from: .start + .seconds(4), for: .seconds(200))
    #expect(again.steps.max() ?? 0 <= 32, "\(again.steps)")
  }

  @Test(
    "any order of reports leaves a step between the smallest and the largest", arguments: 1...40 as ClosedRange<UInt64>)
  func bounds(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var step = IntentStep()
    var now = Instant.start
    var sent: UInt64 = 0
    for _ in 0..<500 {
      if Bool.random(using: &random) { step.stalled() }
      sent = Bool.random(using: &random) ? sent + UInt64.random(in: 0...100_000, using: &random) : sent / 2
      now = now + .microseconds(Int64.random(in: 0...1_000_000, using: &random))
      step.advance(sent: sent, blockCount: UInt64.random(in: 0...4, using: &random), largest: 4_096, now: now)
      #expect((IntentStep.smallest...4_096).contains(step.count), "seed \(seed)")
    }
  }
}
