internal import PushTransport
internal import PushWire
internal import Synchronization

/// The lanes of an app, and the readers that wait until one of them has room.
///
/// A chunk goes from a campaign's reader to a lane without passing through the app's actor: a hop
/// costs more than a hundred notifications. It goes through the lane's ring, which is chosen here.
final class LaneScheduler: Sendable {
  private struct State {
    var lanes: [Lane] = []
    var waiters: [(waiter: Waiter, rank: ClaimOrder.Rank)] = []
    var order = ClaimOrder()

    func room(for claim: Claim) -> Room? {
      order.permits(claim.rank) ? LaneScheduler.room(in: lanes, unconnectedLimit: claim.unconnectedLimit) : nil
    }
  }

  /// What a reader wants room for.
  struct Claim {
    var rank: ClaimOrder.Rank
    /// A lane without a connection has at most this many blocks. It sends them at once when it has
    /// one, so a limit per second needs this bound.
    var unconnectedLimit = Int.max
  }

  /// Resumed when there may be room.
  private enum Waiter {
    case reader(CheckedContinuation<Void, Never>)
    case signal(ReaderSignal)

    func wake() {
      switch self {
      case .reader(let continuation): continuation.resume()
      case .signal(let signal): signal.set()
      }
    }

    func isSame(as other: Waiter) -> Bool {
      guard case .signal(let mine) = self, case .signal(let its) = other else { return false }
      return mine === its
    }
  }

  /// A lane, and how many blocks it accepts.
  struct Room {
    let lane: Lane
    let blockCount: Int
  }

  private let state = Mutex(State())
  private let waiterCount = Atomic<Int>(0)
  private let waitingProducerCount = Atomic<Int>(0)
  private let clientHasWaited = Atomic<Bool>(false)
  /// Requests another lane from the app.
  private let starved: @Sendable () -> Void

  init(starved: @escaping @Sendable () -> Void) { self.starved = starved }

  // MARK: Lanes

  var lanes: [Lane] { state.withLock { $0.lanes } }

  func add(_ lane: Lane) {
    state.withLock { $0.lanes.append(lane) }
    resumeWaiters()
  }

  func remove(_ lane: Lane) { state.withLock { $0.lanes.removeAll { $0 === lane } } }

  /// Breaks the reference cycle between lanes and scheduler, so that the memory of an app that was
  /// shut down is released.
  func removeAll() { state.withLock { $0.lanes = [] } }

  func wakeAll() {
    for lane in lanes { lane.wake() }
  }

  /// A notification in a ring has no outcome.
  var hasWork: Bool { lanes.contains { $0.ring.published != $0.ring.settled } }

  // MARK: Room

  /// The lane that will send first, among those with room for any notification. Waits until there
  /// is one and it is the reader's turn. Nil: cancelled.
  func room(for claim: Claim, isCancelled: () -> Bool) async -> Room? {
    if isCancelled() { return nil }
    if let room = roomNow(for: claim) { return room }
    wanted(claim.rank)
    defer { unwanted(claim.rank) }
    while !isCancelled() {
      if let room = roomNow(for: claim) { return room }
      starved()
      await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
        wait(.reader(continuation), for: claim)
        if isCancelled() { resumeWaiters() }
      }
    }
    return nil
  }

  /// The same without waiting. Nil: no lane has room, or it is the turn of another reader.
  func roomNow(for claim: Claim) -> Room? {
    state.withLock { state in
      guard let room = state.room(for: claim) else { return nil }
      state.order.claimed(claim.rank)
      return room
    }
  }

  /// Whether it is the turn of a reader of this rank.
  func permits(_ rank: ClaimOrder.Rank) -> Bool { state.withLock { $0.order.permits(rank) } }

  /// A reader wants room from now on, until ``unwanted(_:)``.
  func wanted(_ rank: ClaimOrder.Rank) { state.withLock { $0.order.wanted(rank) } }

  /// Sets the signal once when there may be room. For what clients bring.
  func signalRoom(_ signal: ReaderSignal, for claim: Claim) {
    clientHasWaited.store(true, ordering: .relaxed)
    starved()
    wait(.signal(signal), for: claim)
  }

  /// A reader that wanted room has some, or wants none any more.
  func unwanted(_ rank: ClaimOrder.Rank) {
    state.withLock { $0.order.unwanted(rank) }
    // It may have kept others from claiming.
    if isWaitedFor { resumeWaiters() }
  }

  private func wait(_ waiter: Waiter, for claim: Claim) {
    let others: [Waiter] = state.withLock { state in
      let order = state.order
      var others: [Waiter] = []
      if !order.permits(claim.rank) {
        // It is the turn of other readers: these look again. They do not wake this one in turn.
        others = state.waiters.filter { order.permits($0.rank) }.map { $0.waiter }
        state.waiters.removeAll { order.permits($0.rank) }
      }
      // A reader that was woken by something else may still be among them.
      if !state.waiters.contains(where: { $0.waiter.isSame(as: waiter) }) { state.waiters.append((waiter, claim.rank)) }
      waiterCount.store(state.waiters.count, ordering: .sequentiallyConsistent)
      return others
    }
    for other in others { other.wake() }
    // Without this second check, room made between the first check and the wait would be missed.
    if state.withLock({ $0.room(for: claim) != nil }) { resumeWaiters() }
  }

  private static func room(in lanes: [Lane], unconnectedLimit: Int) -> Room? {
    var best: Room?
    var leastLoad = Double.infinity
    for lane in lanes where lane.ring.freeBlockCount >= 2 * RingRecord.blockCountLimit && !lane.backlog.isLeaving {
      let isConnected = lane.backlog.isConnected
      let backlog = lane.backlog.backlog(of: lane.ring)
      let limit = isConnected ? lane.backlog.blockCount : min(lane.backlog.blockCount, unconnectedLimit)
      // Each limit is what its lane sends in the same time. Lanes without a connection come last.
      let load = Double(backlog) / Double(limit) + (isConnected ? 0 : 1)
      if backlog < limit, load < leastLoad {
        (best, leastLoad) = (Room(lane: lane, blockCount: limit - backlog), load)
      }
    }
    return best
  }

  /// A lane has sent or settled something. Cheap when no reader waits; otherwise resumes them once
  /// there is enough room.
  func roomMade(ring: NotificationRing, backlog: BacklogGauge) {
    guard isWaitedFor else { return }
    let isEnough =
      ring.freeBlockCount >= ring.blockCountLimit / 8 && backlog.backlog(of: ring) <= backlog.blockCount / 2
    if isEnough { resumeWaiters() }
  }

  // MARK: Producers

  /// A producer with a bound of its own on what has no outcome waits, until
  /// ``producerContinues()``.
  func producerWaits() {
    waitingProducerCount.add(1, ordering: .relaxed)
    guard isHoldingProducers else { return }
    clientHasWaited.store(true, ordering: .relaxed)
    starved()
  }

  /// Whether a client's notifications have waited since the last call, or a client itself.
  func takeClientHasWaited() -> Bool { clientHasWaited.exchange(false, ordering: .relaxed) }

  func producerContinues() { waitingProducerCount.subtract(1, ordering: .relaxed) }

  /// A producer waits, and every lane has more than it can send at once. Such a producer never
  /// fills a lane's backlog, so no reader waits for room, and yet more lanes would help.
  var isHoldingProducers: Bool {
    waitingProducerCount.load(ordering: .relaxed) > 0 && lanes.allSatisfy { $0.backlog.backlog(of: $0.ring) > 0 }
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
    for entry in waiters { entry.waiter.wake() }
  }
}
