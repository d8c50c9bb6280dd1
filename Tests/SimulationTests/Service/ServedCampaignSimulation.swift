internal import Foundation
internal import PushGateway
internal import PushSend
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import Carillon
@testable internal import PushEngine
@testable internal import PushService

/// A campaign of a service: at once, at a time, or at a local time; to stored devices or to an
/// upload; at a rate, around quiet hours, paused and cancelled by people; with a store that is
/// slow, fails and is full, and processes that are killed. The seed determines all of it.
final class ServedCampaignSimulation: CustomStringConvertible, @unchecked Sendable {
  // Sync: used on the simulated loop, and by the thread that runs it.
  enum Start: Hashable { case now, later, local }

  enum Action: Hashable { case pause, resume, cancel }

  struct Plan {
    var seed: UInt64
    var isHTTP2: Bool
    var deviceCount: Int
    var badPerMille: Int
    var isUpload: Bool
    var start: Start
    /// What a local send does for devices without a time zone.
    var skipsMissingZones: Bool
    var perSecond: Int?
    /// Such as 22:14-22:20; a process begins at 22:13:20 for the first time.
    var quietHours: String?
    var removedCount: Int
    /// The app has a holdout group, and caps that some have reached.
    var withholds = false
    /// What may have arrived is not sent again.
    var holds = false
    /// What people do, by seconds after the beginning of a process, and in which.
    var actions: [(life: Int, second: Int, Action)]
    /// After how many steps each process is killed, before the last one.
    var lives: [Int]
    var powerIsLost: Bool
    var checkpointByteCount: Int
    /// See ``EngineJournal/delaySettlements(by:on:)``.
    var settlementDelay: Duration
    /// Which of two nodes each process is one of, if they share the campaign; empty: one process
    /// sends all of it.
    var nodes: [Int] = []
    var segments = SegmentSizes()
    var store = SimulatedStore.Faults()
    /// From which write on the store of a process is full, by process.
    var storeFails: [Int: Int] = [:]
    /// How long the disk takes for each of the journal's writes.
    var writing = Duration.zero
    /// Within which each process ends the campaign.
    var bound = Duration.seconds(60_000)

    init(seed: UInt64, isShared: Bool = false) {
      self.seed = seed
      defer { if isShared { share() } }
      var random = SeededGenerator(seed: seed ^ 0x5E27ED)
      isHTTP2 = Bool.random(using: &random)
      deviceCount = [1, 40, 300, 1_000].randomElement(using: &random) ?? 40
      badPerMille = [0, 30].randomElement(using: &random) ?? 0
      isUpload = Int.random(in: 0..<4, using: &random) == 0
      start = [.now, .now, .later, .local].randomElement(using: &random) ?? .now
      skipsMissingZones = Bool.random(using: &random)
      perSecond = [nil, 4, 50, 1_000].randomElement(using: &random) ?? nil
      quietHours = [nil, nil, "22:14-22:20", "22:16-23:00", "22:10-22:30"].randomElement(using: &random) ?? nil
      removedCount = Int.random(in: 0..<3, using: &random) == 0 ? deviceCount / 10 : 0
      lives = (0..<Int.random(in: 0...3, using: &random)).map { _ in
        let limit = [300, 3_000, 20_000].randomElement(using: &random) ?? 300
        return Int.random(in: 0..<limit, using: &random)
      }
      powerIsLost = Bool.random(using: &random)
      checkpointByteCount = [2_000, 50_000, 16 << 20].randomElement(using: &random) ?? 2_000
      settlementDelay = [.zero, .milliseconds(10), .seconds(1)].randomElement(using: &random) ?? .zero
      store.latency = [0...0, 0...5, 10...300].randomElement(using: &random) ?? 0...0
      store.failuresPerMille = [0, 0, 50].randomElement(using: &random) ?? 0
      store.awayPerMille = SimulatedStore.Faults.awayPerMille(seed: seed)
      withholds = !isUpload && (seed ^ 0xCA9).isMultiple(of: 3)
      actions = []
      for life in 0...lives.count {
        var second = 0
        for _ in 0..<Int.random(in: 0...2, using: &random) {
          second += Int.random(in: 0...100, using: &random)
          actions.append((life, second, .pause))
          second += Int.random(in: 0...100, using: &random)
          actions.append((life, second, .resume))
        }
        if Int.random(in: 0..<10, using: &random) == 0 { actions.append((life, second + 5, .cancel)) }
        // A campaign that a killed process paused would stay so.
        actions.append((life, 4_000, .resume))
        if life < lives.count, Int.random(in: 0..<4, using: &random) == 0 {
          storeFails[life] = Int.random(in: 1...20, using: &random)
        }
      }
    }

