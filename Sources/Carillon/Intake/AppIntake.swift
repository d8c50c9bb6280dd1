internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// The notifications that one app accepts durably. No caller waits for their outcomes.
///
/// Those with the same headers share a run, which is a campaign of the engine whose audience is a
/// queue. A notification that many devices get has a run of its own. Acknowledged notifications are
/// in the rings of the app's lanes, or in the run's reservoir in the journal if no lane has room.
/// This queue holds only notifications that are not acknowledged.
final class AppIntake: Sendable {
  private let runtime: AppRuntime
  private let journal: EngineJournal
  private let recorder: any IntakeRecorder
  /// One gauge for each ``ClaimOrder/Rank``.
  let gauges = ClaimOrder.Rank.allCases.map(IntakeGauge.init)
  private let state = Mutex(State())

  /// How many notifications have a run of their own: each run costs memory, and rows in the store.
  private static let sharedRunLimit = 8

  private struct State {
    /// Those that take something in.
    var runs: [PreparedNotification.Group: IntakeRun] = [:]
    /// All that have not ended.
    var all: [ObjectIdentifier: IntakeRun] = [:]
    /// Opens when none is left.
    var emptied: Gate?
  }

  init(_ runtime: AppRuntime, journal: EngineJournal, recorder: any IntakeRecorder) {
    self.runtime = runtime
    self.journal = journal
    self.recorder = recorder
  }

  /// The memory of everything that was accepted and is in no lane yet.
  var queuedByteCount: Int { gauges.reduce(0) { $0 + $1.byteCount } }

  /// How long the oldest notification without an outcome has waited; zero: there is none.
  var oldestAge: Duration {
    let oldest = state.withLock { Array($0.all.values) }.compactMap(\.oldest).min()
    let now = runtime.engine.loop.now
    return oldest.map { $0 < now ? now.since($0) : .zero } ?? .zero
  }

  /// Takes notifications in and returns what each is called, in the same order, when all of them
  /// are in the journal.
  ///
  /// - Parameter queued: called when they wait here.
  func submit(
    _ notifications: [(PreparedNotification, DeviceToken)], queued: () -> Void = {}
  ) async throws(CarillonError) -> [NotificationID] {
    guard !notifications.isEmpty else { return [] }
    let answers = IntakeAnswers()
    var names = [NotificationID?](repeating: nil, count: notifications.count)
    try take(
      IntakeBatch(notifications),
      assigned: { ranges, run, line in
        answers.expectOne()
        for (offset, index) in ranges.joined().enumerated() {
          names[index] = NotificationID(run: run, line: line + UInt32(offset))
        }
      }, answer: { answers.add($0) })
    queued()
    try await answers.wait()
    return names.compactMap { $0 }
  }

  /// See ``PushApp/take(_:assigned:answer:)``.
  func take(
    _ batch: IntakeBatch, assigned: (_ places: [Range<Int>], IntakeRunID, _ firstLine: UInt32) -> Void,
    answer: @escaping @Sendable (CarillonError?) -> Void
  ) throws(CarillonError) {
    for (wanted, parts) in batch.grouped() {
      let places = parts.map(\.range)
      // A run may have ended just now, but not several in a row, unless everything ends.
      let isTaken = (0..<3).contains { _ in
        let group = mayHaveRun(wanted) ? wanted : parts[0].notification.group
        let run = run(for: group)
        if run.enqueue(batch, parts, assigned: { assigned(places, run.id, $0) }, answer) != nil { return true }
        forget(run, group)
        return false
      }
      guard isTaken else { throw DeploymentCore.hasEnded }
    }
  }

  // MARK: Runs

  private func mayHaveRun(_ group: PreparedNotification.Group) -> Bool {
    guard group.payload != nil else { return true }
    return state.withLock { state in
      state.runs[group] != nil || state.runs.keys.count { $0.payload != nil } < Self.sharedRunLimit
    }
  }

  private func run(for group: PreparedNotification.Group) -> IntakeRun {
    let (run, isNew) = state.withLock { state in
      if let run = state.runs[group] { return (run, false) }
      let id = IntakeRunID(
        milliseconds: UInt64(clamping: NIOLoop.wallClockMilliseconds), random: .random(in: 0 ... .max))
      let run = IntakeRun(
        id, entry: runtime.entry, journal: journal, recorder: recorder, loop: runtime.engine.loop,
        gauge: gauge(of: group.priority), isShared: group.payload != nil)
      state.runs[group] = run
      state.all[ObjectIdentifier(run)] = run
      return (run, true)
    }
    if isNew { begin(run, group) }
    return run
  }

  private func gauge(of priority: UInt8?) -> IntakeGauge { gauges[ClaimOrder.Rank(priority: priority).rawValue] }

