internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushSend
internal import PushStore
internal import PushWire

/// What a segment is made of, for the library.
struct SegmentSending: Sendable {
  let progress: SegmentProgress
  let parts: CampaignParts
  let record: StoredCampaign
  let plan: CampaignPlan
  /// When the first of its part could be sent.
  let begunAt: StoreInstant?
  /// Of an upload: the file on this machine, and a mark before its first row.
  let rows: (file: KeptAudience, mark: AudienceMark)?

  /// On this machine's disk.
  private var path: String { parts.spool.list(progress.id, epoch: progress.epoch) }

  var served: ServedCampaign {
    var served = ServedCampaign(name: progress.name, notification: notification, audience: audience)
    served.variants = plan.variants
    served.seed = record.id.seed
    served.isShared = true
    served.pace = plan.rateLimit.map { parts.live.pace(perSecond: Double($0), isShared: true) }
    return served
  }

  private var audience: ServedCampaign.Audience {
    if let rows { return .rows(rows.file, from: rows.mark) { [progress] in SegmentRows(progress: progress, line: $0) } }
    let payloads = VariantPayloads(plan)
    return .source { [progress, parts, record, plan] line in
      let audience = DeviceAudience(
        of: progress, after: Int64(clamping: line), payloads: payloads, clock: parts.clock
      ) {
        try await parts.devices($0, progress.id.part, of: record, plan)
      }
      return (audience, feed: { await audience.feed() })
    }
  }

  /// All of a part live until the same time.
  private var notification: PushNotification {
    var notification = plan.notification
    if case .after(let lifetime) = notification.expiration, let begunAt {
      notification.expiration = .at(
        Date(timeIntervalSince1970: Double(begunAt.milliseconds) / 1000 + lifetime.inSeconds))
    }
    return notification
  }

  /// - Parameter account: of what an earlier process of this node has done; nil: it begins here.
  func events(after account: CampaignAccount?) -> ServedEvents {
    ServedEvents(
      list: {
        [progress, path, recorder = parts.recorder, outcomes = parts.outcomes, app = record.app]
        settled, seed throws(CarillonError) in
        let (file, rows) = try ServedList.open(path, resuming: settled)
        if let settled, let account { progress.resume(settled: settled, account: account, rows: rows) }
        recorder.opened(file, of: progress.name)
        progress.opened(
          CampaignOutcomes(
            list: file.listener(app: "", tokens: ""), recorder: outcomes, app: app, campaign: progress.id.campaign,
            seed: seed))
        return progress
      },
      begun: {},
      gone: { [outcomes = parts.outcomes, app = record.app] in outcomes.gone(app: app, token: $0, since: $1) },
      ended: { [progress, recorder = parts.recorder] _ in recorder.ended(progress) })
  }

  /// Everything has its outcome. The ledger knows when this returns.
  func end() async throws {
    try parts.recorder.close(progress.name)
    try await parts.outcomes.makeDurableElsewhere()
    try? FileManager.default.removeItem(atPath: path)
  }
}
