internal import Glibc
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine
@testable internal import PushJournal

/// How far a lane may send: never further than the journal would say after a loss of power at that
/// moment.
@Suite struct IntentGateTests {
  /// A ring of records of one size, without padding.
  struct Walk: RecordWalk {
    var blockCount: UInt64 = 1

    func notificationCount(from: UInt64, to: UInt64) -> Int { Int((to - from + blockCount - 1) / blockCount) }
    func position(after count: Int, from: UInt64, limit: UInt64) -> UInt64 {
      min(from + UInt64(count) * blockCount, limit)
    }
    func end(ofNotificationAt position: UInt64, from: UInt64) -> UInt64? { position + blockCount }
  }

  /// A lane's intent gate, and the intents that it has written.
  private final class Asker {
    let small: SmallJournal
    var gate: IntentGate
    private(set) var intents: [(position: UInt64, through: UInt64)] = []
    private var rewinds: [(position: UInt64, to: UInt64)] = []
    private let answers = Answers()
    private(set) var answerCount = 0

    private final class Answers: Sendable {
      let count = Mutex(0)
    }

    init(_ small: SmallJournal) {
      self.small = small
      gate = IntentGate(journal: small.journal, lane: small.journal.addLane(app: "app"))
    }

    /// - Parameters:
    ///   - sent: How much of the ring has been sent.
    ///   - step: So many are in flight. By default the intent covers the whole backlog.
    ///   - largestStep: By default no more than `step`.
    func ask(
      through end: UInt64, sent: UInt64 = 0, step: Int = 1 << 40, largestStep: Int? = nil, walk: Walk = Walk(),
      waitsForAnswers: Bool = false, now: Instant = .start
    ) {
      let position = small.journal.journal.nextPosition.rawValue
      let backlog = IntentGate.Backlog(
        sent: sent, published: end, largestStep: largestStep ?? step, inFlightCount: step, now: now,
        waitsForAnswers: waitsForAnswers)
      gate.ask(backlog, walk: walk) { [answers] in answers.count.withLock { $0 += 1 } }
      guard small.journal.journal.nextPosition.rawValue > position else { return }
      intents.append((position, gate.askedThrough ?? 0))
    }

    func mayResend() -> Bool { gate.mayResend { [answers] in answers.count.withLock { $0 += 1 } } }

    /// Notifications 0 to 9 may have arrived and are to be resent.
    func doubt() {
      let run = JournalledRun(lane: gate.lane, range: 0..<10, campaign: 1, count: 10)
      small.journal.record(.doubted(run, copies: 10))
      gate.doubted()
    }

    func rewind(to end: UInt64) {
      let position = small.journal.journal.nextPosition.rawValue
      gate.rewind(to: end)
      if small.journal.journal.nextPosition.rawValue > position { rewinds.append((position, end)) }
    }

    /// Takes the answers of the journal. Returns whether there were any.
    func takeAnswers() -> Bool {
      let count = answers.count.withLock { exchange(&$0, with: 0) }
      #expect(count <= 1, "one request at a time")
      for _ in 0..<count { gate.granted() }
      answerCount += count
      return count > 0
    }

    /// How far the lane may have sent, as a process reads it that begins now.
    var durable: UInt64 {
      let position = small.journal.journal.durablePosition.rawValue
      let steps = intents.map { ($0.position, $0.through, false) } + rewinds.map { ($0.position, $0.to, true) }
      return steps.filter { $0.0 <= position }.sorted { $0.0 < $1.0 }.reduce(0) { $1.2 ? min($0, $1.1) : max($0, $1.1) }
    }
  }

