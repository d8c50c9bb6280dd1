internal import Glibc
internal import PushGateway
internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// Runs a scenario's campaigns with a journal on a simulated disk, in several processes ("lives").
/// Each but the last crashes at some moment, and the next one resumes.
struct CrashSimulation {
  /// How a process ends early.
  enum End: CaseIterable {
    /// `kill -9`: what was written stays.
    case kill
    /// Anything that was not synced may be lost.
    case powerLoss
    /// A write or sync fails. The process ends in order with what it has.
    case failingWrite
    case failingSync
  }

  let scenario: Scenario
  private let sync: JournalSync
  private let checkpointByteCount: Int
  private let ends: [(end: End, after: Int)]
  /// The last process abandons the campaigns in place of resuming them.
  private let isAbandoned: Bool
  /// The common campaign's tokens are in a file that is there again.
  private let hasTokenFile: Bool
  /// Outcomes wait for so long before they are written; nil: they are written at once.
  private let settlementDelay: Duration?
  private let plantedMistake: EngineJournalOptions.PlantedMistake?

  init(seed: UInt64, plantedMistake: EngineJournalOptions.PlantedMistake? = nil) {
    self.init(Scenario(seed: seed), plantedMistake: plantedMistake)
  }

  init(_ scenario: Scenario, plantedMistake: EngineJournalOptions.PlantedMistake? = nil) {
    self.plantedMistake = plantedMistake
    var scenario = scenario
    let seed = scenario.seed
    var random = SeededGenerator(seed: seed ^ 0xC0FFEE)
    var laterRandom = SeededGenerator(seed: seed ^ 0xBD94)
    // From a generator of its own, so that the runs of earlier seeds stay the same.
    isAbandoned = Int.random(in: 0..<5, using: &laterRandom) == 0
    var latestRandom = SeededGenerator(seed: seed ^ 0x5E771E)
    settlementDelay =
      [nil, .zero, .milliseconds(3), .milliseconds(40), .seconds(2)].randomElement(using: &latestRandom) ?? nil
    var fileRandom = SeededGenerator(seed: seed ^ 0xF11E)
    hasTokenFile = fileRandom.chance(60)
    // By default an intent covers the whole of most campaigns.
    scenario.configuration.intentStep = [8_192, 8_192, 500, 20, 1].randomElement(using: &laterRandom) ?? 8_192
    // An app that gives up would hide the effects of crashes.
    scenario.configuration.patience = .seconds(3_600 * 24)
    self.scenario = scenario
    sync =
      [.always, .interval(.milliseconds(10)), .interval(.milliseconds(10)), .never].randomElement(using: &random)
      ?? .always
    checkpointByteCount = [4_000, 100_000, 16 << 20].randomElement(using: &random) ?? 4_000
    let survivesPowerLoss = sync != .never
    ends = (0..<Int.random(in: 1...3, using: &random)).map { _ in
      let end = End.allCases.filter { survivesPowerLoss || $0 != .powerLoss }.randomElement(using: &random) ?? .kill
      // Most crashes are early, when much is in flight; some are late.
      let limit = [60, 400, 3_000, 20_000].randomElement(using: &random) ?? 400
      return (end, Int.random(in: 0..<limit, using: &random))
    }
  }

  var description: String {
    "\(scenario); \(sync), checkpoints after \(checkpointByteCount) bytes"
      + ", \(ends.map { "\($0.end) after \($0.after)" })"
      + ", intents by \(scenario.configuration.intentStep)\(isAbandoned ? ", abandoned" : "")"
      + (settlementDelay.map { ", outcomes after \($0)" } ?? "") + (hasTokenFile ? ", with a token file" : "")
  }

  /// The problems found, in sentences.
  func run() -> [String] {
    let world = World(scenario: scenario)
    var problems: [String] = []
    for (life, plan) in (ends + [(.kill, Int.max)]).enumerated() {
      let isLast = life == ends.count
      switch isLast && isAbandoned ? abandon(in: world) : live(life, isLast ? nil : plan, in: world) {
      case .problem(let problem): return [problem + " in life \(life)"]
      case .crashed: break
      case .ended(let account, let isWhole):
        if isWhole || isLast {
          problems += check(world, account, isWhole: isWhole)
          return problems
        }
      }
    }
    return ["the last life crashed"]
  }

  /// What outlasts a process.
  private final class World: @unchecked Sendable {
    // Sync: used by one thread.
    let gateway: ScenarioGateway
    let disk = SimulatedDisk()
    var random: SeededGenerator
    /// The outcomes that were listed, by campaign and line.
    var listed: [Line: Outcome] = [:]
    var didGiveUp = false

    init(scenario: Scenario) {
      gateway = ScenarioGateway(scenario)
      random = SeededGenerator(seed: scenario.seed ^ 0xD15C)
    }

    /// Drops listed outcomes of earlier processes that the journal does not confirm.
    func forgetUnsettled(_ journal: EngineJournal) {
      for campaign in journal.campaigns {
        let settled = SettledLines(of: campaign, recoveredRuns: journal.recoveredRuns(of: campaign.number))
        listed = listed.filter { $0.key.isPersonal != campaign.isPersonal || settled.contains($0.key.line) }
      }
    }

