package import Carillon
package import PushStore
package import PushWire
internal import Synchronization

/// Notifications that nodes share.
extension OutcomeRecorder {
  /// From now on this process is one of several.
  package func share(as incarnation: Int64) { self.incarnation.store(incarnation, ordering: .relaxed) }

  /// The store keeps neighbouring notifications of a run until they have their outcomes. To be
  /// called before one of them can have one, in the order of their lines.
  package func keep(
    _ run: IntakeRunID, from first: UInt32, app: String, _ notifications: [(PreparedNotification, DeviceToken)],
    isBridge: Bool = false
  ) {
    var start = 0
    while start < notifications.count {
      var (end, byteCount) = (start, 0)
      while end < notifications.count, end - start < IntakeBlock.countLimit, byteCount < IntakeBlock.byteCountLimit {
        let isNew = end == start || notifications[end].0 !== notifications[end - 1].0
        byteCount += TokenBytes.usualByteCount + 1 + (isNew ? notifications[end].0.payload.count : 0)
        end += 1
      }
      let shared = SharedNotifications(notifications[start..<end])
      keep(
        IntakeBlock(
          IntakeBlock.ID(run: StoredRunID(run), first: first + UInt32(start)), app: app, count: end - start,
          isBridge: isBridge, common: shared.common, bytes: shared.bytes))
      start = end
    }
  }

  private func keep(_ block: IntakeBlock) {
    state.withLock { state in
      // Its run may be about to begin, and the store may be written before that.
      if state.runs[block.id.run] == nil { state.changes.began.append((block.id.run, block.app, clock.now)) }
      let last = state.changes.shared.blocks.lastIndex { $0.id.run == block.id.run }
      let isJoined = last.map { state.changes.shared.blocks[$0].join(block) } ?? false
      if !isJoined { state.changes.shared.blocks.append(block) }
      state.shared.add(block, isJoined: isJoined)
    }
  }

  /// This process sends a block that is in the store.
  ///
  /// - Parameter isForeign: the journal of this process does not have its run.
  package func take(_ block: OwnedIntakeBlock, isForeign: Bool) {
    let id = block.block.id
    state.withLock { state in
      if state.runs[id.run] == nil {
        var run = Run(app: block.block.app, isBridge: block.block.isBridge)
        run.acknowledgedLine = .max
        state.runs[id.run] = run
      }
      state.shared.take(block, isForeign: isForeign)
      if block.open.isEmpty { state.shared.settle(id, &state.changes.shared) }
    }
  }

  /// Lines of blocks are in the journal of this process as lines of another run.
  package func resume(_ carriage: IntakeCarriage) { state.withLock { $0.shared.add(carriage) } }

  /// The journal has lines in doubt, which are sent again. The store knows of it before, for
  /// another node that takes them over.
  package func resume(_ run: IntakeRunID, doubted lines: [UInt64]) {
    let id = StoredRunID(run)
    state.withLock { state in
      state.shared.doubt(lines, of: id)
      state.doubt(lines, of: id, isResumed: true)
    }
  }

  /// What this process knows that it has: runs that it began or resumed, and blocks of others.
  var knownBlocks: (runs: Set<StoredRunID>, blocks: Set<IntakeBlock.ID>) { state.withLock { $0.shared.known } }

  /// Lines of a block are sent in another run from now on, and some of them for another time.
  package func carry(_ carriage: IntakeCarriage, doubted: [UInt32]) {
    state.withLock { state in
      state.shared.add(carriage)
      state.changes.shared.carriages.append(carriage)
      state.changes.doubted += doubted.ranges.map { StoredLines(run: carriage.block.run, lines: $0) }
    }
  }

  /// What the journal has by now is to be in the store, too.
  ///
  /// - Parameter body: called at once, unless the store is away: then when it is back.
  func whenStored(_ body: @escaping @Sendable () -> Void) {
    guard awayDuration != nil else { return body() }
    waiters.withLock { $0.append(body) }
  }

  /// Whether this process can report outcomes of a run.
  func isOpen(_ run: IntakeRunID) -> Bool { state.withLock { $0.runs[StoredRunID(run)] != nil } }

  /// Lines of a block are not sent again.
  ///
  /// - Parameter token: of each, in hexadecimal digits.
  package func giveUp(
    _ lines: [(line: UInt32, token: String)], of block: IntakeBlock, _ outcome: PushWire.Outcome
  ) {
    for (line, token) in lines {
      notAccepted(
        block.id.run, app: block.app, line: UInt64(line), token: token, outcome: outcome, goneSince: nil,
        isDoubted: false)
    }
  }
}

extension OutcomeRecorder.State {
  /// - Parameter isResumed: the store may not have the run: then nothing of it was acknowledged.
  mutating func doubt(_ lines: [UInt64], of id: StoredRunID, isResumed: Bool = false) {
    let named = Dictionary(grouping: lines.map { shared.name(of: $0, in: id) }, by: \.run)
    for (run, lines) in named {
      let ranges = lines.map(\.line).ranges.map { StoredLines(run: run, lines: $0) }
      if run == id, !isResumed { changes.doubted += ranges } else { changes.shared.copies += ranges }
    }
  }

  /// A run has the channel of the one in which it is carried.
  mutating func adoptChannel(of carrier: StoredRunID, _ run: StoredRunID) {
    if carrier != run, let channel = runs[carrier]?.channel { runs[run]?.channel = channel }
  }
}
