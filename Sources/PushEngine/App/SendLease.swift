package import PushWire
internal import Synchronization

/// Until when a process may send what another one may send in its place.
///
/// Which of both may is decided elsewhere, and does not depend on clocks. But a process that was
/// stopped, or cut off, sends no more of it when its lease is over: somebody else may be doing that
/// already.
package final class SendLease: Sendable {
  /// In nanoseconds.
  private let end: Atomic<UInt64>

  package init(until end: Instant) { self.end = Atomic(end.nanoseconds) }

  package func isOver(at now: Instant) -> Bool { end.load(ordering: .relaxed) <= now.nanoseconds }

  /// - Returns: whether it was over before, so that lanes wait for it.
  package func extend(until end: Instant, now: Instant) -> Bool {
    self.end.exchange(end.nanoseconds, ordering: .relaxed) <= now.nanoseconds
  }
}
