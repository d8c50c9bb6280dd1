internal import Foundation
internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// A checksum proves that a record's bytes are unchanged, not that they are valid. Any bytes in a
/// journal must give an error or a value that can be used.
@Suite struct HostileRecordTests {
  /// Numbers at the limits of arithmetic.
  private static let extremes: [UInt64] = [
    .max, .max - 1, 1 << 63, (1 << 63) - 1, 1 << 62, (1 << 62) - 1, (1 << 48) + 1, 1 << 48, UInt64(UInt32.max), 1 << 31,
    257, 100, 1, 0,
  ]

  private static let kinds = Array(UInt8(0)...20)

  /// A valid record of each kind.
  private static func sound(_ random: inout SeededGenerator) -> (kind: UInt8, bytes: [UInt8])? {
    switch Int.random(in: 0..<7, using: &random) {
    case 0: return Record.payload(random.number(8), random.bytes(20)).map { (JournalEvent.Kind.payload.rawValue, $0) }
    case 1:
      var campaign = random.campaign()
      (campaign.number, campaign.group, campaign.groupCount) = (
        random.number(8), random.number(3), Int.random(in: 1...3, using: &random)
      )
      return Record.bytes(campaign).map { (JournalEvent.Kind.campaign.rawValue, $0) }
    case 2:
      var lane = JournalledLane(number: random.number(8), app: "app")
      lane.intended(through: random.number(200))
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        lane.returned(smallRun(&random), isInDoubt: random.chance(50))
        lane.doubted(smallRun(&random))
        if random.chance(50) { lane.withdrawn(smallRun(&random), isInDoubt: random.chance(50)) }
        if random.chance(50) { lane.answered(smallRun(&random)) }
        lane.took(campaign: random.number(8), through: random.number(200))
      }
      return Record.bytes(lane).map { (JournalEvent.Kind.lane.rawValue, $0) }
    case 3, 4:
      let notifications = random.notifications()
      let start = random.number(200)
      let run = JournalledRun(
        lane: random.number(8), range: start..<(start + notifications.map(\.blockCount).reduce(0, +)),
        campaign: random.number(8), count: notifications.count)
      return Record.bytes(random.header(run), TestSource(notifications: notifications)).map {
        (JournalEvent.Kind.enqueue.rawValue, $0)
      }
    case 5:
      let lines = random.tokenLines()
      let start = random.number(200)
      let run = JournalledRun(
        lane: random.number(8), range: start..<(start + UInt64(lines.tokens.count)), campaign: random.number(8),
        count: lines.tokens.count)
      return lines.bytes(random.header(run)).map { (JournalEvent.Kind.enqueue.rawValue, $0) }
    default:
      var event = random.event()
      switch event {
      case .settled(_, let outcome): event = .settled(smallRun(&random), outcome)
      case .returned(_, let isInDoubt): event = .returned(smallRun(&random), isInDoubt: isInDoubt)
      case .answered(_, let outcome): event = .answered(smallRun(&random), outcome)
      case .withdrawn(_, let isInDoubt): event = .withdrawn(smallRun(&random), isInDoubt: isInDoubt)
      case .doubted(_, let copies): event = .doubted(smallRun(&random), copies: copies)
      case .resolved(_, let outcome): event = .resolved(smallRun(&random), outcome)
      case .intent: event = .intent(lane: random.number(8), through: random.number(200))
      case .rewound: event = .rewound(lane: random.number(8), to: random.number(200))
      case .position(_, let position): event = .position(campaign: random.number(8), position)
      case .ended: event = .ended(campaign: random.number(8))
      default: break
      }
      return Record.bytes(event).map { (event.kind.rawValue, $0) }
    }
  }

  private static func smallRun(_ random: inout SeededGenerator) -> JournalledRun {
    let start = random.number(200)
    return JournalledRun(
      lane: random.number(8), range: start..<(start + random.number(60)), campaign: random.number(8),
      count: random.count(60))
  }

  /// A valid record with some bytes removed, added or flipped, or with a number from the limits.
  private static func mutated(_ random: inout SeededGenerator) -> (kind: UInt8, bytes: [UInt8])? {
    guard var (kind, bytes) = sound(&random) else { return nil }
    switch Int.random(in: 0..<8, using: &random) {
    case 0: bytes.removeLast(Int.random(in: 0...bytes.count, using: &random))
    case 1: bytes += random.bytes(Int.random(in: 1...9, using: &random))
    case 2: kind = random.pick(kinds, or: 0)
    case 3: bytes = random.bytes(Int.random(in: 0...200, using: &random))
    case 4:
      for _ in 0..<3 where !bytes.isEmpty {
        bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
      }
    default:
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        let width = random.chance(70) ? 8 : 4
        guard bytes.count >= width else { break }
        // Most fields are at the front.
        let offset =
          random.chance(50)
          ? Int.random(in: 0...min(8, bytes.count - width), using: &random) * 4
          : Int.random(in: 0...(bytes.count - width), using: &random)
        guard offset + width <= bytes.count else { continue }
        let number = random.pick(extremes, or: .max)
        for index in 0..<width { bytes[offset + index] = UInt8(truncatingIfNeeded: number >> UInt64(8 * index)) }
      }
    }
    return (kind, bytes)
  }

  /// Uses a state in all ways in which it is used after reading.
  private static func use(_ contents: JournalState) -> Int {
    var contents = contents
    contents.dropIncompleteGroups()
    var count = 0
    for campaign in contents.campaigns.keys.sorted() {
      let recoveredRuns = contents.recoveredRuns(of: campaign)
      let left = recoveredRuns.map(\.notifications.count).reduce(0, +)
      #expect(left == recoveredRuns.map(\.count).reduce(0, +))
      _ = contents.balance(campaign, recoveredRuns: left)
      let account = contents.campaigns[campaign]?.account ?? Account()
      #expect(account.inFlight == left)
      if let journalled = contents.campaigns[campaign] {
        _ = SettledLines(of: journalled, recoveredRuns: recoveredRuns).contains(.max)
      }
      count += left
    }
    for lane in contents.lanes.values {
      _ = Record.bytes(lane)
      _ = lane.oldestPosition
    }
    _ = contents.oldestPosition
    contents.prune()
    for campaign in contents.campaigns.values {
      let bytes = Record.bytes(campaign)
      #expect(bytes != nil)
    }
    let (first, second) = (contents.takeNumber(), contents.takeNumber())
    #expect(second == first + 1)
    return count
  }

  @Test("random, cut and changed records are errors or values, and the resulting state can be used")
  func anyBytes() throws {
    var (taken, refused, left) = (0, 0, 0)
    for seed in UInt64(1)...150 {
      var random = SeededGenerator(seed: seed)
      var contents = JournalState()
      for position in UInt64(1)...UInt64.random(in: 1...60, using: &random) {
        let record = random.chance(50) ? Self.sound(&random) : Self.mutated(&random)
        guard let record else { continue }
        do {
          try contents.read(random.chance(5) ? .max : position, kind: record.kind, record.bytes)
          taken += 1
        } catch {
          #expect(error is RecordError)
          refused += 1
        }
      }
      left += Self.use(contents)
    }
    // Some records were read and some refused.
    #expect(taken > 1500, "\(taken) \(refused) \(left)")
    #expect(refused > 300, "\(taken) \(refused) \(left)")
    #expect(left > 300, "\(taken) \(refused) \(left)")
  }

  @Test("every prefix of a valid record is an error")
  func prefixes() throws {
    for seed in UInt64(1)...30 {
      var random = SeededGenerator(seed: seed)
      guard let record = Self.sound(&random) else { continue }
      for count in record.bytes.indices {
        var contents = JournalState()
        #expect(throws: RecordError.self, "seed \(seed): \(count) of \(record.bytes.count)") {
          try contents.read(1, kind: record.kind, Array(record.bytes.prefix(count)))
        }
      }
    }
  }

  @Test("the counts of many reasons cannot add up to more than the total")
  func manyRejections() throws {
    let campaign = JournalledCampaign(
      number: 1, group: 1, app: "", payload: 0, expiration: nil, priority: nil, context: [])
    let sound = try #require(Record.bytes(campaign))
    // The number of reasons stands before the mark and the line.
    var bytes = Array(sound.dropLast(28))
    let count = 100_000
    for index in 0..<4 { bytes.append(UInt8(truncatingIfNeeded: count >> (8 * index))) }
    for _ in 0..<count { bytes += [2, 0] + [0, 0, 0, 0, 0, 0, 1, 0] }
    bytes += sound.suffix(24)
    var contents = JournalState()
    do { try contents.read(1, kind: JournalEvent.Kind.campaign.rawValue, bytes) } catch {}
    _ = Self.use(contents)
  }

  // MARK: Going on

  @Test("a journal of changed records is opened or refused, and an opened one can be resumed")
  func goingOn() throws {
    var (opened, refused, sent) = (0, 0, 0)
    for seed in UInt64(1)...120 {
      var random = SeededGenerator(seed: seed)
      let disk = SimulatedDisk()
      let (journal, _) = try Journal.open(disk, runByHand: {}) { _, _, _ in }
      for _ in 0..<Int.random(in: 1...25, using: &random) {
        guard let record = random.chance(85) ? Self.sound(&random) : Self.mutated(&random) else { continue }
        var contents = JournalState()
        // A single invalid record would hide all others.
        guard random.chance(15) || (try? contents.read(1, kind: record.kind, record.bytes)) != nil, record.kind > 0
        else { continue }
        _ = try unsafe journal.append(kind: record.kind, byteCount: record.bytes.count) {
          unsafe $0.copyBytes(from: record.bytes)
        }
      }
      journal.close { _ in }
      _ = journal.run(now: .seconds(1))
      disk.restart()
      do {
        sent += try Self.goOn(disk, seed: seed)
        opened += 1
      } catch {
        #expect(error is JournalProblem)
        refused += 1
      }
    }
    #expect(opened > 30, "\(opened) \(refused) \(sent)")
    #expect(refused > 3, "\(opened) \(refused) \(sent)")
    #expect(sent > 50, "\(opened) \(refused) \(sent)")
  }

  /// Resumes every open campaign through a complete app. Returns how many notifications got their
  /// outcome.
  private static func goOn(_ disk: SimulatedDisk, seed: UInt64) throws -> Int {
    let loop = SimulatedLoop(seed: seed)
    let driver = Mutex<EngineJournal?>(nil)
    @Sendable func runJournal() {
      guard let journal = driver.withLock({ $0 }) else { return }
      let next = journal.run(now: loop.now.since(.start))
      if let next { _ = loop.schedule(at: .start + next) { runJournal() } }
    }
    let (journal, _) = try EngineJournal.open(
      disk, options: EngineJournalOptions(), runByHand: { loop.execute { runJournal() } })
    driver.withLock { $0 = journal }
    loop.execute { runJournal() }
    var configuration = AppRules(id: "app")
    configuration.connections = 1...1
    configuration.policy.onUnknown = [.resend, .hold, .drop][Int(seed % 3)]
    let app = App(configuration: configuration, dialer: DeafDialer(), loops: [loop], seed: seed, journal: journal)
    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    let ended = EndedRuns()
    let campaigns = journal.campaigns.filter { $0.phase == .open }
    for campaign in campaigns {
      let sent = Campaign(
        payload: journal.payload(of: campaign), expiration: campaign.expiration, priority: campaign.priority)
      let run = try CampaignRun(sent, through: app, journalled: campaign.number)
      let tokens = (0..<10).compactMap { TokenBytes(bytes: Array(repeating: $0, count: 32)) }
      _ = Task(executorPreference: loop) {
        try? await run.run(TokenList(tokens, from: run.mark), chunk: AudienceChunk(entryLimit: 3))
        ended.count.withLock { $0 += 1 }
        ended.inFlight.withLock { $0 += run.ledger.account.inFlight }
      }
    }
    let ending = loop.run(limit: .seconds(3600), stepLimit: 1_000_000) {
      ended.count.withLock { $0 } == campaigns.count
    }
    #expect(ending == .done, "seed \(seed): \(ending)")
    #expect(journal.failure == nil)
    #expect(ended.inFlight.withLock { $0 } == 0)
    let report = try EngineJournal.inspect(disk)
    return report.recordCount
  }

  @Test("a mark outside the file, or outside all numbers, is an end or an error")
  func hostileMarks() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "carillon-marks-\(UUID().uuidString)").path(
      percentEncoded: false)
    try "\(Audience.token)\n\(Audience.other)\n".write(toFile: path, atomically: false, encoding: .utf8)
    defer { try? FileManager.default.removeItem(atPath: path) }
    for offset in Self.extremes {
      for line in Self.extremes {
        // A position that a journal's record can contain.
        let position = AudiencePosition(mark: AudienceMark(offset: offset, line: line), readLine: line, submitted: 0)
        let bytes = try #require(Record.bytes(.position(campaign: 1, position)))
        guard
          (try? Record.read(bytes) { try JournalEvent(kind: JournalEvent.Kind.position.rawValue, reading: &$0) }) != nil
        else { continue }
        let chunk = AudienceChunk(entryLimit: 1)
        if let file = try? AudienceFile(path: path, from: position.mark) {
          while (try? file.fill(chunk)) == .entries { #expect(chunk.count == 1) }
        }
        let list = TokenList([TokenBytes(bytes: [1])].compactMap { $0 }, from: position.mark)
        _ = try? list.fill(chunk)
      }
    }
  }
}

