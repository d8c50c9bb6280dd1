internal import PushEngine
internal import PushWire
internal import Synchronization

/// How much an app has accepted of one priority and not given to a connection yet.
final class IntakeGauge: Sendable {
  let rank: ClaimOrder.Rank
  /// What is acknowledged, or about to be.
  let stored = ReservoirGauge()
  private let waitingNotifications = Atomic<Int>(0)
  private let waitingBytes = Atomic<Int>(0)

  init(_ rank: ClaimOrder.Rank) { self.rank = rank }

  var count: Int { stored.count + waitingNotifications.load(ordering: .relaxed) }
  var byteCount: Int { stored.byteCount + waitingBytes.load(ordering: .relaxed) }

  /// Adds to what readers have not read yet; negative numbers take away.
  func waiting(count: Int, byteCount: Int) {
    waitingNotifications.add(count, ordering: .relaxed)
    waitingBytes.add(byteCount, ordering: .relaxed)
  }
}
