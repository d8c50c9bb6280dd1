internal import PushEngine
internal import PushStore

/// Finds out how many a campaign is for, beside its sending, and keeps that in its record.
struct AudienceTotal: Sendable {
  let controller: CampaignController
  let files: AudienceFiles
  let live: LiveCampaign

  /// Does nothing if that cannot be found out at present: the next step of the driver asks again.
  func count(_ record: StoredCampaign, _ plan: CampaignPlan, _ parts: [StoredCampaignPart]) async {
    let counted: Int64?
    do { counted = try await self.counted(record, plan, parts) } catch let error as AudienceError {
      // It can never be sent.
      _ = try? await controller.change(record.id, { _ in .failed }) { $0.reason = error.description }
      return
    } catch { return }
    guard let count = counted else { return }
    _ = try? await controller.change(record.id, { _ in .audienceCounted }) { campaign in
      campaign.audienceCount = campaign.audienceCount ?? count
    }
  }

  private func counted(
    _ record: StoredCampaign, _ plan: CampaignPlan, _ parts: [StoredCampaignPart]
  ) async throws -> Int64? {
    if files.areMembersKept(of: plan) {
      return try await AudienceCut(controller: controller, files: files, live: live).finish(record.id, plan, parts)
    }
    return record.upload.isComplete ? Self.uploaded(record, files.spool) : nil
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
