internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// The journal of an engine over several processes on a simulated disk, with random events in
/// orders that lanes and readers can cause. One seed determines all of it.
final class JournalWorld {
  var random: SeededGenerator
  let disk = SimulatedDisk()
  private(set) var model = JournalModel()
  /// The model after the record at each position, in order, since the journal was opened.
  private var history: [(position: UInt64, model: JournalModel)] = []
  private(set) var journal: EngineJournal
  private var options = EngineJournalOptions()
  private var now = Duration.zero
  /// What an earlier process left of each open campaign and this one has not resumed.
  private var left: [UInt64: [JournalModel.Left]] = [:]
  private(set) var restateCount = 0
  private(set) var rewindCount = 0
  /// The positions up to which running lanes were asked to compact.
  private let pinned = Pinned()

  private final class Pinned: Sendable {
    let ends = Mutex<[UInt64: UInt64]>([:])
  }

  init(seed: UInt64, plantedMistake: EngineJournalOptions.PlantedMistake? = nil) throws {
    random = SeededGenerator(seed: seed)
    options.plantedMistake = plantedMistake
    options.checkpointByteCount = random.pick([1, 300, 2_000, 10_000], or: 300)
    options.sync = random.pick([.always, .interval(.milliseconds(10)), .never], or: .always)
    journal = try EngineJournal.open(disk, options: options, runByHand: {}).journal
    history = [(0, model)]
  }

  struct Wrong: Error, CustomStringConvertible {
    var description: String
  }

  // MARK: Lives

  func live(operations: Int) async throws {
    try addLane()
    for _ in 0..<operations {
      try await operate()
      if random.chance(10) { try check() }
    }
  }

  private func operate() async throws {
    switch Int.random(in: 0..<100, using: &random) {
    case ..<4: try await begin()
    case ..<6: try addLane()
    case ..<24: try enqueue()
    case ..<36: try goOn()
    case ..<48: intend()
    case ..<64: settle()
    case ..<69: giveBack()
    case ..<74: doubt()
    case ..<76: rewind()
    case ..<77:
      if let campaign = openCampaign() {
        record(.resent(campaign: campaign, count: Int.random(in: 1...9, using: &random)))
      }
    case ..<79: readMalformed()
    case ..<81: try restate()
    case ..<84: endCampaigns()
    default: run()
    }
  }

  func run(_ duration: Duration? = nil) {
    now += duration ?? .milliseconds(Int.random(in: 0...15, using: &random))
    _ = journal.run(now: now)
  }

  /// The process is killed, or the machine loses power. Another process begins.
  func crash(losesUnsynced: Bool) throws {
    let durable = journal.journal.durablePosition.rawValue
    if losesUnsynced, options.sync != .never { disk.loseUnsynced(using: &random) } else { disk.restart() }
    journal.abandon()
    let next = try Journal.inspect(disk) { _, _, _ in }.next.rawValue
    guard next > durable, let found = history.last(where: { $0.position < next }) else {
      throw Wrong(description: "\(durable) was durable, \(next) comes next")
    }
    model = found.model
    try reopen()
  }

  func close() async throws {
    try await drive { [journal] in try await journal.close() }
    disk.restart()
    try reopen()
  }

  private func reopen() throws {
    model.endLife()
    pinned.ends.withLock { $0 = [:] }
    let (journal, report) = try EngineJournal.open(disk, options: options, runByHand: {})
    self.journal = journal
    history = [(0, model)]
    let differences = model.differences(from: journal, report)
    guard differences.isEmpty else { throw Wrong(description: differences.joined(separator: "; ")) }
    left = [:]
    for campaign in journal.campaigns where campaign.phase == .open {
      left[campaign.number] = model.left(of: campaign.number)
    }
  }

  /// Runs the journal until `body` has ended.
  func drive<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> Value {
    let result = Mutex<Result<Value, any Error>?>(nil)
    let task = Task {
      do {
        let value = try await body()
        result.withLock { $0 = .success(value) }
      } catch {
        result.withLock { $0 = .failure(error) }
      }
    }
    while result.withLock({ $0 == nil }) {
      run(.milliseconds(10))
      await Task.yield()
    }
    await task.value
    return try result.withLock { try $0?.get() } ?? { throw Wrong(description: "no result") }()
  }

