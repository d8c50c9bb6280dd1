internal import PushWire
internal import Support

@testable internal import PushEngine

/// What a journal must know, notification by notification, without runs, records or segments. The
/// shadow model of ``JournalState``.
struct JournalModel {
  struct Entry {
    enum State: Hashable {
      case inRing
      /// It has its outcome, or has moved to another lane.
      case gone
      case returned(isInDoubt: Bool)
    }

    var start: UInt64
    var campaign: UInt64
    var notification: TestNotification
    /// It counts as a possible duplicate.
    var isDoubted: Bool
    var state = State.inRing

    var end: UInt64 { start + notification.blockCount }
  }

  struct Lane {
    var number: UInt64
    var isLive = true
    /// Where the next claim begins.
    var end: UInt64 = 0
    var settled: UInt64 = 0
    var intent: UInt64 = 0
    var entries: [Entry] = []

    /// The positions at which an intent, a doubt or an outcome may end.
    var boundaries: [UInt64] { entries.map(\.end) }
    var ringEntries: [Entry] { entries.filter { $0.state == .inRing } }
    /// Its outcomes come in any order.
    var isApart: Bool { number % 2 == 1 }
    /// The entries that its ring holds. They include settled ones after an unsettled one.
    var heldEntries: [Entry] { isApart ? entries.filter { $0.start >= settled } : ringEntries }
  }

  /// A notification without an outcome.
  struct Left: Hashable, CustomStringConvertible {
    var lane: UInt64
    var start: UInt64
    var fate: RecoveredRun.Fate
    var notification: TestNotification

    var description: String { "\(lane)/\(start) \(fate), line \(notification.line)" }
  }

  var campaigns: [UInt64: JournalledCampaign] = [:]
  var payloads: [UInt64: [UInt8]] = [:]
  var lanes: [UInt64: Lane] = [:]

  // MARK: What happens

  mutating func apply(_ event: JournalEvent) {
    switch event {
    case .laneBegan(let number, _): lanes[number] = Lane(number: number)
    case .intent(let lane, let through): lanes[lane]?.intent = through
    case .rewound(let number, let position):
      if let lane = lanes[number] { lanes[number]?.intent = min(lane.intent, position) }
    case .settled(let run, let outcome):
      campaigns[run.campaign]?.account.count(outcome, run.count)
      leave(run, .gone)
    case .returned(let run, let isInDoubt): leave(run, .returned(isInDoubt: isInDoubt))
    case .answered(let run, let outcome):
      campaigns[run.campaign]?.account.count(outcome, run.count)
      leaveApart(run, .gone)
    case .withdrawn(let run, let isInDoubt): leaveApart(run, .returned(isInDoubt: isInDoubt))
    case .doubted(let run, let copies):
      campaigns[run.campaign]?.account.possibleDuplicates += run.count
      campaigns[run.campaign]?.account.possibleCopies += copies
      change(run) { $0.isDoubted = true }
    case .resolved(let run, let outcome):
      campaigns[run.campaign]?.account.count(outcome, run.count)
      change(run) { $0.state = .gone }
    case .resent(let campaign, let count): campaigns[campaign]?.account.resent += count
    case .position(let campaign, let position): move(campaign, to: position)
    case .numbersTaken: break
    case .ended(let campaign): campaigns[campaign]?.phase = .ended
    }
  }

  private mutating func leave(_ run: JournalledRun, _ state: Entry.State) {
    change(run) { $0.state = state }
    lanes[run.lane]?.settled = run.range.upperBound
  }

  private mutating func leaveApart(_ run: JournalledRun, _ state: Entry.State) {
    change(run) { $0.state = state }
    guard let lane = lanes[run.lane] else { return }
    lanes[run.lane]?.settled = lane.ringEntries.first?.start ?? lane.end
  }

  private mutating func change(_ run: JournalledRun, _ body: (inout Entry) -> Void) {
    guard var lane = lanes[run.lane] else { return }
    for index in lane.entries.indices
    where lane.entries[index].campaign == run.campaign && run.range.contains(lane.entries[index].start) {
      body(&lane.entries[index])
    }
    lanes[run.lane] = lane
  }

