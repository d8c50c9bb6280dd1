internal import Carillon
internal import PushEngine
internal import PushStore

/// What a part of a campaign is made of, for the library.
struct CampaignParts: Sendable {
  let spool: CampaignSpool
  let book: CampaignBook
  let outcomes: OutcomeBook
  let store: any Store
  let live: LiveCampaign

  func served(_ part: StoredCampaignPart, of record: StoredCampaign, _ plan: CampaignPlan) -> ServedCampaign {
    var served = ServedCampaign(
      name: record.id.name(part: part.number), notification: plan.notification, audience: .file(""),
      list: spool.list(record.id, part: part.number))
    switch plan.source {
    case .upload: served.audience = .file(spool.audience(record.id))
    case .devices: served.audience = devices(record, plan)
    }
    served.variants = plan.variants
    served.rateLimit = plan.rateLimit.map(Double.init)
    return served
  }

  private func devices(_ record: StoredCampaign, _ plan: CampaignPlan) -> ServedCampaign.Audience {
    let (store, last) = (store, record.lastKey ?? 0)
    let payloads = VariantPayloads(plan)
    return .source { line in
      let audience = DeviceAudience(after: Int64(clamping: line), payloads: payloads) { key, limit in
        try await store.audiencePage(
          app: record.app, filter: plan.filter, after: key, through: last, timeZone: nil, limit: limit)
      }
      return (audience, feed: { await audience.feed() })
    }
  }

  func events(_ part: StoredCampaignPart, of record: StoredCampaign) -> ServedEvents {
    let (id, number, name) = (record.id, part.number, record.id.name(part: part.number))
    return ServedEvents(
      opened: { [book] in book.opened($0, of: name) },
      gone: { [outcomes, app = record.app] in outcomes.gone(app: app, token: $0, since: $1) },
      ended: { [book] account in
        book.ended(
          EndedCampaignPart(
            campaign: id, number: number, account: AccountRecord(account).bytes, endedAt: .now))
      },
      isCancelled: { [live] in live.isCancelled })
  }
}
