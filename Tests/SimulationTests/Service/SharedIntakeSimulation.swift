internal import Foundation
internal import Logging
internal import PushGateway
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import Carillon
@testable internal import PushEngine
@testable internal import PushService

/// Two nodes that take notifications in for each other, one process after the other: with its own
/// disk, killed, and replaced by one of the same node or of the other one. The seed determines all
/// of it.
final class SharedIntakeSimulation: CustomStringConvertible {
  struct Plan {
    var seed: UInt64
    var isHTTP2: Bool
    var tokenCount: Int
    /// After how many steps each process is killed, before the last one.
    var lives: [Int]
    /// Which of the two nodes each process is.
    var nodes: [Int]
    /// Whether the other node counts as lost when a process begins. It does for the last one.
    var fences: [Bool]
    var powerIsLost: Bool
    var checkpointByteCount: Int
    var settlementDelay: Duration
    var store = SimulatedStore.Faults()
    var outage: NetworkFaults.Outage?
    /// Before clients hand anything over.
    var silence = Duration.zero

    init(seed: UInt64) {
      self.seed = seed
      var random = SeededGenerator(seed: seed ^ 0x5A2ED)
      isHTTP2 = Bool.random(using: &random)
      tokenCount = [3, 50, 400, 1_000].randomElement(using: &random) ?? 50
      lives = (0..<Int.random(in: 0...4, using: &random)).map { _ in
        let limit = [100, 1_000, 10_000].randomElement(using: &random) ?? 100
        return Int.random(in: 0..<limit, using: &random)
      }
      nodes = (0...lives.count).map { _ in Int.random(in: 0...1, using: &random) }
      fences = lives.map { _ in Int.random(in: 0..<4, using: &random) > 0 } + [true]
      powerIsLost = Bool.random(using: &random)
      checkpointByteCount = [2_000, 50_000, 16 << 20].randomElement(using: &random) ?? 2_000
      settlementDelay = [.zero, .milliseconds(10), .seconds(1)].randomElement(using: &random) ?? .zero
      store.latency = [0...0, 0...5, 10...300].randomElement(using: &random) ?? 0...0
      store.failuresPerMille = [0, 0, 50].randomElement(using: &random) ?? 0
      store.awayPerMille = SimulatedStore.Faults.awayPerMille(seed: seed)
      if Bool.random(using: &random) {
        outage = NetworkFaults.Outage(
          kind: Bool.random(using: &random) ? .unreachable : .closes,
          after: .milliseconds(Int.random(in: 0...200, using: &random)),
          duration: .milliseconds(Int.random(in: 100...20_000, using: &random)))
      }
    }

    /// One process, to which nothing happens but that the store fails.
    mutating func liveOnce() {
      (lives, nodes, fences, outage) = ([], [0], [true], nil)
      (store.latency, store.failuresPerMille) = (300...1_000, 200)
      var random = SeededGenerator(seed: seed ^ 0x01CE)
      silence = .milliseconds(Int.random(in: 0...20_000, using: &random))
    }
  }

  let plan: Plan
  private let mistake: IntakeCarrier.PlantedMistake?
  private let disks = [SimulatedDisk(), SimulatedDisk()]
  private let storeDisk = StoreDisk()
  private let frames = RecordedFrames()
  private let service: any SimulatedEndpoint
  private var random: SeededGenerator
  private let tokens: [TokenBytes]
  private var nextToken = 0
  private var incarnations: [Int64?] = [nil, nil]
  private var beginsAt: Int64 = 1_700_000_000_000
  private var taken: [StoredNotificationID: TokenBytes] = [:]
  private var acknowledged: Set<StoredNotificationID> = []
  /// How many were sent by another node than the one that took them in, or again by that one.
  private(set) var carriedCount = 0

  var description: String { "\(plan)" }

  convenience init(seed: UInt64, plantedMistake: IntakeCarrier.PlantedMistake? = nil) {
    self.init(Plan(seed: seed), plantedMistake: plantedMistake)
  }

  init(_ plan: Plan, plantedMistake: IntakeCarrier.PlantedMistake? = nil) {
    (self.plan, mistake) = (plan, plantedMistake)
    let seed = plan.seed
    random = SeededGenerator(seed: seed)
    tokens = Scenario.distinctTokens(plan.tokenCount, seed: seed)
    service =
      plan.isHTTP2
      ? SimulatedProvider(faults: ProviderFaults(), seed: seed)
      : BinaryService(gateway: SimulatedGateway(memory: frames), topic: Scenario.topic)
  }

  /// The problems found, in sentences.
  func run() -> [String] {
    for (index, stepLimit) in (plan.lives + [Int.max]).enumerated() {
      if let problem = live(index, stepLimit: stepLimit) { return ["process \(index + 1): \(problem)"] }
    }
    return check()
  }

