package import PushStore

extension SimulatedStore {
  package func add(_ campaign: StoredCampaign, openLimit: Int) async throws(StoreError) -> Bool {
    try await call { contents in
      if contents.campaigns[campaign.id] != nil { return true }
      guard contents.openCampaigns(of: .only([campaign.app]), in: nil).count < openLimit else { return false }
      contents.campaigns[campaign.id] = campaign
      contents.campaigns[campaign.id]?.planByteCount = campaign.content.count
      return true
    }
  }

  package func campaign(_ id: StoredUUID) async throws(StoreError) -> StoredCampaign? {
    try await call { $0.campaigns[id] }
  }
  package func campaignHead(_ id: StoredUUID) async throws(StoreError) -> CampaignHead? {
    try await call { $0.campaigns[id]?.head }
  }
  package func plan(of id: StoredUUID) async throws(StoreError) -> [UInt8]? {
    try await call { $0.campaigns[id]?.content }
  }

  package func campaigns(
    app: String, before cursor: StoredUUID?, limit: Int
  ) async throws(StoreError) -> [CampaignHead] {
    try await call { contents in
      let heads = contents.heads { head in head.app == app && cursor.map { head.id.comes(before: $0) } ?? true }
      return Array(heads.prefix(limit))
    }
  }
  package func latestCampaigns(of apps: AppReach, limit: Int) async throws(StoreError) -> [CampaignHead] {
    try await call { contents in Array(contents.heads { apps.contains($0.app) }.prefix(limit)) }
  }
  package func openCampaigns(
    of apps: AppReach, in states: [String]?, limit: Int?
  ) async throws(StoreError) -> [CampaignHead] {
    try await call { contents in Array(contents.openCampaigns(of: apps, in: states).prefix(limit ?? .max)) }
  }
  package func openCampaignCount(of apps: AppReach, in states: [String]) async throws(StoreError) -> Int {
    try await call { $0.openCampaigns(of: apps, in: states).count }
  }

  package func update(_ campaign: StoredCampaign, from version: Int64) async throws(StoreError) -> Bool {
    try await update(campaign, from: version, adding: [])
  }

  package func update(
    _ campaign: StoredCampaign, from version: Int64, adding pieces: [AudiencePiece]
  ) async throws(StoreError) -> Bool {
    try await call { contents in
      guard let old = contents.campaigns[campaign.id], old.version == version else { return false }
      var next = campaign
      (next.version, next.cutKey, next.planByteCount) = (version + 1, old.cutKey, campaign.content.count)
      contents.campaigns[campaign.id] = next
      if let first = pieces.first {
        contents.uploads[campaign.id, default: []].removeAll { $0.start >= first.start }
        contents.uploads[campaign.id, default: []] += pieces
      }
      return true
    }
  }

  package func forgetCampaigns(endedBefore instant: StoreInstant, limit: Int) async throws(StoreError) -> [StoredUUID] {
    try await call { contents in
      let ended = contents.heads { $0.endedAt.map { $0 < instant } ?? false }
      return contents.forget(ended.sorted { $0.endedAt ?? instant < $1.endedAt ?? instant }.prefix(limit))
    }
  }
  package func forgetCampaigns(
    in states: [String], unchangedSince instant: StoreInstant, limit: Int
  ) async throws(StoreError) -> [StoredUUID] {
    try await call { contents in
      contents.forget(contents.openCampaigns(of: .all, in: states).filter { $0.changedAt < instant }.prefix(limit))
    }
  }

  package func audienceByteCount(app: String, besides other: StoredUUID) async throws(StoreError) -> Int64 {
    try await call { contents in
      contents.heads { $0.app == app && $0.id != other }.reduce(0) { $0 + $1.upload.byteCount }
    }
  }

  // MARK: Parts

