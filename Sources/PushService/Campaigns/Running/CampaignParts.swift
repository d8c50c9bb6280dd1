internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushStore
internal import PushWire

/// What a part of a campaign is made of, for the library.
struct CampaignParts: Sendable {
  let files: AudienceFiles
  let recorder: CampaignRecorder
  let outcomes: OutcomeRecorder
  let store: any Store
  let clock: any ServiceClock
  let live: LiveCampaign
  let schedule: CampaignSchedule
  let plantedMistake: CampaignController.PlantedMistake?

  var spool: CampaignSpool { files.spool }

  func served(_ part: StoredCampaignPart, of record: StoredCampaign, _ plan: CampaignPlan) -> ServedCampaign {
    let plan = plan.timed(at: part.dueAt)
    let audience =
      switch plan.source {
      case .upload: rows(part, of: record)
      case .devices: devices(part, of: record, plan)
      }
    var served = ServedCampaign(
      name: record.id.name(part: part.number), notification: plan.notification, audience: audience)
    served.variants = plan.variants
    served.seed = record.id.seed
    served.pace = plan.rateLimit.map { live.pace(perSecond: Double($0), isShared: store.ledger != nil) }
    return served
  }

  private func rows(_ part: StoredCampaignPart, of record: StoredCampaign) -> ServedCampaign.Audience {
    .file(spool.audience(of: record), selection: Self.selection(part))
  }

  /// Which rows of an upload belong to the part.
  static func selection(_ part: StoredCampaignPart) -> @Sendable (AudienceHeader) -> RowSelection? {
    guard let content = CampaignDivision.Content(reading: part.content) else { return { _ in nil } }
    return {
      selection(in: $0, Set(content.zones), isRest: content.isRest, hasMalformed: content.hasMalformed)
    }
  }

  static func selection(
    in header: AudienceHeader, _ zones: Set<String>, isRest: Bool, hasMalformed: Bool
  ) -> RowSelection {
    RowSelection(
      column: ZoneReading.column(of: header).flatMap { header.columns.firstIndex(of: $0) }, texts: zones,
      isRest: isRest, hasMalformed: hasMalformed)
  }

  private func devices(
    _ part: StoredCampaignPart, of record: StoredCampaign, _ plan: CampaignPlan
  ) -> ServedCampaign.Audience {
    let (pages, payloads) = (pages(part, of: record, plan), VariantPayloads(plan))
    let skipCount: Int64 = plantedMistake == .skipsOnResume ? 3 : 0
    return .source { [clock] line in
      let key = Int64(clamping: line) + (line > 0 ? skipCount : 0)
      let audience = DeviceAudience(after: key, payloads: payloads, clock: clock, pages: pages)
      return (audience, feed: { await audience.feed() })
    }
  }

  /// The members of the part, a page at a time. One that has left, or gets the campaign with
  /// another of its keys, is there without a token.
  func pages(
    _ part: StoredCampaignPart, of record: StoredCampaign, _ plan: CampaignPlan
  ) -> DeviceAudience.Pages {
    { [self] key, limit in
      let keys = try await members(part.number, of: record.id, after: key).prefix(limit)
      guard let last = keys.last else { return ([], nil) }
      return (try await devices(Array(keys), part.number, of: record, plan), last)
    }
  }

  /// The devices with these keys, each of them, and whether they get the campaign. It is counted
  /// for those who do.
  func devices(
    _ keys: [Int64], _ part: Int, of record: StoredCampaign, _ plan: CampaignPlan
  ) async throws -> [CampaignMember] {
    let found = try await devices(keys, part, of: record.id, app: record.app, activity: plan.filter.activity)
    guard !live.isOver else {
      return found.map { CampaignMember(device: $0, kind: $0.isSuppressed ? .suppressed : .ready) }
    }
    var withholding = Withholding(plan, of: record, in: schedule.app(record.app), store: store, clock: clock)
    if plantedMistake == .countsAgain { withholding.campaign = StoredUUID(high: 0, low: clock.uptime.nanoseconds) }
    return zip(found, try await withholding.kinds(found)).map { CampaignMember(device: $0, kind: $1) }
  }

