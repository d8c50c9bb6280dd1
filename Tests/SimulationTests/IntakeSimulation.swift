internal import PushGateway
internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import Carillon
@testable internal import PushEngine

/// One random history of an app that takes notifications in: the real intake, its queues, its
/// campaigns and its journal. The seed determines all of it.
final class IntakeSimulation: CustomStringConvertible {
  struct Plan {
    var seed: UInt64
    var isHTTP2: Bool
    var tokenCount: Int
    var outage: NetworkFaults.Outage?
    /// After how many steps each process is killed, before the last one.
    var lives: [Int]
    var powerIsLost: Bool
    var sync: JournalSync
    var checkpointByteCount: Int
    var hasPauses: Bool
    var rateLimit: Double?
    /// See ``EngineJournal/delaySettlements(by:on:)``.
    var settlementDelay: Duration?
    /// From which sync on the store of a process fails, by process.
    var storeFails: [Int: Int] = [:]
    /// See ``SimulatedStore/Faults``.
    var awayPerMille: Int
    /// Which operation of the disk fails, of which process, and whether all later ones do.
    var diskFails: (life: Int, after: Int, isLasting: Bool)?

    init(seed: UInt64) {
      self.seed = seed
      var random = SeededGenerator(seed: seed ^ 0x1A7A)
      isHTTP2 = Bool.random(using: &random)
      tokenCount = [3, 50, 400, 2_000].randomElement(using: &random) ?? 50
      if Int.random(in: 0..<4, using: &random) > 0 {
        outage = NetworkFaults.Outage(
          kind: Bool.random(using: &random) ? .unreachable : .closes,
          after: .milliseconds(Int.random(in: 0...200, using: &random)),
          duration: .milliseconds(Int.random(in: 100...20_000, using: &random)))
      }
      lives = (0..<Int.random(in: 0...3, using: &random)).map { _ in
        let limit = [100, 1_000, 10_000].randomElement(using: &random) ?? 100
        return Int.random(in: 0..<limit, using: &random)
      }
      powerIsLost = Bool.random(using: &random)
      sync = [.always, .interval(.milliseconds(10))].randomElement(using: &random) ?? .always
      checkpointByteCount = [2_000, 50_000, 16 << 20].randomElement(using: &random) ?? 2_000
      hasPauses = Bool.random(using: &random)
      rateLimit = Int.random(in: 0..<4, using: &random) == 0 ? 300 : nil
      settlementDelay = [.zero, .milliseconds(10), .seconds(1)].randomElement(using: &random) ?? .zero
      awayPerMille = SimulatedStore.Faults.awayPerMille(seed: seed)
      for life in lives.indices where Int.random(in: 0..<4, using: &random) == 0 {
        storeFails[life] = Int.random(in: 1...20, using: &random)
      }
    }
  }

  let plan: Plan
  private let plantedMistake: EngineJournalOptions.PlantedMistake?
  let disk = SimulatedDisk()
  private let store = IntakeStore()
  private let service: any SimulatedEndpoint
  private let frames = RecordedFrames()
  private var random: SeededGenerator
  private let tokens: [TokenBytes]
  private var nextToken = 0
  private var acknowledged: Set<IntakeKey> = []
  private var taken: [IntakeKey: TokenBytes] = [:]
  /// The most that lay in a reservoir.
  private(set) var storedCount = 0

  var description: String { "\(plan)" }

  convenience init(seed: UInt64, plantedMistake: EngineJournalOptions.PlantedMistake? = nil) {
    self.init(Plan(seed: seed), plantedMistake: plantedMistake)
  }

  init(_ plan: Plan, plantedMistake: EngineJournalOptions.PlantedMistake? = nil) {
    self.plan = plan
    self.plantedMistake = plantedMistake
    random = SeededGenerator(seed: plan.seed)
    tokens = Scenario.distinctTokens(plan.tokenCount, seed: plan.seed)
    service =
      plan.isHTTP2
      ? SimulatedProvider(faults: ProviderFaults(), seed: plan.seed)
      : BinaryService(gateway: SimulatedGateway(memory: frames), topic: Scenario.topic)
  }

  /// The problems found, in sentences.
  func run() -> [String] {
    for (index, stepLimit) in (plan.lives + [Int.max]).enumerated() {
      if let problem = live(index, stepLimit: stepLimit, isLast: index == plan.lives.count) { return [problem] }
    }
    return check()
  }

