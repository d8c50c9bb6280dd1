internal import Synchronization

/// A lane for those whom it owns itself, and who may outlive it.
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
