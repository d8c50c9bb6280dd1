package import Carillon
package import Logging
internal import PushEngine
package import PushStore
internal import PushTransport
package import PushWire
internal import Synchronization

/// The apps that have clients of the bridge, and what is remembered for them.
package final class BridgeApps: Sendable {
  private struct State {
    var apps: [String: BridgeApp] = [:]
    var nextSweep = Instant.start
    var isRestored = false
    /// ``BridgeLife/pause``, until this process has listened for as long as anything is remembered.
    var pause: Int64 = 0
    var listensSince: Instant?
    /// Apps whose notifications other nodes can take over.
    var shared: Set<String> = []
    /// Remembered lines without an answer that this process may not hear of, by their runs.
    var elsewhere: [IntakeRunID: Elsewhere] = [:]
    var nextLook = Instant.start
  }

  private struct Elsewhere {
    let app: BridgeApp
    var lines: Set<UInt32>
  }

  private let memory: ForwardedMemory.Limits
  private let deployment: Deployment
  private let outcomes: OutcomeRecorder
  private let store: any Store
  package let clock: any ServiceClock
  private let logger: Logger
  private let budget: MemoryBudget
  private let state = Mutex(State())
  /// How often memories are looked through for what is too old.
  private let sweepInterval: Duration
  /// The apps of runs that the bridge has lines in.
  private let runs = Mutex<[IntakeRunID: BridgeApp]>([:])

  package init(
    memory: ForwardedMemory.Limits, deployment: Deployment, outcomes: OutcomeRecorder, store: any Store,
    clock: any ServiceClock = MachineClock(), logger: Logger
  ) {
    (self.memory, self.deployment, self.outcomes, self.store, self.clock) = (memory, deployment, outcomes, store, clock)
    self.logger = logger
    budget = MemoryBudget(byteCount: memory.byteCount)
    sweepInterval = min(.seconds(30), max(.milliseconds(500), memory.age / 16))
  }

  package var counts: [String: BridgeCounts] { all.reduce(into: [:]) { $0[$1.id] = $1.counts } }

  private var all: [BridgeApp] { state.withLock { Array($0.apps.values) } }

  package func app(_ id: String) -> BridgeApp {
    state.withLock { state in
      if let app = state.apps[id] { return app }
      let app = BridgeApp(id, memory: memory, budget: budget, outcomes: outcomes) { [self] run, app in
        runs.withLock { $0[run] = app }
      }
      app.isShared.store(state.shared.contains(id), ordering: .relaxed)
      state.apps[id] = app
      return app
    }
  }

  /// From now on, the store keeps what these apps forward, for other nodes.
  package func share(_ apps: Set<String>) {
    state.withLock { state in
      state.shared = apps
      for app in state.apps.values { app.isShared.store(apps.contains(app.id), ordering: .relaxed) }
    }
  }

  /// Whether an app takes frames now: not while the store is away that is to keep them.
  package func takesIn(_ app: String) -> Bool {
    outcomes.awayDuration == nil || !state.withLock { $0.shared.contains(app) }
  }

  // MARK: Life

  /// Loads what earlier processes and other nodes forwarded for clients that got no answer, unless
  /// that was done since the last ``leave()``.
  ///
  /// - Parameter owned: of the journal's runs that other nodes can take over, those that this
  ///   process may resume. Nil: the intake of earlier processes is resumed already.
  package func restore(owned: Set<IntakeRunID>? = nil) async throws(StoreError) {
    guard !state.withLock({ $0.isRestored }) else { return }
    for app in all { app.forget() }
    let shared = deployment.unfinishedSharedLines
    let lines = owned.map { owned in
      deployment.unfinishedIntakeLines.filter { run, _ in owned.contains(run) || shared[run] == nil }
    }
    let life = try await store.bridgeLife() ?? BridgeLife(lastSign: clock.now, pause: 0)
    // Until then at least, the last process lived. A sign in the future is of a clock that was set
    // back since.
    let lastSign = min(life.lastSign, clock.now)
    let pause = life.pause + clock.now.milliseconds - lastSign.milliseconds
    state.withLock { $0.pause = pause }
    var killed: Set<UInt64> = []
    var recovery = BridgeRecovery()
    let remembered = try await store.forwardedFrames(since: oldestStored)
    let known = try await knownRuns(of: remembered, notIn: lines ?? [:])
    for found in remembered {
      let frames = found.frames
      app(frames.app).restore(position: frames.position + Int64(frames.count), client: frames.client)
      guard let run = IntakeRunID(high: frames.run.high, low: frames.run.low) else { continue }
      if found.end == nil { killed.insert(frames.connection) }
      // One before the last may have had the connection.
      let sign = found.end?.lastSign ?? lastSign
      let reach = sign.milliseconds - BridgeRecovery.reach.components.seconds * 1000
      let end = found.end.flatMap { end in
        end.lastSign == nil ? BridgeRecovery.End(from: end.from, recentFrom: end.recentFrom) : nil
      }
      let isOpen = lines == nil && outcomes.isOpen(run)
      for (offset, digest) in [FrameDigest](bytes: frames.digests).enumerated() {
        let line = frames.firstLine + UInt32(offset)
        let frame = BridgeRecovery.Frame(
          app: frames.app, client: frames.client, digest: digest,
          answer: found.answer(line: line) ?? known[frames.run]?.answer(line: line),
          answeredAt: uptime(at: found.answeredBy, pause: pause), connection: frames.connection,
          number: frames.firstFrame + UInt64(offset), isRecognised: frames.isRecognised)
        recovery.read(
          frame, as: ForwardedLine(run, line: line), end, isRecent: frames.at.milliseconds >= reach,
          isInJournal: isOpen || UInt64(line) <= lines?[run] ?? 0 || known[frames.run]?.expects(line) == true)
      }
    }
    try await noteKilled(killed, lastSign)
    // Before frames come: they are signs of life as well, and the pause counts up to the last one.
    try await store.forgetForwarded(before: oldestStored, life: BridgeLife(lastSign: clock.now, pause: pause))
    let now = clock.uptime
    for (line, frame, isByResponse) in recovery.frames {
      let app = app(frame.app)
      if frame.answer == nil, let run = IntakeRunID(high: line.high, low: line.low) {
        runs.withLock { $0[run] = app }
        if UInt64(line.line) > lines?[run] ?? 0 {
          _ = state.withLock { $0.elsewhere[run, default: Elsewhere(app: app, lines: [])].lines.insert(line.line) }
        }
      }
      app.restore(frame, as: line, isByResponse: isByResponse, now: now)
    }
    state.withLock { $0.isRestored = true }
  }

  /// Of lines without an answer that the journal has not.
  private func knownRuns(
    of remembered: [RememberedFrames], notIn journal: [IntakeRunID: UInt64]
  ) async throws(StoreError) -> [StoredRunID: KnownRun] {
    guard let ledger = store.ledger else { return [:] }
    var parts: [StoredLines] = []
    for found in remembered {
      let frames = found.frames
      guard frames.count > 0, let run = IntakeRunID(high: frames.run.high, low: frames.run.low) else { continue }
      let lines = frames.firstLine...(frames.firstLine + UInt32(frames.count) - 1)
      if lines.contains(where: { UInt64($0) > journal[run] ?? 0 && found.answer(line: $0) == nil }) {
        parts.append(StoredLines(run: frames.run, lines: lines))
      }
    }
    return try await ledger.knownRuns(parts)
  }

  /// Before this process leaves signs of life of its own.
  private func noteKilled(_ connections: Set<UInt64>, _ lastSign: StoreInstant) async throws(StoreError) {
    guard !connections.isEmpty else { return }
    let now = clock.now
    outcomes.change { changes in
      for connection in connections.sorted() {
        changes.bridge.ended.append(
          EndedConnection(connection: connection, from: nil, recentFrom: nil, at: now, lastSign: lastSign))
      }
    }
    try await writeChanges()
  }

  private func writeChanges() async throws(StoreError) {
    do { try await outcomes.makeDurableElsewhere() } catch { throw StoreError(error) }
  }

  /// The service listens now.
  package func begin() {
    let now = clock.uptime
    state.withLock { $0.listensSince = now }
    for app in all { app.begins(now: now) }
  }

  /// What was answered before this is not remembered. What nobody could send again, because nobody
  /// listened, does not grow older.
  private var oldestStored: StoreInstant {
    let pause = state.withLock(\.pause)
    return StoreInstant(milliseconds: clock.now.milliseconds - memory.age.components.seconds * 1000 - pause)
  }

  /// An instant of an earlier process, on this one's clock; nil: now.
  private func uptime(at stored: StoreInstant?, pause: Int64) -> Instant {
    let now = clock.uptime
    guard let stored else { return now }
    let past = UInt64(max(0, clock.now.milliseconds - pause - stored.milliseconds)) * 1_000_000
    return Instant(nanoseconds: now.nanoseconds - min(past, now.nanoseconds))
  }

  /// The service listens no more: another node does, or will. All connections have ended.
  package func leave() {
    state.withLock { state in
      (state.isRestored, state.listensSince, state.elsewhere) = (false, nil, [:])
    }
  }

  /// Returns when the store knows how connections ended, as another node must. Both wait for a
  /// store that is away.
  package func handOver() async { try? await outcomes.makeDurableElsewhere() }

  /// Asks the store for answers that this process may not hear of, once in a while.
  package func look() async {
    let now = clock.uptime
    let wanted: [IntakeRunID: Elsewhere] = state.withLock { state in
      guard now >= state.nextLook else { return [:] }
      state.nextLook = now + Self.lookInterval
      return state.elsewhere
    }
    guard let ledger = store.ledger, !wanted.isEmpty else { return }
    let parts = wanted.flatMap { run, found in
      Array(found.lines).ranges.map { StoredLines(run: StoredRunID(run), lines: $0) }
    }
    guard let known = try? await ledger.knownRuns(parts) else { return }
    for (run, found) in wanted {
      let facts = known[StoredRunID(run)] ?? KnownRun()
      for line in found.lines {
        // Nobody sends what was lost with its node: the client may.
        let isLost = !facts.expects(line) && !outcomes.isOpen(run)
        guard let answer = facts.answer(line: line) ?? (isLost ? .refused(.processingError) : nil) else { continue }
        for wake in found.app.answered([UInt64(line)], of: run, answer) { wake() }
        state.withLock { state in
          state.elsewhere[run]?.lines.remove(line)
          if state.elsewhere[run]?.lines.isEmpty == true { state.elsewhere[run] = nil }
        }
      }
    }
  }

  private static let lookInterval = Duration.seconds(1)

  /// Ends the connections of apps that send nothing more until an operator acts.
  package func endStopped() {
    for app in all {
      let isGone = (try? deployment.app(app.id)).map { $0.lastingStopReason != nil } ?? true
      if isGone { app.tell(.end(by: nil)) }
    }
  }

  /// Forgets what is too old, here and in the store, once in a while.
  package func sweep() async {
    let now = clock.uptime
    let pause: Int64? = state.withLock { state in
      guard now >= state.nextSweep else { return nil }
      state.nextSweep = now + sweepInterval
      if let since = state.listensSince, now.since(since) > memory.age { state.pause = 0 }
      return state.pause
    }
    guard let pause else { return }
    for app in all { for wake in app.sweep(now: now) { wake() } }
    do {
      // Before this sign of life: how connections ended may wait for the journal, which may have
      // nothing to write.
      try await writeChanges()
      try await store.forgetForwarded(before: oldestStored, life: BridgeLife(lastSign: clock.now, pause: pause))
    } catch {
      logger.warning("old frames of the bridge stay in the store", metadata: ["why": "\(error)"])
    }
  }

  /// Every connection gets the message.
  package func tell(_ message: BridgeLink.Message) { for app in all { app.tell(message) } }
}