  @Test("a lane may never send beyond a durable intent, and in the end may send all it requested")
  func neverBeyond() throws {
    for seed in UInt64(1)...150 {
      var random = SeededGenerator(seed: seed)
      let sync = random.pick(
        [.always, .interval(.milliseconds(10)), .interval(.milliseconds(200))], or: JournalSync.always)
      let small = try SmallJournal(SimulatedDisk(), sync: sync)
      let askers = (0..<Int.random(in: 1...3, using: &random)).map { _ in Asker(small) }
      var ends = askers.map { _ in UInt64(0) }
      var now = Duration.seconds(1)
      for _ in 0..<200 {
        let index = askers.indices.randomElement(using: &random) ?? 0
        switch Int.random(in: 0..<11, using: &random) {
        case 0..<5:
          // Lanes request repeatedly, the same range and more.
          if random.chance(60) { ends[index] += UInt64.random(in: 1...300, using: &random) }
          askers[index].ask(through: ends[index])
        case 10: askers[index].rewind(to: UInt64.random(in: 0...ends[index], using: &random))
        case 5: small.journal.record(.resent(campaign: 1, count: 1))
        case 6: for _ in 0..<40 { small.journal.record(.resent(campaign: 1, count: 1)) }
        default:
          now += .milliseconds(Int.random(in: 0...15, using: &random))
          _ = small.journal.run(now: now)
        }
        let asker = askers.randomElement(using: &random) ?? askers[0]
        _ = asker.takeAnswers()
        for asker in askers { #expect(asker.gate.through <= asker.durable, "seed \(seed)") }
      }
      for _ in 0..<60 {
        for (asker, end) in zip(askers, ends) {
          asker.ask(through: end)
          _ = asker.takeAnswers()
        }
        now += .milliseconds(100)
        _ = small.journal.run(now: now)
      }
      #expect(askers.map(\.gate.through) == ends, "seed \(seed)")
      #expect(askers.map(\.durable) == ends, "seed \(seed)")
    }
  }

  @Test("a request during a commit is written at once, and granted with it if both reach the disk together")
  func coveredByOneAnswer() throws {
    let small = try SmallJournal(SimulatedDisk(), sync: .interval(.milliseconds(10)))
    let asker = Asker(small)
    asker.ask(through: 10)
    asker.ask(through: 20)
    asker.ask(through: 30)
    asker.ask(through: 30)
    #expect(asker.intents.map(\.through) == [10, 20, 30])
    #expect(!asker.takeAnswers())
    #expect(asker.gate.through == 0)
    for milliseconds in [1_000, 1_020] { _ = small.journal.run(now: .milliseconds(milliseconds)) }
    // The new intent is not durable when the answer to the first is taken.
    asker.ask(through: 40)
    #expect(asker.takeAnswers())
    #expect(asker.gate.through == 10, "the latest intent is not durable, so only the first one is granted")
    asker.ask(through: 40)
    for milliseconds in [1_030, 1_050] { _ = small.journal.run(now: .milliseconds(milliseconds)) }
    #expect(asker.takeAnswers())
    #expect(asker.gate.through == 40)
    #expect(asker.answerCount == 2)
  }

  @Test("a lane that waits for answers hurries the journal only when little is left", arguments: [false, true])
  func waitsForAnswers(waits: Bool) throws {
    let small = try SmallJournal(SimulatedDisk(), sync: .interval(.milliseconds(10)))
    let asker = Asker(small)
    func ask(sent: UInt64) { asker.ask(through: 100_000, sent: sent, step: 1000, waitsForAnswers: waits) }
    // It has nothing: the commit is urgent.
    ask(sent: 0)
    _ = small.journal.run(now: .milliseconds(1_000))
    #expect(asker.takeAnswers())
    #expect(asker.gate.through == 1000)
    // Half is left: the next interval is soon enough.
    ask(sent: 500)
    #expect(asker.gate.askedThrough == 1500)
    _ = small.journal.run(now: .milliseconds(1_001))
    #expect(asker.takeAnswers() == !waits)
    #expect(asker.gate.through == (waits ? 1000 : 1500))
    ask(sent: 749)
    _ = small.journal.run(now: .milliseconds(1_002))
    #expect(asker.takeAnswers() == false)
    ask(sent: 750)
    _ = small.journal.run(now: .milliseconds(1_003))
    _ = asker.takeAnswers()
    #expect(asker.gate.through == (waits ? 1500 : asker.durable))
    // Without more to send, the interval makes it durable.
    ask(sent: 1000)
    for milliseconds in [1_004, 1_020] { _ = small.journal.run(now: .milliseconds(milliseconds)) }
    _ = asker.takeAnswers()
    #expect(asker.durable > 1500)
    #expect(asker.gate.through == asker.durable)
  }

  @Test("several intents that go to the disk together need one answer")
  func oneAnswer() throws {
    let small = try SmallJournal(SimulatedDisk(), sync: .interval(.milliseconds(10)))
    let asker = Asker(small)
    for end in 1...UInt64(5) { asker.ask(through: end) }
    for milliseconds in [1_000, 1_020] { _ = small.journal.run(now: .milliseconds(milliseconds)) }
    #expect(asker.takeAnswers())
    #expect(asker.gate.through == 5)
    #expect(asker.answerCount == 1)
  }

  @Test("a lane whose intent finds no room requests again when there is room")
  func full() throws {
    let small = try SmallJournal(SimulatedDisk())
    let asker = Asker(small)
    for _ in 0..<300 { small.journal.record(.resent(campaign: 1, count: 1)) }
    asker.ask(through: 10)
    asker.ask(through: 20)
    #expect(asker.intents.isEmpty)
    #expect(!asker.takeAnswers())
    var runs = 0
    while asker.gate.through < 20, runs < 100 {
      runs += 1
      small.run(runs)
      if asker.takeAnswers() { asker.ask(through: 20) }
    }
    #expect(asker.gate.through == 20)
    #expect(asker.intents.map(\.through) == [20])
  }

  @Test(
    "a lane whose intent is lost with the journal may not send, and its owner is notified", arguments: [false, true])
  func failing(isFull: Bool) throws {
    let small = try SmallJournal(SimulatedDisk())
    let asker = Asker(small)
    asker.ask(through: 10)
    for second in 1...3 { small.run(second) }
    #expect(asker.takeAnswers())
    #expect(asker.gate.through == 10)
    let told = Mutex(0)
    small.journal.onFailure { _ in told.withLock { $0 += 1 } }
    if isFull { for _ in 0..<300 { small.journal.record(.resent(campaign: 1, count: 1)) } }
    small.disk.failWrite(after: 0, .shortWrite(3, code: EIO))
    asker.ask(through: 20)
    for second in 4...20 {
      small.run(second)
      if asker.takeAnswers() { asker.ask(through: 30) }
    }
    #expect(told.withLock { $0 } == 1)
    #expect(asker.gate.through == 10)
    asker.ask(through: 40)
    #expect(!asker.takeAnswers())
  }

  // MARK: Doubt

  @Test("notifications in doubt are resent when the record of the doubt is durable, with one record and one commit")
  func doubt() throws {
    let small = try SmallJournal(SimulatedDisk(), sync: .interval(.milliseconds(200)))
    let asker = Asker(small)
    asker.ask(through: 10)
    for second in 1...3 { small.run(second) }
    #expect(asker.takeAnswers(), "nothing is in doubt")
    #expect(asker.mayResend(), "nothing is in doubt")
    asker.doubt()
    let doubtEnd = small.journal.journal.nextPosition
    #expect(!asker.mayResend())
    #expect(!asker.mayResend())
    #expect(!asker.takeAnswers())
    let end = small.journal.journal.nextPosition
    #expect(end > doubtEnd)
    _ = small.journal.run(now: .seconds(4))
    #expect(asker.takeAnswers(), "the journal does not wait for the end of its interval")
    #expect(asker.mayResend())
    #expect(asker.mayResend())
    #expect(small.journal.journal.durablePosition >= doubtEnd)
    #expect(small.journal.journal.nextPosition == end)
    #expect(asker.gate.through == 10)
  }

  @Test("a lane in doubt waits for room in the journal")
  func doubtWithoutRoom() throws {
    let small = try SmallJournal(SimulatedDisk())
    let asker = Asker(small)
    for _ in 0..<300 { small.journal.record(.resent(campaign: 1, count: 1)) }
    asker.doubt()
    #expect(!asker.mayResend())
    #expect(!asker.takeAnswers())
    var runs = 0
    while !asker.mayResend(), runs < 100 {
      runs += 1
      small.run(runs)
      _ = asker.takeAnswers()
    }
    #expect((1..<100).contains(runs))
  }

  // MARK: Steps

  @Test("intents are one step ahead of sending, and the next is requested when half is used", arguments: [1, 3])
  func steps(blockCount: Int) throws {
    let small = try SmallJournal(SimulatedDisk())
    let asker = Asker(small)
    let walk = Walk(blockCount: UInt64(blockCount))
    let published = UInt64(10_000 * blockCount)
    var sent: UInt64 = 0
    var second = 0
    while sent < published {
      asker.ask(through: published, sent: sent, step: 1000, walk: walk)
      let ahead = walk.notificationCount(from: sent, to: max(sent, asker.intents.last?.through ?? 0))
      #expect(ahead <= 1000)
      #expect(ahead >= min(500, 10_000 - Int(sent) / blockCount))
      if asker.gate.through > sent {
        sent += walk.blockCount
      } else {
        second += 1
        small.run(second)
        _ = asker.takeAnswers()
      }
    }
    #expect((19...21).contains(asker.intents.count))
  }

  @Test("a lane that sends little covers little, and one that waits for the journal soon covers as much as it may")
  func adaptiveSteps() throws {
    let small = try SmallJournal(SimulatedDisk())
    let asker = Asker(small)
    var (sent, second, widest, waits) = (UInt64(0), 0, 0, 0)
    // All that it may send goes at once.
    while sent < 50_000 {
      asker.ask(
        through: 50_000, sent: sent, step: 0, largestStep: 2_000, now: .start + .milliseconds(second * 10))
      widest = max(widest, Int((asker.gate.askedThrough ?? 0) - sent))
      if asker.gate.through > sent {
        sent = asker.gate.through
      } else {
        waits += 1
        second += 1
        small.run(second)
        _ = asker.takeAnswers()
      }
    }
    #expect(widest == 2_000)
    #expect(waits < 35)
    // Two a second.
    for _ in 0..<40 {
      second += 50
      asker.ask(
        through: sent + 5_000, sent: sent, step: 0, largestStep: 2_000, now: .start + .milliseconds(second * 10))
      small.run(second)
      _ = asker.takeAnswers()
      if asker.gate.through > sent { sent += 1 }
    }
    #expect(asker.gate.through - sent <= 2_000)
    sent = asker.gate.through
    for _ in 0..<40 {
      second += 50
      asker.ask(
        through: sent + 5_000, sent: sent, step: 0, largestStep: 2_000, now: .start + .milliseconds(second * 10))
      small.run(second)
      _ = asker.takeAnswers()
      if asker.gate.through > sent { sent += 1 }
    }
    #expect(asker.gate.through - sent <= 2 * UInt64(IntentStep.smallest))
  }

  @Test(
    "a lane that waits for a step makes the journal commit at once; a trickle waits for the interval",
    arguments: [(5_000, true), (256, true), (255, false)])
  func urgency(count: Int, isUrgent: Bool) throws {
    let small = try SmallJournal(SimulatedDisk(), sync: .interval(.milliseconds(10)))
    let asker = Asker(small)
    for second in 1...3 { small.run(second) }
    asker.ask(through: UInt64(count), step: 1000)
    _ = small.journal.run(now: .seconds(4))
    #expect(asker.takeAnswers() == isUrgent)
    #expect(asker.gate.through == (isUrgent ? UInt64(min(count, 1000)) : 0))
    _ = small.journal.run(now: .milliseconds(4010))
    #expect(asker.takeAnswers() == !isUrgent)
    #expect(asker.gate.through == UInt64(min(count, 1000)))
  }

  @Test("discarded notifications need a new intent, which is committed at once; old ones and late answers do not count")
  func rewinding() throws {
    let small = try SmallJournal(SimulatedDisk(), sync: .interval(.milliseconds(10)))
    let asker = Asker(small)
    asker.ask(through: 100)
    for second in 1...3 { small.run(second) }
    #expect(asker.takeAnswers())
    #expect(asker.gate.through == 100)
    // Another intent is being committed.
    asker.ask(through: 200)
    asker.rewind(to: 40)
    #expect(asker.gate.through == 40)
    small.run(4)
    for milliseconds in [4_005, 4_020] { _ = small.journal.run(now: .milliseconds(milliseconds)) }
    #expect(asker.takeAnswers())
    #expect(asker.gate.through == 40)
    #expect(asker.durable == 40)
    asker.ask(through: 60)
    _ = small.journal.run(now: .milliseconds(4_021))
    #expect(asker.takeAnswers())
    #expect(asker.gate.through == 60)
    #expect(asker.durable == 60)
    // Nothing after it was sent.
    asker.rewind(to: 60)
    #expect(asker.gate.through == 60)
    #expect(asker.durable == 60)
  }
}
