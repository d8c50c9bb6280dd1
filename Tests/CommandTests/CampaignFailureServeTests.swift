internal import Foundation
internal import Support
internal import Testing

@Suite("campaigns of carillon serve that fail", .timeLimit(.minutes(20)))
struct CampaignFailureServeTests {
  @Test("the reason names what the caller can correct, and none of the service's files")
  func reasons() async throws {
    let running = try await RunningServe.withCampaigns()
    let site = running.campaigns
    let token = HTTP2Site.token(1)
    let cases: [(rest: String, payload: String, lines: [String], reason: String)] = [
      ("", CampaignSite.hello, ["id,name", "1,Anna"], #"The audience, line 1: the header has no column "token""#),
      ("", CampaignSite.hello, ["token,a,a", "\(token),1,2"], #"the header has the column "a" twice"#),
      ("", CampaignSite.hello, ["token,name"], "The audience holds no device token"),
      ("", #"{"aps":{"alert":"Hello {{name}}"}}"#, ["token,city", "\(token),Bern"], "name"),
      (#","dryRun":true"#, CampaignSite.hello, ["id,name", "1,Anna"], #"no column "token""#),
      (#","localSend":{"time":"2020-01-01T09:00","past":"now"}"#, CampaignSite.hello, ["id,b", "1,2"], "no column"),
    ]
    for (rest, payload, lines, reason) in cases {
      let path = try await site.make(rest, payload: payload)
      _ = try await site.upload(path, lines)
      try await site.act(path, "start")
      let campaign = try await site.ended(path)
      #expect(campaign.state == "failed", "\(lines[0])")
      let said = try #require(campaign.reason)
      #expect(said.contains(reason), "\(said)")
      #expect(!said.contains("/"), "\(said)")
      #expect(!said.contains(".csv"), "\(said)")
    }
    try await running.end()
  }
}
