internal import PushStore

/// What the store of a simulated service has on disk. It outlasts processes.
struct StoreContents: Sendable {
  struct PartKey: Hashable {
    var campaign: StoredUUID
    var number: Int
  }

  struct FrameKey: Hashable {
    var app: String
    var client: String
    var position: Int64
  }

  struct Run {
    var app: String
    var endedAt: StoreInstant?
  }

  var campaigns: [StoredUUID: StoredCampaign] = [:]
  var parts: [StoredUUID: [StoredCampaignPart]] = [:]
  /// In the order of their keys, all of one app.
  var devices: [AudienceDevice] = []
  /// The time zones of devices, by key.
  var zones: [Int64: String] = [:]
  var members: [StoredUUID: [MemberPiece]] = [:]
  var runs: [StoredRunID: Run] = [:]
  var outcomes: [StoredNotificationID: (state: String, detail: String)] = [:]
  /// How many copies of notifications may have arrived.
  var copies: [StoredNotificationID: Int] = [:]
  var frames: [FrameKey: ForwardedFrames] = [:]
  var ends: [UInt64: EndedConnection] = [:]
  var alreadyDelivered = 0
  var bridgeLivedAt: StoreInstant?
  /// What no store may ever be asked.
  var problems: [String] = []

  // MARK: Campaigns

  /// - Returns: false if it was changed since the version was read.
  mutating func update(_ campaign: StoredCampaign, from version: Int64) -> Bool {
    guard campaigns[campaign.id]?.version == version else { return false }
    var next = campaign
    next.version = version + 1
    next.cutKey = campaigns[campaign.id]?.cutKey ?? 0
    next.planByteCount = campaign.content.count
    campaigns[campaign.id] = next
    return true
  }

  mutating func add(_ new: [StoredCampaignPart], of campaign: StoredUUID) {
    var all = parts[campaign] ?? []
    for part in new where !all.contains(where: { $0.number == part.number }) { all.append(part) }
    parts[campaign] = all.sorted { $0.number < $1.number }
  }

  mutating func change(_ number: Int, of campaign: StoredUUID, _ body: (inout StoredCampaignPart) -> Void) {
    guard let index = parts[campaign]?.firstIndex(where: { $0.number == number }), var all = parts[campaign] else {
      problems.append("there is no part \(number)")
      return
    }
    body(&all[index])
    parts[campaign] = all
  }

  mutating func end(_ ended: [EndedCampaignPart]) {
    for end in ended {
      change(end.number, of: end.campaign) { ($0.account, $0.endedAt) = (end.account, end.endedAt) }
    }
  }

  func progress(of campaign: StoredUUID) -> [CampaignPartProgress]? {
    parts[campaign]?.map { part in
      var progress = CampaignPartProgress(number: part.number, dueAt: part.dueAt)
      (progress.begunAt, progress.account, progress.endedAt) = (part.begunAt, part.account, part.endedAt)
      return progress
    }
  }

  /// The newest first.
  func heads(where isMeant: (CampaignHead) -> Bool) -> [CampaignHead] {
    campaigns.values.map(\.head).filter(isMeant).sorted { ($1.id.high, $1.id.low) < ($0.id.high, $0.id.low) }
  }

  func openCampaigns(of apps: AppReach, in states: [String]?) -> [CampaignHead] {
    heads { apps.contains($0.app) && $0.endedAt == nil && states?.contains($0.state) ?? true }
  }

  mutating func forget(_ limit: Int, where isMeant: (CampaignHead) -> Bool) -> [StoredUUID] {
    let forgotten = heads(where: isMeant).prefix(limit).map(\.id)
    for id in forgotten { (campaigns[id], parts[id], members[id]) = (nil, nil, nil) }
    return forgotten
  }

  // MARK: Notifications and the bridge

  mutating func write(_ changes: IntakeChanges) {
    for began in changes.began where runs[began.run] == nil { runs[began.run] = Run(app: began.app) }
    for accepted in changes.accepted {
      for line in accepted.lines {
        outcomes[StoredNotificationID(run: accepted.run, line: line)] = ("accepted", accepted.confirmation)
      }
    }
    for other in changes.notAccepted { outcomes[other.notification] = (other.state, other.detail) }
    for doubt in changes.doubted {
      for line in doubt.lines { copies[StoredNotificationID(run: doubt.run, line: line), default: 0] += 1 }
    }
    for ended in changes.ended { runs[ended.run]?.endedAt = ended.at }
    for entry in changes.bridge.forwarded {
      frames[FrameKey(app: entry.app, client: entry.client, position: entry.position)] = entry
      let oldest = entry.position - Int64(changes.bridge.countLimit)
      frames = frames.filter { $0.key.client != entry.client || $0.key.position >= oldest }
    }
    for end in changes.bridge.ended { ends[end.connection] = end }
    for (_, found) in changes.bridge.alreadyDelivered { alreadyDelivered += found.count }
  }

  private func isOver(_ entry: ForwardedFrames, _ instant: StoreInstant) -> Bool {
    guard entry.at < instant else { return false }
    guard let run = runs[entry.run] else { return true }
    return run.endedAt.map { $0 < instant } ?? false
  }

  func forwardedFrames(since instant: StoreInstant) -> [RememberedFrames] {
    frames.filter { !isOver($0.value, instant) }
      .sorted { ($0.key.app, $0.key.client, $0.key.position) < ($1.key.app, $1.key.client, $1.key.position) }
      .map { _, entry in
        var found = RememberedFrames(frames: entry)
        found.end = ends[entry.connection]
        found.answeredBy = runs[entry.run]?.endedAt
        for line in entry.firstLine..<(entry.firstLine + UInt32(entry.count)) {
          switch outcomes[StoredNotificationID(run: entry.run, line: line)] {
          case nil: break
          case ("accepted", _)?: found.acceptedLines.append(line...line)
          case let (state, detail)?:
            found.notAccepted[line] = StoredOutcome(state: state, detail: detail, app: entry.app)
          }
        }
        return found
      }
  }

  mutating func forgetForwarded(before instant: StoreInstant, now: StoreInstant?) {
    if let now { bridgeLivedAt = now }
    frames = frames.filter { !isOver($0.value, instant) }
    let connections = Set(frames.values.map(\.connection))
    ends = ends.filter { $0.value.at >= instant || connections.contains($0.key) }
  }

  var lastSignOfBridge: StoreInstant? { (frames.values.map(\.at) + [bridgeLivedAt].compactMap { $0 }).max() }
}
