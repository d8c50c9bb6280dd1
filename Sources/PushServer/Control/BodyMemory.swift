internal import Synchronization

/// Bounds the memory for the bodies of all requests while they arrive: many large uploads at the
/// same time must not be the end of the process.
final class BodyMemory: Sendable {
  private let limit: Int
  private let used = Atomic<Int>(0)

  init(limit: Int) { self.limit = limit }

  /// - Returns: false if there is no room for this many more bytes.
  func take(_ byteCount: Int) -> Bool {
    let new = used.add(byteCount, ordering: .relaxed).newValue
    if new <= limit { return true }
    give(byteCount)
    return false
  }

  func give(_ byteCount: Int) { used.subtract(byteCount, ordering: .relaxed) }
}
