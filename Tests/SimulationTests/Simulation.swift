internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// Runs a scenario's campaign through the whole engine, with simulated network, gateway and time,
/// and compares the account with the truth.
struct Simulation {
  let scenario: Scenario

  /// The problems found, in sentences; empty when the account is exact.
  func run() -> [String] { perform().problems }

  /// The engine's objects that are still in memory after the app was shut down, in sentences.
  func retained() -> [String] { perform().remains.problems }

  /// Objects that must be deallocated when the app has ended.
  struct Remains {
    weak var app: App?
    weak var shared: AppShared?
    weak var loop: SimulatedLoop?
    weak var dialer: SimulatedDialer?

    var problems: [String] {
      [
        app.map { _ in "the app" }, shared.map { _ in "what its lanes share" }, loop.map { _ in "the loop" },
        dialer.map { _ in "the dialer" },
      ].compactMap {
        $0.map { "\($0) is still there" }
      }
    }
  }

  /// Everything that the gateway received, in order, and the number of steps. Equal for equal runs.
  func trace() -> String {
    let (_, gateway, steps, _) = perform()
    return gateway.trace + "\n\(steps)"
  }

  private func perform() -> (problems: [String], gateway: ScenarioGateway, steps: Int, remains: Remains) {
    let loop = SimulatedLoop(seed: scenario.seed)
    let gateway = ScenarioGateway(scenario)
    let dialer = SimulatedDialer(
      loop: loop, service: gateway.service, faults: scenario.network, seed: scenario.seed &+ 1)
    let app = App(configuration: scenario.configuration, dialer: dialer, loops: [loop], seed: scenario.seed &+ 2)
    let outcomes = OutcomeCollector()
    let result = Mutex<Account?>(nil)

    let remains = Remains(app: app, shared: app.shared, loop: loop, dialer: dialer)
    _ = Task(executorPreference: loop) { await app.run() }
    _ = Task(executorPreference: loop) { [scenario] in
      async let personal = Self.send(
        scenario.tokens.prefix(scenario.personalCount), isPersonal: true, scenario, app, loop, outcomes)
      async let common = Self.send(
        scenario.tokens.dropFirst(scenario.personalCount), isPersonal: false, scenario, app, loop, outcomes)
      let sum = await personal + common
      result.withLock { $0 = sum }
    }
    let ending = loop.run(limit: scenario.timeLimit, stepLimit: 3_000_000) { result.withLock { $0 != nil } }
    guard ending == .done, let account = result.withLock({ $0 }) else {
      let problem =
        "the campaign did not end: \(ending) after \(loop.now), "
        + "\(dialer.dials) connections, failure \(app.failure ?? "none")"
      return ([problem], gateway, loop.steps, remains)
    }
    // Deliveries in flight must not change the truth afterwards.
    _ = loop.run(limit: .seconds(30), stepLimit: 1_000_000) { false }
    var check = AccountCheck(
      tokens: scenario.tokens, account: account, outcomes: outcomes.outcomes, arrivals: gateway.arrivals)
    check.isPartial = scenario.cancelAfter != nil || app.failure != nil
    gateway.explain(&check)
    let steps = loop.steps
    Self.end(app, on: loop)
    return (check.problems() + gateway.problems() + gateway.copyProblems(), gateway, steps, remains)
  }

  /// Ends a simulated process. Jobs that wait in the loop would keep its memory.
  static func end(_ app: App, on loop: SimulatedLoop) {
    _ = Task(executorPreference: loop) { await app.shutDown() }
    _ = loop.run(limit: .seconds(24 * 3600), stepLimit: 1_000_000) { false }
  }

  private static func send(
    _ tokens: ArraySlice<TokenBytes>, isPersonal: Bool, _ scenario: Scenario, _ app: App, _ loop: SimulatedLoop,
    _ outcomes: OutcomeCollector
  ) async -> Account {
    let campaign = Campaign(
      payload: isPersonal ? [] : commonPayload, expiration: scenario.expiration, priority: 10,
      seed: scenario.identifierSeed(isPersonal))
    guard !tokens.isEmpty, let run = try? CampaignRun(campaign, through: app, listener: outcomes) else {
      return Account()
    }
    if let after = scenario.cancelAfter { _ = loop.schedule(at: loop.now + after) { run.cancel() } }
    if isPersonal, let audience = try? PersonalAudience(Array(tokens)) {
      try? await run.run(audience, chunk: AudienceChunk(entryLimit: 64, payloadCapacity: 4_096))
    } else {
      try? await run.run(TokenList(Array(tokens)), chunk: AudienceChunk(entryLimit: 64))
    }
    return run.ledger.account
  }

