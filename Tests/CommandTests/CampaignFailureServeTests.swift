internal import Foundation
internal import Support
internal import Testing

@Suite("campaigns of carillon serve that fail", .inProcess, .timeLimit(.minutes(20)))
struct CampaignFailureServeTests {
  @Test("an audience that the payloads cannot be sent with is refused at its beginning, and another one taken")
  func beginnings() async throws {
    let running = try await RunningServe.withCampaigns()
    let site = running.campaigns
    let token = HTTP2Site.token(1)
    let personal = #"{"aps":{"alert":"Hello {{name}}"}}"#
    let cases: [(rest: String, payload: String, lines: [String], reason: String)] = [
      ("", CampaignSite.hello, ["id,name", "1,Anna"], #"The audience, line 1: the header has no column "token""#),
      ("", CampaignSite.hello, ["", "token,a,a", "\(token),1,2"], #"line 2: the header has the column "a" twice"#),
      ("", personal, ["token,city", "\(token),Bern"], #"no column "name" (it has "token", "city")"#),
      ("", personal, [token], #"no column "name" (it has no header)"#),
      (#","dryRun":true"#, CampaignSite.hello, ["id,name", "1,Anna"], #"no column "token""#),
      (#","localSend":{"time":"2020-01-01T09:00","past":"now"}"#, CampaignSite.hello, ["id,b", "1,2"], "no column"),
    ]
    for (rest, payload, lines, reason) in cases {
      let path = try await site.make(rest, payload: payload)
      let text = lines.joined(separator: "\n") + "\n"
      let refused = try await site.call("POST", "\(path)/audience", text, headers: ["Content-Type": "text/csv"])
      #expect(refused.status == 422, "\(lines)")
      #expect(try refused.decoded(ServeSite.Problem.self).detail.contains(reason), "\(refused.text)")
      let campaign = try await site.campaign(path)
      #expect(campaign.state == "uploading")
      #expect(campaign.upload.map(\.lines) ?? 0 == 0)
      #expect(try await site.upload(path, ["token,name", "\(token),Anna"]).complete)
    }
    try await running.end()
  }

  @Test("the reason names what the caller can correct, and none of the service's files")
  func reasons() async throws {
    let running = try await RunningServe.withCampaigns()
    let site = running.campaigns
    let path = try await site.make(payload: CampaignSite.hello)
    // Rows could have come with another upload.
    _ = try await site.upload(path, ["token,name"])
    try await site.act(path, "start")
    let campaign = try await site.ended(path)
    #expect(campaign.state == "failed")
    // A header is nobody.
    #expect(campaign.progress.submitted == 0)
    let said = try #require(campaign.reason)
    #expect(said.contains("The audience holds no device token"), "\(said)")
    #expect(!said.contains("/"), "\(said)")
    #expect(!said.contains(".csv"), "\(said)")
    try await running.end()
  }

  @Test("an app's audiences together have a limit, beyond which whole lines stay and the rest is refused")
  func audienceLimit() async throws {
    let running = try await RunningServe(
      scopes: ["campaigns", "read"],
      configure: { try $0.configure($1, settings: "audiences: { bytes: 128KiB }") })
    let site = running.campaigns
    // Lines of 65 bytes.
    let tokens = (0..<1000).map { HTTP2Site.token($0) }
    let byteCount = tokens.count * (tokens[0].utf8.count + 1)
    let first = try await site.make()
    _ = try await site.upload(first, tokens)
    let second = try await site.make()
    let more = Array(repeating: tokens, count: 3).joined().joined(separator: "\n") + "\n"
    let refused = try await site.call("POST", "\(second)/audience", more, headers: ["Content-Type": "text/csv"])
    #expect(refused.status == 413, "\(refused.text)")
    let kept = try #require(try await site.campaign(second).upload)
    #expect(!kept.complete)
    #expect((0...(128 << 10) - byteCount).contains(kept.lines * (tokens[0].utf8.count + 1)))
    // One line without an end takes room too.
    let endless = String(repeating: "a", count: 256 << 10)
    #expect(
      try await site.call("POST", "\(second)/audience", endless, headers: ["Content-Type": "text/csv"]).status == 413)
    // It can begin anew with what fits.
    #expect(try await site.upload(second, tokens.prefix(100)).complete)
    try await running.end()
  }

  @Test(
    "whoever is behind the point where an audience cannot be read any more is in the account",
    arguments: [
      (isShorter: false, rest: ""), (true, ""),
      (false, #","localSend":{"time":"2020-01-01T09:00","past":"now"}"#),
      (true, #","localSend":{"time":"2020-01-01T09:00","past":"now"}"#),
    ])
  func unreadable(isShorter: Bool, rest: String) async throws {
    var running = try await RunningServe.withCampaigns()
    var site = running.campaigns
    let tokens = (0..<2_000).map { HTTP2Site.token($0) }
    let path = try await site.make(#","rateLimit":20"# + rest)
    let zones = ["Etc/GMT-1", "Europe/Berlin", "Asia/Tokyo"]
    let rows = tokens.enumerated().map { "\($1),\(zones[$0 % zones.count])" }
    _ = try await site.upload(path, ["token,timeZone"] + rows)
    try await site.act(path, "start")
    try await waitUntil("it sends") { try await site.campaign(path).progress.accepted >= 20 }
    try await site.act(path, "pause")
    let folder = ServeSite.isOnDatabase ? "store.campaigns" : "store.db.campaigns"
    let audience = running.serve.site.place.path("\(folder)/\(path.split(separator: "/")[1])/audience.csv")
    try await running.restart(after: SIGTERM) {
      if isShorter {
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: audience))
        try file.truncate(atOffset: 70_000)
        try file.close()
      } else {
        try FileManager.default.removeItem(atPath: audience)
      }
    }
    site = running.campaigns
    try await site.act(path, "resume")
    let campaign = try await site.ended(path)
    #expect(campaign.state == "failed")
    let account = try await site.account(path)
    let reason = try #require(campaign.reason)
    #expect(reason.contains(isShorter ? "ends after 70000 of" : "cannot be opened"), "\(reason)")
    #expect(account.submitted == tokens.count)
    #expect(account.sum == tokens.count)
    let listed = try await site.outcomes(path)
    #expect(Set(listed.map { $0[0] }).count == listed.count, "a line is listed twice")
    // Whoever can still be read is listed.
    #expect(listed.count >= (isShorter ? 700 : 0), "\(listed.count)")
    let taken = Set(try await running.end().compactMap(\.token))
    #expect(taken.isDisjoint(with: listed.map { $0[1] }))
    #expect(taken.count == account.accepted.confirmed + account.accepted.quiet)
  }
}