  private func check() -> [String] {
    var problems: [String] = []
    let contents = storeDisk.contents
    let arrivals = (service as? SimulatedProvider)?.accepted ?? frames.accepted(topic: Scenario.topic)
    for id in acknowledged {
      guard let token = taken[id] else { continue }
      guard let outcome = contents.outcome(of: id) else {
        problems.append("\(id) was acknowledged and has no outcome")
        continue
      }
      if outcome.state != "accepted" { problems.append("\(id) is \(outcome)") }
      if arrivals[token, default: 0] == 0 { problems.append("\(id) is accepted and has not arrived") }
    }
    for (id, token) in taken where arrivals[token, default: 0] > 1 + contents.copyCount(of: id) {
      problems.append(
        "\(id) has arrived \(arrivals[token, default: 0]) times, the store knows of \(contents.copyCount(of: id)) copies"
      )
    }
    let listed = ListedOutcomes(contents.outcomeGroups, of: Set(tokens))
    problems += listed.problems
    let missing = acknowledged.count { !listed.has($0) }
    if missing > 0 { problems.append("\(missing) are in no list of outcomes") }
    return problems
  }

  private var rules: AppRules {
    var rules = AppRules.served("intake", isHTTP2: plan.isHTTP2)
    rules.policy.attempts = 250
    rules.dialAttempts = .max
    rules.patience = .seconds(30)
    return rules
  }

  // MARK: One process

  private func live(_ life: Int, stepLimit: Int) -> String? {
    let isLast = life == plan.lives.count
    let seed = plan.seed &+ UInt64(life) &* 7_919
    var options = EngineJournalOptions()
    options.checkpointByteCount = plan.checkpointByteCount
    var network = NetworkFaults()
    network.outage = plan.outage
    let node = plan.nodes[life]
    let disk = disks[node]
    let engine: SimulatedProcess
    let process: SharedIntakeProcess
    do {
      var opened: (OutcomeRecorder, SimulatedStore, SimulatedClock)?
      engine = try SimulatedProcess(
        rules, disk, service, seed: seed, network: network, options: options
      ) { journal, loop in
        let clock = SimulatedClock(loop: loop, beganAt: beginsAt)
        let store = SimulatedStore(
          storeDisk, loop, plan.store, seed: seed &+ 5, hasLedger: true, node: "\(node)")
        let outcomes = OutcomeRecorder(store: store, clock: clock, deferred: DeferredChanges(DeferredList(disk)))
        journal.writeSettlements(outcomes, after: plan.settlementDelay, on: loop)
        opened = (outcomes, store, clock)
      }
      guard let (outcomes, store, clock) = opened else { return "the journal was not prepared" }
      process = try SharedIntakeProcess(
        engine, IntakeProcess.configuration(isHTTP2: plan.isHTTP2), store, outcomes, clock, mistake)
    } catch {
      return "it cannot begin: \(error)"
    }
    if engine.lostCount > 0 { return "\(engine.lostCount) were lost" }
    // A suspended app is looked after at last.
    for second in stride(from: 60, through: 7_200, by: 60) {
      _ = engine.loop.schedule(at: engine.loop.now + .seconds(second)) { engine.app.resume() }
    }
    process.begin(replacing: incarnations[node], fencesOthers: plan.fences[life])
    let fed = feed(process, isLast: isLast)
    let ending = engine.loop.run(limit: .seconds(8_000), stepLimit: stepLimit) { [storeDisk] in
      process.hasBegun && engine.loop.now >= fed && process.isIdle && (!isLast || storeDisk.contents.blockCount == 0)
    }
    incarnations[node] = process.incarnation ?? incarnations[node]
    taken.merge(process.taken) { first, _ in first }
    acknowledged.formUnion(process.acknowledged)
    carriedCount += process.carriedCount
    beginsAt = process.clock.milliseconds + 1_000
    guard !isLast || ending == .done else {
      return "it did not end: \(ending), \(engine.app.halt), blocks: \(storeDisk.contents.blockDescription)"
    }
    if !isLast {
      process.store.kill()
      engine.kill { if plan.powerIsLost { $0.loseUnsynced(using: &random) } else { $0.restart() } }
    }
    process.close()
    return engine.close { process.hasEnded }
  }

  /// Plans what clients hand over. Only the last process gets all that is left.
  private func feed(_ process: SharedIntakeProcess, isLast: Bool) -> Instant {
    var at = process.clock.loop.now + plan.silence
    while nextToken < tokens.count {
      let count = min([1, 1, 7, 300].randomElement(using: &random) ?? 1, tokens.count - nextToken)
      let batch = tokens[nextToken..<(nextToken + count)]
      nextToken += count
      at = at + .microseconds(Int.random(in: 0...20_000, using: &random))
      let text = ["a", "b", "c"].randomElement(using: &random) ?? "a"
      process.submit(text, to: Array(batch), at: at)
      if !isLast, Int.random(in: 0..<20, using: &random) == 0 { break }
    }
    return at + .milliseconds(1)
  }
}

