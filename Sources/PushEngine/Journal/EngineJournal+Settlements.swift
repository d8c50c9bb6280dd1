internal import PushJournal
internal import PushWire
internal import Synchronization

/// Outcomes that are written only when the lists have them.
///
/// Without it, each commit of the journal first makes the lists durable, because outcomes are among
/// its records. So an accepted notification waits for two syncs, one after the other, and for other
/// writers of the store. Here outcomes wait instead. They gather for some milliseconds, the lists
/// become durable on a thread of their own, and then the records follow, in their order. No caller
/// waits for them: a crash in between leaves a notification without its outcome, as a crash before
/// it would.
extension EngineJournal {
  /// Outcomes that wait to be written, and callers that wait for that.
  struct Settlements {
    enum Entry {
      case event(JournalEvent)
      case retired(lane: UInt64)
    }

    /// The oldest first.
    var entries: [Entry] = []
    /// How many have ever been added, and how many of them are written.
    var addedCount = 0
    var writtenCount = 0
    var isAsked = false
    var waiters: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []

    mutating func add(_ entry: Entry) {
      entries.append(entry)
      addedCount += 1
    }

    /// Removes the callers that wait for at most `count` written entries.
    mutating func takeWaiters(through count: Int) -> [CheckedContinuation<Void, Never>] {
      let done = waiters.filter { $0.count <= count }.map(\.continuation)
      waiters.removeAll { $0.count <= count }
      return done
    }
  }

  /// Makes lists durable, and then lets the journal write the outcomes that they have.
  struct SettlementWriter: Sendable {
    let sync: @Sendable () throws(UnsyncedList) -> Void
    /// Asks for ``EngineJournal/writeSettlements()``; the flag: at once.
    let ask: @Sendable (Bool) -> Void
    let end: @Sendable () -> Void
  }

  /// The shortest time between two commits: the store's commit is shared by what comes meanwhile.
  private static let interval = Duration.milliseconds(10)
  /// With this many waiting, nothing new is accepted: the store is too slow.
  static let waitingLimit = 100_000

  /// From now on outcomes are written when `sync` has returned, which is called on a thread of its
  /// own. If it throws, the journal fails, unless the lists are away: then it is called again. Call
  /// this once, before the first outcome. A journal that never syncs writes them at once.
  ///
  /// - Parameters:
  ///   - syncIntake: called before each group of other records, on the journal's thread: makes
  ///     durable what must be known of notifications before they are in the journal.
  ///   - syncPassed: the same, if records of the group say how far an audience was read: makes
  ///     durable what lists have about entries that are not sent. No app may wait for it for long.
  package func writeSettlements(
    after sync: @escaping @Sendable () throws(UnsyncedList) -> Void,
    intakeAfter syncIntake: @escaping @Sendable () throws(UnsyncedList) -> Void = {},
    positionsAfter syncPassed: (@Sendable () throws(UnsyncedList) -> Void)? = nil
  ) {
    guard journal.syncs else { return }
    let thread = PacedThread(interval: Self.interval) { [weak self] in self?.writeSettlements() }
    guard thread.start() == 0 else { return beforeCommits(sync) }
    beforeCommits(sync: sync, syncPassed: syncPassed ?? sync, syncIntake: syncIntake)
    writer.withLock {
      $0 = SettlementWriter(sync: sync, ask: { thread.ask(atOnce: $0) }, end: { thread.end() })
    }
  }

  /// The same for simulations, in which the caller calls ``writeSettlements()`` some time after
  /// `ask`.
  package func writeSettlements(
    after sync: @escaping @Sendable () throws(UnsyncedList) -> Void, ask: @escaping @Sendable () -> Void
  ) {
    writer.withLock { $0 = SettlementWriter(sync: sync, ask: { _ in ask() }, end: {}) }
  }

  /// Makes the lists durable, and writes the outcomes that waited for that.
  package func writeSettlements() {
    guard let writer = writer.withLock({ $0 }) else { return }
    let (entries, count) = state.withLock { state in
      state.settlements.isAsked = false
      return (exchange(&state.settlements.entries, with: []), state.settlements.addedCount)
    }
    do throws(UnsyncedList) {
      if !entries.isEmpty { try writer.sync() }
      for entry in entries {
        switch entry {
        case .event(let event): write(event, isPrepared: true)
        case .retired(let lane): forget(lane: lane)
        }
      }
    } catch {
      guard !error.isAway else {
        state.withLock { state in
          state.settlements.entries.insert(contentsOf: entries, at: 0)
          state.settlements.isAsked = true
        }
        return writer.ask(false)
      }
      stop(because: "\(JournalError.failed(JournalFileError(.sync, path: error.path, code: error.code)))")
    }
    let waiters = state.withLock { state in
      state.settlements.writtenCount = count
      return state.settlements.takeWaiters(through: count)
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Lets something wait. False: there is nothing to wait for, so it is to be done at once.
  func isWaiting(_ entry: Settlements.Entry) -> Bool {
    guard let ask = writer.withLock({ $0?.ask }) else { return false }
    let isFirst = state.withLock { state in
      guard state.failure == nil else { return false }
      state.settlements.add(entry)
      return !exchange(&state.settlements.isAsked, with: true)
    }
    if isFirst { ask(false) }
    return true
  }

  /// Returns when everything that waits now is written, or the journal has failed.
  func settlementsWritten() async {
    guard let ask = writer.withLock({ $0?.ask }) else { return }
    await withCheckedContinuation { continuation in
      let waits = state.withLock { state in
        let count = state.settlements.addedCount
        guard count > state.settlements.writtenCount, state.failure == nil else { return false }
        state.settlements.waiters.append((count, continuation))
        return true
      }
      if waits { ask(true) } else { continuation.resume() }
    }
  }
}

extension JournalEvent {
  /// Says what became of notifications in the lanes of this process, or of a campaign. These keep
  /// their order among each other; everything else may come before them.
  var isSettlement: Bool {
    switch self {
    case .settled, .returned, .answered, .withdrawn, .ended: true
    case .laneBegan, .intent, .rewound, .doubted, .resolved, .resent, .position, .numbersTaken: false
    }
  }

  var preparation: Preparation {
    switch self {
    case .settled, .answered, .resolved, .ended: .all
    case .position(_, let position): position.preparation
    case .returned, .withdrawn, .laneBegan, .intent, .rewound, .doubted, .resent, .numbersTaken: .least
    }
  }
}

extension AudiencePosition {
  /// Lists name the lines before it that were rejected or left out, or passed over in doubt.
  var preparation: Preparation { withheld.isEmpty && rejected.isEmpty && !coversUncounted ? .least : .lists }
}