    private mutating func share() {
      var random = SeededGenerator(seed: seed ^ 0x1ED6E2)
      isUpload = false
      holds = (seed ^ 0x401D).isMultiple(of: 4)
      nodes = (0...lives.count).map { _ in Int.random(in: 0...1, using: &random) }
      segments.small = [1, 20, 200].randomElement(using: &random) ?? 20
      segments.large = segments.small
      let least = [1, 10, 100].randomElement(using: &random) ?? 10
      segments.grants = least...(least * 8)
    }

    var isShared: Bool { !nodes.isEmpty }
    var isCancelled: Bool { actions.contains { $0.2 == .cancel } }

    /// Without anything that lets it wait.
    mutating func hurry() {
      start = .now
      (perSecond, quietHours, actions) = (nil, nil, [])
    }

    /// Without anything that keeps the campaign from ending.
    mutating func calm() {
      start = .now
      (perSecond, quietHours) = (nil, nil)
      (actions, lives, storeFails) = ([], [], [:])
      store = SimulatedStore.Faults()
    }
  }

  let plan: Plan
  private let mistake: CampaignController.PlantedMistake?
  private let disks = [SimulatedDisk(), SimulatedDisk()]
  private let storeDisk = StoreDisk()
  private let frames = RecordedFrames()
  private let provider: SimulatedProvider?
  private let service: any SimulatedEndpoint
  private let segmentMistake: SegmentMachine.PlantedMistake?
  private let spools: [CampaignSpool]
  /// Of the last process of each node, as its journal's folder has it.
  private var incarnations: [Int64?] = [nil, nil]
  private let folder: URL
  private var random: SeededGenerator
  private let tokens: [TokenBytes]
  private let bad: Set<TokenBytes>
  private var suppressed: Set<TokenBytes> = []
  private var leftOut: Set<TokenBytes> = []
  private var removed: Set<TokenBytes> = []
  private var held: Set<TokenBytes> = []
  private var capped: Set<TokenBytes> = []
  private let wasStarted = Atomic<Bool>(false)
  private let id: StoredUUID
  /// The time of day at which a process begins.
  private var beginsAt: Int64 = 1_700_000_000_000 - 1_000
  private var problems: [String] = []

  var description: String { "\(plan)" }

  convenience init(
    seed: UInt64, isShared: Bool = false, plantedMistake: CampaignController.PlantedMistake? = nil,
    segmentMistake: SegmentMachine.PlantedMistake? = nil
  ) {
    self.init(
      Plan(seed: seed, isShared: isShared), plantedMistake: plantedMistake, segmentMistake: segmentMistake)
  }

