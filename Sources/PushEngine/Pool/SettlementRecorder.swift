internal import PushTransport
internal import PushWire

/// Records the outcomes of a lane's notifications, one run at a time: in the campaigns' ledgers, in
/// the journal, and with the observer.
struct SettlementRecorder {
  let observer: (any LaneObserver)?
  private let ring: NotificationRing
  private let loop: any Loop
  private let shared: AppShared
  private let journalNumber: UInt64?
  private let onUnknown: LanePolicy.OnUnknown
  /// Outcomes come in the order of the ring. Then a record is a watermark: everything before it has
  /// left the ring too, so padding between runs does not matter. Otherwise a record says nothing
  /// about earlier positions.
  private let isInOrder: Bool
  /// The ledger that was used last.
  private(set) var ledger: CampaignLedger?

  init(
    configuration: AppRules, ring: NotificationRing, loop: any Loop, shared: AppShared, journalNumber: UInt64?,
    isInOrder: Bool
  ) {
    (self.ring, self.loop, self.shared) = (ring, loop, shared)
    (self.journalNumber, self.isInOrder) = (journalNumber, isInOrder)
    observer = configuration.observer
    onUnknown = configuration.policy.onUnknown
  }

  /// A campaign stays known until all its notifications have left the rings.
  mutating func ledger(of campaign: UInt32) -> CampaignLedger {
    if let ledger, ledger.frames.campaign == campaign { return ledger }
    guard let found = shared.campaigns[campaign] else {
      preconditionFailure("a notification of a campaign that was forgotten")
    }
    ledger = found
    return found
  }

  /// `count` notifications of the campaign were sent once more.
  func resent(_ count: Int, of ledger: CampaignLedger) {
    ledger.resent(count)
    if let number = ledger.journalNumber { shared.journal?.record(.resent(campaign: number, count: count)) }
  }

  /// Listed first, then journaled, then counted. After a crash the list may contain too much, which
  /// the journal shows, but never too little.
  ///
  /// - Parameter goneSince: by position, the time that a 410 gave; see ``OutcomeListener``.
  mutating func settle(_ settlements: [Settlement], goneSince: [UInt64: UInt64] = [:]) {
    for settlement in settlements where settlement.count > 0 {
      ledger(of: settlement.campaign).report(settlement, ring: ring, goneSince: goneSince)
    }
    journal(settlements)
    if let observer {
      for settlement in settlements where settlement.count > 0 {
        observer.settled(settlement, ring: ring, now: loop.now)
      }
    }
    for settlement in settlements where settlement.count > 0 {
      ledger(of: settlement.campaign).settled(settlement.count, settlement.outcome)
    }
  }

  /// Runs of one campaign with one outcome become one record, if one record can hold both.
  private mutating func journal(_ settlements: [Settlement]) {
    guard let journal = shared.journal, let journalNumber else { return }
    var joined: Settlement?
    for settlement in settlements where settlement.count > 0 {
      if let before = joined, before.campaign == settlement.campaign, before.outcome == settlement.outcome,
        isInOrder || before.to == settlement.from
      {
        joined?.to = settlement.to
        joined?.count += settlement.count
      } else {
        if let before = joined { write(before, to: journal, lane: journalNumber) }
        joined = settlement
      }
    }
    if let joined { write(joined, to: journal, lane: journalNumber) }
  }

  private mutating func write(_ settlement: Settlement, to journal: EngineJournal, lane: UInt64) {
    let ledger = ledger(of: settlement.campaign)
    guard let campaign = ledger.journalNumber else { return }
    let run = JournalledRun(
      lane: lane, range: settlement.from..<settlement.to, campaign: campaign, count: settlement.count)
    switch settlement.outcome {
    case .cancelled where !ledger.isAbandoned: journal.record(unsent(run, isInDoubt: false))
    case .unknown where ledger.isCancelled && !ledger.isAbandoned && onUnknown == .resend:
      // The campaign was stopped, so the process that resumes it sends these again. That process
      // counts the copies, but no possible duplicates, so they are counted here.
      markMayHaveArrived(run.range, isSentAgain: false)
      journal.record(unsent(run, isInDoubt: true))
    default: journal.record(isInOrder ? .settled(run, settlement.outcome) : .answered(run, settlement.outcome))
    }
  }

  /// The run was not sent and will be sent when the campaign resumes.
  private func unsent(_ run: JournalledRun, isInDoubt: Bool) -> JournalEvent {
    isInOrder ? .returned(run, isInDoubt: isInDoubt) : .withdrawn(run, isInDoubt: isInDoubt)
  }

  /// All of `range` was sent, may have arrived, and will be sent again. Counts each notification
  /// once as a possible duplicate, and each time as a possible copy.
  ///
  /// - Parameter isSentAgain: this process sends them again. Otherwise no copy is counted.
  mutating func markMayHaveArrived(_ range: Range<UInt64>, isSentAgain: Bool = true) {
    var counts: [UInt32: (new: Int, all: Int)] = [:]
    var lines: [UInt32: [UInt64]] = [:]
    ring.forEachNotification(from: range.lowerBound, to: range.upperBound) { _, record in
      if isSentAgain {
        counts[record.campaign, default: (0, 0)].all += 1
        lines[record.campaign, default: []].append(record.ordinal)
      }
      guard !record.mayHaveArrived else { return }
      record.mayHaveArrived = true
      counts[record.campaign, default: (0, 0)].new += 1
    }
    for (campaign, count) in counts.sorted(by: { $0.key < $1.key }) where count != (0, 0) {
      let ledger = ledger(of: campaign)
      ledger.mayHaveArrivedTwice(count.new, copies: count.all)
      ledger.reportDoubt(lines: lines[campaign, default: []])
      if let lane = journalNumber, let number = ledger.journalNumber {
        let run = JournalledRun(lane: lane, range: range, campaign: number, count: count.new)
        shared.journal?.record(.doubted(run, copies: count.all))
      }
    }
  }
}