  package func add(_ parts: [StoredCampaignPart], of campaign: StoredUUID) async throws(StoreError) {
    try await call { contents throws(StoreError) in
      guard !parts.isEmpty else { return }
      guard contents.campaigns[campaign] != nil else { throw .simulated(.failed, "a campaign is missing") }
      var all = contents.parts[campaign] ?? []
      for var part in parts where !all.contains(where: { $0.number == part.number }) {
        part.begunAt = nil
        all.insert(part, at: all.place { $0.number < part.number })
      }
      contents.parts[campaign] = all
    }
  }
  package func begin(part number: Int, of campaign: StoredUUID, at instant: StoreInstant) async throws(StoreError) {
    try await call { $0.change(number, of: campaign) { $0.begunAt = $0.begunAt ?? instant } }
  }
  package func renew(parts numbers: [Int], of campaign: StoredUUID) async throws(StoreError) {
    try await call { contents in
      for number in numbers { contents.change(number, of: campaign) { if $0.endedAt == nil { $0.begunAt = nil } } }
    }
  }
  package func end(_ parts: [EndedCampaignPart]) throws(StoreError) {
    try callNow { contents in
      for end in parts {
        contents.change(end.number, of: end.campaign) { ($0.account, $0.endedAt) = (end.account, end.endedAt) }
      }
    }
  }
  package func parts(of campaign: StoredUUID) async throws(StoreError) -> [StoredCampaignPart] {
    try await call { $0.parts[campaign] ?? [] }
  }
  package func progress(of campaigns: [StoredUUID]) async throws(StoreError) -> [StoredUUID: [CampaignPartProgress]] {
    try await call { contents in
      campaigns.reduce(into: [:]) { found, id in found[id] = contents.parts[id]?.map(CampaignPartProgress.init) }
    }
  }

  // MARK: Members

  package func cut(
    _ campaign: StoredUUID, from key: Int64, through end: Int64, adding pieces: [MemberPiece]
  ) async throws(StoreError) -> Bool {
    try await call { contents in
      guard contents.campaigns[campaign]?.cutKey == key else { return false }
      contents.campaigns[campaign]?.cutKey = end
      contents.members[campaign, default: []] += pieces
      return true
    }
  }
  package func removeMembers(of campaign: StoredUUID) async throws(StoreError) {
    try await call { contents in
      contents.campaigns[campaign]?.cutKey = 0
      contents.members[campaign] = nil
    }
  }
  package func members(of campaign: StoredUUID, part: Int, after key: Int64) async throws(StoreError) -> [Int64] {
    try await call { contents in
      let pieces = (contents.members[campaign] ?? []).filter { $0.part == part && $0.last > key }
      return pieces.min { $0.last < $1.last }.map { $0.keys.filter { $0 > key } } ?? []
    }
  }
  package func memberParts(of campaign: StoredUUID, keys: [Int64]) async throws(StoreError) -> [Int64: Int] {
    let keys = Set(keys)
    return try await call { contents in
      (contents.members[campaign] ?? []).reduce(into: [:]) { found, piece in
        for key in piece.keys where keys.contains(key) { found[key] = piece.part }
      }
    }
  }
  package func memberCount(of campaign: StoredUUID) async throws(StoreError) -> Int {
    try await call { contents in (contents.members[campaign] ?? []).reduce(0) { $0 + $1.keys.count } }
  }
}

extension StoreContents {
  /// The newest first.
  fileprivate func heads(where isMeant: (CampaignHead) -> Bool) -> [CampaignHead] {
    campaigns.values.map(\.head).filter(isMeant).sorted { $1.id.comes(before: $0.id) }
  }

  fileprivate func openCampaigns(of apps: AppReach, in states: [String]?) -> [CampaignHead] {
    heads { apps.contains($0.app) && $0.endedAt == nil && states?.contains($0.state) ?? true }
  }

  fileprivate mutating func forget(_ heads: some Sequence<CampaignHead>) -> [StoredUUID] {
    heads.map(\.id).map { id in
      (campaigns[id], parts[id], members[id], uploads[id]) = (nil, nil, nil, nil)
      ledger.forget(id)
      return id
    }
  }

  mutating func change(
    _ number: Int, of campaign: StoredUUID, _ body: (inout StoredCampaignPart) -> Void
  ) {
    guard let index = parts[campaign]?.firstIndex(where: { $0.number == number }) else {
      problems.append("there is no part \(number)")
      return
    }
    body(&parts[campaign, default: []][index])
  }
}

extension CampaignPartProgress {
  fileprivate init(_ part: StoredCampaignPart) {
    self.init(number: part.number, dueAt: part.dueAt)
    (begunAt, account, endedAt) = (part.begunAt, part.account, part.endedAt)
  }
}
