package import PushTransport
package import PushWire
internal import Synchronization

/// All threads of a simulated program in one object. It runs actors, tasks and loop jobs one at a
/// time and picks the next ready one by a seed. It owns time, which passes only when nothing is
/// ready.
///
/// The same seed gives the same run, so a failure among a million runs can be repeated.
package final class SimulatedLoop: Loop, SerialExecutor, TaskExecutor, @unchecked Sendable {
  // Sync: everything happens on the one thread that calls `run`; jobs may also be submitted while
  // it is not running.
  private enum Ready {
    case job(UnownedJob)
    case block(@Sendable () -> Void)
  }

  private struct Timer {
    var deadline: Instant
    var order: UInt64
    var handle: TimerHandle
    var block: @Sendable () -> Void

    func comes(before other: Timer) -> Bool { (deadline, order) < (other.deadline, other.order) }
  }

  package final class TimerHandle: LoopTimer {
    private let cancelled = Atomic<Bool>(false)
    var isCancelled: Bool { cancelled.load(ordering: .relaxed) }
    package func cancel() { cancelled.store(true, ordering: .relaxed) }
  }

  private struct State {
    var ready: [Ready] = []
    var timers = TimerQueue()
    var now = Instant(nanoseconds: 1_000_000_000)
    var order: UInt64 = 0
    var random: SeededGenerator
    var steps = 0
  }

  private let state: Mutex<State>
  private let isRunning = Atomic<Bool>(false)
  package let buffers = LoopBuffers()

  package init(seed: UInt64) {
    state = Mutex(State(random: SeededGenerator(seed: seed)))
  }

  // MARK: Loop

  package var executor: any SerialExecutor { self }
  package var now: Instant { state.withLock { $0.now } }
  package var unixSeconds: UInt32 { UInt32(truncatingIfNeeded: 1_700_000_000 + now.nanoseconds / 1_000_000_000) }
  /// The number of jobs that have run.
  package var steps: Int { state.withLock { $0.steps } }

  package func execute(_ job: @escaping @Sendable () -> Void) {
    state.withLock { $0.ready.append(.block(job)) }
  }

  package func takeTurn(_ share: TurnShare?, _ job: @escaping TurnShare.Job) { execute { _ = job() } }

  package func schedule(at deadline: Instant, _ job: @escaping @Sendable () -> Void) -> any LoopTimer {
    let handle = TimerHandle()
    state.withLock { state in
      state.order += 1
      state.timers.insert(Timer(deadline: deadline, order: state.order, handle: handle, block: job))
    }
    return handle
  }

  // MARK: Executors

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    state.withLock { state in state.ready.append(.job(job)) }
  }

  package func checkIsolated() {
    precondition(isRunning.load(ordering: .relaxed), "a job runs outside the simulation")
  }

  package func isIsolatingCurrentContext() -> Bool? { isRunning.load(ordering: .relaxed) }

  // MARK: Running

  package enum Ending: Hashable, Sendable {
    case done
    /// Nothing is ready, no timer is set, and `isDone` is false: the condition can no longer come
    /// true.
    case stuck
    case outOfTime
    case outOfSteps
  }

  /// Runs until `isDone`, for at most `limit` of simulated time and `stepLimit` jobs.
  package func run(limit: Duration, stepLimit: Int, until isDone: () -> Bool) -> Ending {
    let end = now + limit
    isRunning.store(true, ordering: .relaxed)
    defer { isRunning.store(false, ordering: .relaxed) }
    var steps = 0
    while !isDone() {
      guard steps < stepLimit else { return .outOfSteps }
      steps += 1
      if let next = takeReady() {
        run(next)
      } else if let deadline = nextDeadline() {
        // It stays for a later call.
        guard deadline <= end else { return .outOfTime }
        takeTimer()?.block()
      } else {
        return .stuck
      }
    }
    return .done
  }

  /// When there is something to do; nil: never.
  package var nextEvent: Instant? {
    if state.withLock({ !$0.ready.isEmpty }) { return now }
    return nextDeadline()
  }

  /// The process was stopped until now, or its clock was set.
  package func skip(to instant: Instant) { state.withLock { $0.now = max($0.now, instant) } }

  private func run(_ next: Ready) {
    switch next {
    case .block(let block): block()
    case .job(let job):
      unsafe job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
    }
  }

  private func takeReady() -> Ready? {
    state.withLock { state in
      guard !state.ready.isEmpty else { return nil }
      state.steps += 1
      let index = Int.random(in: 0..<state.ready.count, using: &state.random)
      return state.ready.remove(at: index)
    }
  }

  /// When the next timer is due that was not cancelled.
  private func nextDeadline() -> Instant? {
    state.withLock { state in
      while let timer = state.timers.first {
        if !timer.handle.isCancelled { return timer.deadline }
        _ = state.timers.removeFirst()
      }
      return nil
    }
  }

  /// Takes the earliest timer and advances the time to it.
  private func takeTimer() -> Timer? {
    state.withLock { state in
      guard let timer = state.timers.removeFirst() else { return nil }
      state.now = max(state.now, timer.deadline)
      return timer
    }
  }

  /// Timers in the order of deadline and then of creation, in a binary heap.
  private struct TimerQueue {
    private var heap: [Timer] = []

    var first: Timer? { heap.first }

    mutating func insert(_ timer: Timer) {
      heap.append(timer)
      var child = heap.count - 1
      while child > 0, heap[child].comes(before: heap[(child - 1) / 2]) {
        heap.swapAt(child, (child - 1) / 2)
        child = (child - 1) / 2
      }
    }

    mutating func removeFirst() -> Timer? {
      guard let first = heap.first else { return nil }
      let last = heap.removeLast()
      guard !heap.isEmpty else { return first }
      heap[0] = last
      var parent = 0
      while true {
        let children = [2 * parent + 1, 2 * parent + 2].filter { $0 < heap.count }
        guard let child = children.min(by: { heap[$0].comes(before: heap[$1]) }),
          heap[child].comes(before: heap[parent])
        else { return first }
        heap.swapAt(child, parent)
        parent = child
      }
    }
  }
}