  private func check() -> [String] {
    let known = store.contents
    var problems = known.problems
    let arrivals = (service as? SimulatedProvider)?.accepted ?? frames.accepted(topic: Scenario.topic)
    for key in acknowledged {
      guard let token = taken[key] else { continue }
      switch known.outcomes[key] {
      case .accepted:
        if arrivals[token, default: 0] == 0 { problems.append("\(key) is accepted and has not arrived") }
      case nil: problems.append("\(key) was acknowledged and has no outcome")
      case let outcome?: problems.append("\(key) is \(outcome)")
      }
    }
    for (key, outcome) in known.outcomes where !acknowledged.contains(key) && outcome.isAccepted {
      if let token = taken[key], arrivals[token] == nil { problems.append("\(key) is accepted and has not arrived") }
    }
    for (key, token) in taken where arrivals[token, default: 0] > 1 + known.copies[key, default: 0] {
      problems.append(
        "\(token) has arrived \(arrivals[token, default: 0]) times, the store knows of "
          + "\(known.copies[key, default: 0]) possible copies")
    }
    return problems
  }

  private var configuration: AppConfiguration { IntakeProcess.configuration(isHTTP2: plan.isHTTP2) }

  /// Of different queues, and some with the same content for many devices.
  private func notifications() throws -> [PreparedNotification] {
    try [PushNotification.Priority.immediate, .consideringDevicePower].flatMap { priority in
      try ["a", "b"].map { text in
        var notification = PushNotification(alert: text)
        notification.priority = priority
        if text == "b", plan.isHTTP2 { notification.collapseID = "b" }
        return try PreparedNotification(
          notification, payload: notification.json, app: configuration, kind: .token, now: 1_700_000_000)
      }
    }
  }

  private var rules: AppRules {
    var rules = AppRules.served("intake", isHTTP2: plan.isHTTP2)
    rules.policy.attempts = 250
    rules.dialAttempts = .max
    rules.patience = .seconds(30)
    rules.rateLimit = plan.rateLimit
    return rules
  }

  // MARK: One process

  private func live(_ life: Int, stepLimit: Int, isLast: Bool) -> String? {
    let seed = plan.seed &+ UInt64(life) &* 7_919
    var options = EngineJournalOptions()
    options.sync = plan.sync
    options.checkpointByteCount = plan.checkpointByteCount
    options.plantedMistake = plantedMistake
    var network = NetworkFaults()
    network.outage = plan.outage
    if let (failing, after, isLasting) = plan.diskFails, failing == life {
      disk.failOperation(after: after, isLasting: isLasting)
    }
    let engine: SimulatedProcess
    let process: IntakeProcess
    do {
      let recorder = IntakeBook(
        store, failsAtSync: plan.storeFails[life], awayPerMille: plan.awayPerMille, seed: seed)
      engine = try SimulatedProcess(rules, disk, service, seed: seed, network: network, options: options) {
        $0.writeSettlements(recorder, after: plan.settlementDelay, on: $1)
      }
      process = try IntakeProcess(engine, configuration, recorder)
      process.resume()
      feed(process, try notifications(), isLast: isLast)
    } catch {
      guard !isLast, disk.hasFailed else { return "a process cannot begin: \(error)" }
      disk.restart()
      return nil
    }
    if engine.lostCount > 0 { return "\(engine.lostCount) were lost" }
    let (app, loop) = (engine.app, engine.loop)
    if plan.hasPauses { pauseNowAndThen(app, loop) }
    // A suspended app is looked after at last.
    for second in stride(from: 60, through: 7_200, by: 60) {
      _ = loop.schedule(at: loop.now + .seconds(second)) { app.resume() }
    }
    let ending = loop.run(limit: .seconds(8_000), stepLimit: stepLimit) { process.hasEnded }
    acknowledged.formUnion(process.acknowledged)
    taken.merge(process.taken) { first, _ in first }
    storedCount += process.storedCount
    let hasFailed = engine.journal.failure != nil
    if !process.hasEnded || hasFailed {
      guard ending == .outOfSteps || hasFailed, !isLast else {
        return "it did not end: \(ending), \(app.halt), \(process.queuedByteCount) B in queues"
      }
      engine.kill { if plan.powerIsLost { $0.loseUnsynced(using: &random) } else { $0.restart() } }
      if let problem = problemWithBadBit(seed) { return problem }
    }
    process.close()
    return engine.close { process.hasEnded }
  }