/// One process of a service that takes notifications in: the real intake, recorder and carrier.
final class SharedIntakeProcess: Sendable {
  private struct State {
    var incarnation: Int64?
    var hasBegun = false
    var waitingCount = 0
    var taken: [StoredNotificationID: TokenBytes] = [:]
    var acknowledged: Set<StoredNotificationID> = []
  }

  let clock: SimulatedClock
  let store: SimulatedStore
  private let deployment: SimulatedDeployment
  private let outcomes: OutcomeRecorder
  private let carrier: IntakeCarrier
  private let state = Mutex(State())
  private let task = Mutex<Task<Void, Never>?>(nil)
  private let ended = Atomic<Bool>(false)

  init(
    _ engine: SimulatedProcess, _ configuration: AppConfiguration, _ store: SimulatedStore, _ outcomes: OutcomeRecorder,
    _ clock: SimulatedClock, _ mistake: IntakeCarrier.PlantedMistake?
  ) throws {
    (self.store, self.outcomes, self.clock) = (store, outcomes, clock)
    let deployment = try SimulatedDeployment(engine, configuration, outcomes) { clock.milliseconds }
    self.deployment = deployment
    let current = SharedNumber()
    self.current = current
    carrier = IntakeCarrier(
      ledger: store, outcomes: outcomes, deployment: deployment.deployment, incarnation: { current.value },
      isDraining: { false }, clock: clock, logger: Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() },
      plantedMistake: mistake)
  }

  private let current: SharedNumber

  var incarnation: Int64? { state.withLock { $0.incarnation } }
  var hasBegun: Bool { state.withLock { $0.hasBegun } }
  /// Nobody waits for an answer.
  var isIdle: Bool { state.withLock { $0.waitingCount == 0 } }
  var taken: [StoredNotificationID: TokenBytes] { state.withLock { $0.taken } }
  var acknowledged: Set<StoredNotificationID> { state.withLock { $0.acknowledged } }
  var carriedCount: Int { carrier.carriedCount }
  var hasEnded: Bool { ended.load(ordering: .relaxed) && deployment.hasEnded }

  func begin(replacing former: Int64?, fencesOthers: Bool) {
    let task = Task(executorPreference: clock.loop) { [self] in
      while !Task.isCancelled, (try? await recover(former, fencesOthers)) == nil {
        try? await clock.sleep(for: .seconds(1))
      }
      if !Task.isCancelled {
        state.withLock { $0.hasBegun = true }
        await carrier.run { _ in true }
      }
      ended.store(true, ordering: .relaxed)
    }
    self.task.withLock { $0 = task }
  }

  private func recover(_ former: Int64?, _ fencesOthers: Bool) async throws {
    if incarnation == nil {
      for node in try await store.nodes() ?? [] where fencesOthers && node.isAlive && node.incarnation != former {
        _ = try await store.fence(node)
      }
      // The answer to the first time may have been lost.
      let own = try await store.nodes()?.first { $0.name == store.node && $0.isAlive }?.incarnation
      guard let joined = try await store.join(store.node, replacing: own ?? former) else { return }
      state.withLock { $0.incarnation = joined }
      current.value = joined
    }
    outcomes.share(as: current.value)
    try outcomes.restoreDeferred()
    try await carrier.restore()
    _ = await deployment.deployment.resumeIntake(owned: carrier.owned)
  }

  func submit(_ text: String, to tokens: [TokenBytes], at instant: Instant) {
    state.withLock { $0.waitingCount += 1 }
    _ = clock.loop.schedule(at: instant) { [self] in
      _ = Task(executorPreference: clock.loop) { [self] in
        while !hasBegun, !ended.load(ordering: .relaxed) { try? await clock.sleep(for: .milliseconds(100)) }
        await submit(text, to: tokens)
        state.withLock { $0.waitingCount -= 1 }
      }
    }
  }

  private func submit(_ text: String, to tokens: [TokenBytes]) async {
    guard let app = try? deployment.deployment.app("intake"),
      let prepared = try? app.prepare(PushNotification(alert: text))
    else { return }
    let batch = tokens.map { (prepared, DeviceToken($0)) }
    let names = Mutex<[StoredNotificationID]>([])
    do {
      _ = try await app.submit(
        batch, isShared: true,
        assigned: { [outcomes] places, run, first in
          outcomes.keep(run, from: first, app: app.id, places.joined().map { batch[$0] })
          for (offset, place) in places.joined().enumerated() {
            let id = StoredNotificationID(run: StoredRunID(run), line: first + UInt32(offset))
            names.withLock { $0.append(id) }
            state.withLock { $0.taken[id] = tokens[place] }
          }
        })
      try await outcomes.makeChangesDurable()
      state.withLock { state in state.acknowledged.formUnion(names.withLock { $0 }) }
    } catch {
      // It is not acknowledged.
    }
  }

  /// Ends all of it.
  func close() {
    task.withLock { $0 }?.cancel()
    deployment.runtime.runs.cancelAll()
    deployment.close()
  }
}
