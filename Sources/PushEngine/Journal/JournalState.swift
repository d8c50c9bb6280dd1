internal import PushJournal
internal import PushWire

/// The state that the records of a journal describe: every campaign with its account, and for every
/// lane what it has taken in, may have sent, and has settled.
///
/// Writers and readers of the journal apply the same records in the same order to this value. So a
/// new process knows what the old one knew, up to the last durable record.
struct JournalState {
  private(set) var campaigns: [UInt64: JournalledCampaign] = [:]
  /// The distinct payloads of campaigns, by number.
  private(set) var payloads: [UInt64: [UInt8]] = [:]
  private(set) var lanes: [UInt64: JournalledLane] = [:]
  /// The next number for a campaign, group, lane or payload: they share one sequence.
  private(set) var nextNumber: UInt64 = 1
  /// Only tests set it.
  var plantedMistake: EngineJournalOptions.PlantedMistake?

  mutating func takeNumber() -> UInt64 {
    defer { nextNumber += 1 }
    return nextNumber
  }

  /// No journal comes near the end of the numbers, so such a number is corrupt.
  private mutating func noteNumber(_ number: UInt64) {
    if number < 1 << 62 { nextNumber = max(nextNumber, number + 1) }
  }

  // MARK: Records

  mutating func define(payload: [UInt8], as number: UInt64) {
    noteNumber(number)
    payloads[number] = payload
  }

  mutating func put(_ campaign: JournalledCampaign) {
    noteNumber(max(campaign.number, campaign.group))
    campaigns[campaign.number] = campaign
  }

  mutating func put(_ lane: JournalledLane) {
    noteNumber(lane.number)
    lanes[lane.number] = lane
  }

  mutating func apply(_ event: JournalEvent) {
    switch event {
    case .laneBegan(let number, let app):
      noteNumber(number)
      lanes[number] = JournalledLane(number: number, app: app)
    case .intent(let number, let through): lanes[number]?.intended(through: through)
    case .rewound(let number, let position):
      lanes[number]?.rewound(to: position, clearsDoubt: plantedMistake == .rewindClearsDoubt)
    case .settled(let run, let outcome):
      campaigns[run.campaign]?.account.count(outcome, run.count)
      lanes[run.lane]?.settled(run)
    case .returned(let run, let isInDoubt): lanes[run.lane]?.returned(run, isInDoubt: isInDoubt)
    case .answered(let run, let outcome):
      campaigns[run.campaign]?.account.count(outcome, run.count)
      lanes[run.lane]?.answered(run)
    case .withdrawn(let run, let isInDoubt): lanes[run.lane]?.withdrawn(run, isInDoubt: isInDoubt)
    case .doubted(let run, let copies):
      campaigns[run.campaign]?.account.possibleDuplicates += run.count
      campaigns[run.campaign]?.account.possibleCopies += copies
      lanes[run.lane]?.doubted(run)
    case .resolved(let run, let outcome):
      campaigns[run.campaign]?.account.count(outcome, run.count)
      lanes[run.lane]?.took(campaign: run.campaign, through: run.range.upperBound)
    case .resent(let campaign, let count):
      campaigns[campaign]?.account.resent += count
    case .position(let campaign, let position):
      campaigns[campaign]?.move(to: position)
    case .numbersTaken(let number):
      if number > 0 { noteNumber(number - 1) }
    case .ended(let campaign):
      campaigns[campaign]?.phase = .ended
    }
  }

  /// - Parameter content: nil if the lane has it in memory.
  mutating func apply(_ header: EnqueueHeader, at position: JournalPosition, content: EnqueueContent?) {
    let run = header.run
    // If damage has taken the records of the lane and the campaign, their numbers must still not be
    // used again.
    noteNumber(run.lane)
    noteNumber(run.campaign)
    if let read = header.position { campaigns[run.campaign]?.move(to: read) }
    if let source = header.source, header.isMoved {
      lanes[source.lane]?.moved(source.range)
    } else if let source = header.source {
      lanes[source.lane]?.took(campaign: run.campaign, through: source.range.upperBound)
      campaigns[run.campaign]?.account.possibleDuplicates += source.newlyDoubted
      // Each process that sends it again may add a copy.
      if header.isInDoubt { campaigns[run.campaign]?.account.possibleCopies += run.count }
    }
    let entry = JournalledLane.Run(run: run, position: position, isInDoubt: header.isInDoubt, content: content)
    lanes[run.lane, default: JournalledLane(number: run.lane, app: "")].enqueued(entry, isRewritten: header.isRewritten)
  }

