package import PushStore

/// Notifications that nodes share.
struct BlockContents: Sendable {
  struct Block: Sendable {
    var block: IntakeBlock
    /// 0: nobody.
    var owner: Int64
  }

  /// In the order of runs and lines.
  var blocks: [Block] = []
  var carriages: [IntakeCarriage] = []

  /// All or none of what a node has: it was lost, or is forgotten.
  mutating func free(_ incarnation: Int64) {
    for index in blocks.indices where blocks[index].owner == incarnation { blocks[index].owner = 0 }
  }

  mutating func move(from former: Int64, to joined: Int64) {
    for index in blocks.indices where blocks[index].owner == former { blocks[index].owner = joined }
  }

  func has(_ run: StoredRunID) -> Bool { blocks.contains { $0.block.id.run == run } }
}

extension SimulatedStore {
  package func claimBlocks(
    of apps: [String], limit: Int, by incarnation: Int64
  ) async throws(StoreError) -> [OwnedIntakeBlock] {
    try await call { contents in
      guard contents.ledger.nodes.values.contains(where: { $0.isAlive && $0.incarnation == incarnation }) else {
        return []
      }
      let free = contents.blocks.blocks.indices.filter {
        contents.blocks.blocks[$0].owner == 0 && apps.contains(contents.blocks.blocks[$0].block.app)
      }.prefix(limit)
      for index in free { contents.blocks.blocks[index].owner = incarnation }
      return free.map { contents.owned(contents.blocks.blocks[$0]) }
    }
  }

  package func blocks(
    of incarnation: Int64, after block: IntakeBlock.ID?, limit: Int
  ) async throws(StoreError) -> [OwnedIntakeBlock] {
    try await call { contents in
      contents.blocks.blocks.filter { found in
        found.owner == incarnation && block.map { $0.comes(before: found.block.id) } ?? true
      }.prefix(limit).map { found in
        var found = contents.owned(found)
        (found.block.common, found.block.bytes) = ([], [])
        return found
      }
    }
  }

  package func carriages(in runs: [StoredRunID]) async throws(StoreError) -> [IntakeCarriage] {
    try await call { contents in
      contents.blocks.carriages.filter { runs.contains($0.run) }.sorted {
        ($0.run.high, UInt64($0.run.low), $0.first) < ($1.run.high, UInt64($1.run.low), $1.first)
      }
    }
  }

  package func knownRuns(_ parts: [StoredLines]) async throws(StoreError) -> [StoredRunID: KnownRun] {
    try await call { contents in
      var found: [StoredRunID: KnownRun] = [:]
      for part in parts {
        guard let run = contents.runs[part.run] else { continue }
        var known = found[part.run] ?? KnownRun()
        let living = contents.ledger.nodes.values.filter(\.isAlive).compactMap { contents.ledger.journals[$0.name] }
        known.isElsewhere = run.endedAt == nil && run.node != node && living.contains(run.node)
        known.accepted += part.lines.filter { run.accepted[$0] != nil }.map { $0...$0 }
        for line in part.lines {
          guard let outcome = run.notAccepted[line] else { continue }
          known.notAccepted[line] = StoredOutcome(state: outcome.state, detail: outcome.detail, app: run.app)
        }
        known.kept += contents.blocks.blocks.filter { found in
          found.block.id.run == part.run && found.block.lines.overlaps(part.lines)
        }.map(\.block.lines)
        found[part.run] = known
      }
      return found
    }
  }

  package func notifications(of block: IntakeBlock.ID) async throws(StoreError) -> IntakeBlock? {
    try await call { contents in contents.blocks.blocks.first { $0.block.id == block }?.block }
  }
}

extension StoreContents {
  fileprivate func owned(_ found: BlockContents.Block) -> OwnedIntakeBlock {
    let run = runs[found.block.id.run]
    let settled = found.block.lines.filter { run?.accepted[$0] != nil || run?.notAccepted[$0] != nil }
    return OwnedIntakeBlock(found.block, settled: settled.map { $0...$0 })
  }

  /// - Returns: what is to be written besides.
  mutating func write(_ changes: SharedIntakeChanges, of all: IntakeChanges) -> IntakeChanges {
    let isAlive = ledger.nodes.values.contains { $0.isAlive && $0.incarnation == changes.incarnation }
    let kept = isAlive ? all : all.withoutShared
    for block in kept.shared.blocks {
      blocks.blocks.append(BlockContents.Block(block: block, owner: isAlive ? changes.incarnation : 0))
    }
    blocks.blocks.sort { $0.block.id.comes(before: $1.block.id) }
    for carriage in kept.shared.carriages
    where !blocks.carriages.contains(where: { ($0.run, $0.first) == (carriage.run, carriage.first) }) {
      blocks.carriages.append(carriage)
    }
    for lines in kept.shared.copies { for line in lines.lines { runs[lines.run]?.copies[line, default: 0] += 1 } }
    return kept
  }

  /// Once the outcomes are there.
  mutating func settle(_ changes: SharedIntakeChanges) {
    let settled = Set(changes.settled)
    blocks.blocks.removeAll { settled.contains($0.block.id) }
    for run in changes.left where runs[run]?.endedAt == nil && !blocks.has(run) {
      runs[run]?.endedAt = StoreInstant(milliseconds: 0)
    }
  }
}

extension IntakeBlock.ID {
  fileprivate func comes(before other: IntakeBlock.ID) -> Bool {
    (run.high, UInt64(run.low), first) < (other.run.high, UInt64(other.run.low), other.first)
  }
}

extension StoreContents {
  /// How many blocks have a notification without an outcome.
  package var blockCount: Int { blocks.blocks.count }

  /// Whether it is in a block.
  package func keeps(_ id: StoredNotificationID) -> Bool {
    blocks.blocks.contains { $0.block.id.run == id.run && $0.block.lines.contains(id.line) }
  }

  package var blockDescription: String {
    blocks.blocks.map { found in
      "\(found.block.count) from \(found.block.id.first) owner \(found.owner) open \(owned(found).open.count)"
    }.joined(separator: ", ")
  }

  /// How many copies of a notification may have arrived.
  package func copyCount(of id: StoredNotificationID) -> Int { runs[id.run]?.copies[id.line] ?? 0 }
}
