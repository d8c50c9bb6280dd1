package import PushTransport
internal import PushWire
internal import Synchronization

/// Waits for something that happens once.
package final class Gate: Sendable {
  private struct State {
    var isOpen = false
    var nextNumber: UInt64 = 0
    var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
    /// Waits that ended before they had begun: their tasks were cancelled at once.
    var abandoned: Set<UInt64> = []
  }

  private let state = Mutex(State())

  package init() {}

  package var isOpen: Bool { state.withLock { $0.isOpen } }

  /// Resumes all waiting tasks.
  package func open() {
    let waiters = state.withLock { state in
      state.isOpen = true
      defer { state.waiters = [:] }
      return Array(state.waiters.values)
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Returns once the gate is open, the time is over, or the task is cancelled.
  ///
  /// - Parameters:
  ///   - duration: by the clock of the loop. Default nil: without end.
  ///   - ignoresCancellation: whether the wait goes on when the task is cancelled.
  package func wait(
    atMost duration: Duration? = nil, on loop: (any Loop)? = nil, ignoringCancellation ignoresCancellation: Bool = false
  ) async {
    let number = takeNumber()
    var timer: (any LoopTimer)?
    if let duration, let loop {
      timer = loop.schedule(at: loop.now + duration) { [weak self] in self?.leave(number) }
    }
    await withTaskCancellationHandler {
      await wait(as: number)
    } onCancel: {
      if !ignoresCancellation { leave(number) }
    }
    timer?.cancel()
  }

  private func takeNumber() -> UInt64 {
    state.withLock { state in
      state.nextNumber += 1
      return state.nextNumber
    }
  }

  private func wait(as number: UInt64) async {
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        if state.isOpen || state.abandoned.remove(number) != nil { return true }
        state.waiters[number] = continuation
        return false
      }
      if isOver { continuation.resume() }
    }
    state.withLock { _ = $0.abandoned.remove(number) }
  }

  private func leave(_ number: UInt64) {
    let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
      if let waiter = state.waiters.removeValue(forKey: number) { return waiter }
      if !state.isOpen { state.abandoned.insert(number) }
      return nil
    }
    waiter?.resume()
  }
}
