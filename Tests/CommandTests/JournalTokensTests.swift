internal import Carillon
internal import Foundation
internal import PushGateway
internal import PushServer
internal import Support
internal import Testing

@testable internal import CarillonCommand

extension JournalCampaigns {
  /// The journal of `carillon send` has no tokens of lines that are nothing but a token: they lie
  /// in the token file.
  @Suite("Tokens that lie in the token file", .serialized, .timeLimit(.minutes(20)))
  struct JournalTokensTests {
    private func killed() async throws -> JournalSite {
      let site = try await JournalSite.simple(JournalSite.Settings(rate: 4_000), count: 20_000)
      #expect(try await site.sendAndKill(after: 2_000))
      return site
    }

    @Test("lines that are nothing but a token take less than a tenth of their tokens' bytes in the journal")
    func size() async throws {
      let count = 50_000
      let site = try await JournalSite.simple(count: count)
      #expect(try await site.sendAndKill(after: count * 9 / 10))
      let inspection = try JournalInspection(try await site.journal("inspect", ["--json"]))
      #expect(inspection.segments.map(\.bytes).reduce(0, +) < count * 32 / 10, "\(inspection)")
      let resumed = try await site.resume()
      #expect(try await site.truth(resumed).problems().isEmpty)
    }

    @Test("an abandoned campaign's list has the tokens of its file; if that has changed, it has their lines")
    func abandoned() async throws {
      for isChanged in [false, true] {
        let site = try await killed()
        let file = site.audiences[0].file
        if isChanged { try site.place.write(try site.place.read(file) + "00\n", to: file) }
        let abandoned = try await site.journal("abandon", ["--json"])
        #expect(abandoned.status == 1, "\(abandoned)")
        let sentence = /carillon: the list .+ names some lines without their tokens: .+ has changed since the campaign/
        #expect(abandoned.errors.contains(sentence) == isChanged, "\(abandoned)")
        let account = try #require(SentAccount(abandoned)?.apps["news"], "\(abandoned)")
        #expect(account.sum == account.submitted)
        let rows = try #require(OutcomeRow.parse(try site.place.read(JournalSite.outcomes)))
        #expect(rows.count == account.cancelled + account.unknown)
        #expect(rows.contains { $0.token.isEmpty } == isChanged)
        guard !isChanged else { continue }
        #expect(try site.truthSoFar(abandoned).problems().isEmpty)
      }
    }

    @Test("a program that has the library resumes such a campaign with the file, and not without")
    func library() async throws {
      let site = try await killed()
      let text = try site.place.read("unlimited.yaml").replacing("certs/", with: site.place.path("certs") + "/")
      var news = try #require(try DeploymentConfiguration.parse(text, file: "unlimited.yaml").apps.first)
      news.topic = JournalSite.topics[0]
      let deployment = try Deployment(apps: [news], journal: .directory(site.place.path("journal")))
      let account = try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { try await deployment.run() }
        defer { tasks.cancelAll() }
        let unfinished = try #require(deployment.unfinishedCampaigns.first)
        #expect(unfinished.unsentCount + unfinished.unknownCount > 0)
        let error = await #expect(throws: CarillonError.self) { try await unfinished.resume() }
        #expect(error?.code == .journalContent)
        #expect(error?.message.contains("resume it with resume(toTokensIn:)") == true, "\(error?.message ?? "")")
        let campaign = try await unfinished.resume(toTokensIn: site.place.path(site.audiences[0].file))
        return try await campaign.result()
      }
      #expect(account.submitted == 20_000)
      #expect(account.submitted == account.settled)
      await site.gateway.stop()
      let arrived = Set(site.gateway.memory.frames.map(\.token))
      #expect(arrived.isSuperset(of: site.audiences[0].lines.compactMap(\.token)))
    }
  }
}
