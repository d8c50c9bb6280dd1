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
      state.apps[id] = app
      return app
    }
  }

  // MARK: Life

  /// Loads what earlier processes forwarded for clients that got no answer, once. Call it before
  /// the intake of earlier processes is resumed.
  package func restore() async throws(StoreError) {
    guard !state.withLock({ $0.isRestored }) else { return }
    let lines = deployment.unfinishedIntakeLines
    let life = try await store.bridgeLife() ?? BridgeLife(lastSign: clock.now, pause: 0)
    // Until then at least, the last process lived. A sign in the future is of a clock that was set
    // back since.
    let lastSign = min(life.lastSign, clock.now)
    let pause = life.pause + clock.now.milliseconds - lastSign.milliseconds
    state.withLock { $0.pause = pause }
    var killed: Set<UInt64> = []
    var recovery = BridgeRecovery()
    for found in try await store.forwardedFrames(since: oldestStored) {
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
      for (offset, digest) in [FrameDigest](bytes: frames.digests).enumerated() {
        let line = frames.firstLine + UInt32(offset)
        let frame = BridgeRecovery.Frame(
          app: frames.app, client: frames.client, digest: digest, answer: found.answer(line: line),
          answeredAt: uptime(at: found.answeredBy, pause: pause), connection: frames.connection,
          number: frames.firstFrame + UInt64(offset), isRecognised: frames.isRecognised)
        recovery.read(
          frame, as: ForwardedLine(run, line: line), end, isRecent: frames.at.milliseconds >= reach,
          isInJournal: UInt64(line) <= lines[run] ?? 0)
      }
    }
    try await noteKilled(killed, lastSign)
    // Before frames come: they are signs of life as well, and the pause counts up to the last one.
    try await store.forgetForwarded(before: oldestStored, life: BridgeLife(lastSign: clock.now, pause: pause))
    let now = clock.uptime
    for (line, frame, isByResponse) in recovery.frames {
      let app = app(frame.app)
      if frame.answer == nil, let run = IntakeRunID(high: line.high, low: line.low) { runs.withLock { $0[run] = app } }
      app.restore(frame, as: line, isByResponse: isByResponse, now: now)
    }
    state.withLock { $0.isRestored = true }
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
  fileprivate func answer(line: UInt32) -> FrameAnswer? {
    if acceptedLines.contains(where: { $0.contains(line) }) { return .accepted }
    return notAccepted[line].map { FrameAnswer(state: $0.state, detail: $0.detail) }
  }
}

extension FrameAnswer {
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
