internal import Foundation
internal import Support
internal import Testing

extension JournalCampaigns {
  /// `carillon journal inspect | verify | abandon` after a kill, and the segments as files of the
  /// lz4 tool.
  @Suite("The journal commands", .serialized, .timeLimit(.minutes(20)))
  struct JournalCommandTests {
    private static let slow = JournalSite.Settings(rate: 3_000)

    /// Two apps, with malformed and refused tokens.
    private func killed(_ settings: JournalSite.Settings = slow) async throws -> JournalSite {
      var random = SeededGenerator(seed: 3)
      let shapes = [
        (0, TestAudience.Shape(count: 8_000, refusedCount: 2, malformedCount: 5)),
        (1, TestAudience.Shape(count: 5_000, isPersonal: true)),
      ]
      let site = try await JournalSite(settings, audiences: shapes, using: &random)
      #expect(try await site.sendAndKill(after: 2_000))
      return site
    }

    @Test("after a kill table and object agree: settled, unsent and unknown add up, and inspecting changes nothing")
    func inspect() async throws {
      let site = try await killed()
      let before = try site.segments.map { try Data(contentsOf: $0) }
      let json = try await site.journal("inspect", ["--json"])
      #expect(json.status == 1, "\(json)")
      #expect(json.errors.isEmpty, "\(json)")
      let report = try JournalInspection(json)
      #expect(report.campaigns.map(\.app) == ["news", "chat"], "\(json)")
      #expect(!report.closed, "\(json)")
      #expect(report.damage.isEmpty, "\(json)")
      for campaign in report.campaigns {
        #expect(campaign.submitted == campaign.settled + campaign.unsent + campaign.unknown, "\(json)")
        #expect(campaign.settled == campaign.accepted + campaign.rejected, "\(json)")
        #expect(campaign.lost == 0, "\(json)")
        #expect(!campaign.finished, "\(json)")
      }
      let (accepted, unknown) = (
        report.campaigns.map(\.accepted).reduce(0, +), report.campaigns.map(\.unknown).reduce(0, +)
      )
      let arrived = await site.gateway.acceptedCount
      #expect(accepted <= arrived, "\(arrived) have arrived: \(json)")
      #expect(arrived <= accepted + unknown, "\(arrived) have arrived: \(json)")
      #expect(report.bytes == before.map(\.count).reduce(0, +), "\(json)")
      #expect(report.segments.map(\.name) == site.segments.map(\.lastPathComponent), "\(json)")

      let table = try await site.journal("inspect")
      #expect(table.status == 1, "\(table)")
      #expect(table.errors.isEmpty, "\(table)")
      let lines = table.output.split(separator: "\n")
      #expect(
        lines[0].contains(/^campaign +app +state +submitted +settled +unsent +unknown +read up to line$/), "\(table)")
      for (line, campaign) in zip(lines[1...], report.campaigns) {
        let words = line.split(separator: " ").map { String($0.filter { $0 != "," }) }
        let expected = [
          campaign.number, campaign.submitted, campaign.settled, campaign.unsent, campaign.unknown, campaign.line,
        ].map(String.init)
        #expect(words == [expected[0], campaign.app, "unfinished"] + expected[1...], "\(table)\(json)")
      }
      #expect(table.output.contains("Resume with: \(JournalSite.advice())\n"), "\(table)")
      let verified = try await site.journal("verify")
      #expect(verified.status == 0, "\(verified)")
      #expect(verified.output.contains(" sound records\n"), "\(verified)")
      #expect(verified.output.hasSuffix("The journal is sound.\n"), "\(verified)")
      #expect(try site.segments.map { try Data(contentsOf: $0) } == before)

      let resumed = try await site.resume()
      #expect(try await site.truth(resumed).problems().isEmpty)
      let after = try await site.journal("inspect")
      #expect(after.status == 0, "\(after)")
      #expect(after.output.contains(/\d +news +ended +/), "\(after)")
      #expect(after.output.contains("\nAll have ended.\n"), "\(after)")
      #expect(try JournalInspection(try await site.journal("inspect", ["--json"])).closed)
    }

