internal import PushStore
internal import PushWire
internal import Synchronization

@testable internal import PushServer
@testable internal import PushService

/// A clock that stands still until it is advanced. Who sleeps advances it, and wakes at once.
final class ManualClock: ServiceClock {
  private struct State {
    var elapsed = Duration.zero
    var sleeps: [Duration] = []
  }

  private let state = Mutex(State())

  var now: StoreInstant { StoreInstant(milliseconds: 0).advanced(by: state.withLock { $0.elapsed }) }
  var uptime: Instant { .start + state.withLock { $0.elapsed } }
  /// How long each sleep was, in their order.
  var sleeps: [Duration] { state.withLock { $0.sleeps } }

  func advance(by duration: Duration) { state.withLock { $0.elapsed += duration } }

  func sleep(for duration: Duration) async throws {
    try Task.checkCancellation()
    state.withLock { state in
      state.elapsed += duration
      state.sleeps.append(duration)
    }
  }

  func run(_ work: @escaping @Sendable () -> Void) { work() }
}