  init(
    _ plan: Plan, plantedMistake: CampaignController.PlantedMistake? = nil,
    segmentMistake: SegmentMachine.PlantedMistake? = nil
  ) {
    self.segmentMistake = segmentMistake
    let seed = plan.seed
    self.plan = plan
    mistake = plantedMistake
    random = SeededGenerator(seed: seed)
    tokens = Scenario.distinctTokens(plan.deviceCount, seed: seed)
    var bad: Set<TokenBytes> = []
    for token in tokens where Int.random(in: 0..<1_000, using: &random) < plan.badPerMille { bad.insert(token) }
    self.bad = bad
    var faults = ProviderFaults()
    for token in bad { faults.refused[token] = (400, .badDeviceToken) }
    provider = plan.isHTTP2 ? SimulatedProvider(faults: faults, seed: seed) : nil
    var rules = FaultRules()
    rules.common.refuse = [Faults.Refuse(Faults.Selection(tokens: bad), status: .invalidToken)]
    service =
      provider ?? BinaryService(gateway: SimulatedGateway(rules: rules, memory: frames), topic: Scenario.topic)
    folder = URL.temporaryDirectory.appending(
      path: "carillon-simulation-\(getpid())-\(seed)-\(UInt32.random(in: 0 ... .max))")
    spools = [0, 1].map { [folder] in CampaignSpool(besides: folder.appending(path: "store-\($0).db").path) }
    id = StoredUUID(high: 0x018b_cfe5_6800_7000 | seed & 0xFFF, low: 0x8000_0000_0000_0000 | seed)
    addDevices()
  }

  private func addDevices() {
    let now = StoreInstant(milliseconds: beginsAt)
    var key: Int64 = 0
    for token in tokens {
      key += Int64.random(in: 1...3, using: &random)
      let isSuppressed = Int.random(in: 0..<10, using: &random) == 0
      let zone = ["Etc/GMT-1", "Etc/GMT", "Etc/GMT+1", "Asia/Kolkata", nil].randomElement(using: &random) ?? nil
      if !plan.isUpload, isSuppressed { suppressed.insert(token) }
      if plan.start == .local, plan.skipsMissingZones, zone == nil { leftOut.insert(token) }
      let device = StoredDevice(
        key: key, id: StoredUUID(high: 0, low: UInt64(key)), token: token.bytes, language: nil, timeZone: zone,
        tags: [], createdAt: now, registeredAt: now, goneAt: isSuppressed ? now : nil)
      storeDisk.change { $0.insert(device, app: "served") }
      if plan.withholds { withhold(device, token) }
    }
  }

  private func withhold(_ device: StoredDevice, _ token: TokenBytes) {
    let member = AudienceMemberDigest(
      AudienceDevice(key: device.key, token: device.token, language: nil, isSuppressed: false), app: "served")
    guard !suppressed.contains(token), !leftOut.contains(token) else { return }
    if HoldoutGroup(name: "served", percent: 20).has(member) {
      held.insert(token)
    } else if device.key.isMultiple(of: 5) {
      capped.insert(token)
      let former = AdmissionRequest(
        app: "served", campaign: StoredUUID(high: 1, low: 1), members: [member.bytes], caps: app.caps,
        now: StoreInstant(milliseconds: beginsAt - 5_000))
      storeDisk.change { $0.admit(former) }
    }
  }

  /// The problems found, in sentences.
  func run() -> [String] {
    defer { try? FileManager.default.removeItem(at: folder) }
    do { try prepare() } catch { return ["the campaign cannot be made: \(error)"] }
    for (index, stepLimit) in (plan.lives + [Int.max]).enumerated() {
      if let problem = live(index, stepLimit: stepLimit, isLast: index == plan.lives.count) {
        return ["process \(index + 1): \(problem)"]
      }
    }
    return problems + storeDisk.contents.problems + check()
  }

  // MARK: The campaign

