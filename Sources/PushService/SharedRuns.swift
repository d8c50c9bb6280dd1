internal import PushStore

/// Which blocks of notifications this process sends that nodes share, and what its lines are called
/// that were another run's first.
struct SharedRuns {
  private struct Block {
    let first: UInt32
    var count: Int
    var openCount: Int
    /// Those without an outcome when this process began; nil: it had none yet. The journal may send
    /// again what has an outcome in the store.
    var open: Set<UInt32>?
    /// It is in the store, or in what is written next. Until then it grows.
    var isWritten: Bool

    var last: UInt32 { first + UInt32(count) - 1 }
  }

  private struct Run {
    /// In the order of their lines.
    var blocks: [Block] = []
    /// Another process began it, so no end of it is heard of.
    var isForeign = false
  }

  private var runs: [StoredRunID: Run] = [:]
  /// By the run of this process; in the order of its lines.
  private var carriages: [StoredRunID: [IntakeCarriage]] = [:]
  /// Lines that the journal is known to have in doubt, by the run of this process: the store has
  /// their copies, so they are heard of once more.
  private var doubted: [StoredRunID: Set<UInt64>] = [:]

  func contains(_ run: StoredRunID) -> Bool { runs[run] != nil }
  func isCarried(_ run: StoredRunID) -> Bool { carriages[run] != nil }

  /// What this process knows that it has: runs that it began or resumed, and blocks of others.
  var known: (runs: Set<StoredRunID>, blocks: Set<IntakeBlock.ID>) {
    let foreign = runs.filter(\.value.isForeign)
    return (
      Set(runs.keys).subtracting(foreign.keys),
      Set(foreign.flatMap { run, found in found.blocks.map { IntakeBlock.ID(run: run, first: $0.first) } })
    )
  }

  // MARK: Blocks

  /// - Parameter isJoined: it is the end of the last one.
  mutating func add(_ block: IntakeBlock, isJoined: Bool) {
    if isJoined, let last = runs[block.id.run]?.blocks.indices.last {
      runs[block.id.run]?.blocks[last].count += block.count
      runs[block.id.run]?.blocks[last].openCount += block.count
    } else {
      runs[block.id.run, default: Run()].blocks.append(
        Block(first: block.id.first, count: block.count, openCount: block.count, isWritten: false))
    }
  }

  /// One that is in the store.
  mutating func take(_ block: OwnedIntakeBlock, isForeign: Bool) {
    let id = block.block.id
    var run = runs[id.run] ?? Run(isForeign: isForeign)
    let open = Set(block.open)
    let taken = Block(
      first: id.first, count: block.block.count, openCount: open.count, open: open, isWritten: true)
    if run.blocks.last.map({ $0.first < id.first }) ?? true {
      run.blocks.append(taken)
    } else {
      // It may be asked for again, because the store failed in the middle of it.
      run.blocks.removeAll { $0.first == id.first }
      run.blocks.insert(taken, at: run.blocks.firstIndex { $0.first > id.first } ?? run.blocks.count)
    }
    runs[id.run] = run
  }

  /// Nothing is added to new blocks any more.
  ///
  /// - Returns: whether the store needs a block: not all of it has an outcome by now.
  mutating func write(_ id: IntakeBlock.ID) -> Bool {
    guard let place = place(of: id.first, in: id.run), let block = runs[id.run]?.blocks[place] else { return false }
    guard block.openCount > 0 else {
      runs[id.run]?.blocks.remove(at: place)
      return false
    }
    runs[id.run]?.blocks[place].isWritten = true
    return true
  }

  /// A line has its outcome.
  mutating func settle(_ line: UInt32, of run: StoredRunID, _ changes: inout SharedIntakeChanges) {
    changes.runs.insert(run)
    guard let place = place(of: line, in: run), var block = runs[run]?.blocks[place] else { return }
    if block.open != nil, block.open?.remove(line) == nil { return }
    block.openCount -= 1
    runs[run]?.blocks[place] = block
    if block.isWritten, block.openCount <= 0 { remove(place, of: run, &changes) }
  }

  /// All lines of a block have their outcome.
  mutating func settle(_ id: IntakeBlock.ID, _ changes: inout SharedIntakeChanges) {
    if let place = place(of: id.first, in: id.run) { remove(place, of: id.run, &changes) }
  }

  private mutating func remove(_ place: Int, of run: StoredRunID, _ changes: inout SharedIntakeChanges) {
    guard let block = runs[run]?.blocks.remove(at: place) else { return }
    changes.settled.append(IntakeBlock.ID(run: run, first: block.first))
    guard let known = runs[run], known.isForeign, known.blocks.isEmpty else { return }
    changes.left.insert(run)
    runs[run] = nil
  }

  /// A run of this process accepts nothing more, and all of it has its outcome.
  ///
  /// - Returns: whether it has ended for clients, too. Otherwise lines of it are in other runs.
  mutating func end(_ run: StoredRunID) -> Bool {
    (carriages[run], doubted[run]) = (nil, nil)
    guard let known = runs[run], known.blocks.contains(where: { $0.openCount > 0 }) else {
      runs[run] = nil
      return true
    }
    runs[run]?.isForeign = true
    return false
  }

  private func place(of line: UInt32, in run: StoredRunID) -> Int? {
    guard let blocks = runs[run]?.blocks else { return nil }
    var (low, high) = (0, blocks.count)
    while low < high {
      let middle = (low + high) / 2
      if blocks[middle].first <= line { low = middle + 1 } else { high = middle }
    }
    return low > 0 && line <= blocks[low - 1].last ? low - 1 : nil
  }

  // MARK: Copies

  mutating func doubt(_ lines: [UInt64], of run: StoredRunID) { doubted[run, default: []].formUnion(lines) }

  /// Those that are not counted yet.
  mutating func newlyDoubted(_ lines: [UInt64], of run: StoredRunID) -> [UInt64] {
    guard doubted[run] != nil else { return lines }
    return lines.filter { doubted[run]?.remove($0) == nil }
  }

  // MARK: Other names

  mutating func add(_ carriage: IntakeCarriage) {
    var known = (carriages[carriage.run] ?? []).filter { $0.first != carriage.first }
    known.insert(carriage, at: known.firstIndex { $0.first > carriage.first } ?? known.count)
    carriages[carriage.run] = known
  }

  /// What a line of a run of this process is called by clients. A run may have lines of others
  /// among its own.
  func name(of line: UInt64, in run: StoredRunID) -> (run: StoredRunID, line: UInt32) {
    let own = (run, UInt32(truncatingIfNeeded: line))
    guard let known = carriages[run] else { return own }
    var (low, high) = (0, known.count)
    while low < high {
      let middle = (low + high) / 2
      if UInt64(known[middle].first) <= line { low = middle + 1 } else { high = middle }
    }
    guard low > 0 else { return own }
    let (carriage, offset) = (known[low - 1], line - UInt64(known[low - 1].first))
    return offset < carriage.lines.count ? (carriage.block.run, carriage.lines[Int(offset)]) : own
  }
}
