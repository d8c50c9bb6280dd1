internal import Glibc
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine
@testable internal import PushJournal

/// An engine's journal with so little memory that a few records fill it. Tests run it by hand.
struct SmallJournal {
  let disk: SimulatedDisk
  let journal: EngineJournal
  let report: JournalReport

  init(_ disk: SimulatedDisk, sync: JournalSync = .always, checkpointByteCount: Int = 1 << 20) throws {
    self.disk = disk
    var options = JournalOptions()
    options.sync = sync
    options.blockByteCount = 512
    options.blockCount = 3
    var reading = JournalReading()
    let opened = try Journal.open(disk, options: options, runByHand: {}) { reading.read($0, $1, $2) }
    report = reading.finish(opened.recovery)
    var engineOptions = EngineJournalOptions()
    engineOptions.checkpointByteCount = checkpointByteCount
    journal = EngineJournal(journal: opened.journal, contents: reading.contents, options: engineOptions)
  }

  /// A copy of the disk, as a killed process leaves it.
  func copy() -> SimulatedDisk {
    let copy = SimulatedDisk()
    for name in disk.fileNames { copy.put(name, disk.contents(name) ?? []) }
    return copy
  }

  var byteCount: Int { disk.fileNames.map { disk.contents($0)?.count ?? 0 }.reduce(0, +) }

  func run(_ seconds: Int = 1) { _ = journal.run(now: .seconds(seconds)) }

  /// Runs the journal until `body` has ended.
  func drive<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> Value {
    let result = Mutex<Result<Value, any Error>?>(nil)
    let task = Task {
      do {
        let value = try await body()
        result.withLock { $0 = .success(value) }
      } catch {
        result.withLock { $0 = .failure(error) }
      }
    }
    while true {
      if let result = result.withLock({ $0 }) {
        await task.value
        return try result.get()
      }
      run(1_000_000)
      await Task.yield()
    }
  }

  /// Begins a campaign with a lane, and takes `count` notifications into it.
  func begin(count: Int) async throws -> (campaign: UInt64, lane: UInt64) {
    let beginning = EngineJournal.Beginning(app: "app", campaign: Campaign(payload: [1]), context: [])
    let campaign = try #require(try await drive { try await journal.begin([beginning]) }.first)
    let lane = journal.addLane(app: "app")
    #expect(enqueue(count, from: 0, of: campaign, in: lane))
    return (campaign, lane)
  }

  func enqueue(_ count: Int, from start: UInt64, of campaign: UInt64, in lane: UInt64) -> Bool {
    let notifications = (0..<count).map {
      TestNotification(line: start + UInt64($0) + 1, token: Array(repeating: UInt8($0 & 0xFF), count: 32))
    }
    let run = JournalledRun(lane: lane, range: start..<(start + UInt64(count)), campaign: campaign, count: count)
    let submitted = Int(start) + count
    let position = AudiencePosition(
      mark: AudienceMark(offset: start, line: start + 1), readLine: UInt64(submitted), submitted: submitted)
    let source = TestSource(notifications: notifications)
    return journal.enqueue(EnqueueHeader(run: run, position: position), source.shape, source)
  }

  /// Records outcomes one at a time until the journal is full, and then a few more.
  func overfill(of campaign: UInt64, in lane: UInt64, count: Int) {
    for index in 0..<UInt64(count) {
      journal.record(
        .settled(JournalledRun(lane: lane, range: index..<(index + 1), campaign: campaign, count: 1), .accepted(.quiet))
      )
    }
  }
}

@Suite struct FullJournalTests {
  @Test("outcomes that find no room are written in order as soon as there is room")
  func overflowFollows() async throws {
    let small = try SmallJournal(SimulatedDisk())
    let (campaign, lane) = try await small.begin(count: 10)
    small.overfill(of: campaign, in: lane, count: 9)
    for _ in 0..<300 { small.journal.record(.resent(campaign: campaign, count: 1)) }
    small.journal.record(.settled(JournalledRun(lane: lane, range: 9..<10, campaign: campaign, count: 1), .expired))
    #expect(small.journal.state.withLock { $0.overflow.count } > 100, "the journal is not full")
    // Outcomes that have not been written are not in the state.
    #expect(small.journal.campaign(campaign)?.account.expired == 0)
    #expect(small.journal.intend(lane: lane, through: 10) == nil)
    #expect(!small.enqueue(1, from: 10, of: campaign, in: lane))
    for second in 1...100 { small.run(second) }
    #expect(small.journal.state.withLock { $0.overflow.isEmpty })
    let account = try #require(small.journal.campaign(campaign)?.account)
    #expect((account.quiet, account.expired, account.resent, account.inFlight) == (9, 1, 300, 0))
    let again = try SmallJournal(small.copy())
    #expect(again.journal.campaign(campaign)?.account == account)
    #expect(again.journal.recoveredRuns(of: campaign).isEmpty)
  }

  @Test("closing the journal first writes the records that wait for room")
  func closeWritesOverflow() async throws {
    let small = try SmallJournal(SimulatedDisk())
    let (campaign, lane) = try await small.begin(count: 10)
    small.overfill(of: campaign, in: lane, count: 10)
    for _ in 0..<300 { small.journal.record(.resent(campaign: campaign, count: 1)) }
    #expect(small.journal.state.withLock { $0.overflow.count } > 100)
    let closing = Task { try await small.journal.close() }
    // Either it closes the journal at once, or it waits for room.
    while small.journal.journal.monitor.locked({
      small.journal.journal.state.phase == .open && small.journal.journal.state.roomWaiters.count < 2
    }) {
      await Task.yield()
    }
    try await small.drive { try await closing.value }
    let again = try SmallJournal(small.copy())
    #expect(again.journal.campaign(campaign)?.account.resent == 300)
    #expect(again.journal.campaign(campaign)?.account.quiet == 10)
  }

