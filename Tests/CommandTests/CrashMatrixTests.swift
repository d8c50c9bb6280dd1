internal import Foundation
internal import Support
internal import Testing

/// `carillon send --journal` as a real process under SIGKILL at any moment, `carillon send --resume` until the campaign ends, and the gateway's memory as the judge.
@Suite("Killed at any moment", .serialized)
struct CrashMatrixTests {
  /// More with CARILLON_KILLS=n; the same moments again, as far as the clock allows, with CARILLON_FIRST_SEED=n.
  private static func number(_ name: String) -> UInt64? { ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) } }

  @Test("nothing is lost, and the account of the whole campaign equals what arrived, line by line", .timeLimit(.minutes(60)))
  func matrix() async throws {
    let wanted = Int(clamping: Self.number("CARILLON_KILLS") ?? 40)
    let firstSeed = Self.number("CARILLON_FIRST_SEED") ?? UInt64.random(in: 1...1_000_000)
    let started = ContinuousClock.now
    var sums = CrashScenario.Result()
    var index = 0
    print("crash matrix: first seed \(firstSeed)")
    while sums.killCount < wanted {
      let scenario = CrashScenario(index: index, seed: firstSeed + UInt64(index))
      let result = try await scenario.run()
      #expect(result.problems.isEmpty, "\(scenario)\n\(result.problems.joined(separator: "\n"))\n\(result.log.joined(separator: "\n"))")
      sums.killCount += result.killCount
      sums.duplicateCount += result.duplicateCount
      sums.possibleDuplicates += result.possibleDuplicates
      index += 1
    }
    print(
      "crash matrix: \(index) campaigns, \(sums.killCount) kills, \(sums.duplicateCount) arrived twice of \(sums.possibleDuplicates) that might have, "
        + "\((ContinuousClock.now - started).components.seconds) s")
  }
}
