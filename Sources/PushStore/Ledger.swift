/// Who sends which members of campaigns, and how far they are, for nodes that share a store.
///
/// A part of a campaign is divided into segments. A node claims one, is granted its lines some at a
/// time, and reports what became of them. If it dies, another one claims the segment, and knows
/// from the last report who may have got the notification already.
package protocol Ledger: Sendable {
  // MARK: Uploaded audiences
  //
  // Nodes take them in and read them as files, and fetch them from each other by the store.

  /// As ``Store/update(_:from:)``, with bytes that its upload has by that. What was there from the
  /// first one's start on is replaced.
  func update(
    _ campaign: StoredCampaign, from version: Int64, adding pieces: [AudiencePiece]
  ) async throws(StoreError) -> Bool
  /// Those that begin before ``StoredUpload/byteCount``, in their order.
  func audiencePieces(of campaign: StoredUUID) async throws(StoreError) -> [AudiencePiece.Head]
  /// Nil: another upload has replaced it.
  func bytes(of piece: AudiencePiece.Head, of campaign: StoredUUID) async throws(StoreError) -> [UInt8]?

  // MARK: Notifications that were taken in
  //
  // By apps for which the answer to a request says that the store has them. It keeps them in blocks
  // until each has its outcome, with the node that sends them. See ``Store/write(_:)``.

  /// Gets blocks of some apps that no node has, for a living one: those of lost nodes, and of those
  /// that have ended and did not come back for a while.
  func claimBlocks(
    of apps: [String], limit: Int, by incarnation: Int64
  ) async throws(StoreError) -> [OwnedIntakeBlock]

  /// What a node has, without the notifications, in order of runs and lines. A new process of a
  /// node has what the one before it had, unless that was lost.
  ///
  /// - Parameter block: behind which to begin; nil: with the first.
  func blocks(
    of incarnation: Int64, after block: IntakeBlock.ID?, limit: Int
  ) async throws(StoreError) -> [OwnedIntakeBlock]

  /// Which lines of others are in some runs, in the order of their lines there.
  func carriages(in runs: [StoredRunID]) async throws(StoreError) -> [IntakeCarriage]

  /// What is known of lines of runs. Runs that the store does not know are left out.
  func knownRuns(_ parts: [StoredLines]) async throws(StoreError) -> [StoredRunID: KnownRun]

  /// The notifications of a block; nil: it is not there any more.
  func notifications(of block: IntakeBlock.ID) async throws(StoreError) -> IntakeBlock?

  // MARK: Parts

  /// Parts of open campaigns that nodes carry, in the order of their campaigns.
  ///
  /// - Parameters:
  ///   - apps: whose campaigns the caller can send.
  ///   - states: of campaigns of any app.
  func sharedParts(of apps: [String], orIn states: [String]) async throws(StoreError) -> [SharedPart]

  /// Lets nodes send some parts of a campaign, and no others. They have begun then, and are
  /// shared for good.
  ///
  /// - Parameter parts: until when each may be sent: nodes stop by themselves then.
  func share(parts: [Int: StoreInstant], of campaign: StoredUUID, at instant: StoreInstant) async throws(StoreError)

  /// The members of a part behind a key, in the order of their keys, at most `limit` ranges.
  func memberRanges(
    of campaign: StoredUUID, part: Int, after key: Int64, limit: Int
  ) async throws(StoreError) -> [MemberRange]

  /// Makes segments of a part, once.
  ///
  /// - Parameter key: the last one that is in a segment by now; 0: none is.
  /// - Returns: false if another key is the last one.
  func divide(
    _ ranges: [MemberRange], of campaign: StoredUUID, part: Int, after key: Int64
  ) async throws(StoreError) -> Bool

  func sharedProgress(of campaigns: [StoredUUID]) async throws(StoreError) -> [StoredUUID: [Int: SharedPartProgress]]

  /// Gets segments that nobody carries, or whose owner is no longer alive, for a living node.
  ///
  /// - Parameters:
  ///   - incarnation: of the node.
  ///   - known: what it carries. What else it owns it has got by a call whose answer was lost.
  func claimSegments(
    of campaign: StoredUUID, part: Int, limit: Int, by incarnation: Int64, known: [SegmentID]
  ) async throws(StoreError) -> [StoredSegment]

  /// What a node owns, in the order of campaigns, parts and keys. A new process of a node has what
  /// the one before it had.
  func segments(of incarnation: Int64) async throws(StoreError) -> [StoredSegment]

  /// Gives segments back as they are, so that others can claim them.
  ///
  /// - Parameter segments: with the epochs in which the node got them.
  func release(_ segments: [SegmentID: Int64], by incarnation: Int64) async throws(StoreError)

  /// Writes all reports of segments that the node owns in the epoch of the report, each of them
  /// once. It may be called again with the same reports. A settled segment gets no others.
  ///
  /// - Returns: the parts of those that were written, and how they are now.
  func report(
    _ reports: [SegmentReport], by incarnation: Int64
  ) throws(StoreError) -> [SegmentID: SharedPart]

  /// What nodes carry, and what was taken over from them, by their names.
  func nodeWork() async throws(StoreError) -> [String: NodeWork]

  /// Counts a takeover, once.
  func note(_ takeover: SegmentTakeover) async throws(StoreError)

  /// Gives a living node its shares of limits that nodes keep together. The shares of a limit are
  /// never more than the limit, and those of nodes that are not alive count no more. A limit that
  /// the node does not name it needs no longer.
  ///
  /// - Parameter number: counts the node's calls: one that is late undoes none that came after it.
  /// - Returns: nothing if the node is not alive.
  func exchange(
    _ claims: [RateClaim], number: Int64, by incarnation: Int64
  ) async throws(StoreError) -> [String: RateShare]

  /// Adds rows of those who were left out when a campaign was divided. In the campaign's list they
  /// come first.
  ///
  /// - Parameter number: of these rows, from 1. The first ones replace all.
  func list(leftOut rows: [UInt8], number: Int, of campaign: StoredUUID) async throws(StoreError)

  /// Rows of the lists of a campaign's segments, in the order of parts and keys.
  ///
  /// - Returns: nil at the end.
  func outcomeRows(
    of campaign: StoredUUID, after cursor: OutcomeRowsCursor?, limit: Int
  ) async throws(StoreError) -> (rows: [UInt8], next: OutcomeRowsCursor)?
}
