internal import PushWire
internal import Support
internal import Testing

@testable internal import PushEngine
@testable internal import PushJournal

/// The state read from a journal with missing records, when damage is skipped.
@Suite struct DamagedStateTests {
  private let damage = JournalDamage(segment: "segment-000000000001.lz4", offset: 7, problem: .noFrame)

  private func campaign(_ number: UInt64, groupCount: Int = 1) -> JournalledCampaign {
    JournalledCampaign(
      number: number, group: 1, groupCount: groupCount, app: "app", payload: 2, expiration: nil, priority: nil,
      context: [])
  }

  private func enqueue(_ lane: UInt64, _ campaign: UInt64, from start: UInt64, count: Int) throws -> [UInt8] {
    let notifications = (0..<count).map {
      TestNotification(line: start + UInt64($0) + 1, token: Array(repeating: 1, count: 32))
    }
    let submitted = Int(start) + count
    let header = EnqueueHeader(
      run: JournalledRun(lane: lane, range: start..<(start + UInt64(count)), campaign: campaign, count: count),
      position: AudiencePosition(
        mark: AudienceMark(offset: 0, line: 1), readLine: UInt64(submitted), submitted: submitted))
    return try #require(Record.bytes(header, TestSource(notifications: notifications)))
  }

  private func read(
    _ records: [(kind: UInt8, bytes: [UInt8])], isDamaged: Bool = true
  ) throws -> (contents: JournalState, report: JournalReport) {
    var reading = JournalReading()
    for (index, record) in records.enumerated() {
      unsafe withExactBytes(record.bytes) {
        reading.read(JournalPosition(rawValue: UInt64(index) + 1), record.kind, unsafe Span(_unsafeBytes: $0))
      }
    }
    if let problem = reading.problem { throw problem }
    var recovery = JournalRecovery()
    if isDamaged { recovery.damage = [damage] }
    let report = reading.finish(recovery)
    return (reading.contents, report)
  }

  private func event(_ event: JournalEvent) throws -> (kind: UInt8, bytes: [UInt8]) {
    (event.kind.rawValue, try #require(Record.bytes(event)))
  }

  @Test(
    "a campaign that has sent something is kept when another of its group is lost; an incomplete group has not begun")
  func lostCampaign() throws {
    let record = try #require(Record.bytes(campaign(3, groupCount: 2)))
    let begun = try read([
      (JournalEvent.Kind.campaign.rawValue, record), try event(.laneBegan(lane: 5, app: "app")),
      (JournalEvent.Kind.enqueue.rawValue, try enqueue(5, 3, from: 0, count: 4)),
    ])
    #expect(begun.report.campaigns.map(\.campaign.number) == [3])
    #expect(begun.report.campaigns.first?.unsettled == 4)
    #expect(try read([(JournalEvent.Kind.campaign.rawValue, record)], isDamaged: false).report.campaigns.isEmpty)
  }

  @Test("notifications of a campaign whose record is lost are counted")
  func stray() throws {
    let found = try read([
      try event(.laneBegan(lane: 5, app: "app")),
      (JournalEvent.Kind.enqueue.rawValue, try enqueue(5, 3, from: 0, count: 4)),
    ])
    #expect(found.report.campaigns.isEmpty)
    #expect(found.report.strayCount == 4)
  }

  @Test("a campaign number that only enqueue records name is not used again")
  func numbers() throws {
    var (contents, _) = try read([(JournalEvent.Kind.enqueue.rawValue, try enqueue(9, 7, from: 0, count: 4))])
    #expect(contents.takeNumber() == 10)
    (contents, _) = try read([(JournalEvent.Kind.enqueue.rawValue, try enqueue(7, 9, from: 0, count: 4))])
    #expect(contents.takeNumber() == 10)
  }

  @Test("with missing records nothing counts as unsent for certain, also after the next checkpoint")
  func distrust() throws {
    let records = [
      (JournalEvent.Kind.campaign.rawValue, try #require(Record.bytes(campaign(3)))),
      try event(.laneBegan(lane: 5, app: "app")),
      (JournalEvent.Kind.enqueue.rawValue, try enqueue(5, 3, from: 0, count: 9)),
      try event(.intent(lane: 5, through: 6)),
      try event(.returned(JournalledRun(lane: 5, range: 0..<2, campaign: 3, count: 2), isInDoubt: false)),
      try event(.returned(JournalledRun(lane: 5, range: 2..<4, campaign: 3, count: 2), isInDoubt: true)),
    ]
    func fates(_ contents: JournalState) -> [RecoveredRun.Fate] {
      contents.recoveredRuns(of: 3).flatMap { Array(repeating: $0.fate, count: $0.count) }
    }
    let whole = try read(records, isDamaged: false)
    #expect(
      fates(whole.contents) == [.unsent, .unsent, .doubted, .doubted, .unknown, .unknown, .unsent, .unsent, .unsent])
    let damaged = try read(records)
    let expected: [RecoveredRun.Fate] = [.unknown, .unknown, .doubted, .doubted] + Array(repeating: .unknown, count: 5)
    #expect(fates(damaged.contents) == expected)
    #expect(damaged.report.campaigns.first?.unsent == 0)
    #expect(damaged.report.campaigns.first?.unknown == 9)
    let lane = try #require(damaged.contents.lanes[5])
    let again = try read(
      records + [(JournalEvent.Kind.lane.rawValue, try #require(Record.bytes(lane)))], isDamaged: false)
    #expect(fates(again.contents) == expected)
  }

  @Test("missing outcomes count as unknown; outcomes of unknown notifications as submitted and possible duplicates")
  func balance() throws {
    let record = (JournalEvent.Kind.campaign.rawValue, try #require(Record.bytes(campaign(3))))
    func settled(_ range: Range<UInt64>) throws -> (kind: UInt8, bytes: [UInt8]) {
      try event(.settled(JournalledRun(lane: 5, range: range, campaign: 3, count: range.count), .accepted(.confirmed)))
    }
    // The first four and their outcomes are lost.
    let lost = try read([
      record, (JournalEvent.Kind.enqueue.rawValue, try enqueue(5, 3, from: 4, count: 4)), try settled(4..<6),
    ])
    let state = try #require(lost.report.campaigns.first)
    #expect(
      (state.lost, state.unsettled, state.campaign.account.unknown, state.campaign.account.inFlight) == (4, 2, 4, 2))
    #expect(lost.contents.campaigns[3] == state.campaign)
    // The enqueue record is lost but not the outcome, so the notifications will be read again.
    let unread = try read([
      record, (JournalEvent.Kind.enqueue.rawValue, try enqueue(5, 3, from: 0, count: 4)), try settled(0..<4),
      try settled(4..<7),
    ])
    let other = try #require(unread.report.campaigns.first)
    #expect(
      (other.lost, other.unsettled, other.campaign.account.submitted, other.campaign.account.possibleDuplicates) == (
        0, 0, 7, 3
      ))
    #expect(other.campaign.account.possibleCopies == 3)
    #expect(other.campaign.readLine == 4)
  }
}