  mutating func apply(_ header: EnqueueHeader, _ notifications: [TestNotification]) {
    if let position = header.position { move(header.run.campaign, to: position) }
    if let source = header.source {
      campaigns[header.run.campaign]?.account.possibleDuplicates += source.newlyDoubted
      if header.isInDoubt { campaigns[header.run.campaign]?.account.possibleCopies += notifications.count }
      change(JournalledRun(lane: source.lane, range: source.range, campaign: header.run.campaign, count: 0)) {
        $0.state = .gone
      }
    }
    var start = header.run.range.lowerBound
    for notification in notifications {
      lanes[header.run.lane]?.entries.append(
        Entry(start: start, campaign: header.run.campaign, notification: notification, isDoubted: header.isInDoubt))
      start += notification.blockCount
    }
    guard let end = lanes[header.run.lane]?.end else { return }
    lanes[header.run.lane]?.end = max(end, start)
    // The second of two claims may be written first.
    if end > start { lanes[header.run.lane]?.entries.sort { $0.start < $1.start } }
  }

  private mutating func move(_ number: UInt64, to position: AudiencePosition) {
    guard var campaign = campaigns[number] else { return }
    (campaign.mark, campaign.readLine, campaign.account.submitted) = (
      position.mark, position.readLine, position.submitted
    )
    for (reason, count) in position.rejected { campaign.account.count(.rejected(reason), count) }
    campaign.account.count(position.withheld)
    campaigns[number] = campaign
  }

  /// The process has ended.
  mutating func endLife() {
    for number in lanes.keys { lanes[number]?.isLive = false }
  }

  // MARK: What is left

  func isForgettable(_ campaign: JournalledCampaign) -> Bool {
    campaigns.values.allSatisfy { $0.group != campaign.group || $0.phase == .ended }
  }

  /// Grouped by lane, in the order of its ring.
  func left(of campaign: UInt64, isLive: Bool = false) -> [Left] {
    lanes.values.filter { $0.isLive == isLive }.sorted { $0.number < $1.number }.flatMap { lane in
      lane.entries.compactMap { entry in
        guard entry.campaign == campaign, let fate = fate(of: entry, in: lane) else { return nil }
        return Left(lane: lane.number, start: entry.start, fate: fate, notification: entry.notification)
      }
    }
  }

  private func fate(of entry: Entry, in lane: Lane) -> RecoveredRun.Fate? {
    switch entry.state {
    case .gone: nil
    case .returned(let isInDoubt): isInDoubt ? .doubted : .unsent
    case .inRing where entry.isDoubted: .doubted
    case .inRing: entry.start < lane.intent ? .unknown : .unsent
    }
  }

  /// The differences between a journal and the model, in sentences, when all lanes belong to an
  /// earlier process.
  func differences(from journal: EngineJournal, _ report: JournalReport? = nil) -> [String] {
    var found: [String] = []
    let known = Dictionary(uniqueKeysWithValues: journal.campaigns.map { ($0.number, $0) })
    for campaign in campaigns.values where known[campaign.number] == nil && !isForgettable(campaign) {
      found.append("campaign \(campaign.number) is gone")
    }
    for (number, campaign) in known {
      guard let expected = campaigns[number] else {
        found.append("campaign \(number) was never begun")
        continue
      }
      if campaign != expected {
        found.append(
          "campaign \(number) differs: \(Self.fields(campaign).filter { !Self.fields(expected).contains($0) })")
      }
      if !isForgettable(expected), journal.payload(of: campaign) != payloads[number] {
        found.append("campaign \(number) has another payload")
      }
      let expectedLeft = left(of: number)
      let actual = journal.recoveredRuns(of: number).flatMap(Self.left)
      if campaign.phase == .open, actual != expectedLeft {
        let (lacking, excess) = (
          expectedLeft.filter { !actual.contains($0) }, actual.filter { !expectedLeft.contains($0) }
        )
        let again = Dictionary(grouping: actual, by: \.notification.line).filter { $0.value.count > 1 }.keys.sorted()
        found.append(
          "campaign \(number) has \(actual.count) left, not \(expectedLeft.count): "
            + "missing \(lacking), extra \(excess), twice lines \(again)")
      }
      if let state = report?.campaigns.first(where: { $0.campaign.number == number }), campaign.phase == .open {
        let unsent = expectedLeft.count { $0.fate == .unsent }
        if (state.unsent, state.unknown, state.lost) != (unsent, expectedLeft.count - unsent, 0) {
          found.append("campaign \(number) is reported as \(state)")
        }
      }
    }
    return found
  }

  private static func fields(_ campaign: JournalledCampaign) -> [String] {
    let parts = Mirror(reflecting: campaign).children.map { $0 } + Mirror(reflecting: campaign.account).children
    return parts.filter { !($0.value is Account) }.map { "\($0.label ?? ""): \($0.value)" }
  }

  static func left(_ recovered: RecoveredRun) -> [Left] {
    var start = recovered.range.lowerBound
    return recovered.notifications.map { notification in
      defer { start += notification.blockCount }
      return Left(lane: recovered.lane, start: start, fate: recovered.fate, notification: notification)
    }
  }
}