  private func begin(_ run: IntakeRun, _ group: PreparedNotification.Group) {
    let isTaken = runtime.engine.jobs.put { [self] in
      await serve(run) { () throws(CarillonError) in
        recorder.began(run.id, app: runtime.entry.id)
        let campaign = group.campaign()
        let number = try await runtime.engine.begin(
          campaign, app: runtime.entry.id, context: CampaignContext(intakeRun: run.id))
        return try runtime.begin(campaign, number, listener: run)
      }
      forget(run, group)
      hasEnded(run)
    }
    if !isTaken {
      run.ended(DeploymentCore.hasEnded, isSettled: false)
      hasEnded(run)
    }
  }

  private func forget(_ run: IntakeRun, _ group: PreparedNotification.Group) {
    state.withLock { state in
      if state.runs[group] === run { state.runs[group] = nil }
    }
  }

  private func hasEnded(_ run: IntakeRun) {
    let emptied = state.withLock { state in
      state.all[ObjectIdentifier(run)] = nil
      return state.all.isEmpty ? state.emptied : nil
    }
    emptied?.open()
  }

  /// Every run accepts nothing more, and ends when everything that it accepted has its outcome.
  ///
  /// - Returns: what opens when all have ended.
  func finish() -> Gate {
    let emptied = Gate()
    let runs = state.withLock { state in
      state.emptied = emptied
      return Array(state.all.values)
    }
    for run in runs { run.finish() }
    if runs.isEmpty { emptied.open() }
    return emptied
  }

  /// Resumes what an earlier process accepted.
  func resume(_ campaign: JournalledCampaign, as id: IntakeRunID) {
    let run = IntakeRun(
      id, entry: runtime.entry, journal: journal, recorder: recorder, loop: runtime.engine.loop,
      gauge: gauge(of: campaign.priority), resumedSince: began(id))
    state.withLock { $0.all[ObjectIdentifier(run)] = run }
    // At once, so that later requests for one of them find it. Earlier outcomes are in the
    // recorder.
    recorder.began(id, app: runtime.entry.id)
    recorder.acknowledged(id, through: .max)
    runtime.engine.jobs.put { [self] in
      await serve(run) { () throws(CarillonError) in
        let sent = Campaign(
          payload: journal.payload(of: campaign), expiration: campaign.expiration, priority: campaign.priority,
          headers: campaign.headers, seed: campaign.seed)
        return try runtime.begin(sent, campaign.number, listener: run)
      }
      hasEnded(run)
    }
  }

  /// When a run of an earlier process began, by the clock of this one.
  private func began(_ id: IntakeRunID) -> Instant {
    let now = runtime.engine.loop.now
    let age = Duration.milliseconds(max(0, NIOLoop.wallClockMilliseconds - Int64(clamping: id.milliseconds)))
    // The clock of this process may have begun later.
    return Instant(nanoseconds: now.nanoseconds - min(now.nanoseconds, age.wholeNanoseconds))
  }

  private func serve(_ run: IntakeRun, _ begin: () async throws(CarillonError) -> CampaignRun) async {
    do throws(CarillonError) {
      let campaign = try await begin()
      let registered = runtime.runs.add(
        RunRegistry.Run(
          drain: { run.finish() },
          cancel: {
            run.leave()
            campaign.cancel()
          }, isKept: true))
      if registered == nil { run.finish() }
      do throws(AudienceError) {
        try await campaign.run(run, chunks: runtime.engine.intakeChunks)
      } catch {
        preconditionFailure("a queue cannot fail")
      }
      let isSettled = !campaign.ledger.isCancelled
      run.ended(runtime.failure ?? DeploymentCore.hasEnded, isSettled: isSettled)
      if let registered { runtime.runs.remove(registered) }
    } catch {
      run.ended(error, isSettled: false)
    }
  }
}

/// The answers of the journal to one submission, which may go to several runs.
private final class IntakeAnswers: Sendable {
  /// `missingCount` is one too high until a caller waits.
  private let state: Mutex<(missingCount: Int, error: CarillonError?)> = Mutex((1, nil))
  private let complete = Gate()

  /// To be called before the answer can come.
  func expectOne() { state.withLock { $0.missingCount += 1 } }

  func add(_ error: CarillonError?) {
    let isComplete = state.withLock { state in
      state.error = state.error ?? error
      state.missingCount -= 1
      return state.missingCount == 0
    }
    if isComplete { complete.open() }
  }

  /// To be called once, when every answer is expected.
  func wait() async throws(CarillonError) {
    add(nil)
    await complete.waitInAnyCase()
    if let error = state.withLock({ $0.error }) { throw error }
  }
}
