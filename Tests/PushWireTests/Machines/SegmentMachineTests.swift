internal import PushWire
internal import Support
internal import Testing

struct LineSetTests {
  @Test(
    "a set of lines is what was added to it, also after it was written and read",
    arguments: 1...40 as ClosedRange<UInt64>)
  func model(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let limit = [1, 63, 64, 65, 128, 1_000].randomElement(using: &random) ?? 1
    var (set, model) = (LineSet(limit: limit), Set<Int>())
    for _ in 0..<Int.random(in: 0...60, using: &random) {
      let first = Int.random(in: 1...limit, using: &random)
      let last = min(limit, first + Int.random(in: 0...80, using: &random))
      let before = model.count
      model.formUnion(first...last)
      #expect(set.insert(first...last) == model.count - before)
    }
    #expect(set.count == model.count)
    #expect((-1...(limit + 2)).allSatisfy { set.contains($0) == model.contains($0) })
    let through = Int.random(in: 0...limit, using: &random)
    #expect(set.ranges(through: through).flatMap { Array($0) } == model.filter { $0 <= through }.sorted())
    let missing = (1...limit).filter { $0 <= through && !model.contains($0) }
    #expect(set.holes(through: through).flatMap { Array($0) } == missing)
    #expect(LineSet(limit: limit, reading: set.bytes) == set)
  }

  @Test("a set with few gaps takes few bytes, and an empty one none")
  func size() {
    var set = LineSet(limit: 65_536)
    #expect(set.bytes.isEmpty)
    set.insert(1...30_000)
    set.insert(30_010...30_100)
    #expect(set.bytes.count < 10)
    set.insert(1...65_536)
    #expect(set.bytes.count < 6)
  }