  // MARK: Looking

  /// Opens a copy of the disk and compares it with the model.
  func check() throws {
    let copy = SimulatedDisk()
    for name in disk.fileNames { copy.put(name, disk.contents(name) ?? []) }
    let next = try Journal.inspect(copy) { _, _, _ in }.next.rawValue
    guard next > journal.journal.durablePosition.rawValue,
      var expected = history.last(where: { $0.position < next })?.model
    else {
      throw Wrong(description: "what was durable is gone")
    }
    expected.endLife()
    let (recovered, report) = try EngineJournal.open(copy, options: options, runByHand: {})
    let differences = expected.differences(from: recovered, report)
    guard differences.isEmpty else { throw Wrong(description: differences.joined(separator: "; ")) }
    let live = journal.campaigns.filter { model.campaigns[$0.number] != $0 }
    guard live.isEmpty else { throw Wrong(description: "the open journal differs: \(live)") }
  }

  var byteCount: Int { disk.fileNames.map { disk.contents($0)?.count ?? 0 }.reduce(0, +) }

  // MARK: Events

  private func note(_ position: UInt64) { history.append((position, model)) }

  /// Writes one record at the next position.
  private func record(_ event: JournalEvent) {
    let position = journal.journal.nextPosition.rawValue
    journal.record(event)
    model.apply(event)
    note(position)
  }

  private func openCampaign() -> UInt64? {
    model.campaigns.values.filter { $0.phase == .open }.map(\.number).sorted().randomElement(using: &random)
  }

  private func liveLane(where isGood: (JournalModel.Lane) -> Bool = { _ in true }) -> JournalModel.Lane? {
    model.lanes.values.filter { $0.isLive && isGood($0) }.sorted { $0.number < $1.number }.randomElement(using: &random)
  }

  private func begin() async throws {
    guard model.campaigns.values.count(where: { $0.phase == .open }) < 4 else { return }
    let payloads = [random.bytes(3), [1, 2, 3]]
    let beginnings = (0..<Int.random(in: 1...3, using: &random)).map { index in
      EngineJournal.Beginning(
        app: random.text(),
        campaign: Campaign(
          payload: random.pick(payloads, or: []), expiration: random.chance(50) ? 77 : nil, priority: 5),
        context: random.bytes(index * 20))
    }
    let numbers = try await drive { [journal] in try await journal.begin(beginnings) }
    for (number, beginning) in zip(numbers, beginnings) {
      guard let campaign = journal.campaign(number), model.campaigns[number] == nil else {
        throw Wrong(description: "campaign \(number) is not new")
      }
      guard campaign.app == beginning.app, campaign.context == beginning.context,
        campaign.expiration == beginning.campaign.expiration, campaign.priority == 5,
        campaign.groupCount == numbers.count, campaign.phase == .open, campaign.account == Account()
      else { throw Wrong(description: "a campaign that was not begun") }
      model.campaigns[number] = campaign
      model.payloads[number] = beginning.campaign.payload
    }
    note(journal.journal.nextPosition.rawValue - 1)
  }

  private func addLane() throws {
    guard model.lanes.values.count(where: \.isLive) < 4 else { return }
    let position = journal.journal.nextPosition.rawValue
    let number = journal.addLane(app: "app")
    guard model.lanes[number] == nil else { throw Wrong(description: "lane \(number) is not new") }
    journal.onPinned(lane: number) { [pinned] end in pinned.ends.withLock { $0[number] = end } }
    model.apply(.laneBegan(lane: number, app: "app"))
    note(position)
  }

  private func mark() -> AudienceMark { AudienceMark(offset: random.number(1 << 40), line: random.number(1 << 40)) }

