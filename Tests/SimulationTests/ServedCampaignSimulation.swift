internal import PushGateway
internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// A campaign of a service, from stored devices: parts that begin at different times as a local
/// send has them, one rate for all of them, quiet hours, and processes that are killed in the
/// middle of the audience. The seed determines all of it.
final class ServedCampaignSimulation: CustomStringConvertible, @unchecked Sendable {
  // Sync: used on the simulated loop, and by the thread that runs it.
  struct Device: Sendable {
    let key: Int64
    let token: TokenBytes
    let isSuppressed: Bool
  }

  struct Plan {
    var seed: UInt64
    var isHTTP2: Bool
    var deviceCount: Int
    /// When each part begins, after the start of a process.
    var begins: [Duration]
    var pageLimit: Int
    /// Of 1000 pages, the number that cannot be read at first.
    var failuresPerMille: Int
    /// In milliseconds.
    var pageLatency: ClosedRange<Int>
    /// Parts whose keys were listed before: pages have fewer devices than keys then.
    var hasLists: Bool
    var removedCount: Int
    var perSecond: Double?
    /// Nothing is read in these times, counted from the start of a process.
    var quiet: [Range<Duration>]
    /// After how many steps each process is killed, before the last one.
    var lives: [Int]
    var powerIsLost: Bool
    var checkpointByteCount: Int
    /// See ``EngineJournal/delaySettlements(by:on:)``.
    var settlementDelay: Duration?

    init(seed: UInt64) {
      self.seed = seed
      var random = SeededGenerator(seed: seed ^ 0x5E27ED)
      isHTTP2 = Bool.random(using: &random)
      deviceCount = [1, 40, 300, 1_000].randomElement(using: &random) ?? 40
      begins = (0..<Int.random(in: 1...3, using: &random)).map { part in
        part == 0 ? .zero : .milliseconds(Int.random(in: 0...5_000, using: &random))
      }
      pageLimit = [1, 7, 64, 4_096].randomElement(using: &random) ?? 64
      failuresPerMille = [0, 0, 100].randomElement(using: &random) ?? 0
      pageLatency = [0...0, 0...5, 10...300].randomElement(using: &random) ?? 0...0
      hasLists = Bool.random(using: &random)
      removedCount = Int.random(in: 0..<3, using: &random) == 0 ? deviceCount / 10 : 0
      perSecond = Bool.random(using: &random) ? Double.random(in: 50...2_000, using: &random) : nil
      quiet = (0..<Int.random(in: 0...2, using: &random)).map { index in
        let start = index * 3_000 + Int.random(in: 0...1_000, using: &random)
        return .milliseconds(start) ..< .milliseconds(start + Int.random(in: 1...1_500, using: &random))
      }
      lives = (0..<Int.random(in: 0...3, using: &random)).map { _ in
        let limit = [100, 1_000, 5_000].randomElement(using: &random) ?? 100
        return Int.random(in: 0..<limit, using: &random)
      }
      powerIsLost = Bool.random(using: &random)
      checkpointByteCount = [2_000, 50_000, 16 << 20].randomElement(using: &random) ?? 2_000
      settlementDelay = [nil, .zero, .milliseconds(10), .seconds(1)].randomElement(using: &random) ?? nil
    }
  }

  /// What outlasts a process, as the service's store does.
  private struct Kept {
    /// The devices of each part, in the order of their keys.
    var devices: [[Device]] = []
    /// The keys that each part had in the beginning.
    var keys: [[Int64]] = []
    /// The final accounts of parts.
    var accounts: [Int: Account] = [:]
    var problems: [String] = []
  }

  /// A mistake in how campaigns are resumed, paused or slowed down, to prove that it is found.
  enum PlantedMistake: CaseIterable {
    case skipsDevices, forgetsQuietHours, forgetsRate
  }

  let plan: Plan
  let plantedMistake: PlantedMistake?
  private let disk = SimulatedDisk()
  private let frames = RecordedFrames()
  private let service: any SimulatedEndpoint
  private var random: SeededGenerator
  private let all: [Device]
  private var removed: Set<TokenBytes> = []
  private let kept: Mutex<Kept>

  var description: String { "\(plan)" }

  init(seed: UInt64, plantedMistake: PlantedMistake? = nil) {
    plan = Plan(seed: seed)
    self.plantedMistake = plantedMistake
    random = SeededGenerator(seed: seed)
    service =
      plan.isHTTP2
      ? SimulatedProvider(faults: ProviderFaults(), seed: seed)
      : BinaryService(gateway: SimulatedGateway(memory: frames), topic: Scenario.topic)
    var (all, kept) = ([Device](), Kept())
    kept.devices = plan.begins.map { _ in [] }
    var key: Int64 = 0
    for token in Scenario.distinctTokens(plan.deviceCount, seed: seed) {
      key += Int64.random(in: 1...3, using: &random)
      let device = Device(key: key, token: token, isSuppressed: Int.random(in: 0..<10, using: &random) == 0)
      all.append(device)
      kept.devices[Int.random(in: 0..<plan.begins.count, using: &random)].append(device)
    }
    kept.keys = kept.devices.map { $0.map(\.key) }
    self.all = all
    self.kept = Mutex(kept)
  }

