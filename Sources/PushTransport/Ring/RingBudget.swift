internal import Synchronization

/// The memory that all rings of a deployment share. A few busy rings may be long; many must be
/// short.
///
/// A ring takes part while it is not empty. All such rings may hold the same share, at least the
/// minimum that every ring may always hold and at most their own size.
package final class RingBudget: Sendable {
  private let blockCount: Int
  private let busyCount = Atomic<Int>(0)

  /// - Parameter byteCount: the bytes of all rings' records together; default 512 MiB.
  package init(byteCount: Int = 512 << 20) { blockCount = byteCount / NotificationRing.blockByteCount }

  /// How many blocks a ring may hold now.
  package var share: Int { blockCount / max(1, busyCount.load(ordering: .relaxed)) }

  func becameBusy() { busyCount.add(1, ordering: .relaxed) }
  func becameIdle() { busyCount.subtract(1, ordering: .relaxed) }
}
