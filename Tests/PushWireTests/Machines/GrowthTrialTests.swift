internal import Support
internal import Testing

@testable internal import PushWire

/// What becomes of a pool while a reader waits for room all the time.
@Suite("GrowthTrial")
struct GrowthTrialTests {
  /// An app, and what its gateway lets through with a number of lanes.
  private struct Run {
    var machine = PoolMachine(
      limits: .init(lanes: 1...8, connectionsPerMinute: 3_000, dialAttempts: 3), now: .start)
    var now = Instant.start
    var settled = 0.0
    /// When lanes were added, or taken back, and how many there were then.
    var changes: [(at: Instant, count: Int)] = []
    private var openings: [Instant] = []
    private var nextLook = Instant.start

    init() {
      machine.opened(isFirst: true, now: now)
    }

    /// - Parameters:
    ///   - rate: outcomes per second with so many lanes.
    ///   - opening: how long a connection takes to open.
    ///   - noise: by how much the rate changes from one moment to the next.
    ///   - mayJudge: the reader of an audience waits.
    mutating func run(
      for duration: Duration, opening: Duration, noise: Double, mayJudge: Bool = true,
      _ random: inout SeededGenerator,
      rate: (Int) -> Double
    ) {
      let end = now + duration
      while now < end {
        for _ in openings where openings[0] <= now {
          machine.opened(isFirst: true, now: now)
          openings.removeFirst()
        }
        settled +=
          rate(machine.laneCount - openings.count) * Double.random(in: 1 - noise...1 + noise, using: &random) / 100
        if nextLook <= now {
          nextLook = now + .milliseconds(10)
          switch machine.starved(mayGrow: true, mayJudge: mayJudge, settledCount: Int(settled), now: now) {
          case .none: break
          case .look(let at): nextLook = max(nextLook, at)
          case .add(let count):
            changes.append((now, machine.laneCount))
            openings += (0..<count).map { _ in now + opening }
          case .takeBack: changes.append((now, machine.laneCount))
          }
        }
        now = now + .milliseconds(10)
      }
    }
  }

  @Test(
    "how fast clients bring something says nothing about lanes: they stay", arguments: 1...20 as ClosedRange<UInt64>)
  func clients(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var run = Run()
    // What comes is what two lanes can send.
    run.run(for: .seconds(600), opening: .milliseconds(200), noise: 0.2, mayJudge: false, &random) {
      Double(min($0, 2)) * 10_000
    }
    #expect(run.changes.map(\.count) == [2, 4, 8], "seed \(seed): \(run.changes)")
  }

  @Test(
    "a pool far from its service has all connections within about a second, and keeps them",
    arguments: [10, 50, 100, 300], 1...10 as ClosedRange<UInt64>)
  func far(roundTrip: Int, seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var run = Run()
    run.run(for: .seconds(120), opening: .milliseconds(roundTrip * 2), noise: 0.3, &random) {
      Double($0) * 1_000 / Double(roundTrip) * 1_000
    }
    #expect(run.changes.map(\.count) == [2, 4, 8], "seed \(seed)")
    let limit = roundTrip <= 100 ? Duration.milliseconds(1_400) : .seconds(4)
    #expect(run.changes.last.map { $0.at <= .start + limit } == true, "seed \(seed): \(run.changes)")
  }

  @Test(
    "a doubling that brings less than 15 % is taken back, and tried again seldom",
    arguments: 1...20 as ClosedRange<UInt64>)
  func near(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var run = Run()
    // Four lanes are as fast as it can be.
    run.run(for: .seconds(1_800), opening: .milliseconds(5), noise: 0.2, &random) {
      Double([0, 30, 55, 70, 80][min($0, 4)]) * 1_000
    }
    #expect(run.changes.prefix(3).map(\.count) == [2, 4, 8], "seed \(seed)")
    #expect(run.machine.laneCount == 4 || run.changes.last.map { run.now.since($0.at) < .seconds(2) } == true)
    #expect(run.changes.allSatisfy { $0.count != 1 }, "seed \(seed)")
    let attempts = run.changes.filter { $0.count == 8 }
    // After 10, 20, 40, 80, 160, 300… seconds.
    #expect((7...11).contains(attempts.count), "seed \(seed): \(attempts)")
    for (attempt, end) in zip(attempts, run.changes.filter { $0.count == 4 }.dropFirst()) {
      #expect(end.at.since(attempt.at) <= .milliseconds(500), "seed \(seed)")
    }
  }

  @Test("a pool that was made small grows again when its gateway lets more through")
  func changes() {
    var random = SeededGenerator(seed: 1)
    var run = Run()
    run.run(for: .seconds(5), opening: .milliseconds(5), noise: 0.1, &random) { Double(min($0, 2)) * 10_000 }
    #expect(run.machine.laneCount == 2)
    run.run(for: .seconds(60), opening: .milliseconds(5), noise: 0.1, &random) { Double($0) * 10_000 }
    #expect(run.machine.laneCount == 8)
  }

  @Test("a time without a shortage, or in trouble, judges nothing")
  func interrupted() {
    for mayGrow in [true, false] {
      var machine = PoolMachine(
        limits: .init(lanes: 1...8, connectionsPerMinute: 3_000, dialAttempts: 3), now: .start)
      machine.opened(isFirst: true, now: .start)
      var now = Instant.start
      var settled = 0
      while machine.laneCount == 1 {
        _ = machine.starved(mayGrow: true, settledCount: settled, now: now)
        now = now + .milliseconds(20)
        settled += 1_000
      }
      machine.opened(isFirst: true, now: now)
      for _ in 0..<12 {
        _ = machine.starved(mayGrow: true, settledCount: settled, now: now)
        now = now + .milliseconds(20)
      }
      // Nothing was settled meanwhile.
      now = now + .seconds(mayGrow ? 5 : 0)
      for _ in 0..<3 {
        let growth = machine.starved(mayGrow: mayGrow, settledCount: settled, now: now)
        #expect(growth != .takeBack(1))
        now = now + .milliseconds(20)
      }
      #expect(machine.laneCount == 2)
    }
  }
}
