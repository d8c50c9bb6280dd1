internal import Foundation
internal import Support
internal import Testing

/// Any node takes in an audience, and all of them carry it.
@Suite("Uploaded audiences on several services", .timeLimit(.minutes(5)))
struct ServeNodeUploadsTests {
  @Test("an upload goes on at another node, both send it, and what a killed one leaves is sent by the other")
  func carried() async throws {
    // Two segments.
    let count = 20_000
    let pair = try await NodePair(rules: "http2: { delay: { fixed: 50ms } }")
    let here = pair.first.campaigns
    let there = CampaignSite(pair.second, key: pair.first.key)
    let tokens = (0..<count).map { HTTP2Site.token($0) }
    // Rows of two lines, one that is no row, and one without a token.
    var rows = tokens.enumerated().map { $0 % 100 == 3 ? "\"a\n\($0)\",\($1)" : "\($0),\($1)" }
    rows.insert("1,2,3", at: 5_000)
    rows.insert("nobody,xyz", at: 15_000)
    let lines = (["name,token"] + rows).joined(separator: "\n").split(separator: "\n").map(String.init)
    let path = try await there.make(#","rateLimit":1500"#, payload: #"{"aps":{"alert":"Hello {{name}}"}}"#)
    #expect(try await there.upload(path, lines.prefix(7_001)).lines == 7_001)
    var headers = ["Content-Type": "text/csv", "Carillon-First-Line": "9000"]
    let gap = try await here.call("POST", "\(path)/audience", "x", headers: headers)
    #expect(gap.status == 409)
    #expect(gap.text.contains("7002"), "\(gap.text)")
    // Some lines come twice.
    headers["Carillon-First-Line"] = "6500"
    #expect(try await here.upload(path, lines.dropFirst(6_499), headers: headers).lines == lines.count)
    #expect(try await there.campaign(path).upload?.complete == true)
    #expect(try await pair.nodes().map(\.leads) == [true, false])
    try await there.act(path, "start")
    try await waitUntil("both carry some of it") {
      try await pair.nodes().allSatisfy { $0.segments > 0 && $0.pending > 0 }
    }
    pair.first.service.process.send(SIGKILL)
    _ = await pair.first.service.process.ending()
    #expect(try await there.campaign(path).progress.accepted < count, "it is killed in the middle")
    #expect(try await there.ended(path).state == "finished")
    let account = try await there.account(path)
    #expect(account.submitted == count + 2)
    #expect(account.accepted.confirmed == count)
    #expect(account.rejected.total == 2)
    #expect(try await there.campaign(path).progress.total == count + 2)
    // By the numbers of their lines.
    let listed = try await there.outcomes(path)
    let numbers = ["1,2,3", "nobody,xyz"].map { row in (lines.firstIndex(of: row) ?? 0) + 1 }
    #expect(listed.compactMap { $0.first.flatMap { Int($0) } }.sorted() == numbers, "\(listed)")
    let all = try await pair.first.serve.site.taken(pair.first.upstream)
    #expect(Set(all.compactMap(\.token)) == Set(tokens))
    #expect(all.count - count <= account.possibleDuplicates)
    #expect(Set(all.map(\.id)).count == count, "a copy has the same identifier")
    await NodePair.end(pair.second)
  }

  @Test("what a local send of an upload leaves out is listed at any node")
  func leftOut() async throws {
    let pair = try await NodePair()
    let here = pair.first.campaigns
    let there = CampaignSite(pair.second, key: pair.first.key)
    // In UTC it is about to come, and elsewhere it has passed.
    let soon = Date.now.addingTimeInterval(15).formatted(.iso8601).prefix(19)
    let path = try await there.make(#","localSend":{"time":"\#(soon)","past":"skip"}"#)
    let zones = (0..<50).map { $0 % 5 < 3 ? "Pacific/Kiritimati" : "UTC" }
    let rows = zones.enumerated().map { "\(HTTP2Site.token($0)),\($1)" }
    #expect(try await there.upload(path, ["token,timeZone"] + rows).complete)
    try await there.act(path, "start")
    #expect(try await there.ended(path).state == "finished")
    let account = try await here.account(path)
    let numbers = [account.submitted, account.accepted.confirmed, account.suppressed]
    #expect(numbers == [50, 20, 30], "\(account)")
    let lists = (here: try await here.outcomes(path), there: try await there.outcomes(path))
    #expect(lists.here.count == 30)
    #expect(lists.here == lists.there)
    await NodePair.end(pair.second)
    let taken = try await pair.first.end()
    #expect(taken.count == 20)
  }

  @Test("a cancelled campaign of an upload settles each of its rows, those that nobody carried too")
  func cancelled() async throws {
    let count = 40_000
    let pair = try await NodePair()
    let there = CampaignSite(pair.second, key: pair.first.key)
    let path = try await there.make(#","rateLimit":100"#)
    #expect(try await there.upload(path, (0..<count).map { HTTP2Site.token($0) }).lines == count)
    try await there.act(path, "start")
    try await waitUntil("some are sent") { try await there.campaign(path).progress.accepted > 0 }
    try await there.act(path, "cancel")
    #expect(try await there.ended(path).state == "cancelled")
    let account = try await there.account(path)
    #expect(account.submitted == count)
    #expect(account.accepted.confirmed + account.cancelled == count)
    #expect(account.accepted.confirmed < 10_000)
    #expect(try await there.outcomes(path).count == account.cancelled)
    await NodePair.end(pair.second)
    #expect(try await pair.first.end().count == account.accepted.confirmed)
  }
}