  @Test("damaged bytes are no set, and no crash", arguments: 1...200 as ClosedRange<UInt64>)
  func damaged(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let bytes = (0..<Int.random(in: 0...30, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
    let read = LineSet(limit: 100, reading: bytes)
    #expect(read.map { $0.count <= 100 } ?? true)
    #expect(LineSet(limit: 10, reading: [0, 11]) == nil)
    #expect(LineSet(limit: 10, reading: [5]) == nil)
    #expect(LineSet(limit: 10, reading: [0x80]) == nil)
  }
}

struct SegmentMachineTests {
  /// A ledger's row, and what has really happened.
  private struct World {
    let count: Int
    var settled: LineSet
    var doubted: LineSet
    var granted = 0
    var counted = SegmentMachine.Doubts()
    /// How often each line was put into a ring.
    var sent: [Int: Int] = [:]

    init(count: Int) {
      self.count = count
      (settled, doubted) = (LineSet(limit: count), LineSet(limit: count))
    }
  }

  /// Owners who die at any time, and whose last report may have been written without an answer.
  private static func copies(seed: UInt64, mistake: SegmentMachine.PlantedMistake? = nil) -> String? {
    var random = SeededGenerator(seed: seed)
    var world = World(count: Int.random(in: 1...300, using: &random))
    var owners = 0
    while world.settled.count < world.count {
      owners += 1
      guard owners < 200 else { return "it never ends" }
      let lifetime = Int.random(in: 1...60, using: &random)
      if let problem = live(&world, steps: lifetime, mistake: mistake, using: &random) { return problem }
    }
    let (twice, copies) = world.sent.values.reduce(into: (0, 0)) { found, times in
      if times > 1 { found = (found.0 + 1, found.1 + times - 1) }
    }
    if world.sent.count < world.count { return "\(world.count - world.sent.count) were never sent" }
    if twice > world.counted.newCount { return "\(twice) were sent twice, and \(world.counted.newCount) are counted" }
    if copies > world.counted.count { return "there are \(copies) copies, and \(world.counted.count) are counted" }
    return nil
  }

  private static func live(
    _ world: inout World, steps: Int, mistake: SegmentMachine.PlantedMistake?, using random: inout SeededGenerator
  ) -> String? {
    var machine = SegmentMachine(
      count: world.count, inherited: world.granted, granted: world.granted, settled: world.settled,
      doubted: world.doubted, hasBegun: false, plantedMistake: mistake)
    let doubts = machine.begin(resends: true)
    var (read, inFlight) = (0, [Int]())
    for step in 0..<steps {
      if step == 0 || Int.random(in: 0..<4, using: &random) == 0 {
        let report = machine.report(readThrough: read, ahead: Int.random(in: 0...40, using: &random))
        // Nobody has the answer yet, and the owner may die before the ledger has the report.
        let outcome = Int.random(in: 0..<10, using: &random)
        if outcome == 0 { return nil }
        if step == 0 {
          world.counted.newCount += doubts.newCount
          world.counted.count += doubts.count
        }
        (world.granted, world.settled, world.doubted) = (
          max(world.granted, report.granted), report.settled, report.doubted
        )
        if outcome == 1 { return nil }
        machine.acknowledge(report)
      }
      while read < world.count, inFlight.count < 10 {
        let turn = machine.turn(of: read + 1)
        if turn == .notGranted { break }
        read += 1
        guard turn != .settled else { continue }
        if read > world.granted { return "line \(read) is sent, and \(world.granted) are granted" }
        if turn == .unsent, world.sent[read] != nil { return "line \(read) counts as unsent" }
        world.sent[read, default: 0] += 1
        inFlight.append(read)
      }
      inFlight.shuffle(using: &random)
      for _ in 0..<Int.random(in: 0...5, using: &random) {
        guard let line = inFlight.popLast() else { break }
        if machine.settle(line...line) != 1 { return "line \(line) has two outcomes" }
      }
    }
    return nil
  }

  @Test(
    "however often its owners die, everybody gets it, and whoever may get it twice is counted",
    arguments: 1...300 as ClosedRange<UInt64>)
  func owners(seed: UInt64) { #expect(Self.copies(seed: seed) == nil) }

  @Test("each planted mistake is found", arguments: SegmentMachine.PlantedMistake.allCases)
  func mistakes(mistake: SegmentMachine.PlantedMistake) {
    #expect((1...2_000).contains { Self.copies(seed: $0, mistake: mistake) != nil })
  }

  @Test("nobody is in doubt whom the app does not send to again")
  func drops() {
    var machine = SegmentMachine(
      count: 9, inherited: 5, granted: 5, settled: LineSet(limit: 9), doubted: LineSet(limit: 9), hasBegun: false)
    #expect(machine.begin(resends: false) == SegmentMachine.Doubts())
    #expect(machine.turn(of: 1) == .notGranted)
    machine.acknowledge(machine.report(readThrough: 0, ahead: 3))
    #expect(machine.turn(of: 5) == .doubted)
    #expect(machine.turn(of: 6) == .notGranted)
    machine.acknowledge(machine.report(readThrough: 5, ahead: 3))
    #expect(machine.turn(of: 8) == .unsent)
    #expect(machine.turn(of: 9) == .notGranted)
  }
}

struct GrantMachineTests {
  private static func ahead(perSecond: Int, interval: Duration, flush: Duration, isStarved: Bool) -> Int {
    var machine = GrantMachine()
    var (now, line) = (Instant.start, 0)
    for _ in 0..<50 {
      machine.note(readThrough: line, isStarved: isStarved, now: now)
      machine.acknowledged(after: flush)
      now = now + interval
      line += Int(Double(perSecond) * interval.inSeconds)
    }
    return machine.ahead
  }

  @Test("a segment is granted as far as two flushes take, and never less than a step or more than a segment")
  func steps() {
    let interval = Duration.milliseconds(100)
    #expect(Self.ahead(perSecond: 50_000, interval: interval, flush: .milliseconds(10), isStarved: false) == 11_000)
    #expect(Self.ahead(perSecond: 50_000, interval: interval, flush: .milliseconds(100), isStarved: false) == 20_000)
    #expect(Self.ahead(perSecond: 10, interval: interval, flush: .zero, isStarved: false) == 1_024)
    #expect(Self.ahead(perSecond: 5_000_000, interval: interval, flush: .zero, isStarved: false) == 65_536)
    // How fast it could read is not known yet.
    #expect(Self.ahead(perSecond: 10, interval: interval, flush: .zero, isStarved: true) == 65_536)
  }

  @Test("a clock that stands still changes nothing")
  func still() {
    var machine = GrantMachine()
    machine.note(readThrough: 0, isStarved: true, now: .start)
    machine.note(readThrough: 60_000, isStarved: true, now: .start)
    #expect(machine.ahead == 1_024)
  }

  @Test("what an owner gives back as unsent is in no doubt; what it may have sent, or another one, is")
  func givenBack() {
    var withdrawn = LineSet(limit: 100)
    withdrawn.insert(11...20)
    var machine = SegmentMachine(
      count: 100, inherited: 15, granted: 60, settled: LineSet(limit: 100), doubted: LineSet(limit: 100),
      hasBegun: false)
    #expect(machine.begin(resends: true) == SegmentMachine.Doubts(newCount: 15, count: 15))
    machine.settle(16...17)
    // 60 are granted, up to 40 were read, and up to 80 was asked for.
    let unsent = machine.unsent(besides: withdrawn, readThrough: 40, through: 80)
    #expect(unsent.ranges == [18...20, 41...80])
    #expect(machine.unsent(besides: withdrawn, readThrough: nil, through: 80).ranges == [18...20])
    var next = SegmentMachine(
      count: 100, inherited: 80, unsent: unsent, granted: 80, settled: machine.settled, doubted: machine.doubted,
      hasBegun: false)
    // 1 to 15 once more, and 21 to 40 for the first time.
    #expect(next.begin(resends: true) == SegmentMachine.Doubts(newCount: 20, count: 35))
    next.acknowledge(next.report(readThrough: 0, ahead: 0))
    #expect(next.turn(of: 41) == .unsent)
    #expect(next.turn(of: 40) == .doubted)
    #expect(next.turn(of: 18) == .unsent)
    #expect(next.turn(of: 16) == .settled)
    #expect(next.turn(of: 81) == .notGranted)
  }
}
