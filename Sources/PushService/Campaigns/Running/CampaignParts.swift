internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushStore

/// What a part of a campaign is made of, for the library.
struct CampaignParts: Sendable {
  let spool: CampaignSpool
  let recorder: CampaignRecorder
  let outcomes: OutcomeRecorder
  let store: any Store
  let clock: any ServiceClock
  let live: LiveCampaign
  let plantedMistake: CampaignController.PlantedMistake?

  func served(_ part: StoredCampaignPart, of record: StoredCampaign, _ plan: CampaignPlan) -> ServedCampaign {
    let audience =
      switch plan.source {
      case .upload: rows(part, of: record)
      case .devices: devices(part, of: record, plan)
      }
    var served = ServedCampaign(
      name: record.id.name(part: part.number), notification: plan.notification, audience: audience)
    served.variants = plan.variants
    served.pace = plan.rateLimit.map { live.pace(perSecond: Double($0)) }
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

  /// The devices of the part, a page at a time.
  func pages(_ part: StoredCampaignPart, of record: StoredCampaign, _ plan: CampaignPlan) -> DeviceAudience.Pages {
    let (store, clock, app, last) = (store, clock, record.app, record.lastKey ?? 0)
    guard part.content.isEmpty else {
      let keys = keys(part.number, of: record)
      return { key, limit in
        let found = try keys.next(after: key, limit: limit)
        var devices = try await clock.retrying { () throws(StoreError) in
          try await store.audienceDevices(app: app, keys: found)
        }
        if devices.contains(where: { !$0.otherKeys.isEmpty }) {
          let earlier = try await earlierParts(than: part, of: record)
          try devices.removeAll { try isElsewhere($0, keys, earlier) }
        }
        return (devices, found.count < limit ? nil : found.last)
      }
    }
    return { key, limit in
      let page = try await clock.retrying { () throws(StoreError) in
        try await store.audiencePage(app: app, filter: plan.filter, after: key, through: last, limit: limit)
      }
      return (page, page.count < limit ? nil : page.last?.key)
    }
  }

  private func keys(_ part: Int, of record: StoredCampaign) -> DeviceKeys {
    DeviceKeys(path: spool.keys(record.id, part: part))
  }

  /// The lists of the parts that have begun before this one.
  private func earlierParts(than part: StoredCampaignPart, of record: StoredCampaign) async throws -> [DeviceKeys] {
    let parts = try await store.progress(of: record.id)
    let own = parts.first { $0.number == part.number }?.begunAt ?? clock.now
    return parts.filter { other in
      guard other.number != part.number, let begunAt = other.begunAt else { return false }
      return (begunAt, other.dueAt, other.number) < (own, part.dueAt, part.number)
    }.map { keys($0.number, of: record) }
  }

  /// Whether a device gets the campaign with another one of its keys: with the one that the part
  /// has which has begun first, and there with the lowest.
  private func isElsewhere(_ device: AudienceDevice, _ own: DeviceKeys, _ earlier: [DeviceKeys]) throws -> Bool {
    try device.otherKeys.contains { other in
      if other < device.key, try own.contains(other) { return true }
      return try earlier.contains { try $0.contains(other) }
    }
  }

  func events(_ part: StoredCampaignPart, of record: StoredCampaign) -> ServedEvents {
    let (id, number, name) = (record.id, part.number, record.id.name(part: part.number))
    return ServedEvents(
      list: { [recorder, path = spool.list(id, part: number)] settled throws(CarillonError) in
        let list = try ServedList.open(path, settled: settled)
        recorder.opened(list, of: name)
        return list.listener(app: "", tokens: "")
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
