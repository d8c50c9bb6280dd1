internal import Carillon
internal import Foundation
internal import PushEngine
internal import Support
internal import Testing

@testable internal import CarillonCommand

extension JournalCampaigns {
  /// How `carillon send` treats existing journals and changed files.
  @Suite("An existing journal", .serialized, .timeLimit(.minutes(20)))
  struct JournalStateTests {
    private static let slow = JournalSite.Settings(rate: 4_000)

    @Test("the report of a service's journal says that the service resumes its campaigns")
    func report() async throws {
      let place = try Workplace()
      let journal = try EngineJournal.open(directory: place.path("journal")).journal
      var context = CampaignContext()
      context.served = "a/0"
      _ = try await journal.begin([
        EngineJournal.Beginning(app: "news", campaign: Campaign(payload: []), context: context.bytes)
      ])
      journal.abandon()
      let text = JournalReportTable.text(
        try EngineJournal.inspect(directory: place.path("journal")), resumeCommand: "carillon send --resume")
      #expect(text.contains("carillon serve resumes them"))
      #expect(!text.contains("send --resume"))
    }

    @Test("a campaign whose account could not be written prints it each time it is resumed")
    func unwrittenAccount() async throws {
      let site = try await JournalSite.simple(count: 100)
      let sent = try await site.send(redirection: ">/dev/full")
      #expect(sent.status == 3, "\(sent)")
      #expect(
        sent.errors.contains("the account cannot be written to standard output: No space left on device"), "\(sent)")
      for _ in 0..<3 {
        let resumed = try await site.resume()
        #expect(resumed.status == 0, "\(resumed)")
        #expect(resumed.errors.contains("the campaign has ended"), "\(resumed)")
        #expect(try await site.truth(resumed).problems().isEmpty)
      }
    }

    @Test("a campaign that has ended with rejections prints its account and exits with 1 each time it is resumed")
    func endedWithRejections() async throws {
      var random = SeededGenerator(seed: 11)
      let site = try await JournalSite(
        JournalSite.Settings(), audiences: [(0, TestAudience.Shape(count: 50, malformedCount: 3))], using: &random)
      let sent = try await site.send()
      let account = try #require(SentAccount(sent)?.apps["news"], "\(sent)")
      #expect(sent.status == 1, "\(sent)")
      #expect(account.rejected.total > 0, "\(sent)")
      for _ in 0..<2 {
        let resumed = try await site.run(JournalSite.resumeArguments)
        #expect(resumed.status == 1, "\(resumed)")
        #expect(SentAccount(resumed)?.apps["news"] == account, "\(resumed)")
        expectOneSentence(
          try await site.journal("abandon"), status: 0,
          containing: "holds nothing to abandon: every campaign in it has ended")
      }
      let table = try await site.run(["send", "--resume", "--journal", JournalSite.journal])
      #expect(table.status == 1, "\(table)")
      #expect(table.output.contains("malformed token"), "\(table)")
      // It is dropped when another campaign has ended.
      let again = try await site.send()
      #expect(SentAccount(again)?.apps["news"] == account, "\(again)")
      let inspected = try await site.journal("inspect", ["--json"])
      #expect(inspected.output.contains(/"campaigns":\[\{[^}]*\}\]/), "\(inspected)")
    }

