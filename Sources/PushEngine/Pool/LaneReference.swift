internal import Synchronization

/// A weak reference to a lane, for objects that the lane owns and that may outlive it.
final class LaneReference: Sendable {
  private struct Weak {
    weak var lane: Lane?
  }

  private let state = Mutex(Weak())

  var lane: Lane? {
    get { state.withLock { $0.lane } }
    set { state.withLock { $0.lane = newValue } }
  }
}
