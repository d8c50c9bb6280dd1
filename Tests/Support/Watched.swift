internal import Synchronization

/// State that threads change and tasks wait for.
package final class Watched<Value>: Sendable {
  private struct Inner {
    var value: Value
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let inner: Mutex<Inner>

  package init(_ value: sending Value) { inner = Mutex(Inner(value: value)) }

  /// Reads the state.
  package func read<Result: Sendable>(_ body: (borrowing Value) -> Result) -> Result {
    inner.withLock { body($0.value) }
  }

  /// Changes the state, and lets those who wait look at it.
  package func change(_ body: (inout Value) -> Void) {
    let waiters = inner.withLock { inner in
      body(&inner.value)
      defer { inner.waiters = [] }
      return inner.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Returns when the condition holds.
  package func wait(_ condition: (borrowing Value) -> Bool) async {
    while !read(condition) {
      await withCheckedContinuation { continuation in
        let isDone = inner.withLock { inner in
          if condition(inner.value) { return true }
          inner.waiters.append(continuation)
          return false
        }
        if isDone { continuation.resume() }
      }
    }
  }
}
