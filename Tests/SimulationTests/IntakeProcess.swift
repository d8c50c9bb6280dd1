internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// A process of the simulation: one campaign for what is new, and those of earlier processes.
final class IntakeProcess: Sendable {
  private struct State {
    var runs: [UInt64: CampaignRun] = [:]
    var runningCount = 0
    var doubts: [UInt64: DoubtBook] = [:]
  }

  let source: IntakeFeed
  let loop: SimulatedLoop
  private let app: App
  private let journal: EngineJournal
  private let priority: UInt8?
  private let state = Mutex(State())

  init(_ engine: SimulatedProcess, priority: UInt8? = nil) {
    self.priority = priority
    (app, journal, loop) = (engine.app, engine.journal, engine.loop)
    source = IntakeFeed(engine.journal)
  }

  var hasEnded: Bool { state.withLock { $0.runningCount } == 0 }
  var acknowledged: [TokenBytes] { source.acknowledged }
  var storedCount: Int { source.storedCount }
  var accounts: [UInt64: Account] { state.withLock { $0.runs }.mapValues(\.ledger.account) }

  /// How many copies of each line may have arrived, by campaign.
  var copies: [UInt64: [UInt64: Int]] { state.withLock { $0.doubts }.mapValues(\.copies) }

  func resume() {
    for campaign in journal.campaigns where campaign.phase == .open {
      let rest = IntakeFeed(journal)
      rest.finish()
      begin(rest, campaign.number)
    }
    begin()
  }

  /// Begins the campaign for what is new.
  func begin() { begin(source, nil) }

  /// Ends every campaign, as the end of a process in good order does.
  func cancel() { for run in state.withLock({ Array($0.runs.values) }) { run.cancel() } }

  private func begin(_ source: IntakeFeed, _ number: UInt64?) {
    state.withLock { $0.runningCount += 1 }
    _ = Task(executorPreference: loop) { [self] in
      await send(source, number)
      state.withLock { $0.runningCount -= 1 }
    }
  }

  private func send(_ source: IntakeFeed, _ known: UInt64?) async {
    let campaign = Campaign(
      payload: Simulation.commonPayload, priority: priority, headers: ProviderHeaders(topic: Scenario.topic))
    var number = known
    if number == nil {
      let beginning = EngineJournal.Beginning(app: "intake", campaign: campaign, context: [])
      number = try? await journal.begin([beginning]).first
    }
    let doubts = DoubtBook()
    guard let number,
      let run = try? CampaignRun(campaign, through: app, journalled: number, listener: doubts)
    else { return }
    state.withLock { ($0.runs[number], $0.doubts[number]) = (run, doubts) }
    source.began(number)
    try? await run.run(source, chunk: AudienceChunk(entryLimit: 64, payloadCapacity: 8_192))
  }
}

/// Hears how often notifications may have arrived.
private final class DoubtBook: OutcomeListener {
  private let heard = Mutex<[UInt64: Int]>([:])

  var copies: [UInt64: Int] { heard.withLock { $0 } }
  var wantsAccepted: Bool { true }
  func doubted(lines: [UInt64]) {
    heard.withLock { copies in for line in lines { copies[line, default: 0] += 1 } }
  }
  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?) {}
}

/// What clients hand over, and what was acknowledged.
final class IntakeFeed: AudienceSource {
  private struct State {
    var campaign: UInt64?
    var tokens: [TokenBytes] = []
    var readCount = 0
    var recordedCount = 0
    var acknowledgedCount = 0
    var problem: JournalProblem?
    var storedCount = 0
    var isFinished = false
    var signal: ReaderSignal?
  }

  private let journal: EngineJournal
  private let state = Mutex(State())
  private let gauge = ReservoirGauge()

  init(_ journal: EngineJournal) { self.journal = journal }

  var reservoir: ReservoirGauge? { gauge }
  var acknowledged: [TokenBytes] { state.withLock { Array($0.tokens.prefix($0.acknowledgedCount)) } }
  /// The most that lay in the reservoir, and what does now.
  var storedCount: Int { state.withLock { $0.storedCount } }
  /// Why something could not be acknowledged.
  var problem: JournalProblem? { state.withLock { $0.problem } }
  var nowStoredCount: Int { gauge.count }
  var addedCount: Int { state.withLock { $0.tokens.count } }

  /// Its campaign, and the tokens of its lines.
  var campaign: (number: UInt64, tokens: [TokenBytes])? {
    state.withLock { state in state.campaign.map { ($0, state.tokens) } }
  }
  func began(_ campaign: UInt64) { state.withLock { $0.campaign = campaign } }

  func attach(_ signal: ReaderSignal) { state.withLock { $0.signal = signal } }

  func add(_ tokens: [TokenBytes]) { change { $0.tokens += tokens } }

  func finish() { change { $0.isFinished = true } }

  private func change(_ body: (inout State) -> Void) {
    let signal = state.withLock { state in
      body(&state)
      return state.signal
    }
    signal?.set()
  }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    let recorded: Int? = state.withLock { state in
      state.storedCount = max(state.storedCount, gauge.count)
      guard state.recordedCount < state.readCount else { return nil }
      state.recordedCount = state.readCount
      return state.readCount
    }
    if let recorded {
      journal.whenAllIsDurable { [self] problem in
        state.withLock { state in
          if problem == nil { state.acknowledgedCount = recorded } else { state.problem = problem }
        }
      }
    }
    chunk.removeAll()
    return state.withLock { state in
      while state.readCount < state.tokens.count, chunk.count < chunk.entryLimit {
        let token = state.tokens[state.readCount]
        let payload = state.readCount % 3 == 0 ? Array(#"{"aps":{"badge":\#(state.readCount)}}"#.utf8) : []
        guard chunk.hasRoom(payloadByteCount: payload.count) else { break }
        state.readCount += 1
        chunk.append(line: UInt64(state.readCount), token: token, payload: payload)
      }
      if chunk.count > 0 { return .entries }
      return state.isFinished ? .end : .waiting
    }
  }
}