extension BridgeApps: IntakeWatcher {
  package func accepted(_ run: IntakeRunID, lines: [UInt64]) {
    guard let app = runs.withLock({ $0[run] }) else { return }
    for wake in app.answered(lines, of: run, .accepted) { wake() }
  }

  package func notAccepted(_ run: IntakeRunID, line: UInt64, outcome: Outcome) {
    guard let app = runs.withLock({ $0[run] }) else { return }
    for wake in app.answered([line], of: run, FrameAnswer(outcome)) { wake() }
  }

  package func ended(_ run: IntakeRunID) { runs.withLock { $0[run] = nil } }
}

extension RememberedFrames {
  fileprivate func answer(line: UInt32) -> FrameAnswer? { FrameAnswer(line, acceptedLines, notAccepted) }
}

extension KnownRun {
  fileprivate func answer(line: UInt32) -> FrameAnswer? { FrameAnswer(line, accepted, notAccepted) }
}

extension FrameAnswer {
  fileprivate init?(_ line: UInt32, _ accepted: [ClosedRange<UInt32>], _ notAccepted: [UInt32: StoredOutcome]) {
    if accepted.contains(where: { $0.contains(line) }) {
      self = .accepted
    } else if let outcome = notAccepted[line] {
      self.init(state: outcome.state, detail: outcome.detail)
    } else {
      return nil
    }
  }

  /// The answer of an outcome as the store has it; see ``Outcome/Kind``.
  init(state: String, detail: String) {
    let kind = Outcome.Kind(rawValue: state)
    guard kind == .rejected else {
      self =
        [.accepted, .suppressed, .capped, .holdout, .expired].contains(kind) ? .accepted : .refused(.processingError)
      return
    }
    self = Rejection(text: detail).map { FrameAnswer(.rejected($0)) } ?? .refused(.processingError)
  }
}

/// The bridge's counts of one app since the service began.
package struct BridgeCounts: Hashable, Sendable {
  /// Connected now.
  package var clients = 0
  /// Frames that arrived, without those behind a conclusion.
  package var frames = 0
  /// Frames that the app has accepted.
  package var forwarded = 0
  /// Frames that had been forwarded before, and were not sent twice.
  package var alreadyDelivered = 0
  /// When that was known of the last of them. Nil: there was none.
  package var lastAlreadyDelivered: StoreInstant?
  /// Error responses, by status.
  package var responses: [UInt8: Int] = [:]
  /// Connections that were closed without an error response because a frame of command 0 failed.
  package var silentCloses = 0
  /// Devices that the feedback service has handed out.
  package var feedback = 0

  package init() {}
}