    @Test("missing rows in the list of an ended campaign are written again; a complete list is not changed")
    func endedWithoutRows() async throws {
      var random = SeededGenerator(seed: 12)
      let shape = TestAudience.Shape(count: 60, refusedCount: 2, malformedCount: 3)
      let site = try await JournalSite(JournalSite.Settings(), audiences: [(0, shape)], using: &random)
      let sent = try await site.send()
      #expect(sent.status == 1, "\(sent)")
      let whole = try site.place.read(JournalSite.outcomes)
      func resume() async throws -> String { try await site.run(JournalSite.resumeArguments).errors }
      let before = try inode(site)
      #expect(try await !resume().contains("lacked"))
      #expect(try site.place.read(JournalSite.outcomes) == whole)
      #expect(try inode(site) == before)

      let malformed = whole.split(separator: "\n").filter { $0.contains("malformed") }
      #expect(malformed.count == 3)
      try site.place.write(
        whole.split(separator: "\n").filter { !$0.contains("malformed") }.joined(separator: "\n") + "\n",
        to: JournalSite.outcomes)
      let lacked = "lacked 3 rows of notifications that the journal counts as settled; 3 rows are written again.\n"
      #expect(try await resume().contains("outcomes.csv " + lacked))
      let mended = try site.place.read(JournalSite.outcomes)
      #expect(mended.split(separator: "\n").sorted() == whole.split(separator: "\n").sorted())
      #expect(try await !resume().contains("lacked"))

      // A journal that was closed in order may have dropped what was sent.
      try site.place.write("line,token,outcome,reason\n", to: JournalSite.outcomes)
      let told = try await resume()
      #expect(told.contains("outcomes.csv lacked 5 rows"), "\(told)")
      // A list that was removed is not made again.
      try FileManager.default.removeItem(atPath: site.place.path(JournalSite.outcomes))
      #expect(try await !resume().contains("lacked"))
      #expect(!FileManager.default.fileExists(atPath: site.place.path(JournalSite.outcomes)))
    }

    private func inode(_ site: JournalSite) throws -> Int? {
      let attributes = try FileManager.default.attributesOfItem(atPath: site.place.path(JournalSite.outcomes))
      return attributes[.systemFileNumber] as? Int
    }

    @Test("--resume refuses a configuration without the campaign's app")
    func otherApp() async throws {
      let site = try await JournalSite.simple(Self.slow, count: 10_000)
      #expect(try await site.sendAndKill(after: 1_000))
      let arrived = await site.gateway.acceptedCount
      try site.place.write(
        try site.place.read("carillon.yaml").replacing("id: news", with: "id: mail"), to: "other.yaml")
      let refused = try await site.run(JournalSite.resumeArguments + ["--config", "other.yaml"])
      expectOneSentence(
        refused, status: 2,
        containing:
          "--config: other.yaml has no app \"news\", which the campaign in the journal journal sends through; "
          + "it has mail, chat. Use a configuration with that app, or none")
      #expect(await site.gateway.acceptedCount == arrived)
      let resumed = try await site.resume()
      #expect(resumed.status == 0, "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
    }

    @Test("a folder of another user is not used as a journal")
    func foreignFolder() async throws {
      let site = try await JournalSite.simple(count: 10)
      var folder = "/"
      if getuid() == 0 {
        folder = "theirs"
        try FileManager.default.createDirectory(atPath: site.place.path(folder), withIntermediateDirectories: false)
        #expect(unsafe chown(site.place.path(folder), 1, 1) == 0)
      }
      let sent = try await site.run(site.sendArguments(["--journal", folder]))
      expectOneSentence(
        sent, status: 3,
        containing:
          "the journal \(folder) belongs to another user (\(getuid() == 0 ? 1 : 0)): name a folder of your own")
      if getuid() == 0 { #expect(try FileManager.default.contentsOfDirectory(atPath: site.place.path(folder)).isEmpty) }
    }

    @Test("a process that ended before its campaign had begun has sent nothing, and each resume reports that")
    func neverBegun() async throws {
      let site = try await JournalSite.simple(count: 100)
      expectOneSentence(try await site.resume(), status: 2, containing: "There is no journal in journal")
      // The journal is created before the list of outcomes is found to be a folder.
      try FileManager.default.createDirectory(
        atPath: site.place.path(JournalSite.outcomes), withIntermediateDirectories: false)
      expectOneSentence(
        try await site.send(), status: 2,
        containing: "the list of outcomes outcomes.csv cannot be written: Is a directory")
      for _ in 0..<2 {
        expectOneSentence(
          try await site.resume(), status: 2,
          containing: "the last process that used it ended before its campaign began, and sent nothing")
      }
      try FileManager.default.removeItem(atPath: site.place.path(JournalSite.outcomes))
      let sent = try await site.send()
      #expect(sent.status == 0, "\(sent)")
      #expect(try await site.truth(sent).problems().isEmpty)
    }

    @Test("an unfinished campaign must be resumed first, and nothing else is sent meanwhile")
    func unfinished() async throws {
      let site = try await JournalSite.simple(Self.slow, count: 20_000)
      #expect(try await site.sendAndKill(after: 2_000))
      let arrived = await site.gateway.acceptedCount
      let again = try await site.send()
      expectOneSentence(
        again, status: 2, containing: "The journal journal holds a campaign of news that has not ended (")
      #expect(
        again.errors.contains(
          "resume it with carillon send --resume --journal journal, "
            + "or abandon it with carillon journal abandon journal\n"), "\(again)")
      #expect(await site.gateway.acceptedCount == arrived)
      let resumed = try await site.resume()
      #expect(resumed.status == 0, "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
    }

