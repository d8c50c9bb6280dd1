internal import PushTransport
internal import Synchronization

/// The lanes of an app, and the readers that wait until one of them has room.
///
/// A chunk goes from a campaign's reader to a lane without passing through the app's actor: a hop
/// costs more than a hundred notifications. It goes through the lane's ring, which is chosen here.
final class LaneScheduler: Sendable {
  private struct State {
    var lanes: [Lane] = []
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  /// A lane, and how many blocks it accepts.
  struct Room {
    let lane: Lane
    let blockCount: Int
  }

  private let state = Mutex(State())
  private let waiterCount = Atomic<Int>(0)
  /// Requests another lane from the app.
  private let starved: @Sendable () -> Void

  init(starved: @escaping @Sendable () -> Void) {
    self.starved = starved
  }

  // MARK: Lanes

  var lanes: [Lane] { state.withLock { $0.lanes } }

  func add(_ lane: Lane) {
    state.withLock { $0.lanes.append(lane) }
    resumeWaiters()
  }

  func remove(_ lane: Lane) {
    state.withLock { $0.lanes.removeAll { $0 === lane } }
  }

  /// Breaks the reference cycle between lanes and scheduler, so that the memory of an app that was
  /// shut down is released.
  func removeAll() {
    state.withLock { $0.lanes = [] }
  }

  func wakeAll() {
    for lane in lanes { lane.wake() }
  }

  /// A notification in a ring has no outcome.
  var hasWork: Bool { lanes.contains { $0.ring.published != $0.ring.settled } }

  // MARK: Room

  /// The lane that will send first, among those with room for `blockCount` blocks. Waits until
  /// there is one. Nil: cancelled.
  func room(for blockCount: Int, isCancelled: () -> Bool) async -> Room? {
    while !isCancelled() {
      if let room = roomInLane(for: blockCount) { return room }
      starved()
      await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
        state.withLock { state in
          state.waiters.append(continuation)
          waiterCount.store(state.waiters.count, ordering: .sequentiallyConsistent)
        }
        // Without this second check, room made between the first check and the wait would be
        // missed.
        if roomInLane(for: blockCount) != nil || isCancelled() { resumeWaiters() }
      }
    }
    return nil
  }

  private func roomInLane(for blockCount: Int) -> Room? {
    state.withLock { state in
      var best: Room?
      var leastLoad = Double.infinity
      for lane in state.lanes where lane.ring.freeBlockCount >= blockCount + RingRecord.blockCountLimit {
        let (backlog, limit) = (lane.backlog.backlog(of: lane.ring), lane.backlog.blockCount)
        // Each limit is what its lane sends in the same time. Lanes without a connection come last.
        let load = Double(backlog) / Double(limit) + (lane.backlog.isConnected ? 0 : 1)
        if backlog < limit, load < leastLoad {
          (best, leastLoad) = (Room(lane: lane, blockCount: limit - backlog), load)
        }
      }
      return best
    }
  }

  /// A lane has sent or settled something. Cheap when no reader waits; otherwise resumes them once
  /// there is enough room.
  func roomMade(ring: NotificationRing, backlog: BacklogGauge) {
    guard isWaitedFor else { return }
    let isEnough =
      ring.freeBlockCount >= ring.blockCountLimit / 8 && backlog.backlog(of: ring) <= backlog.blockCount / 2
    if isEnough { resumeWaiters() }
  }

  /// Whether a reader waits for room.
  var isWaitedFor: Bool { waiterCount.load(ordering: .sequentiallyConsistent) > 0 }

  /// Readers that wait for room look again.
  func resumeWaiters() {
    let waiters = state.withLock { state in
      defer { state.waiters = [] }
      waiterCount.store(0, ordering: .sequentiallyConsistent)
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }
}
