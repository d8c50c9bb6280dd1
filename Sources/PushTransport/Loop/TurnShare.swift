internal import Synchronization

/// One app's share of one event loop: what its lanes there have together.
package final class TurnShare: @unchecked Sendable {
  // Sync: `flow` and `flowWeight` are used on the loop only, `weight` is atomic; init only stores.

  /// Returns how many bytes it has sent.
  package typealias Job = @Sendable () -> Int

  private let currentWeight: Atomic<Int>
  /// Its number on the loop, once it has had a job there.
  var flow: Int?
  /// The weight that the flow has.
  var flowWeight = 0

  fileprivate init(weight: Int) { currentWeight = Atomic(weight) }

  /// In proportion to those of other apps.
  fileprivate(set) var weight: Int {
    get { currentWeight.load(ordering: .relaxed) }
    set { currentWeight.store(newValue, ordering: .relaxed) }
  }
}

/// The shares of one app, one for each loop.
package final class TurnShares: Sendable {
  private struct State {
    var weight: Int
    var shares: [ObjectIdentifier: TurnShare] = [:]
  }

  private let state: Mutex<State>

  /// - Parameter weight: at least 1.
  package init(weight: Int) { state = Mutex(State(weight: weight)) }

  package func share(of loop: any Loop) -> TurnShare {
    state.withLock { state in
      let share = state.shares[ObjectIdentifier(loop)] ?? TurnShare(weight: state.weight)
      state.shares[ObjectIdentifier(loop)] = share
      return share
    }
  }

  /// Counts from the next turns on.
  ///
  /// - Parameter weight: at least 1.
  package func replace(weight: Int) {
    state.withLock { state in
      state.weight = weight
      for share in state.shares.values { share.weight = weight }
    }
  }
}
