internal import Foundation
internal import Support
internal import Testing

@Suite("the rate of campaigns of carillon serve", .inProcess, .timeLimit(.minutes(20)))
struct CampaignRateServeTests {
  @Test("a campaign is sent no faster than its rate says, whatever of it cannot be sent")
  func rate() async throws {
    let perSecond = 200
    let running = try await RunningServe.withCampaigns()
    let site = running.campaigns
    let path = try await site.make(#","rateLimit":\#(perSecond)"#)
    let seconds = 5
    let count = perSecond * seconds
    // Lines that are no tokens take nothing of the rate.
    let lines = (0..<count).flatMap { [HTTP2Site.token($0), "no token \($0)"] }
    _ = try await site.upload(path, lines)
    try await site.act(path, "start")
    let campaign = try await site.ended(path)
    #expect(campaign.state == "finished")
    let began = try #require(campaign.startedAt.flatMap(Self.date))
    let ended = try #require(campaign.endedAt.flatMap(Self.date))
    let taken = ended.timeIntervalSince(began)
    // The first chunk is sent at once.
    #expect(taken >= Double(seconds) * 0.95, "\(count) in \(taken) s")
    // How much slower depends on the machine: ``PacedAudienceTests`` asks it in virtual time.
    #expect(try await running.end().count == count)
  }

  private static func date(_ text: String) -> Date? {
    try? Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true))
  }
}