    /// - Parameter lists: Those of the common and the personal campaign.
    func collect(_ lists: [OutcomeLines]) {
      for (index, list) in lists.enumerated() {
        for (line, outcome) in list.lines { listed[Line(isPersonal: index == 1, line: line)] = outcome }
      }
    }
  }

  fileprivate struct Line: Hashable {
    var isPersonal: Bool
    var line: UInt64
  }

  private enum Life {
    case crashed
    case ended(Account, isWhole: Bool)
    case problem(String)
  }

  private func live(_ life: Int, _ plan: (end: End, after: Int)?, in world: World) -> Life {
    switch plan?.end {
    case .failingWrite:
      world.disk.failWrite(after: (plan?.after ?? 0) / 50, .shortWrite(plan?.after ?? 0, code: ENOSPC))
    case .failingSync: world.disk.failSync(after: (plan?.after ?? 0) / 50)
    case .kill, .powerLoss, nil: break
    }
    var options = EngineJournalOptions()
    options.sync = sync
    options.checkpointByteCount = checkpointByteCount
    options.plantedMistake = plantedMistake
    let process: SimulatedProcess
    do {
      process = try SimulatedProcess(
        scenario.configuration, world.disk, world.gateway.service, seed: scenario.seed &+ UInt64(life) &* 1_000_003,
        network: scenario.network, options: options
      ) { $0.delaySettlements(by: settlementDelay, on: $1) }
    } catch {
      // This process's own fault may happen while the journal is opened.
      guard plan?.end == .failingWrite || plan?.end == .failingSync else {
        return .problem("the journal cannot be opened: \(error)")
      }
      world.disk.restart()
      return .crashed
    }
    guard process.lostCount == 0 else { return .problem("\(process.lostCount) notifications lost without damage") }
    let (app, journal, loop) = (process.app, process.journal, process.loop)
    let lists = [OutcomeLines(), OutcomeLines()]
    world.forgetUnsettled(journal)
    let result = Mutex<(Account, isWhole: Bool)?>(nil)
    let cancelAfter = life == 0 ? scenario.cancelAfter : nil
    do { try readTokens(journal) } catch { return .problem("\(error)") }
    _ = Task(executorPreference: loop) { [self] in
      let ended = await send(app, journal, loop, lists, cancelAfter: cancelAfter)
      await journal.settlementsWritten()
      result.withLock { $0 = ended }
    }
    let isKilled = plan?.end == .kill || plan?.end == .powerLoss
    let stepLimit = isKilled ? plan?.after ?? 0 : 3_000_000
    let ending = loop.run(limit: scenario.timeLimit, stepLimit: stepLimit) { result.withLock { $0 != nil } }
    world.collect(lists)
    if let ended = result.withLock({ $0 }) {
      if app.failure != nil, journal.failure == nil { world.didGiveUp = true }
      let isConsistent = !ended.isWhole || journal.failure != nil || journal.account == ended.0
      guard isConsistent else {
        return .problem("the journal's account \(String(describing: journal.account)) is not \(ended.0)")
      }
      if let problem = process.close() { return .problem(problem) }
      return .ended(ended.0, isWhole: ended.isWhole)
    }
    guard ending == .outOfSteps, isKilled else {
      return .problem("the campaign did not end: \(ending) after \(loop.now), failure \(app.failure ?? "none")")
    }
    process.kill { if plan?.end == .powerLoss { $0.loseUnsynced(using: &world.random) } else { $0.restart() } }
    if let problem = process.close({ result.withLock { $0 != nil } }) { return .problem(problem) }
    return .crashed
  }

  /// Runs `carillon journal abandon` in place of the last process.
  private func abandon(in world: World) -> Life {
    let loop = SimulatedLoop(seed: scenario.seed)
    let driver = JournalDriver(loop: loop)
    var options = EngineJournalOptions()
    options.plantedMistake = plantedMistake
    guard let journal = try? EngineJournal.open(world.disk, options: options, runByHand: { driver.poke() }).journal
    else {
      return .problem("the journal cannot be opened to abandon it")
    }
    driver.drive(journal)
    world.forgetUnsettled(journal)
    let lists = [OutcomeLines(), OutcomeLines()]
    journal.abandonCampaigns { lists[$0.isPersonal ? 1 : 0] }
    let result = Mutex<Account?>(nil)
    _ = Task(executorPreference: loop) {
      try? await journal.makeDurable()
      let account = journal.account
      try? await journal.close()
      result.withLock { $0 = account }
    }
    guard loop.run(limit: .seconds(3600), stepLimit: 1_000_000, until: { result.withLock { $0 != nil } }) == .done
    else {
      return .problem("abandoning did not end")
    }
    driver.stop()
    world.collect(lists)
    return .ended(result.withLock { $0 } ?? Account(), isWhole: false)
  }

  private var commonTokens: [TokenBytes] { Array(scenario.tokens.dropFirst(scenario.personalCount)) }