  static let commonPayload = Array(#"{"aps":{"alert":"x"}}"#.utf8)
}

/// The gateway of a scenario and its truth, for either protocol.
final class ScenarioGateway: @unchecked Sendable {
  // Sync: used on the simulated loop only.
  let service: any SimulatedEndpoint
  private let scenario: Scenario
  private let memory = RecordedFrames()
  private let provider: SimulatedProvider?

  init(_ scenario: Scenario) {
    self.scenario = scenario
    provider = scenario.provider.map { SimulatedProvider(faults: $0, seed: scenario.seed &+ 3) }
    service =
      provider ?? BinaryService(gateway: SimulatedGateway(rules: scenario.rules, memory: memory), topic: Scenario.topic)
  }

  /// How often each token was accepted.
  var arrivals: [TokenBytes: Int] { provider?.accepted ?? memory.accepted(topic: Scenario.topic) }

  /// Sets the tokens that the gateway may have refused or closed on.
  func explain(_ check: inout AccountCheck) {
    let scenario = scenario
    let putOff = provider?.putOff ?? []
    // A refused credential is not a verdict on a notification.
    check.refused = { scenario.refused.contains($0) || putOff.contains($0) }
    let provider = provider
    check.kills = { scenario.kills($0) || scenario.killsAtRandom || provider?.kills($0) == true }
  }

  /// Violations that the gateway observed.
  func problems() -> [String] { (provider.map { $0.violations + $0.changedIdentifiers } ?? []) + misdirected() }

  /// Checks that poison costs other notifications only a limited number of copies: 5 where probes
  /// are answered, otherwise log₂ of the window.
  ///
  /// This holds where connections die only of notifications, or of events that the sender is told
  /// about. Where connections also fail to open, the poison itself is sent more often: a control
  /// that fails may mean that an outage has begun.
  func copyProblems() -> [String] {
    let faults = scenario.rules.common
    guard provider == nil, !scenario.killsAtRandom, faults.close == nil, faults.reset == nil,
      scenario.network.outage == nil
    else { return [] }
    let policy = scenario.configuration.policy
    let hasProbes = policy.confirm == .probe && policy.hasIdentifiers && faults.namesProbe
    let logarithm = Int.bitWidth - 1 - policy.windowCount.leadingZeroBitCount
    let bound = hasProbes ? 5 : max(5, logarithm)
    var copies: [TokenBytes: Int] = [:]
    for frame in memory.frames {
      if let token = frame.token { copies[token, default: 0] += 1 }
    }
    if scenario.network.unreachablePerMille > 0 {
      for token in scenario.poisoned.union(scenario.refused) { copies[token] = nil }
    }
    return copies.filter { $0.value > bound }.map { "\($0.key) was sent \($0.value) times, not at most \(bound)" }
  }

  /// Checks that every device got its own payload.
  private func misdirected() -> [String] {
    let personal = Set(scenario.tokens.prefix(scenario.personalCount))
    let sent =
      provider?.requests.map { ($0.token, $0.payload) }
      ?? memory.frames.compactMap { frame in frame.token.map { ($0, frame.payload) } }
    return sent.compactMap { token, payload in
      let expected = personal.contains(token) ? PersonalAudience.payload(of: token) : Simulation.commonPayload
      return payload == expected
        ? nil : "\(token) was sent \(String(decoding: payload, as: UTF8.self)), which is not its payload"
    }
  }

  /// Everything that the gateway received, in order.
  var trace: String {
    if let provider { return provider.requests.map { "\($0.token) \($0.identifier)" }.joined(separator: "\n") }
    return memory.frames.map { "\($0.connection) \($0.token?.description ?? "-") \($0.identifier ?? 0)" }.joined(
      separator: "\n")
  }
}

extension Scenario {
  func identifierSeed(_ isPersonal: Bool) -> IdentifierSeed { IdentifierSeed(high: seed, low: isPersonal ? 1 : 0) }

  /// Connections close silently so soon and so often that a harmless notification may be the last
  /// one in flight twice. From outside that looks like poison.
  var killsAtRandom: Bool {
    let breakpoints = [rules.common.close, rules.common.reset, rules.common.shutDown].compactMap { $0 }
    // An outage that accepts what it does not answer, or one beside other closes.
    let hasOtherClosures =
      !breakpoints.isEmpty
      || provider.map { $0.cutPerMille > 0 || $0.silentPerMille > 0 || $0.deafAfter != nil } == true
    if let outage = network.outage, outage.kind == .closesBehindData || hasOtherClosures { return true }
    return network.resetPerMille > 0 || network.lateAlertPerMille > 0
      || breakpoints.contains { $0.after <= 1 && $0.connections ?? .max > 1 }
  }

  /// Whether the gateway answers a token with a silent close.
  func kills(_ token: TokenBytes) -> Bool {
    poisoned.contains(token)
      || refused.contains(token) && (!configuration.policy.hasIdentifiers || !rules.common.namesRefusedFrame)
  }
}