  /// The problems found, in sentences.
  func run() -> [String] {
    for (index, stepLimit) in (plan.lives + [Int.max]).enumerated() {
      if let problem = live(index, stepLimit: stepLimit, isLast: index == plan.lives.count) { return [problem] }
    }
    return kept.withLock { $0.problems } + check()
  }

  private func check() -> [String] {
    var problems: [String] = []
    let arrivals = (service as? SimulatedProvider)?.accepted ?? frames.accepted(topic: Scenario.topic)
    let sum = kept.withLock { $0.accounts.values }.reduce(Account(), +)
    for device in all {
      let count = arrivals[device.token, default: 0]
      if device.isSuppressed, count > 0 { problems.append("\(device.token) is suppressed, and has got it") }
      if !device.isSuppressed, count == 0, !removed.contains(device.token) {
        problems.append("\(device.token) has got nothing")
      }
    }
    if sum.submitted > all.count || sum.submitted < all.count - removed.count {
      problems.append("\(sum.submitted) of \(all.count) devices are in the account")
    }
    if sum.inFlight != 0 || sum.accepted + sum.suppressed != sum.submitted || sum.accepted != arrivals.count {
      problems.append("\(arrivals.count) have got it: \(sum)")
    }
    let repeated = arrivals.values.count { $0 > 1 }
    if repeated > sum.possibleDuplicates {
      problems.append("\(repeated) have got it twice, and \(sum.possibleDuplicates) may have")
    }
    return problems
  }

  // MARK: One process

  private func live(_ life: Int, stepLimit: Int, isLast: Bool) -> String? {
    let seed = plan.seed &+ UInt64(life) &* 7_919
    var options = EngineJournalOptions()
    options.checkpointByteCount = plan.checkpointByteCount
    let engine: SimulatedProcess
    do {
      engine = try SimulatedProcess(
        .served("served", isHTTP2: plan.isHTTP2), disk, service, seed: seed, options: options
      ) { $0.delaySettlements(by: plan.settlementDelay, on: $1) }
    } catch {
      return "the journal cannot be opened: \(error)"
    }
    let process = ServedCampaignProcess(self, engine, seed: seed &+ 3)
    removeSome(engine.loop)
    for (part, begin) in plan.begins.enumerated() where kept.withLock({ $0.accounts[part] == nil }) {
      process.begin(part, at: engine.loop.now + begin, self)
    }
    let ending = engine.loop.run(limit: .seconds(8_000), stepLimit: stepLimit) { process.hasEnded }
    if !process.hasEnded {
      guard ending == .outOfSteps, !isLast else { return "it did not end: \(ending), \(engine.app.hold)" }
      engine.kill { if plan.powerIsLost { $0.loseUnsynced(using: &random) } else { $0.restart() } }
      process.wake()
    }
    return engine.close { process.hasEnded }
  }

  /// Devices are removed from the store meanwhile.
  private func removeSome(_ loop: SimulatedLoop) {
    for device in all.shuffled(using: &random).prefix(plan.removedCount / (plan.lives.count + 1)) {
      removed.insert(device.token)
      let at = loop.now + .milliseconds(Int.random(in: 0...2_000, using: &random))
      _ = loop.schedule(at: at) { [self] in
        kept.withLock { kept in
          for part in kept.devices.indices { kept.devices[part].removeAll { $0.key == device.key } }
        }
      }
    }
  }

  // MARK: What a process asks of the store, and tells it

  func page(of part: Int, after key: Int64, _ limit: Int) -> (entries: [Device], next: Int64?) {
    kept.withLock { kept in
      if plan.hasLists {
        let keys = kept.keys[part].drop { $0 <= key }.prefix(limit)
        let found = kept.devices[part].filter { $0.key > key && $0.key <= keys.last ?? 0 }
        return (found, keys.count < limit ? nil : keys.last)
      }
      let found = Array(kept.devices[part].drop { $0.key <= key }.prefix(limit))
      return (found, found.count < limit ? nil : found.last?.key)
    }
  }

  func ended(_ part: Int, _ account: Account) { kept.withLock { $0.accounts[part] = account } }
  func found(_ problem: String) { kept.withLock { $0.problems.append(problem) } }
}
