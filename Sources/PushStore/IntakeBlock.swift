/// Neighbouring notifications of a run that the store keeps until each has its outcome, so that
/// another node can send them if the one that has them in its journal is lost.
package struct IntakeBlock: Hashable, Sendable {
  /// Its run, and the first of its lines.
  package struct ID: Hashable, Sendable {
    package var run: StoredRunID
    package var first: UInt32

    package init(run: StoredRunID, first: UInt32) { (self.run, self.first) = (run, first) }
  }

  package var id: ID
  package var app: String
  /// Its lines are those from the first one on.
  package var count: Int
  /// Clients of the bridge have sent them.
  package var isBridge: Bool
  /// What all of the run have in common, and the notifications, for those who can read them.
  package var common: [UInt8]
  package var bytes: [UInt8]

  package init(
    _ id: ID, app: String, count: Int, isBridge: Bool = false, common: [UInt8] = [], bytes: [UInt8] = []
  ) {
    (self.id, self.app, self.count, self.isBridge, self.common, self.bytes) = (id, app, count, isBridge, common, bytes)
  }

  package var lines: ClosedRange<UInt32> { id.first...(id.first + UInt32(max(1, count)) - 1) }

  /// The most notifications in one, and about how many bytes: a node that takes it over has it in
  /// memory. Neighbours are joined up to there.
  package static let countLimit = 4_096
  package static let byteCountLimit = 1 << 20

  /// - Returns: false if the other one does not follow this one, or both are too large together.
  package mutating func join(_ next: IntakeBlock) -> Bool {
    guard next.id.run == id.run, next.id.first == lines.upperBound + 1, next.common == common,
      count + next.count <= Self.countLimit, bytes.count + next.bytes.count <= Self.byteCountLimit
    else { return false }
    count += next.count
    bytes += next.bytes
    return true
  }
}

/// That a node sends lines of a block as lines of another run, which is its own.
package struct IntakeCarriage: Hashable, Sendable {
  package var block: IntakeBlock.ID
  /// The lines of the block, in order.
  package var lines: [UInt32]
  package var run: StoredRunID
  /// What the first of them is there; the others follow it.
  package var first: UInt32

  package init(block: IntakeBlock.ID, lines: [UInt32], run: StoredRunID, first: UInt32) {
    (self.block, self.lines, self.run, self.first) = (block, lines, run, first)
  }
}

/// A block of a node.
package struct OwnedIntakeBlock: Hashable, Sendable {
  package var block: IntakeBlock
  /// Its lines that have their outcome.
  package var settled: [ClosedRange<UInt32>]

  package init(_ block: IntakeBlock, settled: [ClosedRange<UInt32>]) { (self.block, self.settled) = (block, settled) }

  /// Its lines without an outcome.
  package var open: [UInt32] {
    let settled = Set(settled.joined())
    return block.lines.filter { !settled.contains($0) }
  }
}

/// What is known of some lines of a run, which another node may send.
package struct KnownRun: Hashable, Sendable {
  package var accepted: [ClosedRange<UInt32>] = []
  package var notAccepted: [UInt32: StoredOutcome] = [:]
  /// Lines of blocks: some node sends them.
  package var kept: [ClosedRange<UInt32>] = []
  /// It is in the journal of another node, which lives, and has not ended.
  package var isElsewhere = false

  package init() {}

  /// Whether a line without an outcome may get one.
  package func expects(_ line: UInt32) -> Bool { isElsewhere || kept.contains { $0.contains(line) } }
}

/// What a process changes of notifications that nodes share.
package struct SharedIntakeChanges: Sendable {
  /// Of the process. If others have taken its place, what became of its notifications is theirs to
  /// say: such outcomes are not written, and its new blocks belong to nobody.
  package var incarnation: Int64 = 0
  package var blocks: [IntakeBlock] = []
  package var carriages: [IntakeCarriage] = []
  /// Lines that may have arrived and are sent again, once each: as ``IntakeChanges/doubted``, but
  /// their run may be forgotten by now.
  package var copies: [StoredLines] = []
  /// All lines of these have their outcome.
  package var settled: [IntakeBlock.ID] = []
  /// The runs of shared notifications that have outcomes in the changes, by the names that clients
  /// know.
  package var runs: Set<StoredRunID> = []
  /// Runs of other nodes of which this process has no block any more.
  package var left: Set<StoredRunID> = []

  package init() {}

  package var isEmpty: Bool { blocks.isEmpty && carriages.isEmpty && copies.isEmpty && settled.isEmpty && left.isEmpty }

  package mutating func append(_ later: SharedIntakeChanges) {
    incarnation = max(incarnation, later.incarnation)
    blocks += later.blocks
    carriages += later.carriages
    copies += later.copies
    settled += later.settled
    runs.formUnion(later.runs)
    left.formUnion(later.left)
  }
}

extension IntakeChanges {
  /// Without what others say, because they have taken the place of the process.
  package var withoutShared: IntakeChanges {
    var rest = self
    let runs = shared.runs
    rest.accepted.removeAll { runs.contains($0.run) }
    rest.notAccepted.removeAll { runs.contains($0.notification.run) }
    rest.outcomes.removeAll(of: runs)
    (rest.shared.settled, rest.shared.left) = ([], [])
    return rest
  }
}
