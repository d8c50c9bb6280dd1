internal import Synchronization

/// Hands values from any thread to one task, in order, as many at a time as have arrived.
///
/// Unlike an `AsyncStream`, it does not end when its task is cancelled. The task that takes from it
/// finishes its work first, and ends when the mailbox is closed.
package final class Mailbox<Element: Sendable>: Sendable {
  private let state = Mutex((elements: [Element](), isClosed: false))
  private let signal = ReaderSignal()

  package init() {}

  /// Puts a value in. False once the mailbox is closed.
  @discardableResult
  package func put(_ element: Element) -> Bool {
    let isTaken = state.withLock { state in
      if !state.isClosed { state.elements.append(element) }
      return !state.isClosed
    }
    if isTaken { signal.set() }
    return isTaken
  }

  /// Nothing more comes. What was put in is still taken.
  package func close() {
    state.withLock { $0.isClosed = true }
    signal.set()
  }

  /// Everything that has come since the last call, at least one; nil after the end.
  package func take() async -> [Element]? {
    while true {
      let (elements, isClosed) = state.withLock { state in
        defer { state.elements = [] }
        return state
      }
      if !elements.isEmpty { return elements }
      if isClosed { return nil }
      await signal.wait()
    }
  }
}