  /// A claim of new entries; or two claims, by the readers of two campaigns, of which the second is
  /// written first.
  private func enqueue() throws {
    guard let number = openCampaign(), let lane = liveLane() else { return }
    let (notifications, position) = read(number)
    let run = run(notifications, campaign: number, in: lane)
    if random.chance(20), let other = openCampaign(), other != number {
      let (others, position) = read(other)
      var claimed = lane
      claimed.end = run.range.upperBound
      try take(in: others, EnqueueHeader(run: self.run(others, campaign: other, in: claimed), position: position))
      if random.chance(30) { self.run() }
      // The first one may never be written. Then it is padding.
      if random.chance(10) { return }
    }
    try take(in: notifications, EnqueueHeader(run: run, position: position))
  }

  /// The next entries of a campaign's audience.
  private func read(_ number: UInt64) -> (notifications: [TestNotification], position: AudiencePosition) {
    let campaign =
      model.campaigns[number]
      ?? JournalledCampaign(number: 0, group: 0, app: "", payload: 0, expiration: nil, priority: nil, context: [])
    var line = campaign.readLine
    let (isPersonal, tokensAreUniform, linesFollow) = (random.chance(30), random.chance(70), random.chance(70))
    let notifications = (0..<Int.random(in: 1...8, using: &random)).map { _ in
      line += linesFollow ? 1 : UInt64.random(in: 1...4, using: &random)
      return TestNotification(
        line: line, token: random.bytes(tokensAreUniform ? 32 : Int.random(in: 1...100, using: &random)),
        payload: isPersonal ? random.bytes(Int.random(in: 0...200, using: &random)) : [])
    }
    var position = AudiencePosition(
      mark: mark(), readLine: line + UInt64.random(in: 0...2, using: &random), submitted: campaign.account.submitted)
    for reason in Rejection.atIntake where random.chance(15) {
      position.rejected[reason] = Int.random(in: 1...3, using: &random)
    }
    if random.chance(20) { position.withheld.suppressed = Int.random(in: 1...3, using: &random) }
    if random.chance(20) { position.withheld.holdout = Int.random(in: 1...3, using: &random) }
    position.submitted +=
      notifications.count + position.rejected.values.reduce(0, +)
      + position.withheld.suppressed + position.withheld.holdout
    return (notifications, position)
  }

  private func run(_ notifications: [TestNotification], campaign: UInt64, in lane: JournalModel.Lane) -> JournalledRun {
    // Other claims may have become padding.
    let start = lane.end + (random.chance(10) ? UInt64.random(in: 1...9, using: &random) : 0)
    let blockCount = notifications.map(\.blockCount).reduce(0, +)
    return JournalledRun(
      lane: lane.number, range: start..<(start + blockCount), campaign: campaign, count: notifications.count)
  }

  private func take(in notifications: [TestNotification], _ header: EnqueueHeader) throws {
    let source = TestSource(notifications: notifications)
    let position = journal.journal.nextPosition.rawValue
    guard journal.enqueue(header, source.shape, source) else {
      throw Wrong(description: "no room: \(journal.failure ?? "full")")
    }
    model.apply(header, notifications)
    note(position)
  }

  /// Takes in again, or settles, the next entries that an earlier process left: some neighbours
  /// with one fate.
  private func goOn() throws {
    guard let number = openCampaign(), let first = left[number]?.first, let lane = liveLane() else { return }
    var end = first.start
    var taken: [JournalModel.Left] = []
    for next in left[number] ?? [] where taken.count < 6 {
      guard next.lane == first.lane, next.fate == first.fate, next.start == end else { break }
      taken.append(next)
      end += next.notification.blockCount
    }
    taken = Array(taken.prefix(Int.random(in: 1...taken.count, using: &random)))
    let range = first.start..<taken.reduce(first.start) { $0 + $1.notification.blockCount }
    left[number]?.removeFirst(taken.count)
    if first.fate != .unsent, random.chance(40) {
      record(
        .resolved(
          JournalledRun(lane: first.lane, range: range, campaign: number, count: taken.count),
          random.chance(50) ? .held : .unknown))
      return
    }
    let notifications = taken.map(\.notification)
    var header = EnqueueHeader(run: run(notifications, campaign: number, in: lane), position: nil)
    header.source = EnqueueHeader.Source(
      lane: first.lane, range: range, newlyDoubted: first.fate == .unknown ? taken.count : 0)
    header.isInDoubt = first.fate != .unsent
    try take(in: notifications, header)
  }

