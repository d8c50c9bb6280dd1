internal import PushTransport
internal import Support
internal import Testing

@testable internal import PushEngine
@testable internal import PushWire

/// What a lane enters in the accounts of its campaigns and in the journal.
@Suite struct SettlementRecorderTests {
  @Test(
    "a notification that a cancelled campaign gives back in doubt counts once as a possible duplicate",
    arguments: [true, false])
  func givenBackInDoubt(comesInOrder: Bool) async throws {
    let small = try SmallJournal(SimulatedDisk())
    let (campaign, lane) = try await small.begin(count: 3)
    let loop = SimulatedLoop(seed: 1)
    let shared = AppShared(
      app: "app", loop: loop, rateLimit: nil, status: AppStatus(patience: .seconds(900), planCheck: { _ in }),
      journal: small.journal, starved: {})
    let ledger = try shared.campaigns.begin { number in
      let frames = CampaignFrames(campaign: number, command: .framed, payload: [1], expiration: nil, priority: nil)
      return CampaignLedger(frames: frames, journalNumber: campaign, account: Account(), listener: nil)
    }
    ledger.submitted(3)
    let ring = NotificationRing(blockCount: 256)
    Self.fill(ring, count: 3, campaign: ledger.frames.campaign)
    small.journal.record(.intent(lane: lane, through: 3))
    var recorder = SettlementRecorder(
      configuration: AppRules(id: "app"), ring: ring, loop: loop, shared: shared, journalNumber: lane,
      isInOrder: comesInOrder)
    // The first was resent before; the others were sent once and have no attempts left.
    recorder.markMayHaveArrived(0..<1)
    ledger.cancel()
    recorder.settle([Settlement(from: 0, to: 3, count: 3, campaign: ledger.frames.campaign, outcome: .unknown)])
    #expect(ledger.account.possibleDuplicates == 3)
    #expect(ledger.account.possibleCopies == 1, "only the first one's; resuming counts the next ones")

    for second in 1...3 { small.run(second) }
    let again = try SmallJournal(small.copy())
    let recoveredRuns = again.journal.recoveredRuns(of: campaign)
    #expect(recoveredRuns.map(\.count).reduce(0, +) == 3)
    #expect(recoveredRuns.allSatisfy { $0.fate == .doubted }, "they are counted already")
    #expect(again.journal.campaigns.first?.account.possibleDuplicates == 3)

    // A notification that is in doubt already and is not resent needs no record.
    let written = small.byteCount
    recorder.markMayHaveArrived(0..<3, isSentAgain: false)
    small.run(4)
    #expect(small.byteCount == written)
  }

  private static func fill(_ ring: NotificationRing, count: Int, campaign: UInt32) {
    guard var claim = ring.claim(minimum: count, maximum: count) else { return }
    for line in 1...UInt64(count) {
      let token = [UInt8](repeating: UInt8(line), count: 32)
      let payload = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
      let header = RingRecord.Header(ordinal: line, campaign: campaign)
      _ = unsafe token.withUnsafeBytes { unsafe claim.append(header, token: $0, payload: payload) }
    }
    claim.publish()
  }
}
