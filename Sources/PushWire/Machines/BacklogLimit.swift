/// How many blocks a lane takes ahead of what it has sent: as many as it sends in about 300 ms.
///
/// A backlog is not a window: what a lane has taken ahead cannot go to another lane. So a lane
/// takes little, and the rest of the audience stays with its reader, which gives it to any free
/// lane.
///
/// The time is measured, not computed from a rate. A mark is set at the end of the backlog. The
/// time until the lane has sent everything before the mark shows whether the backlog was too short
/// or too long.
package struct BacklogLimit: Sendable {
  /// The present limit, in blocks of a ring.
  package private(set) var blockCount: Int

  private let largest: Int
  private var mark: Mark?

  private struct Mark {
    var end: UInt64
    var setAt: Instant
    /// Whether the backlog was at its limit. Only then can its time show that the limit is too low.
    var isAtLimit: Bool
  }

  /// Longer than a round trip around the world, so that a lane never runs dry. Short enough that
  /// the end of a campaign does not wait for one lane.
  package static let target = Duration.milliseconds(300)

  /// - Parameters:
  ///   - start: the limit before anything has been measured.
  ///   - largest: the upper bound of the limit.
  package init(start: Int, largest: Int) {
    self.largest = max(1, largest)
    blockCount = min(self.largest, max(1, start))
  }

  /// Must be called while the lane sends, at least once for each batch.
  ///
  /// - Parameters:
  ///   - published: the lane has taken everything before this position.
  ///   - done: everything before this position has been sent and will probably not be resent.
  ///   - smallest: the lower bound of the limit: two batches.
  package mutating func update(published: UInt64, done: UInt64, smallest: Int, now: Instant) {
    if let mark {
      guard done >= mark.end else { return }
      adjust(mark, smallest: min(smallest, largest), taken: now.since(mark.setAt))
    }
    let backlog = published > done ? Int(clamping: published - done) : 0
    mark = backlog > 0 ? Mark(end: published, setAt: now, isAtLimit: backlog >= blockCount / 2) : nil
  }

  private mutating func adjust(_ mark: Mark, smallest: Int, taken: Duration) {
    if taken < Self.target / 2 {
      if mark.isAtLimit { blockCount = min(largest, blockCount * 2) }
    } else if taken > Self.target * 3 / 2 {
      let fitting = Double(blockCount) * (Self.target.inSeconds / taken.inSeconds)
      blockCount = max(smallest, Int(fitting))
    }
    blockCount = max(smallest, blockCount)
  }
}