  /// Reads what the journal left in the file.
  private func readTokens(_ journal: EngineJournal) throws(AudienceError) {
    for campaign in journal.campaigns where !campaign.isPersonal {
      try journal.readTokens(of: campaign.number, LinesAudience.reading(commonTokens))
    }
  }

  private func send(
    _ app: App, _ journal: EngineJournal, _ loop: SimulatedLoop, _ lists: [OutcomeLines], cancelAfter: Duration?
  ) async -> (Account, isWhole: Bool) {
    if journal.campaigns.isEmpty {
      let common = Campaign(payload: Simulation.commonPayload, expiration: scenario.expiration, priority: 10)
      let personal = Campaign(payload: [], expiration: scenario.expiration, priority: 10)
      _ = try? await journal.begin([
        EngineJournal.Beginning(app: "simulated", campaign: common, context: [0]),
        EngineJournal.Beginning(app: "simulated", campaign: personal, context: [1]),
      ])
    }
    let campaigns = journal.campaigns
    async let first = send(
      campaigns.first { !$0.isPersonal }, app, journal, loop, lists[0], cancelAfter: cancelAfter)
    async let second = send(
      campaigns.first(where: \.isPersonal), app, journal, loop, lists[1], cancelAfter: cancelAfter)
    let (common, personal) = await (first, second)
    return (common.0 + personal.0, common.isWhole && personal.isWhole)
  }

  private func send(
    _ campaign: JournalledCampaign?, _ app: App, _ journal: EngineJournal, _ loop: SimulatedLoop, _ list: OutcomeLines,
    cancelAfter: Duration?
  ) async -> (Account, isWhole: Bool) {
    guard let campaign else { return (Account(), false) }
    guard campaign.phase == .open else { return (campaign.account, true) }
    let sent = Campaign(
      payload: journal.payload(of: campaign), expiration: campaign.expiration, priority: campaign.priority)
    guard let run = try? CampaignRun(sent, through: app, journalled: campaign.number, listener: list) else {
      return (campaign.account, false)
    }
    if let cancelAfter { _ = loop.schedule(at: loop.now + cancelAfter) { run.cancel() } }
    if campaign.isPersonal {
      let tokens = Array(scenario.tokens.prefix(scenario.personalCount))
      if !tokens.isEmpty, let audience = try? PersonalAudience(tokens, from: run.mark) {
        try? await run.run(audience, chunk: AudienceChunk(entryLimit: 64, payloadCapacity: 4_096))
      } else {
        try? await run.run(TokenList([]), chunk: AudienceChunk(entryLimit: 64))
      }
    } else if hasTokenFile, let audience = try? LinesAudience(commonTokens, from: run.mark) {
      try? await run.run(audience, chunk: AudienceChunk(entryLimit: 64))
    } else {
      try? await run.run(TokenList(commonTokens, from: run.mark), chunk: AudienceChunk(entryLimit: 64))
    }
    return (run.ledger.account, !run.ledger.isCancelled)
  }

  private func check(_ world: World, _ account: Account, isWhole: Bool) -> [String] {
    var outcomes: [TokenBytes: Outcome] = [:]
    for (line, outcome) in world.listed {
      // The header of the personal audience is its first line.
      let index = line.isPersonal ? Int(line.line) - 2 : scenario.personalCount + Int(line.line) - 1
      guard scenario.tokens.indices.contains(index) else {
        return ["an outcome for line \(line.line), which does not exist"]
      }
      outcomes[scenario.tokens[index]] = outcome
    }
    var check = AccountCheck(
      tokens: scenario.tokens, account: account, outcomes: outcomes, arrivals: world.gateway.arrivals)
    check.isPartial = !isWhole
    // To the gateway a kill looks like any other close. A notification that was alone in two of
    // them cannot be told from poison.
    world.gateway.explain(&check)
    return check.problems() + world.gateway.problems()
  }
}

extension JournalledCampaign {
  fileprivate var isPersonal: Bool { context == [1] }
}

extension EngineJournal {
  fileprivate var account: Account { campaigns.map(\.account).reduce(Account(), +) }

  /// Outcomes are written so long after the first one that waits.
  func delaySettlements(by delay: Duration?, on loop: SimulatedLoop) {
    guard let delay else { return }
    writeSettlements(
      after: {},
      ask: { [weak self] in _ = loop.schedule(at: loop.now + delay) { [weak self] in self?.writeSettlements() } })
  }
}

/// Collects outcomes by line.
private final class OutcomeLines: OutcomeListener {
  private let list = Mutex<[UInt64: Outcome]>([:])

  var lines: [UInt64: Outcome] { list.withLock { $0 } }

  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {
    list.withLock { $0[line] = outcome }
  }
}

extension EngineJournalOptions.PlantedMistake {
  /// Those of the journal itself; ``rewindClearsDoubt`` shows in nothing that is sent.
  static let ofJournal = allCases.filter { $0 != .rewindClearsDoubt && $0 != .acknowledgedAtOnce }
}
