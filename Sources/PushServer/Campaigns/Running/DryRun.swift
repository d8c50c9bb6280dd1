internal import Carillon
internal import PushEngine
internal import PushStore
internal import PushWire

/// Counts the audience of a campaign, and what of it could be sent. Nothing is sent: what could be
/// counts as cancelled.
struct DryRun: Sendable {
  let spool: CampaignSpool
  let store: any Store

  /// - Throws: ``CarillonError`` or ``StoreError``.
  func account(_ record: StoredCampaign, _ plan: CampaignPlan) async throws -> CampaignAccount {
    switch plan.source {
    case .upload: try await rows(record, plan)
    case .devices: try await devices(record, plan)
    }
  }

  private func devices(_ record: StoredCampaign, _ plan: CampaignPlan) async throws -> CampaignAccount {
    let limit = 4096
    var account = CampaignAccount()
    var key: Int64 = 0
    while true {
      let page = try await store.audiencePage(
        app: record.app, filter: plan.filter, after: key, through: record.lastKey ?? 0, timeZone: nil, limit: limit)
      account.submitted += page.count
      account.suppressed += page.count { $0.isSuppressed }
      guard let last = page.last, page.count == limit else { break }
      key = last.key
    }
    account.cancelled = account.submitted - account.suppressed
    return account
  }

  private func rows(_ record: StoredCampaign, _ plan: CampaignPlan) async throws -> CampaignAccount {
    var account = CampaignAccount()
    let reading = try AudienceCount(
      path: spool.audience(record.id), payload: plan.notification.json, variants: plan.variants)
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

  init(path: String, payload: [UInt8], variants: [String: [UInt8]]) throws {
    do {
      file = try AudienceFile(path: path, namesPath: false, readsHeaders: true) { header in
        func renderer(_ json: [UInt8]) throws -> PayloadRenderer {
          try PayloadTemplate(parsing: json).renderer(for: header, byteLimit: Self.byteLimit)
        }
        return try renderer(payload).with(variants: try variants.mapValues(renderer), in: header)
      }
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
