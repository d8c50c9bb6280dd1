package import PushWire
internal import Synchronization

/// Bounds what all memories of the bridge take together.
package final class MemoryBudget: MemoryPool {
  private let limit: Int
  private let used = Atomic<Int>(0)

  package init(byteCount: Int) { limit = byteCount }

  /// Bytes that are taken at present.
  package var usedByteCount: Int { used.load(ordering: .relaxed) }

  package func share() -> any MemoryShare { Share(of: self) }

  /// - Returns: false: there are not as many left.
  private func take(_ byteCount: Int, isNeeded: Bool) -> Bool {
    let sum = used.add(byteCount, ordering: .relaxed).newValue
    if isNeeded || sum <= limit { return true }
    give(byteCount)
    return false
  }

  private func give(_ byteCount: Int) { used.subtract(byteCount, ordering: .relaxed) }

  private final class Share: MemoryShare {
    private let budget: MemoryBudget
    private let taken = Atomic<Int>(0)

    init(of budget: MemoryBudget) { self.budget = budget }

    deinit { budget.give(taken.load(ordering: .relaxed)) }

    func set(_ byteCount: Int, isNeeded: Bool) -> Bool {
      let more = byteCount - taken.load(ordering: .relaxed)
      if more > 0, !budget.take(more, isNeeded: isNeeded) { return false }
      if more < 0 { budget.give(-more) }
      taken.store(byteCount, ordering: .relaxed)
      return true
    }
  }
}