  /// Compacts a part of a lane's ring, on request or without one. In order, from the first
  /// unsettled entry on, in runs of one campaign and one doubt.
  private func restate() throws {
    let asked = pinned.ends.withLock { exchange(&$0, with: [:]) }.sorted { $0.key < $1.key }
    for (number, end) in asked where random.chance(90) { try restate(number, before: end) }
    guard random.chance(30), let lane = liveLane(where: { !$0.ringEntries.isEmpty }),
      let end = lane.ringEntries.randomElement(using: &random)?.end
    else {
      return
    }
    restateCount += 1
    try restate(lane.number, before: end)
  }

  private func restate(_ number: UInt64, before end: UInt64) throws {
    guard let lane = model.lanes[number], lane.isLive else { return }
    var rest = lane.heldEntries.filter { $0.start < end }[...]
    while let first = rest.first {
      var run: [JournalModel.Entry] = []
      for entry in rest {
        guard entry.campaign == first.campaign, entry.isDoubted == first.isDoubted,
          entry.start == run.last?.end ?? entry.start
        else { break }
        run.append(entry)
      }
      run = Array(run.prefix(Int.random(in: 1...6, using: &random)))
      rest = rest.dropFirst(run.count)
      let range = first.start..<(run.last?.end ?? first.end)
      var header = EnqueueHeader(
        run: JournalledRun(lane: number, range: range, campaign: first.campaign, count: run.count), position: nil)
      (header.isInDoubt, header.isRewritten) = (first.isDoubted, true)
      let source = TestSource(notifications: run.map(\.notification))
      let position = journal.journal.nextPosition.rawValue
      guard journal.enqueue(header, source.shape, source) else {
        throw Wrong(description: "no room: \(journal.failure ?? "full")")
      }
      note(position)
      // The process may end between two of them, and outcomes may come in between.
      if random.chance(5) { return }
      if random.chance(10) { self.run() }
    }
  }

  private func intend() {
    guard let lane = liveLane(where: { $0.intent < $0.end }) else { return }
    guard let through = (lane.boundaries + [lane.end]).filter({ $0 > lane.intent }).randomElement(using: &random) else {
      return
    }
    let position = journal.journal.nextPosition.rawValue
    guard journal.intend(lane: lane.number, through: through) != nil else { return }
    model.apply(.intent(lane: lane.number, through: through))
    note(position)
  }

  /// Neighbours of one campaign at the front of a lane's ring; anywhere in the ring if the lane's
  /// outcomes come in any order.
  private func front(
    where isGood: (JournalModel.Lane, JournalModel.Entry) -> Bool
  ) -> (run: JournalledRun, first: JournalModel.Entry)? {
    guard let lane = liveLane(where: { lane in lane.ringEntries.first.map { isGood(lane, $0) } ?? false }),
      let first = lane.ringEntries.first
    else {
      return nil
    }
    if lane.isApart { return anywhere(in: lane) { isGood(lane, $0) } }
    let same = lane.ringEntries.prefix {
      $0.campaign == first.campaign && $0.isDoubted == first.isDoubted && isGood(lane, $0)
    }
    let taken = same.prefix(Int.random(in: 1...same.count, using: &random))
    return (
      JournalledRun(
        lane: lane.number, range: lane.settled..<(taken.last?.end ?? 0), campaign: first.campaign, count: taken.count),
      first
    )
  }

  private func anywhere(
    in lane: JournalModel.Lane, where isGood: (JournalModel.Entry) -> Bool
  ) -> (run: JournalledRun, first: JournalModel.Entry)? {
    guard let first = lane.ringEntries.filter(isGood).randomElement(using: &random) else { return nil }
    let limit = Int.random(in: 1...6, using: &random)
    var (end, count) = (first.start, 0)
    for entry in lane.ringEntries where entry.start >= first.start && count < limit {
      guard entry.start == end, entry.campaign == first.campaign, entry.isDoubted == first.isDoubted, isGood(entry)
      else { break }
      (end, count) = (entry.end, count + 1)
    }
    return (JournalledRun(lane: lane.number, range: first.start..<end, campaign: first.campaign, count: count), first)
  }

