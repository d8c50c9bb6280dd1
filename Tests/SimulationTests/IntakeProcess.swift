internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import Carillon
@testable internal import PushEngine

/// A notification of an app's intake, by its name.
struct IntakeKey: Hashable {
  var run: IntakeRunID
  var line: UInt64
}

/// What the store of a service keeps of an intake, through all processes.
final class IntakeStore: Sendable {
  struct Contents {
    var outcomes: [IntakeKey: PushWire.Outcome] = [:]
    /// How many copies of each may have arrived.
    var copies: [IntakeKey: Int] = [:]
    var problems: [String] = []
  }

  private let durable = Mutex(Contents())

  var contents: Contents { durable.withLock { $0 } }
  func change(_ body: (inout Contents) -> Void) { durable.withLock { body(&$0) } }
}

/// The recorder of one process: what it has heard is in the store when it was made durable, and
/// lost with the process otherwise.
final class IntakeBook: IntakeRecorder {
  private struct State {
    var outcomes: [(IntakeKey, PushWire.Outcome)] = []
    var copies: [IntakeKey] = []
    var syncCount = 0
    var written: Set<IntakeKey> = []
    var absences: SeededGenerator
    /// As many calls find the store away.
    var awayCount = 0
  }

  private let store: IntakeStore
  private let failsAtSync: Int?
  private let awayPerMille: Int
  private let state: Mutex<State>

  /// - Parameter failsAtSync: from which sync on the store cannot be written.
  init(_ store: IntakeStore, failsAtSync: Int? = nil, awayPerMille: Int = 0, seed: UInt64 = 0) {
    (self.store, self.failsAtSync, self.awayPerMille) = (store, failsAtSync, awayPerMille)
    state = Mutex(State(absences: SeededGenerator(seed: seed ^ 0xA3A7)))
  }

  func began(_ run: IntakeRunID, app: String, isBridge: Bool, channel: String?) {}
  func acknowledged(_ run: IntakeRunID, through line: UInt64) {}

  func accepted(_ run: IntakeRunID, _ entries: OutcomeEntries, _ confirmation: PushWire.Confirmation) {
    state.withLock { state in
      for line in entries.lines { state.outcomes.append((IntakeKey(run: run, line: line), .accepted(confirmation))) }
    }
  }

  func notAccepted(
    _ run: IntakeRunID, app: String, line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?,
    isDoubted: Bool
  ) {
    state.withLock { $0.outcomes.append((IntakeKey(run: run, line: line), outcome)) }
  }

  func doubted(_ run: IntakeRunID, lines: [UInt64]) {
    state.withLock { state in for line in lines { state.copies.append(IntakeKey(run: run, line: line)) } }
  }

  func ended(_ run: IntakeRunID) {}

  func makeIntakeDurable() throws(UnsyncedList) { try write { $0.outcomes = [] } }
  func makePassedDurable() throws(UnsyncedList) { try makeIntakeDurable() }

  func makeDurable() throws(UnsyncedList) { try write { _ in } }

  /// - Parameter leave: what is left for later.
  private func write(leaving leave: (inout State) -> Void) throws(UnsyncedList) {
    let isAway = state.withLock { state in
      if state.awayCount == 0, Int.random(in: 0..<1_000, using: &state.absences) < awayPerMille {
        state.awayCount = Int.random(in: 1...300, using: &state.absences)
      }
      guard state.awayCount > 0 else { return false }
      state.awayCount -= 1
      return true
    }
    if isAway { throw UnsyncedList(path: "store.db", code: 5, isAway: true) }
    let (written, fails) = state.withLock { state in
      state.syncCount += 1
      var written = state
      leave(&written)
      if written.outcomes.count == state.outcomes.count { state.outcomes = [] }
      state.copies = []
      return (written, failsAtSync.map { state.syncCount >= $0 } ?? false)
    }
    if fails { throw UnsyncedList(path: "store.db", code: 28) }
    store.change { contents in
      for (key, outcome) in written.outcomes {
        // An earlier process may have been killed before the journal knew of it.
        contents.outcomes[key] = outcome
        if state.withLock({ !$0.written.insert(key).inserted }) { contents.problems.append("\(key) has two outcomes") }
      }
      for key in written.copies { contents.copies[key, default: 0] += 1 }
    }
  }
}

/// A process of an app that takes notifications in: the real intake on a simulated loop.
final class IntakeProcess: Sendable {
  private struct State {
    var tokens: [IntakeKey: TokenBytes] = [:]
    var acknowledged: Set<IntakeKey> = []
    var storedCount = 0
    var problem: CarillonError?
    var ending: Gate?
  }