    @Test("only one process uses a journal at a time: others get its number, and may inspect the journal")
    func inUse() async throws {
      // It takes longer than the other commands on any machine.
      let site = try await JournalSite.simple(JournalSite.Settings(rate: 50), count: 20_000)
      let child = try site.start(site.sendArguments())
      try await site.waitForArrivals(10, or: child)
      let expected =
        "the journal journal is in use by process \(child.identifier): only one process can use it at a time"
      expectOneSentence(try await site.send(), status: 3, containing: expected)
      expectOneSentence(try await site.resume(), status: 3, containing: expected)
      expectOneSentence(try await site.journal("abandon"), status: 3, containing: expected)
      let inspected = try await site.journal("inspect")
      #expect(inspected.status == 1, "\(inspected)")
      #expect(inspected.errors.isEmpty, "\(inspected)")
      #expect(inspected.output.contains("unfinished"), "\(inspected)")
      let verified = try await site.journal("verify")
      #expect(verified.status == 0, "\(verified)")
      #expect(verified.output.contains("The journal is sound"), "\(verified)")
      child.send(SIGKILL)
      _ = await child.ending()
      // The lock ends with the process.
      #expect(try await site.journal("abandon").status == 1)
    }

    @Test("a directory that cannot be a journal is an error with the reason, and nothing is sent")
    func directory() async throws {
      let site = try await JournalSite.simple(count: 100)
      func send(_ journal: String, preparation: String = "exec") async throws -> Ending {
        try await site.run(site.sendArguments(["--journal", journal]), preparation: preparation)
      }
      expectOneSentence(
        try await send("carillon.yaml"), status: 3, containing: "cannot open carillon.yaml: Not a directory")
      expectOneSentence(
        try await send("no/such/journal"), status: 3,
        containing: "cannot make the directory no/such/journal: No such file or directory")
      // Root has to give up the capabilities that bypass permissions.
      let preparation = getuid() == 0 ? "exec setpriv --bounding-set -dac_override,-dac_read_search" : "exec"
      try FileManager.default.createDirectory(
        atPath: site.place.path("locked/below"), withIntermediateDirectories: true)
      for folder in ["locked/below", "locked"] {
        try FileManager.default.setAttributes([.posixPermissions: 0o500], ofItemAtPath: site.place.path(folder))
      }
      expectOneSentence(
        try await send("locked/new", preparation: preparation), status: 3,
        containing: "cannot make the directory locked/new: Permission denied")
      expectOneSentence(
        try await send("locked/below", preparation: preparation), status: 3,
        containing: "cannot lock locked/below/lock: Permission denied")
      for folder in ["locked", "locked/below"] {
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: site.place.path(folder))
      }
      await site.gateway.stop()
      #expect(await site.gateway.acceptedCount == 0)
    }

    @Test("files that changed since the campaign began stop it, with the change; it resumes when they are restored")
    func changedFiles() async throws {
      let site = try await JournalSite.simple(Self.slow, count: 10_000)
      let (tokens, payload) = (site.audiences[0].file, site.audiences[0].payloadFile)
      let (tokenText, payloadText) = (try site.place.read(tokens), try site.place.read(payload))
      #expect(try await site.sendAndKill(after: 2_000))
      let arrived = await site.gateway.acceptedCount
      func refusal(_ sentences: String...) async throws {
        let resumed = try await site.resume()
        for sentence in sentences { expectOneSentence(resumed, status: 2, containing: sentence) }
        #expect(
          resumed.errors.contains("; restore what has changed, or abandon it with carillon journal abandon journal\n"),
          "\(resumed)")
      }
      try site.place.write(tokenText + "\n", to: tokens)
      try await refusal(
        "\(tokens) has changed since the campaign began: "
          + "it has \(tokenText.utf8.count + 1) bytes, had \(tokenText.utf8.count)")
      try site.place.write(tokenText.replacing("beef", with: "bee0", maxReplacements: 1), to: tokens)
      try await refusal("\(tokens) has changed since the campaign began: its content is another")
      try site.place.write(payloadText.replacing("To", with: "At"), to: payload)
      try await refusal("\(tokens) has changed since", "\(payload) has changed since")
      try site.place.write(tokenText, to: tokens)
      try await refusal("\(payload) has changed since the campaign began: its content is another")
      try FileManager.default.removeItem(atPath: site.place.path(payload))
      expectOneSentence(
        try await site.resume(), status: 2, containing: "\(payload) cannot be read: No such file or directory")
      #expect(await site.gateway.acceptedCount == arrived)
      try site.place.write(payloadText, to: payload)
      let resumed = try await site.resume()
      #expect(resumed.status == 0, "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
    }

    @Test("a campaign can be resumed from any folder, with the paths it began with")
    func otherFolder() async throws {
      let site = try await JournalSite.simple(Self.slow, count: 10_000)
      #expect(try await site.sendAndKill(after: 1_000))
      let resumed = try await ChildProcess.run([
        "send", "--resume", "--journal", site.place.path(JournalSite.journal), "--json",
      ])
      #expect(resumed.status == 0, "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
    }

    @Test("while the gateway is away nothing is sent, the journal keeps everything, and the account is exact")
    func gatewayAway() async throws {
      let site = try await JournalSite.simple(Self.slow, count: 20_000)
      #expect(try await site.sendAndKill(after: 2_000))
      await site.gateway.stop()
      for _ in 0..<2 {
        let away = try await site.resume()
        #expect(away.status == 3, "\(away)")
        #expect(away.errors.contains("carillon: news stopped: cannot connect to localhost:"), "\(away)")
        #expect(away.errors.contains("resume with carillon send --resume --journal journal\n"), "\(away)")
        let account = try #require(SentAccount(away)?.apps["news"], "\(away)")
        #expect(account.sum == account.submitted, "\(away)")
        // What may have arrived does not count as cancelled.
        let arrived = await site.gateway.acceptedCount
        #expect(account.acceptedTotal <= arrived, "\(arrived) arrived, \(away)")
        #expect(account.acceptedTotal + account.unknown >= arrived, "\(arrived) arrived, \(away)")
      }
      // Without --json only the reason is printed.
      let away = try await site.run([
        "send", "--resume", "--journal", JournalSite.journal, "--config", "unlimited.yaml",
      ])
      #expect(away.status == 3, "\(away)")
      #expect(away.output.isEmpty, "\(away)")
      try await site.gateway.start()
      let resumed = try await site.resume()
      #expect(resumed.status == 0, "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
    }
  }
}
