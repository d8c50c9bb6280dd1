internal import Synchronization

/// Wakes a campaign's reader that waits: for its source to have something, or for the end of a
/// pause.
///
/// One reader waits. Any thread signals. A signal that comes while nobody waits is kept, so the
/// reader looks at its source again instead of missing it.
package final class ReaderSignal: Sendable {
  private struct State {
    var isSet = false
    var waiter: CheckedContinuation<Void, Never>?
  }

  private let state = Mutex(State())

  package init() {}

  /// There is a reason to look again.
  package func set() {
    let waiter = state.withLock { state in
      state.isSet = state.waiter == nil
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume()
  }

  /// Returns once there was a signal since the last call returned.
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
}
