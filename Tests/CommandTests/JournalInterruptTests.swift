internal import Foundation
internal import Support
internal import Testing

extension JournalCampaigns {
  /// SIGINT with a journal: what was not sent can be resumed.
  @Suite("Interrupted with a journal", .serialized, .timeLimit(.minutes(20)))
  struct JournalInterruptTests {
    /// The shorter audience takes more than two minutes, far longer than an interrupt can be
    /// delayed on a busy machine.
    private func site(_ onUnknown: String = "resend", rate: Int = 60) async throws -> JournalSite {
      var random = SeededGenerator(seed: 5)
      let shapes = [
        (0, TestAudience.Shape(count: 12_000, refusedCount: 3, malformedCount: 20)),
        (1, TestAudience.Shape(count: 8_000, isPersonal: true, refusedCount: 1, malformedCount: 5)),
      ]
      return try await JournalSite(
        JournalSite.Settings(rate: rate, onUnknown: onUnknown), audiences: shapes, using: &random)
    }

    /// Starts the command, and interrupts it when this many more have arrived.
    private func interrupt(_ site: JournalSite, _ arguments: [String], after count: Int) async throws -> Ending {
      let arrived = await site.gateway.acceptedCount
      let child = try site.start(arguments)
      try await site.waitForArrivals(arrived + count, or: child)
      child.send(SIGINT)
      let ending = await child.ending()
      #expect(!ending.hasForeignLines, "\(ending)")
      return ending
    }

    @Test("the account adds up; resuming, interrupted again or not, ends exactly, with no extra row in the list")
    func interrupted() async throws {
      let site = try await site()
      var ending = try await interrupt(site, site.sendArguments(), after: 150)
      for count in [150, 150] {
        #expect(ending.status == 1, "\(ending)")
        #expect(
          ending.errors.contains(
            "carillon: unsent notifications stay in the journal; resume with \(JournalSite.advice())\n"), "\(ending)")
        let truth = try site.truthSoFar(ending)
        #expect(truth.problems().isEmpty)
        // Cancelled is what had been read and not sent: at this rate often nothing.
        #expect(Set(truth.rows.map(\.outcome)).isSubset(of: ["rejected", "cancelled"]))
        ending = try await interrupt(site, JournalSite.resumeArguments, after: count)
      }
      #expect(try site.truthSoFar(ending).problems().isEmpty)
      let resumed = try await site.resume()
      let truth = try await site.truth(resumed)
      #expect(truth.problems().isEmpty)
      // No notification was in doubt.
      #expect(resumed.status == 1, "\(resumed)")
      #expect(truth.account.possibleDuplicates == 0, "\(resumed)")
      #expect(truth.duplicateCount == 0, "\(resumed)")
      #expect(Set(truth.rows.map(\.outcome)) == ["rejected"])
    }

    @Test("after a kill and an interrupted resume, what may have arrived is unknown at first, and sent in the end")
    func interruptedAfterKill() async throws {
      let site = try await site(rate: 500)
      #expect(try await site.sendAndKill(after: 2_000))
      let child = try site.start(JournalSite.resumeArguments)
      // As soon as possible, so that some of the recovered notifications are not taken in again.
      for _ in 0..<2_000 where !child.hasEnded && !child.errors.contains("stopping") {
        child.send(SIGINT)
        try await Task.sleep(for: .milliseconds(5))
      }
      let interrupted = await child.ending()
      if SentAccount(interrupted) != nil {
        #expect(try site.truthSoFar(interrupted).problems().isEmpty)
      }
      let resumed = try await site.resume()
      #expect(try await site.truth(resumed).problems().isEmpty)
    }