  private func settle() {
    guard let (run, _) = front(where: { lane, entry in entry.start < lane.intent }) else { return }
    settle(run)
  }

  private func settle(_ run: JournalledRun) {
    let isApart = model.lanes[run.lane]?.isApart ?? false
    record(isApart ? .answered(run, random.outcome()) : .settled(run, random.outcome()))
  }

  private func giveBack() {
    guard let (run, first) = front(where: { _, _ in true }) else { return }
    let isApart = model.lanes[run.lane]?.isApart ?? false
    record(isApart ? .withdrawn(run, isInDoubt: first.isDoubted) : .returned(run, isInDoubt: first.isDoubted))
  }

  /// A silent close: one record for each campaign that has entries in the range.
  private func doubt() {
    guard let lane = liveLane(where: { $0.settled < $0.intent }) else { return }
    let ends = lane.boundaries.filter { $0 > lane.settled && $0 <= lane.intent }
    guard let end = ends.randomElement(using: &random) else { return }
    let range =
      (random.chance(70) ? lane.settled : ends.filter { $0 < end }.randomElement(using: &random) ?? lane.settled)..<end
    var counts: [UInt64: (new: Int, all: Int)] = [:]
    for entry in lane.ringEntries where range.contains(entry.start) {
      counts[entry.campaign, default: (0, 0)].all += 1
      if !entry.isDoubted { counts[entry.campaign, default: (0, 0)].new += 1 }
    }
    for (campaign, count) in counts.sorted(by: { $0.key < $1.key }) {
      record(
        .doubted(
          JournalledRun(lane: lane.number, range: range, campaign: campaign, count: count.new), copies: count.all))
      if random.chance(20) { run() }
    }
  }

  /// A gateway has refused a notification, and discarded those after it on that connection.
  private func rewind() {
    guard let lane = liveLane(where: { $0.settled < $0.intent && !$0.isApart }) else { return }
    let ends = ([lane.settled] + lane.boundaries).filter { $0 >= lane.settled && $0 <= lane.intent }
    guard let position = ends.randomElement(using: &random) else { return }
    rewindCount += 1
    record(.rewound(lane: lane.number, to: position))
  }

  private func readMalformed() {
    guard let number = openCampaign(), let campaign = model.campaigns[number] else { return }
    var position = AudiencePosition(
      mark: mark(), readLine: campaign.readLine + 3, submitted: campaign.account.submitted + 3)
    position.rejected = random.chance(50) ? [.malformedToken: 3] : [.unusableLine(.row): 1, .payloadTooLarge: 2]
    record(.position(campaign: number, position))
  }

  private func endCampaigns() {
    for campaign in model.campaigns.values.sorted(by: { $0.number < $1.number }) where campaign.phase == .open {
      guard left[campaign.number]?.isEmpty ?? true, model.left(of: campaign.number, isLive: true).isEmpty,
        random.chance(70)
      else { continue }
      record(.ended(campaign: campaign.number))
    }
  }

  /// Resumes everything that is left, settles it, and ends all campaigns.
  func settleAll() throws {
    try addLane()
    while left.values.contains(where: { !$0.isEmpty }) { try goOn() }
    for lane in model.lanes.values.filter(\.isLive) where lane.intent < lane.end {
      _ = journal.intend(lane: lane.number, through: lane.end)
      model.apply(.intent(lane: lane.number, through: lane.end))
    }
    while let (run, _) = front(where: { _, _ in true }) { settle(run) }
    while model.campaigns.values.contains(where: { $0.phase == .open }) {
      guard model.campaigns.values.allSatisfy({ model.left(of: $0.number, isLive: true).isEmpty }) else {
        throw Wrong(description: "returned notifications need another process")
      }
      endCampaigns()
    }
  }
}
