internal import Synchronization

/// The memory that all rings of a deployment share: few that are busy may be long, many must be short.
///
/// A ring takes part while there is something in it. Each then may hold the same share, from a least that every ring may always hold up to its own size.
package final class RingBudget: Sendable {
  private let blockCount: Int
  private let busyCount = Atomic<Int>(0)

  /// - Parameter byteCount: of records of all rings together. Default 512 MiB.
  package init(byteCount: Int = 512 << 20) {
    blockCount = byteCount / NotificationRing.blockByteCount
  }

  /// How many blocks a ring may hold now.
  package var share: Int { blockCount / max(1, busyCount.load(ordering: .relaxed)) }

  func becameBusy() { busyCount.add(1, ordering: .relaxed) }
  func becameIdle() { busyCount.subtract(1, ordering: .relaxed) }
}
