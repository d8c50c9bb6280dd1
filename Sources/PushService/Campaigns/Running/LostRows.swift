internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushStore

/// Rows of an upload whose file has lost them or is unreadable: only their number is known.
struct LostRows: Sendable {
  let spool: CampaignSpool
  let record: StoredCampaign
  let now: StoreInstant

  /// A part of their own, which has ended.
  ///
  /// - Parameter parts: all that the campaign has. They have ended.
  /// - Returns: nil if none are lost.
  /// - Throws: if the task is cancelled.
  func part(besides parts: [CampaignPartProgress]) async throws -> StoredCampaignPart? {
    let accounts = parts.map { part in
      (part, part.account.flatMap(AccountJSON.account(reading:)) ?? CampaignAccount())
    }
    // Blank lines are nobody, so this alone does not prove that rows are lost.
    let count =
      Int(clamping: record.audienceCount ?? AudienceTotal.uploaded(record, spool) ?? record.upload.lineCount)
      - accounts.reduce(0) { $0 + $1.1.submitted }
    guard count > 0, try await !isReadable() else { return nil }
    var content = CampaignDivision.Content()
    content.isLeftOut = true
    var part = StoredCampaignPart(number: (parts.map(\.number).max() ?? -1) + 1, dueAt: now, content: content.bytes)
    var account = CampaignAccount()
    account.submitted = count
    // The journal may have sent what it no longer knows.
    let isUnknown = accounts.contains { part, account in
      part.begunAt != nil && (account.unknown > 0 || account.submitted == 0)
    }
    if isUnknown { account.unknown = count } else { account.cancelled = count }
    part.account = AccountJSON.bytes(of: account)
    part.endedAt = now
    return part
  }

  private func isReadable() async throws -> Bool {
    try Task.checkCancellation()
    do {
      let file = try AudienceFile(spool.audience(of: record))
      let chunk = AudienceChunk(payloadCapacity: 0)
      while try file.fill(chunk) != .end {
        try Task.checkCancellation()
        await Task.yield()
      }
      return true
    } catch let error as CancellationError {
      throw error
    } catch let error as AudienceError {
      // Without a row, none is lost.
      return error.problem == .format(.empty)
    } catch {
      return false
    }
  }
}
