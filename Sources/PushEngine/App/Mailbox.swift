internal import Synchronization

/// Hands values from any thread to one task, in order, as many at a time as have arrived.
///
/// Unlike an `AsyncStream`, it does not end when its task is cancelled. The task that takes from it
/// finishes its work first, and ends when the mailbox is closed.
package final class Mailbox<Element: Sendable>: Sendable {
  private struct State {
    var elements: [Element] = []
    var isClosed = false
    var taker: CheckedContinuation<Void, Never>?
  }

  private let state = Mutex(State())

  package init() {}

  /// Puts a value in. False once the mailbox is closed.
  @discardableResult
  package func put(_ element: Element) -> Bool {
    let (isTaken, taker) = state.withLock { state in
      guard !state.isClosed else { return (false, CheckedContinuation<Void, Never>?.none) }
      state.elements.append(element)
      defer { state.taker = nil }
      return (true, state.taker)
    }
    taker?.resume()
    return isTaken
  }

  /// Nothing more comes. What was put in is still taken.
  package func close() {
    let taker = state.withLock { state in
      state.isClosed = true
      defer { state.taker = nil }
      return state.taker
    }
    taker?.resume()
  }

  /// Everything that has come since the last call, at least one; nil after the end.
  package func take() async -> [Element]? {
    while true {
      let (elements, isClosed) = state.withLock { state in
        defer { state.elements = [] }
        return (state.elements, state.isClosed)
      }
      if !elements.isEmpty { return elements }
      if isClosed { return nil }
      await withCheckedContinuation { continuation in
        let isReady = state.withLock { state in
          if state.elements.isEmpty, !state.isClosed { state.taker = continuation }
          return !state.elements.isEmpty || state.isClosed
        }
        if isReady { continuation.resume() }
      }
    }
  }
}
