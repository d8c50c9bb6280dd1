internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushSend
internal import PushStore

/// Fixes whom a campaign is for, while its first ones are being sent already.
///
/// Whatever registers, leaves or changes its tags later, the members among stored devices stay. Of
/// an upload that nodes share, the members are the lines of its rows.
struct AudienceCut: Sendable {
  let controller: CampaignController
  let files: AudienceFiles
  let live: LiveCampaign

  /// Keys that are written together.
  private static let portion = 64 * MemberPiece.keyLimit

  private var store: any Store { controller.store }

  /// Cuts the rest, however long the store is away. It can be called again, also while it runs.
  ///
  /// - Parameter parts: how the campaign is divided. The parts of a local send have been cut.
  /// - Returns: how many it is for; nil if the campaign is gone, or this process leaves it.
  /// - Throws: ``CancellationError``, ``Problem`` with 507, or ``AudienceError``.
  func finish(_ id: StoredUUID, _ plan: CampaignPlan, _ parts: [StoredCampaignPart]) async throws -> Int64? {
    let contents = parts.compactMap { part in CampaignDivision.Content(reading: part.content).map { (part, $0) } }
    while !live.isLeft, let head = try await retrying({ () throws(StoreError) in try await store.campaignHead(id) }),
      let last = head.lastKey
    {
      guard !head.isCut else {
        let leftOut = contents.first { $0.1.isLeftOut }?.0.account.flatMap(AccountJSON.account(reading:))
        let count = try await retrying { () throws(StoreError) in try await store.memberCount(of: id) }
        return Int64(count + (leftOut?.submitted ?? 0))
      }
      if plan.source == .upload {
        try await cutRows(head, through: last, contents.filter { !$0.1.isLeftOut }.map(\.0))
      } else if contents.isEmpty {
        let stretch = try await retrying { () throws(StoreError) in
          try await store.audienceMembers(
            app: head.app, filter: plan.filter, after: head.cutKey, through: last, withTimeZones: false)
        }
        _ = try await cut(head, through: stretch.through, MemberPiece.pieces(of: stretch.members.map(\.key), part: 0))
      } else {
        try await adoptFiles(of: contents.filter { !$0.1.isLeftOut }.map(\.0.number), head, last)
      }
    }
    return nil
  }

  /// There are no more members than those that are known.
  func close(_ id: StoredUUID) async throws(CancellationError) {
    while !live.isLeft, let head = try await retrying({ () throws(StoreError) in try await store.campaignHead(id) }),
      let last = head.lastKey, !head.isCut
    {
      _ = try await cut(head, through: last, [])
    }
  }

  private func cutRows(_ head: CampaignHead, through last: Int64, _ parts: [StoredCampaignPart]) async throws {
    let found = try await retrying { () throws(StoreError) in try await store.campaign(head.id) }
    guard let record = found else { return }
    let kept = files.spool.audience(of: record)
    guard !parts.isEmpty else {
      var head = head
      let mark = head.cutKey == 0 ? nil : try await files.rows(record, at: head.cutKey).mark
      let file = try AudienceFile(kept, from: mark)
      while !live.isLeft, let lines = try await lines(of: file, behind: head.cutKey), let end = lines.last {
        guard try await cut(head, through: end, MemberPiece.pieces(of: lines, part: 0)) else { return }
        head.cutKey = end
      }
      if !live.isLeft { _ = try await cut(head, through: last, []) }
      return
    }
    // From the beginning: a row is in one of them.
    try await retrying { () throws(StoreError) in try await store.removeMembers(of: head.id) }
    for part in parts {
      let file = try AudienceFile(kept, selection: CampaignParts.selection(part))
      while let lines = try await lines(of: file, behind: 0) {
        guard try await cut(head, through: 0, MemberPiece.pieces(of: lines, part: part.number)) else { return }
      }
    }
    _ = try await cut(head, through: last, [])
  }

  /// The lines of the next rows behind one, as many as are written together; nil at the end.
  private func lines(of file: AudienceFile, behind line: Int64) async throws -> [Int64]? {
    var lines: [Int64] = []
    let chunk = AudienceChunk()
    while lines.count < Self.portion {
      do throws(AudienceError) {
        if try file.fill(chunk) == .end { break }
      } catch {
        // Behind the last one that is known there may be nobody.
        guard error.problem == .format(.empty), line > 0 else { throw error }
        break
      }
      for index in 0..<chunk.count where chunk[index].line > line { lines.append(Int64(clamping: chunk[index].line)) }
      // A large file leaves the thread to others.
      await Task.yield()
      try Task.checkCancellation()
    }
    return lines.isEmpty ? nil : lines
  }

  /// An older version kept the keys of a local send's parts in files.
  private func adoptFiles(of parts: [Int], _ head: CampaignHead, _ last: Int64) async throws {
    try await retrying { () throws(StoreError) in try await store.removeMembers(of: head.id) }
    for part in parts {
      let keys = try DeviceKeys(path: files.spool.keys(head.id, part: part))
      while let some = try keys.next(Self.portion) {
        _ = try await cut(head, through: 0, MemberPiece.pieces(of: some, part: part))
      }
    }
    _ = try await cut(head, through: last, [])
  }

  /// - Returns: false: how far the campaign is cut is to be read again.
  private func cut(
    _ head: CampaignHead, through end: Int64, _ pieces: [MemberPiece]
  ) async throws(CancellationError) -> Bool {
    try await retrying { () throws(StoreError) in
      try await store.cut(head.id, from: head.cutKey, through: end, adding: pieces)
    }
  }

  private func retrying<Result: Sendable>(
    _ body: () async throws(StoreError) -> Result
  ) async throws(CancellationError) -> Result {
    try await controller.clock.retrying(body)
  }
}

/// The keys of devices in a file, eight bytes each: as an older version kept them.
struct DeviceKeys {
  private let path: String
  private let file: FileHandle

  private static let width = 8

  init(path: String) throws {
    self.path = path
    do { file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path)) } catch {
      throw CampaignSpool.problem(path, error)
    }
  }

  /// Up to `count` more; nil at the end.
  func next(_ count: Int) throws -> [Int64]? {
    let bytes: [UInt8]
    do { bytes = Array(try file.read(upToCount: count * Self.width) ?? Data()) } catch {
      throw CampaignSpool.problem(path, error)
    }
    guard bytes.count >= Self.width else { return nil }
    return stride(from: 0, to: bytes.count / Self.width * Self.width, by: Self.width).map { start in
      Int64(bitPattern: bytes[start..<(start + Self.width)].reversed().reduce(0) { $0 << 8 | UInt64($1) })
    }
  }
}
