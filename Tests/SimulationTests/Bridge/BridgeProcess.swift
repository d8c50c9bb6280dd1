internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// One process of the simulation: a bridge, the run for what it forwards, and the runs that earlier
/// processes left.
final class BridgeProcess: @unchecked Sendable {
  // Sync: used on the simulated loop only.
  let loop: SimulatedLoop
  private let number: UInt64
  private let app: App
  private let journal: EngineJournal
  private let recorder: BridgeRecorder
  private var model: BridgeModel
  private let feed = FrameFeed()
  private var runs: [UInt64: CampaignRun] = [:]
  private var runningCount = 0
  /// What the journal has of each earlier process.
  private var journalLines: [UInt64: UInt64] = [:]
  private var random: SeededGenerator
  private let queueLimit: Int
  private(set) var isAccepting = true
  /// The process was killed: nothing that happens in it has an effect.
  private var isDead = false

  init(
    _ plan: BridgeSimulation.Plan, _ engine: SimulatedProcess, number: UInt64, recorder: BridgeRecorder
  ) {
    (self.number, self.recorder) = (number, recorder)
    (app, journal, loop) = (engine.app, engine.journal, engine.loop)
    model = BridgeModel(
      plan.settings, process: number, memory: ForwardedMemory.Limits(), mistake: plan.modelMistake)
    model.now = loop.now
    queueLimit = plan.queueLimit
    random = SeededGenerator(seed: plan.seed &+ number &* 31)
    for campaign in journal.campaigns where campaign.phase == .open {
      journalLines[Self.process(of: campaign)] = campaign.readLine
    }
    let found = recorder.recover(journalLines: journalLines)
    guard plan.mistake != .forgetsAtRestart else { return }
    for (line, frame, isByResponse) in found { model.restore(frame, as: line, isByResponse: isByResponse) }
  }

  /// Frames that a killed process had taken in, and lost.
  func lostFrames(_ connection: UInt64) -> Set<UInt64> {
    recorder.lostFrames(connection, journalLines: journalLines)
  }

  var hasEnded: Bool { runningCount == 0 }
  var accounts: [UInt64: Account] { runs.mapValues(\.ledger.account) }
  var recognisedCount: Int { model.recognisedCount }
  /// Everything that was taken in has its outcome.
  var isQuiet: Bool { feed.queuedCount == 0 && runs.values.allSatisfy { $0.ledger.account.inFlight == 0 } }

  func begin() {
    for campaign in journal.campaigns where campaign.phase == .open {
      let rest = FrameFeed()
      rest.finish()
      begin(rest, campaign.number, process: Self.process(of: campaign))
    }
    begin(feed, nil, process: number)
  }

  func kill() { (isDead, isAccepting) = (true, false) }

  /// Asks all clients to leave.
  func close() {
    isAccepting = false
    model.now = loop.now
    for connection in model.connections.keys.sorted() { model.end(connection) }
    hasChanged()
  }

  func finish() { feed.finish() }

  // MARK: Runs

  private static func process(of campaign: JournalledCampaign) -> UInt64 { UInt64(campaign.context.first ?? 0) }

  private func begin(_ feed: FrameFeed, _ known: UInt64?, process: UInt64) {
    runningCount += 1
    _ = Task(executorPreference: loop) { [self] in
      await send(feed, known, process)
      runningCount -= 1
    }
  }

  private func send(_ feed: FrameFeed, _ known: UInt64?, _ process: UInt64) async {
    let campaign = Campaign(payload: [], priority: 10, headers: ProviderHeaders(topic: Scenario.topic))
    var number = known
    if number == nil {
      let beginning = EngineJournal.Beginning(app: "bridge", campaign: campaign, context: [UInt8(process)])
      number = try? await journal.begin([beginning]).first
    }
    let listener = BridgeOutcomes { [weak self] line, outcome in
      self?.answered(ForwardedLine(high: process, low: 2, line: UInt32(line)), outcome)
    }
    guard let number, let run = try? CampaignRun(campaign, through: app, journalled: number, listener: listener) else {
      return
    }
    runs[number] = run
    try? await run.run(feed, chunk: AudienceChunk(entryLimit: 64, payloadCapacity: 8_192))
  }

  private func answered(_ line: ForwardedLine, _ outcome: Outcome) {
    // Cancelling leaves a notification for the next process.
    guard !isDead, outcome != .cancelled else { return }
    let answer = FrameAnswer(outcome)
    recorder.add(line, answer)
    guard let connection = model.answer(line, answer) else { return }
    let delay = Duration.microseconds(Int.random(in: 0...3_000, using: &random))
    _ = loop.schedule(at: loop.now + delay) { [weak self] in self?.deliver(connection) }
  }

  private func deliver(_ connection: UInt64) {
    guard !isDead else { return }
    model.now = loop.now
    model.deliver(connection)
    hasChanged()
  }

  // MARK: Clients

  func connect(_ client: String) -> UInt64 {
    model.now = loop.now
    defer { hasChanged() }
    return model.connect(client)
  }

  func wantsBytes(_ connection: UInt64) -> Bool { model.wantsBytes(connection) && feed.queuedCount < queueLimit }

  func receive(_ bytes: [UInt8], _ connection: UInt64) {
    model.now = loop.now
    let known = model.forwarded.count
    model.receive(bytes, connection)
    // As in the service: what is written about frames comes before they can be sent.
    hasChanged()
    if model.forwarded.count > known { feed.add(model.forwarded[known...]) }
  }

  /// Draws the conclusions that are due.
  func wake(_ connection: UInt64) {
    guard let wake = model.connections[connection]?.session.wake, wake <= loop.now else { return }
    model.now = loop.now
    model.woken(connection)
    hasChanged()
  }

  func hasEnded(_ connection: UInt64) -> Bool { model.connections[connection]?.isEnded ?? true }
  func taken(_ connection: UInt64) -> BridgeModel.Taken { model.taken(connection) }
  func pendingCount(_ connection: UInt64) -> Int { model.connections[connection]?.session.pendingCount ?? 0 }

  /// The client reads the end of a connection.
  func read(_ connection: UInt64) -> ErrorResponse? { model.connections.removeValue(forKey: connection)?.response }

  /// The network ends a connection.
  func cut(_ connection: UInt64) {
    model.now = loop.now
    model.cut(connection)
    hasChanged()
  }

  private func hasChanged() { recorder.add(model.takeRecords()) }
}

/// Hears of every outcome, line by line.
private final class BridgeOutcomes: OutcomeListener {
  private let hear: @Sendable (UInt64, Outcome) -> Void

  init(_ hear: @escaping @Sendable (UInt64, Outcome) -> Void) { self.hear = hear }

  var wantsAccepted: Bool { true }

  func accepted(lines: [UInt64], _ confirmation: PushWire.Confirmation) {
    for line in lines { hear(line, .accepted(confirmation)) }
  }

  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?) { hear(line, outcome) }
}
