internal import Synchronization

/// One app's share of one event loop: what its lanes there have together.
package final class TurnShare: @unchecked Sendable {
  // Sync: `flow` is used on the loop only; init only stores.

  /// Returns how many bytes it has sent.
  package typealias Job = @Sendable () -> Int

  /// In proportion to those of other apps.
  let weight: Int
  /// Its number on the loop, once it has had a job there.
  var flow: Int?

  fileprivate init(weight: Int) { self.weight = weight }
}

/// The shares of one app, one for each loop.
package final class TurnShares: Sendable {
  private let weight: Int
  private let shares = Mutex<[ObjectIdentifier: TurnShare]>([:])

  /// - Parameter weight: at least 1.
  package init(weight: Int) { self.weight = weight }

  package func share(of loop: any Loop) -> TurnShare {
    shares.withLock { shares in
      let share = shares[ObjectIdentifier(loop)] ?? TurnShare(weight: weight)
      shares[ObjectIdentifier(loop)] = share
      return share
    }
  }
}
