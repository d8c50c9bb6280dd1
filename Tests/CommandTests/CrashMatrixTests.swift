internal import Foundation
internal import Support
internal import Testing

/// Kills `carillon send --journal` at random moments and runs `carillon send --resume` until the
/// campaign ends. The gateway's record is the truth.
@Suite("Killed at any moment", .serialized)
struct CrashMatrixTests {
  /// CARILLON_KILLS=n runs more. CARILLON_FIRST_SEED=n repeats the same moments, as far as the
  /// clock allows.
  private static func number(_ name: String) -> UInt64? {
    ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
  }

  @Test(
    "nothing is lost, and the account of the whole campaign equals what arrived, line by line", .timeLimit(.minutes(60))
  )
  func matrix() async throws {
    let wanted = Int(clamping: Self.number("CARILLON_KILLS") ?? 24)
    let firstSeed = Self.number("CARILLON_FIRST_SEED") ?? UInt64.random(in: 1...1_000_000)
    let started = ContinuousClock.now
    var sums = CrashScenario.Result()
    var index = 0
    print("crash matrix: first seed \(firstSeed)")
    try await withThrowingTaskGroup(of: (CrashScenario, CrashScenario.Result).self) { tasks in
      func startOne() {
        let scenario = CrashScenario(index: index, seed: firstSeed + UInt64(index))
        tasks.addTask { (scenario, try await scenario.run()) }
        index += 1
      }
      // Each waits half of its time for the rate limit, and for its turn among the other tests.
      for _ in 0..<4 { startOne() }
      while let (scenario, result) = try await tasks.next() {
        #expect(
          result.problems.isEmpty,
          "\(scenario)\n\(result.problems.joined(separator: "\n"))\n\(result.log.joined(separator: "\n"))")
        sums.killCount += result.killCount
        sums.duplicateCount += result.duplicateCount
        sums.possibleDuplicates += result.possibleDuplicates
        if sums.killCount < wanted { startOne() }
      }
    }
    print(
      "crash matrix: \(index) campaigns, \(sums.killCount) kills, "
        + "\(sums.duplicateCount) arrived twice of \(sums.possibleDuplicates) possible duplicates, "
        + "\((ContinuousClock.now - started).components.seconds) s")
  }

  @Test("a journal that lacks durable records is found: the matrix can fail")
  func olderJournal() async throws {
    let site = try await JournalSite.simple(JournalSite.Settings(rate: 8_000), count: 60_000)
    let child = try site.start(site.sendArguments())
    try await site.waitForArrivals(2_500, or: child)
    child.send(SIGSTOP)
    // As if nothing had been synced since.
    try FileManager.default.copyItem(atPath: site.place.path(JournalSite.journal), toPath: site.place.path("older"))
    // This test may have come late, so it counts from here: the copy must be clearly older.
    let atCopy = await site.gateway.acceptedCount
    child.send(SIGCONT)
    try await site.waitForArrivals(atCopy + 6_000, or: child)
    child.send(SIGKILL)
    #expect(await child.ending().status == 128 + SIGKILL)
    try FileManager.default.removeItem(atPath: site.place.path(JournalSite.journal))
    try FileManager.default.moveItem(atPath: site.place.path("older"), toPath: site.place.path(JournalSite.journal))
    let problems = try await site.truth(try await site.resume()).problems()
    #expect(problems.contains { $0.contains("arrived twice, the account allows") }, "\(problems)")
  }
}
