internal import Foundation
internal import Support

/// A campaign whose process is killed at random moments and resumed each time, until it ends. One
/// seed determines everything except the clock.
struct CrashScenario: CustomStringConvertible {
  let seed: UInt64
  let sync: String
  let settings: JournalSite.Settings
  let shapes: [(app: Int, shape: TestAudience.Shape)]
  let killCount: Int
  /// After the first kill, the gateway is away for one attempt to resume.
  let gatewayGoesAway: Bool
  private var random: SeededGenerator

  /// - Parameter index: Eighteen in a row cover all combinations of sync policy, connections and
  ///   on-unknown.
  init(index: Int, seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    self.seed = seed
    sync = ["always", "interval", "never"][index % 3]
    var settings = JournalSite.Settings()
    settings.onUnknown = ["resend", "hold", "drop"][index / 3 % 3]
    settings.connections = [1, 4][index / 9 % 2]
    // One in three without a rate limit, the others for about half a second.
    settings.rate = random.chance(33) ? nil : Int.random(in: 40_000...80_000, using: &random)
    self.settings = settings
    let entryCount = random.chance(40) ? Int.random(in: 2...3, using: &random) : 1
    let total = Int.random(in: 20_000...40_000, using: &random)
    shapes = (0..<entryCount).map { entry in
      var shape = TestAudience.Shape(count: total / entryCount, isPersonal: random.chance(40))
      if random.chance(60) { shape.refusedCount = Int.random(in: 1...6, using: &random) }
      if random.chance(60) { shape.malformedCount = Int.random(in: 1...40, using: &random) }
      if random.chance(30) { shape.tooLargeCount = 1 }
      // With so much content the journal has checkpoints and several segments.
      if shape.isPersonal, random.chance(40) { shape.nameByteCount = 700 }
      return (entry == 0 ? 0 : Int.random(in: 0...1, using: &random), shape)
    }
    killCount = [1, 2, 2, 3].randomElement(using: &random) ?? 1
    gatewayGoesAway = random.chance(15)
    self.random = random
  }

  var description: String {
    "seed \(seed): sync \(sync), \(settings), \(killCount) kills\(gatewayGoesAway ? ", gateway away once" : ""), "
      + shapes.map { "\($0.shape) through \(JournalSite.apps[$0.app])" }.joined(separator: ", ")
  }

  struct Result {
    var killCount = 0
    var duplicateCount = 0
    var possibleDuplicates = 0
    /// In sentences; empty when the account is exact.
    var problems: [String] = []
    /// What happened, for display.
    var log: [String] = []
  }

  // MARK: Running

  func run() async throws -> Result {
    var random = random
    let site = try await JournalSite(settings, audiences: shapes, using: &random)
    var result = Result()
    let last = try await live(at: site, &random, &result)
    guard let last else {
      await site.gateway.stop()
      return result
    }
    let truth = try await site.truth(last)
    result.problems += truth.problems()
    result.duplicateCount = truth.duplicateCount
    result.possibleDuplicates = truth.account.possibleDuplicates
    let expectedStatus: Int32 = truth.rows.isEmpty ? 0 : 1
    if last.status != expectedStatus {
      result.problems.append("exit status \(last.status) with \(truth.rows.count) rows")
    }
    return result
  }

  /// Returns the ending of the process that printed the final account; nil after a problem.
  private func live(
    at site: JournalSite, _ random: inout SeededGenerator, _ result: inout Result
  ) async throws -> Ending? {
    var isBegun = false
    var isAway = gatewayGoesAway
    // The output of a process that was killed at its very end.
    var printed: Ending?
    for _ in 0..<(killCount + 20) {
      let child = try site.start((isBegun ? JournalSite.resumeArguments : site.sendArguments()) + ["--sync", sync])
      if result.killCount < killCount { try await kill(child, at: site, isResumed: isBegun, &random, &result) }
      let ending = await child.ending()
      if ending.hasForeignLines { result.problems.append("on standard error: \(ending.errors)") }
      switch ending.status {
      case 128 + SIGKILL:
        result.killCount += 1
        let errors = ending.errors.isEmpty ? "" : "; standard error: \(ending.errors)"
        result.log.append("killed at \(await site.gateway.acceptedCount) arrivals\(errors)")
        isBegun = true
        if SentAccount(ending) != nil { printed = ending }
        if isAway {
          isAway = false
          if let ended = try await expectAbsence(of: site, &result) { return ended }
        }
      case 0, 1:
        if SentAccount(ending) != nil { return ending }
        if ending.errors.contains("nothing to resume"), let printed, let account = SentAccount(printed) {
          // Killed between closing the journal and its exit. The exit status follows from the
          // account.
          let isAllAccepted = account.apps.values.allSatisfy { $0.acceptedTotal == $0.submitted }
          return Ending(status: isAllAccepted ? 0 : 1, output: printed.output, errors: "")
        }
        result.problems.append("it ended without an account: \(ending)")
        return nil
      case 2 where isBegun && ending.errors.contains(/There is no journal|before its campaign began/):
        // Killed before the campaign was begun. Nothing has been sent, so it starts again.
        result.log.append("not begun: \(ending.errors)")
        let arrived = await site.gateway.acceptedCount
        if arrived > 0 { result.problems.append("\(arrived) notifications arrived of a campaign that was not begun") }
        isBegun = false
      default:
        result.problems.append("unexpected: \(ending)")
        return nil
      }
    }
    result.problems.append("it does not end")
    return nil
  }

  /// Half of the kills come at some number of arrivals, the others after some time. So kills hit
  /// the beginning, the end and resuming.
  private func kill(
    _ child: ChildProcess, at site: JournalSite, isResumed: Bool, _ random: inout SeededGenerator,
    _ result: inout Result
  ) async throws {
    let total = shapes.map(\.shape.count).reduce(0, +)
    let arrived = await site.gateway.acceptedCount
    if random.chance(60), arrived < total {
      let target = Int.random(in: arrived...total, using: &random)
      let delay = Duration.microseconds(Int.random(in: 0...10_000, using: &random))
      result.log.append("to be killed \(delay) after arrival \(target)")
      try await site.waitForArrivals(target, or: child)
      try? await Task.sleep(for: delay)
    } else {
      let length = isResumed ? 300 : 200 + (settings.rate.map { total * 1000 / $0 } ?? 400)
      let moment = Duration.milliseconds(Int.random(in: 1...length, using: &random))
      result.log.append("to be killed after \(moment)")
      try? await Task.sleep(for: moment)
    }
    child.send(SIGKILL)
  }

  /// Resumes while the gateway is away: nothing can be sent, and nothing changes. Returns the
  /// ending if nothing was left to send.
  private func expectAbsence(of site: JournalSite, _ result: inout Result) async throws -> Ending? {
    await site.gateway.stop()
    let ending = try await site.run(JournalSite.resumeArguments)
    result.log.append("gateway away: \(ending.errors)")
    try await site.gateway.start()
    if ending.status == 0 || ending.status == 1, SentAccount(ending) != nil, !ending.errors.contains("stopped:") {
      return ending
    }
    // 2: the campaign had not begun.
    if ending.status != 3, ending.status != 2 { result.problems.append("with the gateway away: \(ending)") }
    return nil
  }
}
