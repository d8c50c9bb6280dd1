package import Carillon
package import Logging
package import PushStore
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Sends what other nodes had taken in and can send no more, and what the store has of this node
/// and its journal has not.
///
/// The outcomes are those of the lines that clients know: the notifications become lines of a run
/// of this process, and ``OutcomeRecorder`` knows both names. Whoever may have got one already gets
/// it again as the app's `on-unknown` says, and counts as a possible duplicate.
package final class IntakeCarrier: Sendable {
  private let ledger: any Ledger
  private let outcomes: OutcomeRecorder
  private let deployment: Deployment
  /// Of this process, once it has joined.
  private let incarnation: @Sendable () -> Int64
  /// Nothing is taken over.
  private let isDraining: @Sendable () -> Bool
  private let clock: any ServiceClock
  private let logger: Logger

  /// For tests of the simulation.
  package enum PlantedMistake: CaseIterable, Sendable {
    /// What another node may have sent is in no doubt.
    case doubtsNothing
    /// What clients call the lines of a run is not known after a restart.
    case forgetsNames
    /// What the journal does not have is forgotten.
    case trustsTheJournal
  }

  private let plantedMistake: PlantedMistake?

  private struct State {
    /// Runs of the journal that this process still has.
    var owned: Set<IntakeRunID> = []
    var isRestored = false
    /// The node may have blocks that it does not know: the answer to a claim was lost.
    var hasMore = false
    var carriedCount = 0
    /// Lines that the journal does not have.
    var missing: [(block: OwnedIntakeBlock, lines: [UInt32])] = []
  }

  private let state = Mutex(State())

  private static let interval = Duration.seconds(1)
  private static let claimLimit = 8
  private static let pageLimit = 1_000

  package init(
    ledger: any Ledger, outcomes: OutcomeRecorder, deployment: Deployment,
    incarnation: @escaping @Sendable () -> Int64, isDraining: @escaping @Sendable () -> Bool,
    clock: any ServiceClock, logger: Logger, plantedMistake: PlantedMistake? = nil
  ) {
    self.plantedMistake = plantedMistake
    (self.ledger, self.outcomes, self.deployment, self.incarnation) = (ledger, outcomes, deployment, incarnation)
    (self.isDraining, self.clock, self.logger) = (isDraining, clock, logger)
  }

  /// The runs of the journal that this process may resume, of those that nodes share.
  package var owned: Set<IntakeRunID> { state.withLock { $0.owned } }

  /// How many notifications were carried so far.
  package var carriedCount: Int { state.withLock { $0.carriedCount } }

  /// Finds out what this process still has. To be called once it has joined, before anything is
  /// resumed.
  package func restore() async throws {
    state.withLock { ($0.owned, $0.missing) = ([], []) }
    let journal = Dictionary(
      deployment.unfinishedSharedLines.map { (StoredRunID($0.key), (run: $0.key, last: $0.value)) },
      uniquingKeysWith: { first, _ in first })
    let carriages = try await clock.retrying { () throws(StoreError) in
      try await ledger.carriages(in: Array(journal.keys))
    }
    var carried: [IntakeBlock.ID: [IntakeCarriage]] = [:]
    for var carriage in carriages {
      // The journal may have only the first lines of one.
      guard let known = journal[carriage.run], known.last >= UInt64(carriage.first) else { continue }
      carriage.lines = Array(carriage.lines.prefix(Int(clamping: known.last - UInt64(carriage.first) + 1)))
      carried[carriage.block, default: []].append(carriage)
      if plantedMistake != .forgetsNames { outcomes.resume(carriage) }
    }
    var last: IntakeBlock.ID?
    while true {
      let page = try await clock.retrying { [last] () throws(StoreError) in
        try await ledger.blocks(of: incarnation(), after: last, limit: Self.pageLimit)
      }
      for block in page { restore(block, carried[block.block.id] ?? [], journal) }
      guard let end = page.last else { break }
      last = end.block.id
    }
    for run in owned { outcomes.resume(run, doubted: deployment.doubtedIntakeLines(of: run)) }
    try await clock.retrying { () throws(StoreError) in try await outcomes.makeChangesDurable() }
    state.withLock { $0.isRestored = true }
  }

  private func restore(
    _ block: OwnedIntakeBlock, _ carriages: [IntakeCarriage],
    _ journal: [StoredRunID: (run: IntakeRunID, last: UInt64)]
  ) {
    var rest = Set(block.open)
    var runs: Set<IntakeRunID> = []
    for carriage in carriages {
      if let known = journal[carriage.run], !rest.isDisjoint(with: carriage.lines) { runs.insert(known.run) }
      rest.subtract(carriage.lines)
    }
    let own = journal[block.block.id.run]
    if let own {
      let resumed = rest.filter { UInt64($0) <= own.last }
      if !resumed.isEmpty { runs.insert(own.run) }
      rest.subtract(resumed)
    }
    outcomes.take(block, isForeign: own == nil)
    state.withLock { state in
      state.owned.formUnion(runs)
      if !rest.isEmpty, plantedMistake != .trustsTheJournal { state.missing.append((block, rest.sorted())) }
    }
  }

  /// Carries notifications, from ``restore()`` on, until the task is cancelled.
  ///
  /// - Parameter hasRoom: whether the queue of an app has.
  package func run(hasRoom: @Sendable (PushApp) -> Bool) async {
    while !Task.isCancelled {
      var isBusy = false
      guard state.withLock({ $0.isRestored }) else {
        try? await clock.sleep(for: Self.interval)
        continue
      }
      do {
        for (block, lines) in state.withLock({ exchange(&$0.missing, with: []) }) { await carry(block, lines) }
        // Of blocks that nothing is sent of any more.
        try await outcomes.makeChangesDurable()
        let apps = deployment.apps.filter(hasRoom).map(\.id)
        if !isDraining(), !apps.isEmpty {
          if state.withLock({ exchange(&$0.hasMore, with: true) }) { try await findMore() }
          let claimed = try await ledger.claimBlocks(of: apps, limit: Self.claimLimit, by: incarnation())
          state.withLock { $0.hasMore = false }
          for block in claimed { await takeOver(block) }
          isBusy = claimed.count == Self.claimLimit
        }
      } catch {
        if error.kind != .away, !Task.isCancelled {
          logger.error("notifications of other nodes cannot be claimed", metadata: ["why": "\(error)"])
        }
      }
      if !isBusy { try? await clock.sleep(for: Self.interval) }
    }
  }

  private func takeOver(_ block: OwnedIntakeBlock) async {
    outcomes.take(block, isForeign: true)
    await carry(block, block.open)
  }

  /// Takes blocks that the node has got without knowing it.
  private func findMore() async throws(StoreError) {
    // Before the store is asked, and after it: what ends or begins meanwhile is in its answer.
    let known = outcomes.knownBlocks
    // What has its outcomes by now is gone from the store then.
    try await outcomes.makeChangesDurable()
    var last: IntakeBlock.ID?
    while true {
      let page = try await ledger.blocks(of: incarnation(), after: last, limit: Self.pageLimit)
      let runs = known.runs.union(outcomes.knownBlocks.runs)
      for block in page where !runs.contains(block.block.id.run) && !known.blocks.contains(block.block.id) {
        await takeOver(block)
      }
      guard let end = page.last else { return }
      last = end.block.id
    }
  }

  /// - Parameter lines: of the block. They may have been sent.
  private func carry(_ owned: OwnedIntakeBlock, _ lines: [UInt32]) async {
    guard !lines.isEmpty else { return }
    var isCarried = false
    do throws(any Error) {
      var block = owned.block
      if block.bytes.isEmpty {
        guard let found = try await ledger.notifications(of: block.id) else { return }
        block = found
      }
      guard let all = try? SharedNotifications.notifications(common: block.common, block.bytes),
        all.count == block.count
      else {
        logger.error("notifications of another node cannot be read", metadata: ["app": "\(block.app)"])
        return outcomes.giveUp(lines.map { ($0, "") }, of: block, .unknown)
      }
      let wanted = lines.map { all[Int($0 - block.id.first)] }
      guard let app = try? deployment.app(block.app) else { return wait(owned, lines) }
      if let outcome = app.configuration.onUnknown.doubtOutcome {
        return outcomes.giveUp(zip(lines, wanted).map { ($0, $1.1.description) }, of: block, outcome)
      }
      var batch = IntakeBatch(isShared: true, isOneRun: true)
      for (notification, token) in wanted { batch.append(notification, token) }
      _ = try await app.submit(
        batch,
        assigned: { [outcomes, plantedMistake] _, run, first in
          isCarried = true
          outcomes.carry(
            IntakeCarriage(block: block.id, lines: lines, run: StoredRunID(run), first: first),
            doubted: plantedMistake == .doubtsNothing ? [] : lines)
        })
      state.withLock { $0.carriedCount += lines.count }
    } catch {
      // What a run has is resumed by the next process.
      guard !isCarried, !deployment.hasEnded else { return }
      logger.warning("notifications of another node wait", metadata: ["why": "\(error)"])
      wait(owned, lines)
    }
  }

  private func wait(_ block: OwnedIntakeBlock, _ lines: [UInt32]) {
    state.withLock { $0.missing.append((block, lines)) }
  }
}

extension AppConfiguration.UnknownPolicy {
  /// What becomes of what another node may have sent; nil: it is sent again.
  var doubtOutcome: PushWire.Outcome? { self == .resend ? nil : self == .hold ? .held : .unknown }
}
