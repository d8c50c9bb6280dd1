internal import Foundation
internal import Support
internal import Testing

extension JournalCampaigns {
  /// A journal in which bytes have changed.
  @Suite("A damaged journal", .serialized, .timeLimit(.minutes(20)))
  struct JournalDamageTests {
    private struct Verification: Decodable {
      let sound: Bool
      let segments: Int
      let records: Int
      let damage: [String]
      let lostBytes: Int
      let lostRecords: Int
    }

    private static let count = 20_000

    /// Killed during a campaign; then a byte is changed in two frames of the first segment.
    private func damaged() async throws -> JournalSite {
      let site = try await JournalSite.simple(JournalSite.Settings(rate: 8_000), count: Self.count)
      #expect(try await site.sendAndKill(after: 6_000))
      let file = try #require(site.segments.first)
      var bytes = try Data(contentsOf: file)
      var places = 0
      // The size of frames depends on how busy the machine is.
      for tenth in [3, 6, 7, 8, 5, 4, 2, 1] where places < 2 {
        bytes[bytes.count * tenth / 10] ^= 0x41
        try bytes.write(to: file)
        places = try verification(try await site.journal("verify", ["--json"])).damage.count
      }
      #expect(places == 2)
      return site
    }

    private func verification(_ ending: Ending) throws -> Verification {
      try JSONDecoder().decode(Verification.self, from: Data(ending.output.utf8))
    }

    @Test("damage is not skipped by default: the error names segment and offset, and verify lists every place")
    func refused() async throws {
      let site = try await damaged()
      let arrived = await site.gateway.acceptedCount
      let before = try site.segments.map { try Data(contentsOf: $0) }
      let verified = try await site.journal("verify")
      #expect(verified.status == 1, "\(verified)")
      #expect(verified.errors.isEmpty, "\(verified)")
      #expect(verified.output.contains("\n2 damaged places, "), "\(verified)")
      let places = verified.output.matches(
        of: /damaged: (segment-000000000001\.lz4, byte \d+): the frame cannot be decompressed/
      ).map { String($0.1) }
      #expect(places.count == 2, "\(verified)")
      #expect(Set(places).count == 2, "\(verified)")
      let json = try await site.journal("verify", ["--json"])
      let verification = try verification(json)
      #expect(json.status == 1, "\(json)")
      #expect(!verification.sound, "\(json)")
      #expect(verification.damage.count == 2, "\(json)")
      #expect(verification.lostBytes > 0, "\(json)")
      #expect(zip(verification.damage, places).allSatisfy { $0.hasPrefix($1 + ": ") }, "\(json)")
      let inspected = try await site.journal("inspect")
      #expect(inspected.status == 1, "\(inspected)")
      #expect(inspected.output.contains("Resume with: \(JournalSite.advice()) --skip-damaged\n"), "\(inspected)")

      for ending in [try await site.resume(), try await site.journal("abandon"), try await site.send()] {
        expectOneSentence(ending, status: 3, containing: "the journal is damaged: \(places.first ?? ""): ")
        #expect(ending.errors.contains("carillon journal verify journal lists all damaged places"), "\(ending)")
      }
      #expect(await site.gateway.acceptedCount == arrived)
      #expect(try site.segments.map { try Data(contentsOf: $0) } == before)
    }

    @Test("on request damage is skipped, what was lost is counted, and the account adds up")
    func skipped() async throws {
      let site = try await damaged()
      let resumed = try await site.resume(["--skip-damaged"])
      #expect(
        resumed.errors.matches(of: /journal: damaged: segment-000000000001\.lz4, byte \d+:/).count == 2, "\(resumed)")
      let line =
        /(\d+) records are known to be lost, and with them the fate of (\d+) notifications, which count as unknown/
      let lost = try #require(resumed.errors.firstMatch(of: line), "\(resumed)")
      let account = try #require(SentAccount(resumed)?.apps["news"], "\(resumed)")
      #expect(account.submitted == Self.count, "\(resumed)")
      #expect(account.sum == Self.count, "\(resumed)")
      #expect(account.unknown == Int(lost.2), "\(resumed)")
      #expect((Int(lost.1) ?? 0) > 0, "\(resumed)")
      #expect(resumed.status == (account.unknown > 0 ? 1 : 0), "\(resumed)")
      await site.gateway.stop()
      let arrived = site.gateway.arrivedTokenCount
      #expect(arrived >= account.acceptedTotal, "\(arrived) have arrived: \(resumed)")
      #expect(arrived <= account.acceptedTotal + account.unknown, "\(arrived) have arrived: \(resumed)")
      // A second call gives the same account.
      let again = try await site.resume()
      #expect(again.status == resumed.status, "\(again)")
      #expect(SentAccount(again)?.apps == SentAccount(resumed)?.apps, "\(again)")
    }

    @Test("a damaged journal can be abandoned too")
    func abandoned() async throws {
      let site = try await damaged()
      let abandoned = try await site.journal("abandon", ["--skip-damaged", "--json"])
      let account = try #require(SentAccount(abandoned)?.apps["news"], "\(abandoned)")
      #expect(abandoned.status == 1, "\(abandoned)")
      #expect(account.sum == account.submitted, "\(abandoned)")
      #expect(account.unknown > 0, "\(abandoned)")
      #expect(try await site.send().status == 0)
    }
  }
}
