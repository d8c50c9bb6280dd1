internal import Synchronization

/// Bounds what all memories of the bridge take together.
package final class MemoryBudget: Sendable {
  private let limit: Int
  private let used = Atomic<Int>(0)

  package init(byteCount: Int) { limit = byteCount }

  /// Bytes that are taken at present.
  package var usedByteCount: Int { used.load(ordering: .relaxed) }

  fileprivate func take(_ byteCount: Int) -> Bool {
    let sum = used.add(byteCount, ordering: .relaxed).newValue
    if sum <= limit { return true }
    used.subtract(byteCount, ordering: .relaxed)
    return false
  }

  fileprivate func takeAnyway(_ byteCount: Int) { used.add(byteCount, ordering: .relaxed) }
  fileprivate func give(_ byteCount: Int) { used.subtract(byteCount, ordering: .relaxed) }

  /// What one memory has taken of a budget. It gives everything back when it goes.
  final class Share: Sendable {
    private let budget: MemoryBudget
    private let taken = Atomic<Int>(0)

    init(of budget: MemoryBudget) { self.budget = budget }

    deinit { budget.give(taken.load(ordering: .relaxed)) }

    /// From now on it takes so many bytes.
    ///
    /// - Parameter isNeeded: they are taken whatever the others have.
    /// - Returns: false: there are not as many left, and nothing has changed.
    func set(_ byteCount: Int, isNeeded: Bool = false) -> Bool {
      let more = byteCount - taken.load(ordering: .relaxed)
      if more <= 0 {
        budget.give(-more)
      } else if isNeeded {
        budget.takeAnyway(more)
      } else {
        guard budget.take(more) else { return false }
      }
      taken.store(byteCount, ordering: .relaxed)
      return true
    }
  }
}
