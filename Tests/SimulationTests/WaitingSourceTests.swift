internal import PushEngine
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

/// A campaign whose source has nothing for a while: no polling, no lost wake-up, and outcomes that
/// do not wait for the end of the audience.
@Suite struct WaitingSourceTests {
  enum Transport: CaseIterable, Sendable { case binary, http2 }

  @Test("every notification has its outcome before the source continues", arguments: Transport.allCases)
  func outcomesWhileWaiting(transport: Transport) {
    let (site, source, outcomes) = Self.site(transport)
    let run = site.begin(source, outcomes)
    for count in 1...5 {
      source.add(count)
      #expect(site.runUntil { outcomes.accepted.count == source.addedCount } == .done, "after \(count)")
    }
    #expect(outcomes.accepted == Array(1...15))
    source.finish()
    #expect(site.runUntil { site.ended.load(ordering: .relaxed) } == .done)
    #expect(run.ledger.account.confirmed == 15)
  }

  @Test("a paused campaign takes nothing in and loses nothing", arguments: Transport.allCases)
  func pausing(transport: Transport) {
    let (site, source, outcomes) = Self.site(transport)
    let run = site.begin(source, outcomes)
    source.add(3)
    #expect(site.runUntil { outcomes.accepted.count == 3 } == .done)
    run.pause()
    source.add(4)
    let later = site.loop.now + .seconds(60)
    _ = site.loop.schedule(at: later) {}
    _ = site.runUntil { site.loop.now >= later }
    #expect(outcomes.accepted.count == 3)
    run.resume()
    #expect(site.runUntil { outcomes.accepted.count == 7 } == .done)
    source.finish()
    #expect(site.runUntil { site.ended.load(ordering: .relaxed) } == .done)
  }

  @Test("a campaign that waits or is paused can be cancelled", arguments: Transport.allCases, [false, true])
  func cancelling(transport: Transport, isPaused: Bool) {
    let (site, source, outcomes) = Self.site(transport)
    let run = site.begin(source, outcomes)
    source.add(2)
    #expect(site.runUntil { outcomes.accepted.count == 2 } == .done)
    if isPaused { run.pause() }
    run.cancel()
    #expect(site.runUntil { site.ended.load(ordering: .relaxed) } == .done)
    #expect(run.ledger.account.submitted == 2)
  }

  @Test("a listener without wantsAccepted gets no accepted notifications")
  func deafListener() {
    let (site, source, _) = Self.site(.http2)
    let outcomes = HeardOutcomes(wantsAccepted: false)
    let run = site.begin(source, outcomes)
    source.add(2)
    source.finish()
    #expect(site.runUntil { site.ended.load(ordering: .relaxed) } == .done)
    #expect(run.ledger.account.confirmed == 2)
    #expect(outcomes.accepted.isEmpty)
  }

  @Test(
    "a replaced credential: the connection is confirmed and left, and nothing is sent twice",
    arguments: Transport.allCases)
  func renewal(transport: Transport) {
    // Without probes the connection of the binary protocol would stay, too.
    let (site, source, outcomes) = Self.site(transport, confirm: .quiet)
    let run = site.begin(source, outcomes)
    source.add(3)
    #expect(site.runUntil { outcomes.accepted.count == 3 } == .done)
    source.add(2)
    let dials = site.dialer.dials
    site.replaceCredential()
    #expect(site.runUntil { site.isReplaced.load(ordering: .relaxed) } == .done)
    source.add(4)
    #expect(site.runUntil { outcomes.accepted.count == 9 } == .done)
    source.add(1)
    #expect(site.runUntil { outcomes.accepted.count == 10 } == .done)
    #expect(site.dialer.dials > dials)
    source.finish()
    #expect(site.runUntil { site.ended.load(ordering: .relaxed) } == .done)
    #expect(run.ledger.account.accepted == 10)
    #expect(run.ledger.account.resent == 0)
    #expect(run.ledger.account.possibleDuplicates == 0)
  }

  @Test("a replacement of the credential returns when every connection knows of it", arguments: Transport.allCases)
  func renewalIsKnown(transport: Transport) {
    let far = SimulatedLoop(seed: 6)
    let site = WaitingSite(transport, .probe, lanesOn: far)
    site.replaceCredential()
    #expect(site.runUntil { site.isReplaced.load(ordering: .relaxed) } == .stuck)
    #expect(far.run(limit: .zero, stepLimit: 1_000) { false } == .stuck)
    #expect(site.runUntil { site.isReplaced.load(ordering: .relaxed) } == .done)
  }