  /// A disk like this one, but with one bad bit, is refused before anything is changed, or the bit
  /// is in the tail that a kill may have torn, or it makes no difference: LZ4 can write the same
  /// content in several ways.
  private func problemWithBadBit(_ seed: UInt64) -> String? {
    var random = SeededGenerator(seed: seed ^ 0xB17)
    let names = disk.fileNames
    guard let name = names.randomElement(using: &random), var bytes = disk.contents(name),
      let offset = bytes.indices.randomElement(using: &random)
    else { return nil }
    bytes[offset] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    let (copy, sound) = (SimulatedDisk(), SimulatedDisk())
    for other in names {
      sound.put(other, disk.contents(other) ?? [])
      copy.put(other, other == name ? bytes : disk.contents(other) ?? [])
    }
    func report(_ disk: SimulatedDisk) throws(JournalProblem) -> JournalReport {
      let loop = SimulatedLoop(seed: seed)
      let driver = JournalDriver(loop: loop)
      let (journal, report) = try EngineJournal.open(
        disk, options: EngineJournalOptions(), runByHand: { driver.poke() })
      driver.drive(journal)
      // Otherwise it keeps its memory.
      _ = Task(executorPreference: loop) { try? await journal.close() }
      _ = loop.run(limit: .seconds(60), stepLimit: 100_000) { false }
      driver.stop()
      return report
    }
    do throws(JournalProblem) {
      let (found, expected) = (try report(copy), try report(sound))
      return found.tornTail == nil && found != expected ? "a bad bit at \(offset) of \(name) passed" : nil
    } catch {
      let isKept = names.allSatisfy { copy.contents($0) == ($0 == name ? bytes : disk.contents($0)) }
      if error.kind == .damaged, isKept, copy.fileNames == names { return nil }
      return "bit of byte \(offset) of \(name): \(error)"
    }
  }

  /// Plans what clients hand over. Only the last process gets all that is left.
  private func feed(_ process: IntakeProcess, _ notifications: [PreparedNotification], isLast: Bool) {
    var at = process.loop.now
    while nextToken < tokens.count {
      let count = min([1, 1, 7, 500].randomElement(using: &random) ?? 1, tokens.count - nextToken)
      let batch = tokens[nextToken..<(nextToken + count)]
      nextToken += count
      at = at + .microseconds(Int.random(in: 0...20_000, using: &random))
      let notification = notifications[
        Bool.random(using: &random) ? 0 : Int.random(in: notifications.indices, using: &random)]
      _ = process.loop.schedule(at: at) { process.submit(notification, to: batch) }
      if !isLast, Int.random(in: 0..<20, using: &random) == 0 { break }
    }
    _ = process.loop.schedule(at: at + .milliseconds(1)) { process.finish() }
  }

  private func pauseNowAndThen(_ app: App, _ loop: SimulatedLoop) {
    var at = loop.now
    for _ in 0..<5 {
      at = at + .milliseconds(Int.random(in: 0...3_000, using: &random))
      _ = loop.schedule(at: at) { app.pause() }
      at = at + .milliseconds(Int.random(in: 0...3_000, using: &random))
      _ = loop.schedule(at: at) { app.resume() }
    }
  }
}

extension EngineJournal {
  /// Outcomes are written when the recorder has made them durable, which takes a while.
  func writeSettlements(
    _ recorder: any IntakeRecorder, after delay: Duration?, on loop: SimulatedLoop, writesIntakeFirst: Bool = true
  ) {
    beforeCommits(
      sync: { () throws(UnsyncedList) in try recorder.makeDurable() },
      syncPassed: { () throws(UnsyncedList) in try recorder.makePassedDurable() },
      syncIntake: { () throws(UnsyncedList) in if writesIntakeFirst { try recorder.makeIntakeDurable() } })
    let isAway = Atomic(false)
    writeSettlements(
      after: { () throws(UnsyncedList) in
        do throws(UnsyncedList) {
          try recorder.makeDurable()
          isAway.store(false, ordering: .relaxed)
        } catch {
          isAway.store(error.isAway, ordering: .relaxed)
          throw error
        }
      },
      ask: { [weak self] in
        let pause = max(delay ?? .zero, isAway.load(ordering: .relaxed) ? .milliseconds(10) : .zero)
        _ = loop.schedule(at: loop.now + pause) { [weak self] in self?.writeSettlements() }
      })
  }
}

extension PushWire.Outcome {
  fileprivate var isAccepted: Bool { if case .accepted = self { true } else { false } }
}
