internal import Carillon
internal import PushEngine
internal import PushStore
internal import PushWire

/// Counts the audience of a campaign's part. Nothing is sent: what could be counts as cancelled.
struct DryRun: Sendable {
  let parts: CampaignParts

  /// The largest payload of any transport: what is too large for an app shows only when it is sent.
  private static let byteLimit = 5 << 10

  /// - Throws: ``CarillonError`` or ``StoreError``.
  func account(
    _ part: StoredCampaignPart, of record: StoredCampaign, _ plan: CampaignPlan
  ) async throws -> CampaignAccount {
    switch plan.source {
    case .upload: try await rows(part, record, plan)
    case .devices: try await devices(part, record, plan)
    }
  }

  private func devices(
    _ part: StoredCampaignPart, _ record: StoredCampaign, _ plan: CampaignPlan
  ) async throws -> CampaignAccount {
    let pages = parts.pages(part, of: record, plan)
    var account = CampaignAccount()
    var key: Int64? = 0
    while let after = key {
      let (page, next) = try await pages(after, 4096)
      account.submitted += page.count
      account.suppressed += page.count { $0.kind == .suppressed }
      account.capped += page.count { $0.kind == .capped }
      account.holdout += page.count { $0.kind == .holdout }
      key = next
    }
    account.cancelled = account.submitted - account.settled
    return account
  }

  private func rows(
    _ part: StoredCampaignPart, _ record: StoredCampaign, _ plan: CampaignPlan
  ) async throws -> CampaignAccount {
    var account = CampaignAccount()
    do {
      let file = try AudienceFile(
        parts.spool.audience(of: record), readsHeaders: true,
        renderer: { header in
          func renderer(_ json: [UInt8]) throws -> PayloadRenderer {
            try PayloadTemplate(parsing: json).renderer(for: header, byteLimit: Self.byteLimit)
          }
          return try renderer(plan.notification.json).with(variants: try plan.variants.mapValues(renderer), in: header)
        }, selection: CampaignParts.selection(part))
      let chunk = AudienceChunk(payloadCapacity: AudienceChunk.defaultPayloadCapacity)
      while try file.fill(chunk) != .end {
        account.cancelled += chunk.readyCount
        for index in 0..<chunk.count {
          if let reason = chunk[index].kind.rejection { account.rejectedByReason[reason.description, default: 0] += 1 }
        }
        try Task.checkCancellation()
      }
    } catch let error as CancellationError {
      throw error
    } catch {
      throw CarillonError(describing: error)
    }
    account.submitted = account.cancelled + account.rejectedByReason.values.reduce(0, +)
    return account
  }
}