  @Test("a lane that begins while the journal is full keeps its intents and outcomes through checkpoints")
  func laneWhileFull() async throws {
    let small = try SmallJournal(SimulatedDisk(), checkpointByteCount: 1)
    let (campaign, first) = try await small.begin(count: 4)
    for _ in 0..<300 { small.journal.record(.resent(campaign: campaign, count: 1)) }
    let lane = small.journal.addLane(app: "app")
    #expect(small.journal.state.withLock { $0.overflow.map(\.event).last } == .laneBegan(lane: lane, app: "app"))
    for second in 1...100 { small.run(second) }
    // Each of these is followed by a checkpoint.
    #expect(small.enqueue(1, from: 4, of: campaign, in: first))
    small.run(101)
    #expect(small.enqueue(4, from: 5, of: campaign, in: lane))
    #expect(small.journal.intend(lane: lane, through: 9) != nil)
    small.run(102)
    small.journal.record(
      .settled(JournalledRun(lane: lane, range: 0..<9, campaign: campaign, count: 4), .accepted(.quiet)))
    #expect(small.enqueue(1, from: 9, of: campaign, in: lane))
    #expect(small.journal.intend(lane: lane, through: 10) != nil)
    for second in 103...105 { small.run(second) }
    #expect(small.journal.recoveredRuns(of: campaign).isEmpty, "the contents of a running lane are not recovered")
    let again = try SmallJournal(small.copy())
    let left = again.journal.recoveredRuns(of: campaign)
    #expect(left.filter { $0.lane == lane }.map(\.fate) == [.unknown])
    #expect(left.filter { $0.lane == lane }.flatMap(\.notifications).map(\.line) == [10])
  }

  @Test("a campaign does not end before all its outcomes are written")
  func endAfterOverflow() async throws {
    let small = try SmallJournal(SimulatedDisk())
    let (campaign, lane) = try await small.begin(count: 10)
    for _ in 0..<300 { small.journal.record(.resent(campaign: campaign, count: 1)) }
    small.overfill(of: campaign, in: lane, count: 10)
    #expect(small.journal.state.withLock { $0.overflow.count } > 100)
    small.journal.end(campaign)
    // Whenever the process is killed, a campaign that has ended has all its outcomes.
    for second in 1...100 {
      small.run(second)
      await Task.yield()
      let again = try SmallJournal(small.copy())
      let found = try #require(again.journal.campaign(campaign))
      #expect(found.phase == .open || found.account.inFlight == 0, "after \(second)")
    }
    try await small.drive { try await small.journal.close() }
    let again = try SmallJournal(small.copy())
    #expect(again.report.unfinished.isEmpty)
  }

  @Test("a campaign can begin while the journal is full")
  func beginWhileFull() async throws {
    let small = try SmallJournal(SimulatedDisk())
    let (campaign, _) = try await small.begin(count: 10)
    for _ in 0..<300 { small.journal.record(.resent(campaign: campaign, count: 1)) }
    let beginnings = (0..<3).map {
      EngineJournal.Beginning(app: "app", campaign: Campaign(payload: [9]), context: Array(repeating: $0, count: 200))
    }
    let numbers = try await small.drive { try await small.journal.begin(beginnings) }
    let again = try SmallJournal(small.copy())
    #expect(again.journal.campaigns.map(\.number) == [campaign] + numbers)
    #expect(Set(again.journal.campaigns.map(\.group)).count == 2)
  }

  @Test(
    "a journal that fails reports it once to each listener, drops waiting records, and accepts no more",
    arguments: [false, true])
  func failing(isWrite: Bool) async throws {
    let small = try SmallJournal(SimulatedDisk())
    let (campaign, lane) = try await small.begin(count: 10)
    let told = Mutex<[String]>([])
    small.journal.onFailure { reason in told.withLock { $0.append(reason) } }
    if isWrite { small.disk.failWrite(after: 1, .shortWrite(100, code: ENOSPC)) } else { small.disk.failSync(after: 0) }
    for _ in 0..<300 { small.journal.record(.resent(campaign: campaign, count: 1)) }
    let waited = Mutex(0)
    small.journal.whenRoom { waited.withLock { $0 += 1 } }
    #expect(told.withLock { $0.isEmpty })
    #expect(waited.withLock { $0 } == 0)
    for second in 1...20 { small.run(second) }
    // A sync may fail while nothing waits for it. The next record reports it.
    small.journal.record(.resent(campaign: campaign, count: 1))
    #expect(told.withLock { $0.count } == 1)
    #expect(waited.withLock { $0 } == 1)
    #expect(small.journal.failure != nil)
    #expect(small.journal.state.withLock { $0.overflow.isEmpty })
    // A later listener is called at once.
    small.journal.onFailure { reason in told.withLock { $0.append(reason) } }
    #expect(told.withLock { $0.count } == 2)
    small.journal.record(.resent(campaign: campaign, count: 1))
    #expect(small.journal.state.withLock { $0.overflow.isEmpty })
    #expect(small.journal.intend(lane: lane, through: 10) == nil)
    #expect(!small.enqueue(1, from: 10, of: campaign, in: lane))
    await small.journal.room()
    await #expect(throws: JournalProblem.self) { try await small.drive { try await small.journal.close() } }
    // Everything durable is present.
    small.disk.restart()
    let again = try SmallJournal(small.copy())
    #expect(
      again.journal.recoveredRuns(of: campaign).map(\.count).reduce(0, +)
        == again.journal.campaign(campaign)?.account.inFlight)
  }
}
