internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// One process of the simulation.
final class ServedCampaignProcess: Sendable {
  typealias Served = ServedCampaignSimulation

  private struct State {
    var runs: [CampaignRun] = []
    var runningCount = 0
    var isQuiet = false
    var random: SeededGenerator
    /// What all parts have read.
    var readCount = 0
  }

  struct Unreadable: Error {}

  private let plan: Served.Plan
  private let app: App
  private let journal: EngineJournal
  private let loop: SimulatedLoop
  private let began: Instant
  private let pace: CampaignPace?
  private let state: Mutex<State>

  init(_ simulation: Served, _ engine: SimulatedProcess, seed: UInt64) {
    let (plan, loop) = (simulation.plan, engine.loop)
    (self.plan, app, journal, self.loop) = (plan, engine.app, engine.journal, loop)
    began = loop.now
    pace = plan.perSecond.map { CampaignPace(perSecond: $0) { loop.now } }
    state = Mutex(State(random: SeededGenerator(seed: seed)))
    for quiet in plan.quiet where simulation.plantedMistake != .forgetsQuietHours {
      _ = loop.schedule(at: began + quiet.lowerBound) { [self] in setQuiet(true) }
      _ = loop.schedule(at: began + quiet.upperBound) { [self] in setQuiet(false) }
    }
  }

  var hasEnded: Bool { state.withLock { $0.runningCount } == 0 }

  private func setQuiet(_ isQuiet: Bool) {
    let runs = state.withLock { state in
      state.isQuiet = isQuiet
      return state.runs
    }
    for run in runs { if isQuiet { run.pause() } else { run.resume() } }
  }

  /// Lets runs that wait see that the process has ended.
  func wake() { for run in state.withLock({ $0.runs }) { run.resume() } }

  /// A part begins, or goes on.
  func begin(_ part: Int, at instant: Instant, _ simulation: Served) {
    state.withLock { $0.runningCount += 1 }
    _ = loop.schedule(at: instant) { [self] in
      _ = Task(executorPreference: loop) { [self] in
        await send(part, simulation)
        state.withLock { $0.runningCount -= 1 }
      }
    }
  }

  private func send(_ part: Int, _ simulation: Served) async {
    let campaign = Campaign(
      payload: Simulation.commonPayload, headers: ProviderHeaders(topic: Scenario.topic))
    let known = journal.campaigns.first { $0.phase == .open && $0.context == [UInt8(part)] }
    var number = known?.number
    if number == nil {
      let beginning = EngineJournal.Beginning(app: "served", campaign: campaign, context: [UInt8(part)])
      number = try? await journal.begin([beginning]).first
    }
    let listener = Listener { account in simulation.ended(part, account) }
    guard let number, let run = try? CampaignRun(campaign, through: app, journalled: number, listener: listener)
    else { return }
    let isQuiet = state.withLock { state in
      state.runs.append(run)
      return state.isQuiet
    }
    if isQuiet { run.pause() }
    var key = Int64(known?.readLine ?? 0)
    if key > 0, simulation.plantedMistake == .skipsDevices { key += 3 }
    let devices = audience(part, after: key, simulation)
    let watched = WatchedAudience(devices) { [self] in read($0, simulation) }
    let chunk = AudienceChunk(entryLimit: min(64, pace?.entryLimit ?? 64))
    await withTaskGroup(of: Void.self) { tasks in
      tasks.addTask { await devices.feed() }
      do throws(AudienceError) {
        if let pace, simulation.plantedMistake != .forgetsRate {
          try await run.run(PacedAudience(watched, pace), chunk: chunk)
        } else {
          try await run.run(watched, chunk: chunk)
        }
      } catch { simulation.found("\(error)") }
      tasks.cancelAll()
    }
  }

  private func audience(_ part: Int, after key: Int64, _ simulation: Served) -> PagedAudience<Served.Device> {
    // Fewer failures one after the other than end a campaign.
    let failures = Mutex(0)
    return PagedAudience(
      after: key, pageLimit: plan.pageLimit,
      pages: { [self] key, limit in
        let (latency, fails) = state.withLock { state in
          (
            Int.random(in: plan.pageLatency, using: &state.random),
            Int.random(in: 0..<1_000, using: &state.random) < plan.failuresPerMille
          )
        }
        await sleep(.milliseconds(latency))
        let count = failures.withLock { failures in
          failures = fails ? failures + 1 : 0
          return failures
        }
        if fails, count < 3 { throw Unreadable() }
        return simulation.page(of: part, after: key, limit)
      }, pause: { [self] in await sleep(.milliseconds(200)) },
      take: { page, index, chunk in
        var next = index
        while next < page.count {
          let device = page[next]
          guard chunk.append(key: device.key, token: device.token, payload: [], isSuppressed: device.isSuppressed)
          else { break }
          next += 1
        }
        return next
      })
  }

  private func sleep(_ duration: Duration) async {
    guard duration > .zero else { return }
    await withCheckedContinuation { continuation in
      _ = loop.schedule(at: loop.now + duration) { continuation.resume() }
    }
  }

  /// Checks quiet hours and the rate at the moment at which something is read.
  private func read(_ chunk: AudienceChunk, _ simulation: Served) {
    let elapsed = loop.now.since(began)
    let count = state.withLock { state in
      state.readCount += chunk.readyCount
      return state.readCount
    }
    // Both ends are moments at which other jobs may run before or after.
    if let quiet = plan.quiet.first(where: { $0.lowerBound < elapsed && elapsed < $0.upperBound }) {
      simulation.found("read at \(elapsed), in the quiet time \(quiet)")
    }
    guard let perSecond = plan.perSecond, let pace else { return }
    let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18
    // A quarter of a second that a sender may be late, and a chunk.
    let allowed = perSecond * (seconds + 0.25) + 1 + Double(pace.entryLimit)
    if Double(count) > allowed { simulation.found("\(count) were read after \(elapsed), at \(perSecond)/s") }
  }
}

/// Shows what is read.
private final class WatchedAudience: AudienceSource {
  private let source: PagedAudience<ServedCampaignSimulation.Device>
  private let read: @Sendable (AudienceChunk) -> Void

  init(
    _ source: PagedAudience<ServedCampaignSimulation.Device>, _ read: @escaping @Sendable (AudienceChunk) -> Void
  ) {
    (self.source, self.read) = (source, read)
  }

  func attach(_ signal: ReaderSignal) { source.attach(signal) }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    let supply = try source.fill(chunk)
    if supply == .entries { read(chunk) }
    return supply
  }
}

private struct Listener: OutcomeListener {
  let end: @Sendable (Account) -> Void

  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?) {}
  func ended(_ account: Account) { end(account) }
}