  private static func site(
    _ transport: Transport, confirm: LanePolicy.Confirm = .probe
  ) -> (site: WaitingSite, source: FedSource, outcomes: HeardOutcomes) {
    (WaitingSite(transport, confirm), FedSource(), HeardOutcomes(wantsAccepted: true))
  }
}

/// One app on a simulated loop, or on two of them.
private final class WaitingSite: Sendable {
  let loop = SimulatedLoop(seed: 5)
  let app: App
  let dialer: SimulatedDialer
  let ended = Atomic(false)
  let isReplaced = Atomic(false)

  /// - Parameter lanesOn: the loop of its second lane, which it has from the beginning. Nil: all on
  ///   ``loop``.
  init(
    _ transport: WaitingSourceTests.Transport, _ confirm: LanePolicy.Confirm, lanesOn far: SimulatedLoop? = nil
  ) {
    var configuration = AppRules(id: "waiting")
    configuration.connections = far == nil ? 1...2 : 2...2
    configuration.policy.confirm = confirm
    let service: any SimulatedEndpoint
    switch transport {
    case .binary:
      service = BinaryService(gateway: SimulatedGateway(), topic: "waiting")
    case .http2:
      configuration.transport = .http2(.simulated(topic: "waiting"))
      service = SimulatedProvider(faults: ProviderFaults(), seed: 3)
    }
    dialer = SimulatedDialer(loop: loop, service: service, faults: NetworkFaults(), seed: 7)
    app = App(configuration: configuration, dialer: dialer, loops: [loop] + (far.map { [$0] } ?? []), seed: 11)
  }

  func begin(_ source: FedSource, _ outcomes: HeardOutcomes) -> CampaignRun {
    let campaign = Campaign(payload: Array(#"{"aps":{"alert":"x"}}"#.utf8), headers: ProviderHeaders(topic: "waiting"))
    guard let run = try? CampaignRun(campaign, through: app, listener: outcomes) else {
      preconditionFailure("a new app takes campaigns")
    }
    _ = Task(executorPreference: loop) { [app] in await app.run() }
    _ = Task(executorPreference: loop) { [self] in
      try? await run.run(source, chunk: AudienceChunk(entryLimit: 2))
      ended.store(true, ordering: .relaxed)
    }
    return run
  }

  func replaceCredential() {
    _ = Task(executorPreference: loop) { [self] in
      await app.replaceCredential(tokens: nil)
      isReplaced.store(true, ordering: .relaxed)
    }
  }

  func runUntil(_ isDone: () -> Bool) -> SimulatedLoop.Ending {
    loop.run(limit: .seconds(600), stepLimit: 1_000_000, until: isDone)
  }
}

/// A source that the test feeds.
private final class FedSource: AudienceSource {
  private struct State {
    var added = 0
    var taken = 0
    var isFinished = false
    var signal: ReaderSignal?
  }

  private let state = Mutex(State())

  var addedCount: Int { state.withLock { $0.added } }

  func attach(_ signal: ReaderSignal) { state.withLock { $0.signal = signal } }

  func add(_ count: Int) { change { $0.added += count } }

  func finish() { change { $0.isFinished = true } }

  private func change(_ body: (inout State) -> Void) {
    let signal = state.withLock { state in
      body(&state)
      return state.signal
    }
    signal?.set()
  }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    return state.withLock { state in
      while state.taken < state.added, chunk.count < chunk.entryLimit {
        state.taken += 1
        let token = [UInt8](repeating: UInt8(state.taken), count: 32)
        unsafe token.withUnsafeBytes {
          unsafe chunk.append(
            line: UInt64(state.taken), token: $0, headers: .none, payload: UnsafeRawBufferPointer(start: nil, count: 0))
        }
      }
      if chunk.count > 0 { return .entries }
      return state.isFinished ? .end : .waiting
    }
  }
}

/// Records the lines that a listener gets.
private final class HeardOutcomes: OutcomeListener {
  let wantsAccepted: Bool
  private let lines = Mutex<[UInt64]>([])

  init(wantsAccepted: Bool) { self.wantsAccepted = wantsAccepted }

  /// The accepted lines, in order.
  var accepted: [Int] { lines.withLock { $0.map(Int.init).sorted() } }

  func accepted(_ entries: OutcomeEntries, _ confirmation: PushWire.Confirmation) {
    lines.withLock { $0 += entries.lines }
  }

  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {}
}