private final class EndedRuns: Sendable {
  let count = Mutex(0)
  let inFlight = Mutex(0)
}

/// Dials a peer that accepts everything and never answers.
private struct DeafDialer: Dialer {
  func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link {
    let link = DeafLink(loop: loop, delegate: delegate)
    loop.execute { delegate.linkOpened(link) }
    return link
  }
}

private final class DeafLink: Link {
  private let loop: any Loop
  private let delegate: any LinkDelegate
  private let sent = Atomic<UInt64>(0)

  init(loop: any Loop, delegate: any LinkDelegate) {
    self.loop = loop
    self.delegate = delegate
  }

  var isWritable: Bool { true }
  var isIdle: Bool { true }
  var handedOverByteCount: UInt64 { sent.load(ordering: .relaxed) }
  var unacknowledgedByteCount: Int { 0 }
  func send(_ bytes: UnsafeRawBufferPointer) { sent.add(UInt64(bytes.count), ordering: .relaxed) }
  func close() { loop.execute { self.delegate.linkClosed(self, reason: .byUs) } }
}

extension EngineJournal {
  /// Reads the journal on the disk.
  fileprivate static func inspect(_ disk: SimulatedDisk) throws -> JournalReport {
    var reading = JournalReading()
    let recovery = try Journal.inspect(disk) { reading.read($0, $1, $2) }
    if let problem = reading.problem { throw problem }
    return reading.finish(recovery)
  }
}
