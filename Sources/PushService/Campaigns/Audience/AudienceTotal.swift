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
      return record.upload.isComplete ? Self.uploaded(record, spool) : nil
    }
  }

  /// How many rows were uploaded, by their lines; nil if the header cannot be read.
  static func uploaded(_ record: StoredCampaign, _ spool: CampaignSpool) -> Int64? {
    let header: AudienceHeader
    do { header = try AudienceFile(spool.audience(of: record)).header } catch { return nil }
    // Rows of NDJSON have the numbers of their lines. A file of CSV may begin with its header.
    let isNumbered = AudienceUpload.numbersRows(record.upload)
    return max(0, record.upload.lineCount - (isNumbered ? 0 : Int64(clamping: header.firstLine) - 1))
  }
}