  mutating func make(lane number: UInt64, live isLive: Bool) { lanes[number]?.isLive = isLive }

  // MARK: Forgetting

  mutating func remove(where isGone: (JournalledCampaign) -> Bool) {
    campaigns = campaigns.filter { !isGone($0.value) }
  }

  func isGroupEnded(_ group: UInt64) -> Bool { campaigns.values.allSatisfy { $0.group != group || $0.phase == .ended } }

  /// The groups that have ended.
  var endedGroups: Set<UInt64> { Set(Set(campaigns.values.map(\.group)).filter(isGroupEnded)) }

  /// Forgets what is no longer needed: campaigns whose whole group has ended, and empty lanes of
  /// other processes.
  ///
  /// - Parameter kept: groups whose accounts may still be requested.
  mutating func prune(keeping kept: Set<UInt64> = []) {
    let ended = endedGroups.subtracting(kept)
    campaigns = campaigns.filter { !ended.contains($0.value.group) }
    let known = campaigns
    for number in lanes.keys { lanes[number]?.prune { known[$0]?.phase != .open } }
    lanes = lanes.filter { $0.value.isLive || !$0.value.isEmpty }
    let used = Set(campaigns.values.map(\.payload))
    payloads = payloads.filter { used.contains($0.key) }
  }

  /// An estimate of the bytes that unsettled notifications take in records.
  var unsettledByteCount: Int { lanes.values.reduce(0) { $0 + $1.unsettledByteCount } }

  /// The oldest enqueue record that is still needed.
  var oldestPosition: JournalPosition? { lanes.values.compactMap(\.oldestPosition).min() }

  /// See ``JournalledLane/distrust()``.
  mutating func distrust() {
    for number in lanes.keys { lanes[number]?.distrust() }
  }

  // MARK: What is left

  /// Notifications without an outcome whose campaigns are not known.
  var strayCount: Int {
    lanes.values.flatMap { lane in lane.campaigns.filter { campaigns[$0] == nil }.flatMap { lane.recoveredRuns(of: $0) }
    }.map(\.count).reduce(0, +)
  }

  /// The notifications that earlier processes left without an outcome. Each lane's come in the
  /// order of its ring.
  func recoveredRuns(of campaign: UInt64) -> [RecoveredRun] {
    lanes.values.filter { !$0.isLive }.sorted { $0.number < $1.number }.flatMap { $0.recoveredRuns(of: campaign) }
  }

  /// What earlier processes left of the campaign, where it lacks tokens.
  func contentsWithoutTokens(of campaign: UInt64) -> [EnqueueContent] {
    lanes.values.flatMap { $0.contentsWithoutTokens(of: campaign) }
  }

  mutating func replaceContents(of campaign: UInt64, _ contents: [EnqueueContent: EnqueueContent]) {
    for number in lanes.keys { lanes[number]?.replaceContents(of: campaign, contents) }
  }
}

extension JournalledCampaign {
  fileprivate mutating func move(to position: AudiencePosition) {
    mark = position.mark
    readLine = position.readLine
    account.submitted = position.submitted
    for (reason, count) in position.rejected { account.count(.rejected(reason), count) }
    account.count(position.withheld)
  }
}

// MARK: - Reading

extension JournalState {
  /// Applies one record of a journal.
  mutating func read(_ position: JournalPosition, kind: UInt8, _ bytes: Span<UInt8>) throws(RecordError) {
    var record = RecordReader(bytes)
    switch JournalEvent.Kind(rawValue: kind) {
    case .payload:
      let number = try record.read(UInt64.self)
      define(payload: try record.readBytes(), as: number)
    case .campaign: put(try JournalledCampaign(reading: &record))
    case .lane:
      let lane = try LaneRecord(reading: &record)
      put(JournalledLane(lane, runsOf: lanes[lane.number]))
    case .enqueue:
      let header = try EnqueueHeader(reading: &record)
      apply(header, at: position, content: try EnqueueContent(reading: &record, run: header.run))
    default: apply(try JournalEvent(kind: kind, reading: &record))
    }
    try record.finish()
  }
}
