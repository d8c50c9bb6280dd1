internal import PushEngine
internal import PushStore

/// Counts whom a campaign is for, beside its sending, and keeps that in its record.
struct AudienceTotal: Sendable {
  let controller: CampaignController
  let spool: CampaignSpool

  /// Does nothing if that cannot be found out at present: the next step of the driver asks again.
  func count(_ record: StoredCampaign, _ plan: CampaignPlan) async {
    guard let count = await counted(record, plan) else { return }
    _ = try? await controller.change(record.id, { _ in .audienceCounted }) { campaign in
      campaign.audienceCount = campaign.audienceCount ?? count
    }
  }

  private func counted(_ record: StoredCampaign, _ plan: CampaignPlan) async -> Int64? {
    switch plan.source {
    case .devices:
      guard let last = record.lastKey else { return nil }
      return (try? await controller.store.audienceCount(app: record.app, filter: plan.filter, through: last))
        .map { Int64($0) }
    case .upload:
      let header = try? AudienceFile(path: spool.audience(record.id), namesPath: false).header
      guard let header, record.upload.isComplete else { return nil }
      // Rows of NDJSON have the numbers of their lines. A file of CSV may begin with its header.
      let isNumbered = AudienceUpload.numbersRows(record.upload)
      return max(0, record.upload.lineCount - (isNumbered ? 0 : Int64(clamping: header.firstLine) - 1))
    }
  }
}