  let loop: SimulatedLoop
  private let intake: AppIntake
  private let deployment: SimulatedDeployment
  private let journal: EngineJournal
  private let state = Mutex(State())

  /// - Parameter configuration: of the app whose engine `process` runs.
  init(_ process: SimulatedProcess, _ configuration: AppConfiguration, _ recorder: any IntakeRecorder) throws {
    (loop, journal) = (process.loop, process.journal)
    deployment = try SimulatedDeployment(process, configuration, recorder)
    guard let intake = deployment.runtime.intake else {
      throw CarillonError(.inconsistency, "an app without an intake")
    }
    self.intake = intake
  }

  /// Of an app whose outcomes nobody asks for.
  convenience init(_ process: SimulatedProcess, isHTTP2: Bool) throws {
    try self.init(
      process, Self.configuration(isHTTP2: isHTTP2), IntakeBook(IntakeStore()))
  }

  static func configuration(isHTTP2: Bool) -> AppConfiguration {
    AppConfiguration(
      id: "intake", topic: Scenario.topic, transport: isHTTP2 ? .http2() : .binary(),
      credential: .certificate(file: "news.pem"))
  }

  var hasEnded: Bool { state.withLock { $0.ending }?.isOpen ?? false }
  /// The most that lay in reservoirs.
  var storedCount: Int { state.withLock { $0.storedCount } }
  /// The notifications that were taken in, and those of them that were acknowledged.
  var taken: [IntakeKey: TokenBytes] { state.withLock { $0.tokens } }
  var acknowledged: Set<IntakeKey> { state.withLock { $0.acknowledged } }
  var queuedByteCount: Int { intake.queuedByteCount }
  /// What lies in reservoirs now.
  var nowStoredCount: Int { intake.gauges.reduce(0) { $0 + $1.stored.count } }
  /// Why something was not acknowledged.
  var problem: CarillonError? { state.withLock { $0.problem } }

  /// Resumes what earlier processes have left.
  func resume() {
    for campaign in journal.campaigns where campaign.phase == .open {
      let context = CampaignContext(reading: campaign.context)
      guard let run = context.intakeRun.flatMap({ NotificationID($0)?.run }) else { continue }
      intake.resume(campaign, as: run, isBridge: false)
    }
  }

  func submit(_ notification: PreparedNotification, to tokens: ArraySlice<TokenBytes>) {
    var batch = IntakeBatch()
    for token in tokens { batch.append(notification, token) }
    let tokens = Array(tokens)
    // The answer may come before this returns.
    let keys = Mutex<[IntakeKey]>([])
    let isAcknowledged = Mutex(false)
    let acknowledge: @Sendable () -> Void = { [self] in
      state.withLock { state in
        state.acknowledged.formUnion(keys.withLock { $0 })
        state.storedCount = max(state.storedCount, nowStoredCount)
      }
    }
    try? intake.take(batch) { places, run, first in
      state.withLock { state in
        state.storedCount = max(state.storedCount, nowStoredCount)
        for (offset, place) in places.joined().enumerated() {
          let key = IntakeKey(run: run, line: UInt64(first) + UInt64(offset))
          state.tokens[key] = tokens[place]
          keys.withLock { $0.append(key) }
        }
      }
      if isAcknowledged.withLock({ $0 }) { acknowledge() }
    } answer: { [self] problem in
      if let problem { return state.withLock { $0.problem = problem } }
      isAcknowledged.withLock { $0 = true }
      acknowledge()
    }
  }

  func submit(_ tokens: [TokenBytes], priority: PushNotification.Priority = .immediate) throws {
    var notification = PushNotification(alert: "Hello")
    notification.priority = priority
    let prepared = try PreparedNotification(
      notification, payload: notification.json, app: deployment.runtime.entry.configuration, kind: .token,
      now: 1_700_000_000)
    submit(prepared, to: tokens[...])
  }

  /// As the end of a process in good order does.
  func cancel() {
    finish()
    deployment.runtime.runs.cancelAll()
  }

  /// Takes nothing more in, and ends when everything has its outcome.
  func finish() {
    guard state.withLock({ $0.ending == nil }) else { return }
    let ending = intake.finish()
    state.withLock { $0.ending = ending }
  }

  /// Ends what is left of it.
  func close() {
    finish()
    deployment.close()
  }
}
