/// Neighbouring members of a campaign's part.
package struct MemberRange: Hashable, Sendable {
  /// The keys of the first and the last one.
  package let keys: ClosedRange<Int64>
  package let count: Int

  package init(keys: ClosedRange<Int64>, count: Int) { (self.keys, self.count) = (keys, count) }
}

package struct SegmentID: Hashable, Sendable {
  package let campaign: StoredUUID
  package let part: Int
  /// The key of its first member.
  package let firstKey: Int64

  package init(campaign: StoredUUID, part: Int, firstKey: Int64) {
    (self.campaign, self.part, self.firstKey) = (campaign, part, firstKey)
  }

  /// The order in which all stores list and lock segments.
  package func comes(before other: SegmentID) -> Bool {
    (campaign.high, campaign.low, part, firstKey)
      < (other.campaign.high, other.campaign.low, other.part, other.firstKey)
  }
}

/// Members of a campaign's part that one node sends at a time.
///
/// Its lines are its members in the order of their keys, from 1. What a node reports is written
/// only while it owns the segment, in the epoch in which it got it: a later owner has another one.
package struct StoredSegment: Hashable, Sendable {
  package let id: SegmentID
  package let lastKey: Int64
  package let count: Int
  /// How often it has been claimed.
  package var epoch: Int64 = 0
  /// The node that had it until it was claimed, and was no longer alive. Nil: there was none, it
  /// has given the segment back, or its name is not known any more.
  package var lostOwner: String?
  /// Lines up to this one may be in the rings of its owner.
  package var granted = 0
  /// Lines up to this one may have been sent by earlier owners, unless they are settled.
  package var inherited = 0
  /// Lines with an outcome, as the bytes of a `LineSet`.
  package var settled: [UInt8] = []
  /// Lines that more than one owner may have sent, as the bytes of a `LineSet`.
  package var doubted: [UInt8] = []
  /// The account of the settled lines, as JSON; nil: there are none.
  package var account: [UInt8]?
  /// The account when its owner got it, with what the owner found in doubt; nil: it has not
  /// reported yet.
  package var base: [UInt8]?
  /// How many rows its owner has added to its list of outcomes.
  package var rowCount = 0
  /// The number of its owner's last report; 0: there was none.
  package var reportNumber: Int64 = 0
  package var isSettled = false
  /// Its owner gives it back: what the owner's journal has of it is not to be continued.
  package var isWithdrawn = false
  /// Lines up to `granted` that nobody has sent, as the bytes of a `LineSet`: the owner that gave
  /// it back has said so.
  package var unsent: [UInt8] = []

  package init(id: SegmentID, lastKey: Int64, count: Int) { (self.id, self.lastKey, self.count) = (id, lastKey, count) }
}

/// Rows of a list of outcomes.
package struct OutcomeRows: Hashable, Sendable {
  /// How many rows its writer added before.
  package var after = 0
  package var count = 0
  /// CSV.
  package var bytes: [UInt8] = []

  package init(after: Int = 0, count: Int = 0, bytes: [UInt8] = []) {
    (self.after, self.count, self.bytes) = (after, count, bytes)
  }
}

/// What the owner of a segment tells the store about it.
package struct SegmentReport: Hashable, Sendable {
  package let id: SegmentID
  package let epoch: Int64
  /// Counts the owner's reports, from 1: one that is late does not undo a later one.
  package let number: Int64
  package var granted: Int
  package var settled: [UInt8]
  package var doubted: [UInt8]
  package var account: [UInt8]
  package var base: [UInt8]
  package var rows: OutcomeRows
  package var isSettled = false
  /// See ``StoredSegment``.
  package var isWithdrawn = false
  package var unsent: [UInt8] = []

  package init(
    id: SegmentID, epoch: Int64, number: Int64, granted: Int, settled: [UInt8], doubted: [UInt8], account: [UInt8],
    base: [UInt8], rows: OutcomeRows = OutcomeRows()
  ) {
    (self.id, self.epoch, self.number, self.granted) = (id, epoch, number, granted)
    (self.settled, self.doubted, self.account, self.base) = (settled, doubted, account, base)
    self.rows = rows
  }
}

/// A part of an open campaign whose segments nodes carry.
package struct SharedPart: Hashable, Sendable {
  package let campaign: StoredUUID
  package let part: Int
  /// The state of the campaign.
  package let state: String
  /// Until when it may be sent; nil: it may not be sent at present.
  package let openUntil: StoreInstant?
  /// Whether it has segments that nobody carries.
  package let hasFreeSegments: Bool
  /// Somebody has had one of them before, and perhaps sent some of it.
  package let hasBegunSegments: Bool

  package init(
    campaign: StoredUUID, part: Int, state: String, openUntil: StoreInstant?, hasFreeSegments: Bool,
    hasBegunSegments: Bool = false
  ) {
    (self.campaign, self.part, self.state, self.openUntil) = (campaign, part, state, openUntil)
    (self.hasFreeSegments, self.hasBegunSegments) = (hasFreeSegments, hasBegunSegments)
  }
}

/// How far the segments of a campaign's part are.
package struct SharedPartProgress: Hashable, Sendable {
  /// The key of the last member that is in a segment; 0: none is.
  package var dividedKey: Int64 = 0
  package var segmentCount = 0
  package var settledSegmentCount = 0
  /// See ``SharedPart/openUntil``.
  package var openUntil: StoreInstant?
  /// The accounts of its segments, as JSON.
  package var accounts: [[UInt8]] = []

  package init() {}
}

/// Where a reader of a campaign's lists is.
package struct OutcomeRowsCursor: Hashable, Sendable {
  package let segment: SegmentID
  package let epoch: Int64
  /// How many rows of that epoch come before.
  package let after: Int

  package init(segment: SegmentID, epoch: Int64, after: Int) {
    (self.segment, self.epoch, self.after) = (segment, epoch, after)
  }
}
