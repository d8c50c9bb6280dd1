internal import PushJournal
internal import PushWire

/// What was found in a journal's directory.
package struct JournalReport: Hashable, Sendable {
  package struct Segment: Hashable, Sendable {
    package let name: String
    package let byteCount: Int
    package let recordCount: Int
  }

  /// One campaign and its notifications without an outcome.
  package struct CampaignState: Hashable, Sendable {
    package internal(set) var campaign: JournalledCampaign
    package let payloadByteCount: Int
    /// Notifications that were taken in and have certainly not arrived.
    package var unsent = 0
    /// Notifications that may have arrived or not.
    package var unknown = 0
    /// Notifications whose records are damaged. The account counts them as unknown.
    package var lost = 0

    package var unsettled: Int { unsent + unknown }
  }

  package internal(set) var segments: [Segment] = []
  package internal(set) var recordCount = 0
  package internal(set) var campaigns: [CampaignState] = []
  /// The half-written end that a crash left, in a sentence; nil if there is none.
  package internal(set) var tornTail: String?
  /// Every place that a crash does not explain: segment, offset and reason.
  package internal(set) var damage: [String] = []
  /// Notifications without an outcome whose campaigns are not known, because the campaigns' records
  /// are damaged.
  package internal(set) var strayCount = 0
  package internal(set) var lostByteCount = 0
  package internal(set) var lostRecordCount = 0
  /// Whether its last owner closed it.
  package internal(set) var isClosed = false
  /// Whether the last owner that wrote anything closed it.
  package internal(set) var recordsAreClosed = false

  package var byteCount: Int { segments.map(\.byteCount).reduce(0, +) }
  /// Campaigns that can be resumed.
  package var unfinished: [CampaignState] { campaigns.filter { $0.campaign.phase == .open } }
}

/// Reads the records of a journal one after another.
struct JournalReading {
  private(set) var contents = JournalState()
  /// The first record that this program does not write.
  private(set) var problem: JournalProblem?

  init(plantedMistake: EngineJournalOptions.PlantedMistake? = nil) { contents.plantedMistake = plantedMistake }

  mutating func read(_ position: JournalPosition, _ kind: UInt8, _ bytes: Span<UInt8>) {
    guard problem == nil else { return }
    do throws(RecordError) {
      try contents.read(position, kind: kind, bytes)
    } catch {
      problem = JournalProblem(
        kind: .damaged,
        "the journal's record \(position) is none that this program writes (kind \(kind), \(error.reason))")
    }
  }

  /// Completes the state after the last record.
  mutating func finish(_ recovery: JournalRecovery) -> JournalReport {
    var report = JournalReport(recovery)
    contents.dropIncompleteGroups()
    if !recovery.damage.isEmpty {
      contents.distrust()
      report.strayCount = contents.strayCount
    }
    for campaign in contents.campaigns.values.sorted(by: { $0.number < $1.number }) {
      var state = JournalReport.CampaignState(
        campaign: campaign, payloadByteCount: contents.payloads[campaign.payload]?.count ?? 0)
      for recovered in contents.recoveredRuns(of: campaign.number) {
        if recovered.fate == .unsent { state.unsent += recovered.count } else { state.unknown += recovered.count }
      }
      state.lost = contents.balance(campaign.number, recoveredRuns: state.unsettled)
      state.campaign = contents.campaigns[campaign.number] ?? campaign
      report.campaigns.append(state)
    }
    return report
  }
}

extension JournalReport {
  fileprivate init(_ recovery: JournalRecovery) {
    segments = recovery.segments.map { Segment(name: $0.name, byteCount: $0.byteCount, recordCount: $0.records.count) }
    recordCount = recovery.recordCount
    damage = recovery.damage.map { "\($0)" }
    lostByteCount = recovery.lostByteCount
    lostRecordCount = Int(clamping: recovery.lostRecordCount)
    isClosed = recovery.isClosed
    recordsAreClosed = recovery.recordsAreClosed
    if let tail = recovery.tornTail {
      tornTail = "\(tail.segment) ends in \(tail.byteCount) half-written bytes behind byte \(tail.offset)"
    }
  }
}

extension JournalState {
  /// Removes incomplete groups. A group that was not written completely was never begun: its
  /// campaigns have sent nothing. If one of its campaigns has sent something, the missing campaign
  /// is lost to damage, and the group stays.
  mutating func dropIncompleteGroups() {
    var counts: [UInt64: Int] = [:]
    var begun: Set<UInt64> = []
    for campaign in campaigns.values {
      counts[campaign.group, default: 0] += 1
      if campaign.readLine > 0 || campaign.account != Account() { begun.insert(campaign.group) }
    }
    remove(where: { counts[$0.group] != $0.groupCount && !begun.contains($0.group) })
  }

  /// Makes the account match the recovered notifications. Returns how many are missing: they count
  /// as unknown.
  mutating func balance(_ number: UInt64, recoveredRuns: Int) -> Int {
    guard var campaign = campaigns[number] else { return 0 }
    let missing = campaign.account.inFlight - recoveredRuns
    if missing > 0 { campaign.account.count(.unknown, missing) }
    // The record of the submitted count is damaged.
    if missing < 0 {
      campaign.account.submitted -= missing
      // These lie behind the line at which reading continues, so they are read and sent again.
      campaign.account.possibleDuplicates -= missing
      campaign.account.possibleCopies -= missing
    }
    if missing != 0 { put(campaign) }
    return max(0, missing)
  }
}

extension RecordError {
  fileprivate var reason: String {
    switch self {
    case .tooShort: "too short"
    case .tooLong: "too long"
    case .outOfRange: "a value out of its range"
    case .unknownKind: "an unknown kind"
    }
  }
}
