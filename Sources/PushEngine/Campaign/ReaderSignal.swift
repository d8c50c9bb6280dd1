internal import Synchronization

/// Wakes a task that waits for something to read, such as a campaign's reader that waits for its
/// source or for the end of a pause.
///
/// One reader waits; any thread signals. A signal that arrives while the reader does not wait is
/// kept, so the reader looks at its source again and misses nothing.
package final class ReaderSignal: Sendable {
  private struct State {
    var isSet = false
    var waiter: CheckedContinuation<Void, Never>?
  }

  private let state = Mutex(State())

  package init() {}

  /// Sets the signal: there is a reason to look again.
  package func set() {
    let waiter = state.withLock { state in
      state.isSet = state.waiter == nil
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume()
  }

  /// Returns when there was a signal since the last call returned.
  package func wait() async {
    await withCheckedContinuation { continuation in
      let isSet = state.withLock { state in
        defer { state.isSet = false }
        if !state.isSet { state.waiter = continuation }
        return state.isSet
      }
      if isSet { continuation.resume() }
    }
  }

  /// Tries something until it succeeds: now, and whenever the signal is set. False once the task is
  /// cancelled.
  package func retry(_ attempt: () -> Bool) async -> Bool {
    while !Task.isCancelled {
      if attempt() { return true }
      await withTaskCancellationHandler {
        await wait()
      } onCancel: {
        set()
      }
    }
    return false
  }
}
