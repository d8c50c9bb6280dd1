package import Carillon
internal import PushEngine
internal import PushSend
package import PushStore
internal import PushWire

/// Lets nodes share a campaign of stored devices: divides its parts into segments, says which parts
/// may be sent, and ends those of which every segment is settled.
struct CampaignSharing: Sendable {
  let ledger: any Ledger
  let controller: CampaignController

  private static let rangeLimit = 1_024

  /// Shares parts that may be sent now, until quiet hours begin; the other ones wait.
  func open(_ parts: [Int: StoreInstant], of id: StoredUUID) async throws(StoreError) {
    try await ledger.share(parts: parts, of: id, at: controller.clock.now)
    controller.segmentSignal.set()
  }

  /// Divides what is known of the members of shared parts, and finds parts that have ended.
  ///
  /// - Returns: the shared parts, and the accounts of those in which everything has its outcome.
  func advance(
    _ record: StoredCampaign, _ parts: [StoredCampaignPart]
  ) async throws -> (parts: [Int: SharedPartProgress], ended: [Int: CampaignAccount]) {
    // Before the members are read: there are no more then.
    let isCut = try await controller.store.campaignHead(record.id)?.isCut ?? true
    let progress = try await ledger.sharedProgress(of: [record.id])[record.id, default: [:]]
    var ended: [Int: CampaignAccount] = [:]
    for part in parts where part.endedAt == nil {
      guard let shared = progress[part.number] else { continue }
      let isDivided = try await divide(record, part.number, after: shared.dividedKey, isCut: isCut)
      guard isCut, isDivided, shared.settledSegmentCount == shared.segmentCount else { continue }
      ended[part.number] = shared.account
    }
    return (progress, ended)
  }

  /// - Returns: whether all members that are known were in segments before.
  private func divide(_ record: StoredCampaign, _ part: Int, after key: Int64, isCut: Bool) async throws -> Bool {
    let sizes = controller.segmentSizes
    let size = record.lastKey ?? 0 < sizes.smallAudience ? sizes.small : sizes.large
    var last = key
    var isDivided = true
    while true {
      let pieces = try await ledger.memberRanges(of: record.id, part: part, after: last, limit: Self.rangeLimit)
      // What may become longer waits for the rest, unless it is the beginning.
      let isFull = pieces.count == Self.rangeLimit
      let ranges = MemberRange.segments(
        of: pieces, size: last == 0 ? sizes.small : size, isComplete: isCut || isFull || last == 0)
      guard let end = ranges.last?.keys.upperBound else { return isDivided }
      isDivided = false
      // Another attempt of the driver, or a node that led before, has divided it meanwhile.
      guard try await ledger.divide(ranges, of: record.id, part: part, after: last) else { return false }
      controller.segmentSignal.set()
      last = end
      if !isFull { return false }
    }
  }
}

/// How large segments are, so that a few nodes end at about the same time.
package struct SegmentSizes: Sendable {
  /// Members of a segment.
  package var large = 65_536
  package var small = 16_384
  /// An audience with fewer devices has small ones.
  package var smallAudience: Int64 = 1_000_000
  /// See ``GrantMachine``.
  package var grants = GrantMachine.bounds

  package init() {}
}

extension MemberRange {
  /// Joins neighbouring ranges until they have the size of a segment.
  ///
  /// - Parameter isComplete: the last one does not grow any more. Otherwise it is left out, unless
  ///   it has the size.
  static func segments(of ranges: [MemberRange], size: Int, isComplete: Bool) -> [MemberRange] {
    var segments: [MemberRange] = []
    var open: MemberRange?
    for range in ranges {
      if let known = open {
        open = MemberRange(
          keys: known.keys.lowerBound...range.keys.upperBound, count: known.count + range.count)
      } else {
        open = range
      }
      guard let full = open, full.count >= size else { continue }
      segments.append(full)
      open = nil
    }
    if isComplete, let open { segments.append(open) }
    return segments
  }
}

extension SharedPartProgress {
  /// Of all its segments, so far.
  package var account: CampaignAccount {
    accounts.compactMap(AccountJSON.account(reading:)).reduce(CampaignAccount(), +)
  }
}
