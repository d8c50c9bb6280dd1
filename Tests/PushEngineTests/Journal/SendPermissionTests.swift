internal import Glibc
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine
@testable internal import PushJournal

/// How far a lane may send: never further than the journal could say after a loss of power at that moment.
@Suite struct SendPermissionTests {
  /// A lane's permission, and what was written for it.
  private final class Asker {
    let small: SmallJournal
    var permission: SendPermission
    private(set) var intents: [(position: UInt64, through: UInt64)] = []
    private let answers = Answers()
    private(set) var answerCount = 0

    private final class Answers: Sendable {
      let count = Mutex(0)
    }

    init(_ small: SmallJournal) {
      self.small = small
      permission = SendPermission(journal: small.journal, lane: small.journal.addLane(app: "app"))
    }

    func ask(through end: UInt64) {
      let position = small.journal.journal.nextPosition.rawValue
      permission.ask(through: end) { [answers] in answers.count.withLock { $0 += 1 } }
      if small.journal.journal.nextPosition.rawValue > position { intents.append((position, end)) }
    }

    /// Takes the answers that have come. Returns whether there were any.
    func takeAnswers() -> Bool {
      let count = answers.count.withLock { exchange(&$0, with: 0) }
      #expect(count <= 1, "one question at a time")
      for _ in 0..<count { permission.came() }
      answerCount += count
      return count > 0
    }

    /// The furthest intent that is durable.
    var durable: UInt64 {
      let position = small.journal.journal.durablePosition.rawValue
      return intents.filter { $0.position <= position }.map(\.through).max() ?? 0
    }
  }

  @Test("a lane never may send beyond a durable intent, and in the end may send all it asked for")
  func neverBeyond() throws {
    for seed in UInt64(1)...150 {
      var random = SeededGenerator(seed: seed)
      let sync = random.pick([.always, .interval(.milliseconds(10)), .interval(.milliseconds(200))], or: JournalSync.always)
      let small = try SmallJournal(SimulatedDisk(), sync: sync)
      let askers = (0..<Int.random(in: 1...3, using: &random)).map { _ in Asker(small) }
      var ends = askers.map { _ in UInt64(0) }
      var now = Duration.seconds(1)
      for _ in 0..<200 {
        let index = askers.indices.randomElement(using: &random) ?? 0
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<5:
          // Lanes ask again and again, for the same and for more.
          if random.chance(60) { ends[index] += UInt64.random(in: 1...100, using: &random) }
          askers[index].ask(through: ends[index])
        case 5: small.journal.record(.resent(campaign: 1, count: 1))
        case 6: for _ in 0..<40 { small.journal.record(.resent(campaign: 1, count: 1)) }
        default:
          now += .milliseconds(Int.random(in: 0...15, using: &random))
          _ = small.journal.run(now: now)
        }
        let asker = askers.randomElement(using: &random) ?? askers[0]
        _ = asker.takeAnswers()
        for asker in askers { #expect(asker.permission.through <= asker.durable, "seed \(seed)") }
      }
      for _ in 0..<60 {
        for (asker, end) in zip(askers, ends) {
          asker.ask(through: end)
          _ = asker.takeAnswers()
        }
        now += .milliseconds(100)
        _ = small.journal.run(now: now)
      }
      #expect(askers.map(\.permission.through) == ends, "seed \(seed)")
      #expect(askers.map(\.durable) == ends)
    }
  }

  @Test("what is asked for while an intent is on its way is written at once, and comes with its answer if it went to the disk with it")
  func coveredByOneAnswer() throws {
    let small = try SmallJournal(SimulatedDisk(), sync: .interval(.milliseconds(10)))
    let asker = Asker(small)
    asker.ask(through: 10)
    asker.ask(through: 20)
    asker.ask(through: 30)
    asker.ask(through: 30)
    #expect(asker.intents.map(\.through) == [10, 20, 30])
    #expect(!asker.takeAnswers() && asker.permission.through == 0)
    for milliseconds in [1_000, 1_020] { _ = small.journal.run(now: .milliseconds(milliseconds)) }
    // Not durable any more when the answer to the first is taken.
    asker.ask(through: 40)
    #expect(asker.takeAnswers())
    #expect(asker.permission.through == 10, "the latest intent is not durable: only what was waited for is known")
    asker.ask(through: 40)
    for milliseconds in [1_030, 1_050] { _ = small.journal.run(now: .milliseconds(milliseconds)) }
    #expect(asker.takeAnswers())
    #expect(asker.permission.through == 40 && asker.answerCount == 2)
  }

  @Test("several intents that go to the disk together need one answer")
  func oneAnswer() throws {
    let small = try SmallJournal(SimulatedDisk(), sync: .interval(.milliseconds(10)))
    let asker = Asker(small)
    for end in 1...UInt64(5) { asker.ask(through: end) }
    for milliseconds in [1_000, 1_020] { _ = small.journal.run(now: .milliseconds(milliseconds)) }
    #expect(asker.takeAnswers())
    #expect(asker.permission.through == 5 && asker.answerCount == 1)
  }

  @Test("a lane whose intent finds no room asks again when there is some")
  func full() throws {
    let small = try SmallJournal(SimulatedDisk())
    let asker = Asker(small)
    for _ in 0..<300 { small.journal.record(.resent(campaign: 1, count: 1)) }
    asker.ask(through: 10)
    asker.ask(through: 20)
    #expect(asker.intents.isEmpty && !asker.takeAnswers())
    var runs = 0
    while asker.permission.through < 20, runs < 100 {
      runs += 1
      small.run(runs)
      if asker.takeAnswers() { asker.ask(through: 20) }
    }
    #expect(asker.permission.through == 20)
    #expect(asker.intents.map(\.through) == [20])
  }

  @Test("a lane whose intent is lost with the journal is not let through, and whoever owns it is told", arguments: [false, true])
  func failing(isFull: Bool) throws {
    let small = try SmallJournal(SimulatedDisk())
    let asker = Asker(small)
    asker.ask(through: 10)
    for second in 1...3 { small.run(second) }
    #expect(asker.takeAnswers() && asker.permission.through == 10)
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
    #expect(asker.permission.through == 10)
    asker.ask(through: 40)
    #expect(!asker.takeAnswers())
  }
}