  /// Those who are not there, or get the campaign with another of their keys, have no token.
  private func devices(
    _ keys: [Int64], _ part: Int, of id: StoredUUID, app: String, activity: ActivityName?
  ) async throws -> [AudienceDevice] {
    let found = try await clock.retrying { () throws(StoreError) in
      try await store.audienceDevices(app: app, keys: keys, activity: activity)
    }
    let merged = try await elsewhere(found, part, of: id)
    if found.count == keys.count, merged.isEmpty { return found }
    var next = found.makeIterator()
    var device = next.next()
    return keys.map { key in
      guard let known = device, known.key == key else { return AudienceDevice.absent(key) }
      device = next.next()
      return merged.contains(key) ? .absent(key) : known
    }
  }

  /// The next keys behind a key; empty at the end. Waits for the cut.
  private func members(_ part: Int, of id: StoredUUID, after key: Int64) async throws -> [Int64] {
    while true {
      if !live.isCut {
        let head = try await clock.retrying { () throws(StoreError) in try await store.campaignHead(id) }
        if head?.isCut ?? true { live.noteCut() }
      }
      let isCut = live.isCut
      let keys = try await clock.retrying { () throws(StoreError) in
        try await store.members(of: id, part: part, after: key)
      }
      if !keys.isEmpty || isCut || plantedMistake == .outrunsTheCut { return keys }
      try await clock.sleep(for: Self.pauseBeforeCut)
    }
  }

  private static let pauseBeforeCut = Duration.milliseconds(50)

  /// The keys of devices that get the campaign with another one of their keys: with the one that
  /// the part has which has begun first, and there with the lowest.
  private func elsewhere(
    _ devices: [AudienceDevice], _ number: Int, of id: StoredUUID
  ) async throws -> Set<Int64> {
    guard devices.contains(where: { !$0.otherKeys.isEmpty }) else { return [] }
    let others = Set(devices.flatMap(\.otherKeys))
    let (places, all) = try await clock.retrying { () throws(StoreError) in
      (try await store.memberParts(of: id, keys: Array(others)), try await store.progress(of: id))
    }
    guard let part = all.first(where: { $0.number == number }) else { return [] }
    let own = part.begunAt ?? clock.now
    let earlier = Set(
      all.filter { other in
        guard other.number != number, let begunAt = other.begunAt else { return false }
        return (begunAt, other.dueAt, other.number) < (own, part.dueAt, number)
      }.map(\.number))
    return Set(
      devices.filter { device in
        device.otherKeys.contains { other in
          guard let place = places[other] else { return false }
          return place == number ? other < device.key : earlier.contains(place)
        }
      }.map(\.key))
  }

  func events(_ part: StoredCampaignPart, of record: StoredCampaign) -> ServedEvents {
    let (id, number, name) = (record.id, part.number, record.id.name(part: part.number))
    return ServedEvents(
      list: {
        [recorder, outcomes, app = record.app, path = spool.list(id, part: number)]
        settled, seed throws(CarillonError) in
        let list = try ServedList.open(path, settled: settled)
        recorder.opened(list, of: name)
        return CampaignOutcomes(
          list: list.listener(app: "", tokens: ""), recorder: outcomes, app: app, campaign: id, seed: seed)
      },
      begun: { [store, clock] in
        try await clock.retrying { () throws(StoreError) in
          try await store.begin(part: number, of: id, at: clock.now)
        }
      },
      gone: { [outcomes, app = record.app] in outcomes.gone(app: app, token: $0, since: $1) },
      ended: { [recorder, clock] account in
        recorder.ended(
          EndedCampaignPart(campaign: id, number: number, account: AccountJSON.bytes(of: account), endedAt: clock.now))
      })
  }
}

extension StoredUUID {
  /// The seed of the identifiers of a campaign's notifications: a copy that another node sends, or
  /// another attempt, has the same one.
  var seed: IdentifierSeed {
    var random = SplitMix64(seed: high)
    return IdentifierSeed(high: random.next(), low: low)
  }
}

extension AudienceDevice {
  /// One that gets nothing, because there is no device with its key any more.
  fileprivate static func absent(_ key: Int64) -> AudienceDevice {
    AudienceDevice(key: key, token: [], language: nil, isSuppressed: true)
  }
}