  private var text: String {
    var text = #"{"name":"sale","payload":{"aps":{"alert":"Hello"}}"#
    if !plan.isUpload { text += #","audience":{"source":"devices"}"# }
    switch plan.start {
    case .now: break
    case .later: text += #","sendAt":"2023-11-14T22:15:00Z""#
    case .local:
      let missing = plan.skipsMissingZones ? "skip" : "appDefault"
      text += #","localSend":{"time":"2023-11-14T23:15","missingTimeZone":"\#(missing)","past":"now"}"#
    }
    if let perSecond = plan.perSecond { text += #","rateLimit":\#(perSecond)"# }
    return text + "}"
  }

  private func prepare() throws {
    let now = StoreInstant(milliseconds: beginsAt)
    var campaign = StoredCampaign(
      id: id, app: "served", state: CampaignState.draft.rawValue, content: [], createdAt: now)
    let plan = try CampaignPlan(parsing: Array(text.utf8)[...])
    campaign.set(plan)
    if self.plan.isUpload {
      let spool = spools[0]
      try spool.make(id)
      let devices = storeDisk.contents.devices["served"]?.all ?? []
      var rows = "token,timezone\n"
      for device in devices {
        guard let token = TokenBytes(bytes: device.token) else { continue }
        rows += "\(token),\(device.timeZone ?? "")\n"
      }
      try Data(rows.utf8).write(to: URL(fileURLWithPath: spool.audience(id)))
      campaign.upload.isComplete = true
      campaign.upload.format = "csv"
      campaign.upload.lineCount = Int64(devices.count + 1)
      campaign.upload.byteCount = Int64(rows.utf8.count)
    }
    storeDisk.change { [campaign] in $0.campaigns[campaign.id] = campaign }
  }

  private var app: CampaignTimes.App {
    var app = CampaignTimes.App(quietHours: plan.quietHours.flatMap { QuietHours($0) })
    guard plan.withholds else { return app }
    app.holdoutPercent = 20
    app.caps = [FrequencyCap(span: 31 * 86_400_000, count: 1)]
    return app
  }

  private var configuration: AppConfiguration {
    var configuration = AppConfiguration(
      id: "served", topic: Scenario.topic, transport: plan.isHTTP2 ? .http2() : .binary(),
      credential: .certificate(file: "news.pem"))
    if plan.holds { configuration.onUnknown = .hold }
    return configuration
  }

  private var rules: AppRules {
    var rules = AppRules.served("served", isHTTP2: plan.isHTTP2)
    if plan.holds { rules.policy.onUnknown = .hold }
    return rules
  }

  // MARK: Truth

  /// A probe has no valid token, and is nobody's notification.
  private var arrivedCount: Int { provider?.requests.count ?? frames.frames.count { $0.token != nil } }

  private var hasEnded: Bool { storeDisk.change { [id] in $0.campaigns[id]?.endedAt != nil } }

  private func check() -> [String] {
    var problems: [String] = []
    let contents = storeDisk.contents
    let arrivals = provider?.accepted ?? frames.accepted(topic: Scenario.topic)
    let parts = contents.parts[id] ?? []
    var sum = CampaignAccount()
    for part in parts {
      guard let account = part.account.flatMap(AccountJSON.account(reading:)) else {
        problems.append("part \(part.number) has no account")
        continue
      }
      sum = sum + account
    }
    let isCancelled = contents.campaigns[id]?.status == .cancelled
    let wanted = Set(tokens).subtracting(suppressed).subtracting(leftOut).subtracting(bad).subtracting(held)
      .subtracting(capped)
    let wrong = arrivals.keys.count { !wanted.contains($0) }
    if wrong > 0 { problems.append("\(wrong) must get nothing, and have got it") }
    let missing = wanted.subtracting(removed).count { arrivals[$0] == nil }
    if missing > sum.held, !isCancelled { problems.append("\(missing) have got nothing") }
    // Cancelled as a draft, because its start came while the store was away: it has no audience.
    let isDraft = isCancelled && parts.isEmpty && !wasStarted.load(ordering: .relaxed)
    if !isDraft, sum.submitted > tokens.count || sum.submitted < tokens.count - removed.count {
      problems.append("\(sum.submitted) of \(tokens.count) are in the account")
    }
    if let count = contents.campaigns[id]?.audienceCount, sum.submitted != count {
      problems.append("\(sum.submitted) are in the account of \(count)")
    }
    if sum.inFlight != 0 { problems.append("\(sum.inFlight) have no outcome") }
    let isExact = sum.unknown == 0 && sum.held == 0
    if isExact ? sum.accepted != arrivals.count : sum.accepted > arrivals.count {
      problems.append("\(arrivals.count) have got it: \(sum)")
    }
    // Who cannot be sent to when another node may have done so is unknown.
    let withheldCount = suppressed.count + held.count + capped.count
    for (name, count, expected) in [("held out", sum.holdout, held), ("capped", sum.capped, capped)] {
      let least = isCancelled || plan.isShared ? 0 : expected.subtracting(removed).count
      if !(least...max(least, expected.count)).contains(count) {
        problems.append("\(count) of \(expected.count) are \(name)")
      }
    }
    if !isCancelled, sum.unknown > (plan.isShared ? removed.count + withheldCount : 0) {
      problems.append("\(sum.unknown) are unknown")
    }
    let copies = arrivals.values.reduce(0) { $0 + $1 - 1 }
    if copies > sum.possibleCopies { problems.append("\(copies) copies, counted \(sum.possibleCopies)") }
    let state = contents.campaigns[id]?.state ?? ""
    if !(isCancelled ? plan.isCancelled : state == "finished") {
      problems.append("the campaign is \(state): \(contents.campaigns[id]?.reason ?? "")")
    }
    let outcomes = ListedOutcomes(contents.outcomeGroups, of: Set(tokens))
    return problems + outcomes.problems(sum, leftCount: plan.start == .local ? removed.count : 0) + listed(parts, sum)
  }

  /// Whoever was refused stands in the lists once.
  private func listed(_ parts: [StoredCampaignPart], _ sum: CampaignAccount) -> [String] {
    var listed: [String: Int] = [:]
    let paths = parts.map { spools[0].list(id, part: $0.number) } + spools.map { $0.leftOut(id) }
    let files = paths.compactMap { try? String(contentsOfFile: $0, encoding: .utf8) }
    for text in files + [storeDisk.contents.ledger.listed(id)] {
      for row in text.split(separator: "\n") {
        let fields = row.split(separator: ",", omittingEmptySubsequences: false)
        if fields.count > 2, fields[2] == "rejected" { listed[String(fields[1]), default: 0] += 1 }
      }
    }
    let twice = listed.values.count { $0 > 1 }
    return twice > 0 || listed.count != sum.rejected
      ? ["\(listed.count) are listed as refused, \(twice) of them twice, and \(sum.rejected) are"] : []
  }

  // MARK: One process

  private func live(_ life: Int, stepLimit: Int, isLast: Bool) -> String? {
    let seed = plan.seed &+ UInt64(life) &* 7_919
    var options = EngineJournalOptions()
    options.checkpointByteCount = plan.checkpointByteCount
    let engine: SimulatedProcess
    let process: ServedCampaignProcess
    let node = plan.isShared ? plan.nodes[life] : 0
    let disk = disks[node]
    do {
      var opened: (OutcomeRecorder, SimulatedStore, SimulatedClock)?
      engine = try SimulatedProcess(
        rules, disk, service, seed: seed, options: options, writing: plan.writing
      ) { journal, loop in
        let clock = SimulatedClock(loop: loop, beganAt: beginsAt)
        var faults = plan.store
        faults.failsAtWrite = plan.storeFails[life]
        let store = SimulatedStore(
          storeDisk, loop, faults, seed: seed &+ 5, hasLedger: plan.isShared, node: "\(node)")
        let outcomes = OutcomeRecorder(store: store, clock: clock, deferred: DeferredChanges(DeferredList(disk)))
        journal.writeSettlements(outcomes, after: plan.settlementDelay, on: loop)
        opened = (outcomes, store, clock)
      }
      guard let (outcomes, store, clock) = opened else { return "the journal was not prepared" }
      process = try ServedCampaignProcess(
        engine, configuration, store, outcomes, clock, app, spool: spools[node],
        controller: CampaignController(
          store: store, clock: clock, plantedMistake: mistake, segmentMistake: segmentMistake,
          segmentSizes: plan.segments),
        former: incarnations[node]
      ) { [self] in joined(node, $0) }
    } catch {
      return "it cannot begin: \(error)"
    }
    if engine.lostCount > 0 { return "\(engine.lostCount) were lost" }
    process.begin()
    act(process, life)
    removeSome(engine.loop)
    watch(engine.loop)
    let ending = engine.loop.run(limit: plan.bound, stepLimit: stepLimit) {
      hasEnded || engine.journal.failure != nil
    }
    // Whatever is under way ends before it is looked at.
    if hasEnded { _ = engine.loop.run(limit: .seconds(5), stepLimit: 1_000_000) { false } }
    beginsAt = process.clock.milliseconds + Int64.random(in: 0...60_000, using: &random)
    if !hasEnded {
      guard ending == .outOfSteps || engine.journal.failure != nil, !isLast else {
        return "it did not end: \(ending), \(engine.app.halt), \(state)"
      }
      process.store.kill()
      engine.kill { if plan.powerIsLost { $0.loseUnsynced(using: &random) } else { $0.restart() } }
    }
    process.close()
    return engine.close { process.hasEnded }.map { $0 + " \(process.remainder) \(state)" }
  }

  private var state: String {
    let contents = storeDisk.contents
    let parts = (contents.parts[id] ?? []).map { part in
      "part \(part.number)" + (part.begunAt == nil ? "" : " begun") + (part.endedAt == nil ? "" : " ended")
    }
    let segments = contents.ledger.description
    return "\(contents.campaigns[id].map { "\($0.state) \($0.reason)" } ?? ""), \(parts) \(segments)"
  }

  private func joined(_ node: Int, _ incarnation: Int64) { incarnations[node] = incarnation }

  private func act(_ process: ServedCampaignProcess, _ life: Int) {
    let start = process.clock.loop.now
    process.perform(at: start) { [self] in
      _ = try await $0.start(id)
      wasStarted.store(true, ordering: .relaxed)
    }
    for entry in plan.actions where entry.life == life {
      process.perform(at: start + .seconds(entry.second)) { [id] controller in
        switch entry.2 {
        case .pause: try await controller.change(id, { _ in .paused })
        case .resume: _ = try await process.resume(id)
        case .cancel: try await controller.change(id, { _ in .cancelled })
        }
      }
    }
  }

  /// Devices are removed from the store meanwhile.
  private func removeSome(_ loop: SimulatedLoop) {
    guard !plan.isUpload else { return }
    for token in tokens.shuffled(using: &random).prefix(plan.removedCount / (plan.lives.count + 1)) {
      let at = loop.now + .milliseconds(Int.random(in: 0...200_000, using: &random))
      removed.insert(token)
      _ = loop.schedule(at: at) { [storeDisk] in
        _ = storeDisk.change { $0.removeDevice(token: token.bytes, app: "served") }
      }
    }
  }

  private func watch(_ loop: SimulatedLoop) {
    look(loop, since: loop.now, arrivedCount, before: arrivedCount, nil)
  }

  /// Looks every second whether the rate and quiet hours are kept.
  private func look(
    _ loop: SimulatedLoop, since start: Instant, _ firstCount: Int, before: Int, _ quietSince: Instant?
  ) {
    let (now, count) = (loop.now, arrivedCount)
    let unixSeconds = (beginsAt + Int64(now.nanoseconds / 1_000_000)) / 1_000
    let isQuiet = app.quietHours?.contains(local: unixSeconds) ?? false
    let quietSince = isQuiet ? quietSince ?? now : nil
    // The store may be slow, and fail, when the campaign is to be held.
    if let quietSince, now.since(quietSince) > .seconds(20), count > before, plan.start != .local {
      problems.append("\(count - before) were sent in quiet hours")
    }
    let seconds = Double(now.since(start).components.seconds)
    // What a killed process has left is sent at the same rate.
    if let perSecond = plan.perSecond, Double(count - firstCount) > Double(perSecond) * (seconds + 1.25) + 1 {
      problems.append("\(count - firstCount) were sent in \(seconds) s, at \(perSecond)/s")
    }
    guard !hasEnded, problems.isEmpty else { return }
    _ = loop.schedule(at: now + .seconds(1)) { [self] in
      look(loop, since: start, firstCount, before: count, quietSince)
    }
  }
}
