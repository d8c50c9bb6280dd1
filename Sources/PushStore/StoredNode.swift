/// What a process says of itself with each beat.
package struct NodeFacts: Hashable, Sendable {
  /// Of the program.
  package var version = ""
  /// A digest of the settings that all nodes must have alike; empty: not told.
  package var configuration = ""
  /// Where its API listens; empty: not told.
  package var address = ""
  /// Notifications that it has and that have no outcome.
  package var pendingCount = 0
  /// How long it may be without a beat until others take its place.
  package var lease = Self.usualLease
  /// How far its clock is ahead of the store's; nil: not measured.
  package var clockOffset: Duration?
  /// What it shows of itself, for those who can read it. Written with each beat, and read by
  /// ``Store/nodeStatuses()`` only: every node looks at all nodes each second.
  package var status: [UInt8] = []

  package static let usualLease = Duration.seconds(10)

  package init() {}
}

/// A process that uses a store which several machines share.
package struct StoredNode: Hashable, Sendable {
  /// Of its machine, or of its place in the deployment.
  package let name: String
  /// Counts the processes of all nodes.
  package let incarnation: Int64
  /// Counted by the process while it lives.
  package var beat: Int64
  /// False: it has left, or another one has taken its place.
  package var isAlive: Bool
  /// Another one has taken its place.
  package var isLost = false
  /// It does what only one may do.
  package var leads: Bool
  /// It is to give back what it carries, and to take nothing more.
  package var isDraining = false
  package var facts = NodeFacts()
  /// By the store's clock; nil: not known.
  package var joinedAt: StoreInstant?
  /// Since its last beat, by the store's clock.
  package var silence = Duration.zero

  package init(name: String, incarnation: Int64, beat: Int64, isAlive: Bool, leads: Bool = false) {
    (self.name, self.incarnation, self.beat) = (name, incarnation, beat)
    (self.isAlive, self.leads) = (isAlive, leads)
  }
}

/// What the ledger has of a node.
package struct NodeWork: Hashable, Sendable {
  /// Segments that it owns and that are not settled.
  package var segmentCount = 0
  /// Segments that others have taken over because it was no longer alive.
  package var takenOverCount = 0
  /// Of these, the notifications that it may have sent, and that were sent again.
  package var possibleDuplicateCount = 0
  package var lastTakeover: StoreInstant?

  package init() {}
}

/// A segment whose owner was no longer alive when another node claimed it.
package struct SegmentTakeover: Hashable, Sendable {
  package let segment: SegmentID
  /// Of the claim.
  package let epoch: Int64
  /// The name of the node that had it.
  package let node: String
  package let at: StoreInstant
  package let possibleDuplicateCount: Int

  package init(segment: SegmentID, epoch: Int64, node: String, at: StoreInstant, possibleDuplicateCount: Int) {
    (self.segment, self.epoch, self.node, self.at) = (segment, epoch, node, at)
    self.possibleDuplicateCount = possibleDuplicateCount
  }
}