    @Test(
      "an abandoned campaign has an account and a list: cancelled notifications did not arrive, unknown ones may have")
    func abandon() async throws {
      let site = try await killed()
      let abandoned = try await site.journal("abandon", ["--json"])
      #expect(abandoned.status == 1, "\(abandoned)")
      #expect(!abandoned.errors.contains("not listed"), "\(abandoned)")
      #expect(try site.truthSoFar(abandoned).problems().isEmpty)
      let account = try #require(SentAccount(abandoned), "\(abandoned)")
      #expect(account.apps["news"]?.possibleDuplicates == 0)
      #expect(account.apps["chat"]?.possibleDuplicates == 0)
      let arrived = await site.gateway.acceptedCount
      let resumed = try await site.resume()
      #expect(resumed.status == 1, "\(resumed)")
      #expect(SentAccount(resumed)?.apps == account.apps, "\(resumed)")
      expectOneSentence(
        try await site.journal("abandon"), status: 0,
        containing: "holds nothing to abandon: every campaign in it has ended")
      #expect(await site.gateway.acceptedCount == arrived)
      #expect(try await site.journal("inspect").status == 0)
      // The directory can be used for the next campaign.
      let sent = try await site.send()
      #expect(SentAccount(sent)?.apps["news"]?.submitted == 8_000, "\(sent)")
    }

    @Test("without its list of outcomes a campaign can be abandoned, but not resumed")
    func listIsGone() async throws {
      let site = try await killed()
      try FileManager.default.removeItem(atPath: site.place.path(JournalSite.outcomes))
      let arrived = await site.gateway.acceptedCount
      let resumed = try await site.resume()
      expectOneSentence(
        resumed, status: 2,
        containing: "outcomes.csv cannot be read: No such file or directory; restore it, or put an empty file")
      #expect(await site.gateway.acceptedCount == arrived)
      let abandoned = try await site.journal("abandon", ["--json"])
      #expect(abandoned.status == 1, "\(abandoned)")
      #expect(abandoned.errors.contains("carillon: the list of outcomes is not completed: "), "\(abandoned)")
      let account = try #require(SentAccount(abandoned), "\(abandoned)")
      #expect(account.apps.values.allSatisfy { $0.sum == $0.submitted }, "\(abandoned)")
    }

    @Test("without a journal, every command reports that", arguments: ["inspect", "verify", "abandon"])
    func none(command: String) async throws {
      let place = try Workplace()
      try place.write("text", to: "file")
      try FileManager.default.createDirectory(atPath: place.path("empty"), withIntermediateDirectories: false)
      for directory in ["none", "file", "empty"] {
        let ending = try await ChildProcess.run(["journal", command, directory], directory: place.url)
        expectOneSentence(ending, status: 2, containing: "There is no journal in \(directory)")
      }
      #expect(try FileManager.default.contentsOfDirectory(atPath: place.path("empty")).isEmpty)
    }

    @Test(
      "the lz4 tool reads every segment of a send that was killed, except for a torn tail",
      arguments: ["always", "interval", "never"])
    func lz4Tool(sync: String) async throws {
      let site = try await JournalSite.simple(JournalSite.Settings(rate: 4_000), count: 12_000, nameByteCount: 100)
      #expect(try await site.sendAndKill(after: 2_000, ["--sync", sync]))
      // Each process begins a segment.
      #expect(try await site.resumeAndKill(after: 2_000, ["--sync", sync]))
      let report = try JournalInspection(try await site.journal("inspect", ["--json"]))
      #expect(site.segments.count == report.segments.count, "\(report)")
      #expect(report.segments.count >= 2, "\(report)")
      #expect(report.damage.isEmpty, "\(report)")
      for (index, segment) in site.segments.enumerated() {
        let isTorn = index == site.segments.count - 1 && report.tornTail != nil
        // The tool's output includes everything in the frames, also the headers of records.
        let read = try await Self.lz4(segment.path)
        #expect(isTorn || read.status == 0, "\(segment.lastPathComponent) of \(report): lz4 ended with \(read.status)")
        #expect(!read.isEmpty)
      }
      let resumed = try await site.resume()
      #expect(resumed.status == 0, "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
      for segment in site.segments { #expect(try await Self.lz4(segment.path).status == 0) }
    }

    private static func lz4(_ path: String) async throws -> (status: Int32, isEmpty: Bool) {
      let read = try await ChildProcess.run(["-dc", path], program: "lz4")
      return (read.status, read.output.isEmpty)
    }
  }
}
