internal import PushEngine
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

/// Runs a scenario's campaign through the whole engine, with simulated network, gateway and time, and compares the account with the truth.
struct Simulation {
  let scenario: Scenario

  /// What is wrong, in sentences; empty when the account is exact.
  func run() -> [String] { perform().problems }

  /// Everything that the gateway saw, in order, and the work it took: equal for equal runs.
  func trace() -> String {
    let (_, frames, steps) = perform()
    return frames.map { "\($0.connection) \($0.token?.description ?? "-") \($0.identifier ?? 0)" }.joined(separator: "\n") + "\n\(steps)"
  }

  private func perform() -> (problems: [String], frames: [FrameMemory.Frame], steps: Int) {
    let loop = SimulatedLoop(seed: scenario.seed)
    let memory = FrameMemory()
    let gateway = SimulatedGateway(rules: scenario.rules, memory: memory)
    let dialer = SimulatedDialer(loop: loop, gateway: gateway, topic: Scenario.topic, faults: scenario.network, seed: scenario.seed &+ 1)
    let app = App(configuration: scenario.configuration, dialer: dialer, loops: [loop], seed: scenario.seed &+ 2)
    let outcomes = OutcomeBook()
    let result = Mutex<Account?>(nil)

    let server = Task(executorPreference: loop) { await app.run() }
    defer { server.cancel() }
    _ = Task(executorPreference: loop) { [scenario] in
      guard
        let run = try? CampaignRun(
          Campaign(payload: Array(#"{"aps":{"alert":"x"}}"#.utf8), expiration: scenario.expiration, priority: 10), through: app, listener: outcomes)
      else { return }
      if let after = scenario.cancelAfter { _ = loop.schedule(at: loop.now + after) { run.cancel() } }
      try? await run.run(TokenList(scenario.tokens), chunk: AudienceChunk(entryLimit: 64))
      result.withLock { $0 = run.ledger.account }
    }
    let ending = loop.run(limit: .seconds(4 * 3600), stepLimit: 3_000_000) { result.withLock { $0 != nil } }
    guard ending == .done, let account = result.withLock({ $0 }) else {
      let problem = "the campaign did not end: \(ending) after \(loop.now), \(dialer.dials) connections, failure \(app.failure ?? "none")"
      return ([problem], memory.frames, loop.steps)
    }
    // What is still on its way must not change the truth afterwards.
    _ = loop.run(limit: .seconds(30), stepLimit: 1_000_000) { false }
    let problems = compare(account, outcomes: outcomes.outcomes, arrivals: memory.accepted(topic: Scenario.topic), failure: app.failure)
    return (problems, memory.frames, loop.steps)
  }

  private func compare(_ account: Account, outcomes: [DeviceToken: Outcome], arrivals: [DeviceToken: Int], failure: String?) -> [String] {
    var problems: [String] = []
    if account.inFlight != 0 { problems.append("\(account.inFlight) notifications have no outcome") }
    if scenario.cancelAfter == nil, failure == nil, account.submitted != scenario.tokens.count {
      problems.append("\(account.submitted) submitted of \(scenario.tokens.count)")
    }
    if account.submitted - account.accepted != outcomes.count { problems.append("\(outcomes.count) outcomes listed, \(account.submitted - account.accepted) counted") }
    var notSubmitted = 0
    var duplicates = 0
    for token in scenario.tokens {
      let count = arrivals[token] ?? 0
      if count > 1 { duplicates += 1 }
      let outcome = outcomes[token]
      switch outcome {
      case nil:
        // Accepted; or never submitted, when the campaign was cancelled.
        if count == 0 { notSubmitted += 1 }
      case .rejected(.status):
        if !scenario.refused.contains(token) { problems.append("\(token) is counted as refused, but the gateway does not refuse it") }
      case .rejected(.closedWithoutReason):
        if !scenario.kills(token), !scenario.killsAtRandom { problems.append("\(token) is condemned, but is harmless") }
      case .cancelled, .expired:
        if count > 0 { problems.append("\(token) is counted as \(outcome.map { "\($0)" } ?? "") but arrived") }
      case .held, .unknown: break
      default: problems.append("\(token) ended as \(outcome.map { "\($0)" } ?? "")")
      }
      if count > 0, scenario.refused.contains(token) || scenario.poisoned.contains(token) { problems.append("the simulator accepted what it refuses") }
    }
    let expected = scenario.tokens.count - account.submitted
    if notSubmitted != expected { problems.append("\(notSubmitted - expected) notifications are counted as accepted but did not arrive") }
    if duplicates > account.possibleDuplicates { problems.append("\(duplicates) arrived twice, \(account.possibleDuplicates) listed as possible duplicates") }
    return problems
  }
}

extension Scenario {
  /// Connections end without a word so soon and so often that a harmless notification may twice be the last one seen alive: from outside that is the same.
  fileprivate var killsAtRandom: Bool {
    let breakpoints = [rules.common.close, rules.common.reset, rules.common.shutDown].compactMap { $0 }
    return network.resetPerMille > 0 || breakpoints.contains { $0.after <= 1 && $0.connections ?? .max > 1 }
  }

  /// Notifications that the gateway answers by closing without a word.
  fileprivate func kills(_ token: DeviceToken) -> Bool {
    poisoned.contains(token) || refused.contains(token) && (!configuration.policy.hasIdentifiers || !rules.common.namesRefusedFrame)
  }
}

/// Hears every outcome that is not acceptance.
final class OutcomeBook: OutcomeListener {
  private let book = Mutex<[DeviceToken: Outcome]>([:])

  var outcomes: [DeviceToken: Outcome] { book.withLock { $0 } }

  func notAccepted(line: UInt64, token: String, outcome: Outcome) {
    guard let token = try? DeviceToken(parsing: token) else { return }
    book.withLock { $0[token] = outcome }
  }
}
