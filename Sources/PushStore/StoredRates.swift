/// What a node asks for of a rate that nodes keep together. Rates are per 1,000 seconds.
package struct RateClaim: Hashable, Sendable {
  /// Of the limit.
  package let name: String
  /// Of all nodes.
  package let limit: Int64
  /// What the node would have of it.
  package let share: Int64
  /// What it would use, for the others to know.
  package let demand: Int64

  package init(name: String, limit: Int64, share: Int64, demand: Int64) {
    (self.name, self.limit, self.share, self.demand) = (name, limit, share, demand)
  }
}

/// What a node has of a rate that nodes keep together, per 1,000 seconds.
package struct RateShare: Hashable, Sendable {
  package struct Peer: Hashable, Sendable {
    package let share: Int64
    package let demand: Int64

    package init(share: Int64, demand: Int64) { (self.share, self.demand) = (share, demand) }
  }

  package var share: Int64
  /// The other nodes that are alive.
  package var peers: [Peer] = []
  /// Another node has some of it, or has given it up within ``memory``.
  package var isUsed = false

  /// By the store's clock. More than the second for which a limit holds.
  package static let memory = Duration.seconds(2)

  package init(share: Int64, peers: [Peer] = [], isUsed: Bool = false) {
    (self.share, self.peers, self.isUsed) = (share, peers, isUsed || !peers.isEmpty)
  }
}