    @Test(
      "interrupted twice it stops at once, says how to resume, and loses nothing",
      arguments: ["resend", "hold", "drop"])
    func interruptedTwice(onUnknown: String) async throws {
      let site = try await site(onUnknown)
      let child = try site.start(site.sendArguments())
      try await site.waitForArrivals(150, or: child)
      child.send(SIGINT)
      try await waitUntil("the process stops") { child.hasEnded || child.errors.contains("stopping") }
      child.send(SIGINT)
      let ending = await child.ending()
      #expect(ending.status == 1, "\(ending)")
      #expect(
        ending.errors.contains(
          "carillon: unsent notifications stay in the journal; resume with \(JournalSite.advice())\n"),
        "\(ending)")
      let account = try #require(SentAccount(ending), "\(ending)")
      #expect(account.apps.values.allSatisfy { $0.sum == $0.submitted }, "\(ending)")
      let resumed = try await site.resume()
      #expect(try await site.truth(resumed).problems().isEmpty)
    }

    @Test("missing rows of the list are written again where the token is known; the others are counted")
    func lostRows() async throws {
      var random = SeededGenerator(seed: 6)
      let shape = TestAudience.Shape(count: 12_000, refusedCount: 400, malformedCount: 400)
      let site = try await JournalSite(JournalSite.Settings(rate: 100), audiences: [(0, shape)], using: &random)
      // A journal that is closed in order drops the tokens of settled notifications.
      let ending = try await interrupt(site, site.sendArguments(), after: 300)
      let account = try #require(SentAccount(ending)?.apps["news"], "\(ending)")
      let refused = account.rejected.byReason["8 invalid token"] ?? 0
      let malformed = account.rejected.byReason["malformed token"] ?? 0
      #expect(refused > 0, "\(ending)")
      #expect(malformed > 0, "\(ending)")
      try site.place.write("line,token,outcome,reason\n", to: JournalSite.outcomes)
      let resumed = try await site.resume()
      #expect(resumed.errors.contains("outcomes.csv lacked "))
      let line =
        #/
        lacked\ (\d+)\ rows\ .*\ settled;\ (\d+)\ rows?\ (?:is|are)\ written\ again
        (?:;\ (\d+)\ cannot\ be,\ .*\ \((\d+)\ rejected\))?\.\n
        /#
      let found = try #require(try line.firstMatch(in: resumed.errors), "\(resumed)")
      // How many tokens of settled notifications the journal still has depends on where its
      // segments end.
      let (lacked, restored, lost) = (Int(found.1) ?? 0, Int(found.2) ?? 0, found.3.flatMap { Int($0) } ?? 0)
      #expect(lost <= refused, "\(resumed)")
      #expect(lacked == restored + lost, "\(resumed)")
      #expect(found.4.flatMap { Int($0) } ?? 0 == lost, "\(resumed)")
      // The malformed lines of a chunk are listed before all of the chunk is taken in. Those after
      // that are read again.
      #expect(restored > 0, "\(resumed)")
      #expect(restored <= malformed + refused - lost, "\(resumed)")
      let rows = try #require(OutcomeRow.parse(try site.place.read(JournalSite.outcomes)))
      let final = try #require(SentAccount(resumed)?.apps["news"], "\(resumed)")
      #expect(rows.count == final.rejected.total - lost, "\(resumed)")
      #expect(Set(rows.map(\.line)).count == rows.count, "\(resumed)")
      #expect(rows.count { $0.reason == "malformed token" } == final.rejected.byReason["malformed token"])
    }

    @Test(
      "after a kill the journal has the tokens, so a list that was cut or is older is completed", arguments: [0.0, 0.5])
    func cutList(fraction: Double) async throws {
      var random = SeededGenerator(seed: 8)
      let shapes = [
        (0, TestAudience.Shape(count: 6_000, refusedCount: 40, malformedCount: 300)),
        (1, TestAudience.Shape(count: 6_000, isPersonal: true, malformedCount: 100, tooLargeCount: 100)),
      ]
      let site = try await JournalSite(JournalSite.Settings(rate: 2_000), audiences: shapes, using: &random)
      #expect(try await site.sendAndKill(after: 4_000))
      // As after a loss of power, if the list had not been synced.
      let lines = try site.place.read(JournalSite.outcomes).split(separator: "\n", omittingEmptySubsequences: false)
      #expect(lines.count > 20)
      try site.place.write(
        lines[..<(1 + Int(Double(lines.count - 2) * fraction))].joined(separator: "\n") + "\n", to: JournalSite.outcomes
      )
      let resumed = try await site.resume()
      #expect(resumed.errors.contains(" rows of notifications that the journal counts as settled; "), "\(resumed)")
      #expect(!resumed.errors.contains("cannot be"), "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
    }
  }
}
