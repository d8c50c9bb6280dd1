internal import Carillon
internal import PushEngine
internal import PushStore
internal import PushWire

/// Counts the audience of a campaign's part, and what of it could be sent. Nothing is sent: what
/// could be counts as cancelled.
struct DryRun: Sendable {
  let parts: CampaignParts

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
      account.suppressed += page.count { $0.isSuppressed }
      key = next
    }
    account.cancelled = account.submitted - account.suppressed
    return account
  }

  private func rows(
    _ part: StoredCampaignPart, _ record: StoredCampaign, _ plan: CampaignPlan
  ) async throws -> CampaignAccount {
    var account = CampaignAccount()
    let reading = try AudienceCount(
      parts.spool.audience(of: record), payload: plan.notification.json, variants: plan.variants,
      selection: CampaignParts.selection(part))
    while let part = try reading.next() {
      account.submitted += part.readyCount + part.rejected.values.reduce(0, +)
      account.cancelled += part.readyCount
      account.rejectedByReason.merge(part.rejected, uniquingKeysWith: +)
      try Task.checkCancellation()
    }
    return account
  }
}

/// Reads a token file as a campaign would, and counts.
private final class AudienceCount {
  private let file: AudienceFile
  private let chunk: AudienceChunk

  /// The largest payload of any transport: what is too large for an app's shows only when it is
  /// sent.
  private static let byteLimit = 5 << 10

  init(
    _ audience: KeptAudience, payload: [UInt8], variants: [String: [UInt8]],
    selection: (AudienceHeader) -> RowSelection?
  ) throws {
    do {
      file = try AudienceFile(
        audience, readsHeaders: true,
        renderer: { header in
          func renderer(_ json: [UInt8]) throws -> PayloadRenderer {
            try PayloadTemplate(parsing: json).renderer(for: header, byteLimit: Self.byteLimit)
          }
          return try renderer(payload).with(variants: try variants.mapValues(renderer), in: header)
        }, selection: selection)
    } catch {
      throw CarillonError(describing: error)
    }
    chunk = AudienceChunk(payloadCapacity: AudienceChunk.defaultPayloadCapacity)
  }

  func next() throws -> (readyCount: Int, rejected: [String: Int])? {
    while true {
      do {
        switch try file.fill(chunk) {
        case .end: return nil
        case .nothingYet, .nothingFor, .waiting: continue
        case .entries: break
        }
      } catch {
        throw CarillonError(describing: error)
      }
      var rejected: [String: Int] = [:]
      for index in 0..<chunk.count {
        if let reason = chunk[index].kind.rejection { rejected[reason.description, default: 0] += 1 }
      }
      return (chunk.readyCount, rejected)
    }
  }
}
