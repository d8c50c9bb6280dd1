internal import Foundation
internal import Support
internal import Testing

@Suite("campaigns of carillon serve", .timeLimit(.minutes(20)))
struct CampaignServeTests {
  static let dead = "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 1700000000123 } ] }"

  /// Each hundredth token is refused, and each thousandth line is no token.
  static func line(_ number: Int) -> String {
    if number % 1000 == 999 { return "no token \(number)" }
    return HTTP2Site.token(number, prefix: number % 100 == 50 ? "dead" : "00")
  }

  @Test("an uploaded campaign's account equals the gateway's record", .inProcess)
  func uploaded() async throws {
    let running = try await RunningServe.withCampaigns(rules: Self.dead, more: ["feedback"])
    let site = running.campaigns
    let path = try await site.make()
    let none = try await site.call("POST", "\(path):start")
    #expect(none.status == 409, "without an audience: \(none.text)")
    let lineCount = 20_000
    let upload = try await site.upload(path, (0..<lineCount).lazy.map(Self.line))
    #expect(upload == CampaignSite.Campaign.Upload(lines: lineCount, complete: true))
    #expect(try await site.campaign(path).state == "draft")
    try await site.act(path, "start")
    let campaign = try await site.ended(path)
    #expect(campaign.state == "finished")
    // Starting it again changes nothing.
    try await site.act(path, "start")

    let account = try await site.account(path)
    #expect(account.submitted == lineCount)
    #expect(account.sum == lineCount)
    #expect(account.rejected.byReason == ["410 Unregistered": 200, "malformed token": 20])
    #expect(account.accepted.confirmed == lineCount - 220)

    let outcomes = try await site.outcomes(path)
    #expect(outcomes.count == 220)
    let expected = Set((0..<lineCount).filter { $0 % 1000 == 999 || $0 % 100 == 50 }.map { String($0 + 1) })
    #expect(Set(outcomes.map { $0[0] }) == expected)
    let feedback = try await site.call("GET", "/feedback?limit=1000")
    #expect(feedback.text.components(separatedBy: "\"token\"").count == 201)

    let taken = try await running.end()
    #expect(taken.count == account.accepted.confirmed)
    let sent = (0..<lineCount).filter { $0 % 1000 != 999 && $0 % 100 != 50 }.map { HTTP2Site.token($0) }
    #expect(Set(taken.compactMap(\.token)) == Set(sent))
  }

  @Test("kill -9 in the middle, three times: the account goes on and equals the gateway's record")
  func killed() async throws {
    var running = try await RunningServe.withCampaigns(rules: Self.dead)
    let lineCount = 20_000
    let path = try await running.campaigns.make(#","rateLimit":4000"#)
    _ = try await running.campaigns.upload(path, (0..<lineCount).lazy.map(Self.line))
    try await running.campaigns.act(path, "start")
    for life in 0..<3 {
      let enough = (life + 1) * 4_000
      let site = running.campaigns
      try await waitUntil("\(enough) are sent") { try await site.campaign(path).progress.accepted >= enough }
      try await running.restart()
    }
    let site = running.campaigns
    #expect(try await site.ended(path).state == "finished")
    let account = try await site.account(path)
    #expect(account.submitted == lineCount)
    #expect(account.sum == lineCount)
    #expect(account.unknown == 0)
    #expect(account.rejected.byReason == ["410 Unregistered": 200, "malformed token": 20])
    let outcomes = try await site.outcomes(path)
    #expect(outcomes.count == 220)
    let taken = try await running.end().compactMap(\.token)
    let sent = (0..<lineCount).filter { $0 % 1000 != 999 && $0 % 100 != 50 }.map { HTTP2Site.token($0) }
    #expect(Set(taken) == Set(sent))
    // What two kills met in flight may have arrived three times.
    #expect(taken.count - sent.count <= account.possibleCopies)
  }

  @Test("a campaign that ends as the process is killed leaves nothing in the journal")
  func killedAtTheEnd() async throws {
    var running = try await RunningServe.withCampaigns()
    let (rounds, size) = (5, 200)
    for round in 0..<rounds {
      let site = running.campaigns
      let path = try await site.make()
      _ = try await site.upload(path, (0..<size).map { HTTP2Site.token(round * size + $0) })
      try await site.act(path, "start")
      #expect(try await site.ended(path).state == "finished")
      try await running.restart()
      let account = try await running.campaigns.account(path)
      #expect(account.accepted.confirmed == size)
      #expect(account.possibleDuplicates == 0)
    }
    #expect(try await running.end().count == rounds * size)
    let inspected = try await running.serve.site.run(["journal", "inspect", "journal", "--json"])
    #expect(try JournalInspection(inspected).campaigns.filter { !$0.finished }.isEmpty, "\(inspected.output)")
  }

  @Test("a campaign that is paused stays so through a restart; cancelled, everything has an outcome")
  func pausedAndCancelled() async throws {
    var running = try await RunningServe.withCampaigns()
    var site = running.campaigns
    let lineCount = 4_000
    let tokens = (0..<lineCount).lazy.map { HTTP2Site.token($0) }
    // Each takes a minute and a half, so it has not ended when it is paused.
    var paths: [String] = []
    for _ in 0..<2 {
      let path = try await site.make(#","rateLimit":45"#)
      paths.append(path)
      _ = try await site.upload(path, tokens)
      try await site.act(path, "start")
      try await waitUntil("it sends") { try await site.campaign(path).progress.accepted >= 20 }
      try await site.act(path, "pause")
      try await site.act(path, "pause")
      #expect(try await site.campaign(path).state == "paused")
    }
    let (resumed, cancelled) = (paths[0], paths[1])
    try await running.restart()
    site = running.campaigns
    #expect(try await site.campaign(resumed).state == "paused")
    let before = try await site.account(resumed)
    #expect(before.submitted < lineCount)
    #expect(try await site.account(resumed) == before)
    try await site.act(cancelled, "cancel")
    try await site.act(cancelled, "cancel")
    #expect(try await site.ended(cancelled).state == "cancelled")
    let rest = try await site.account(cancelled)
    #expect(rest.submitted == rest.sum)
    try await site.act(cancelled, "resume", status: 409)
    try await site.act(resumed, "resume")
    #expect(try await site.ended(resumed).state == "finished")
    let account = try await site.account(resumed)
    #expect(account.submitted == lineCount)
    #expect(account.sum == lineCount)
    let taken = try await running.end()
    let copies = account.possibleCopies + rest.possibleCopies
    let least = account.accepted.confirmed + rest.accepted.confirmed
    #expect((least...(least + copies + rest.unknown)).contains(taken.count))
  }

  @Test("an upload goes on where it was cut; NDJSON brings values; a draft changes only with its tag", .inProcess)
  func uploads() async throws {
    let running = try await RunningServe.withCampaigns()
    let site = running.campaigns
    let path = try await site.make(payload: #"{"aps":{"alert":"Hello {{name}}"}}"#)
    func row(_ number: Int) -> String { #"{"token":"\#(HTTP2Site.token(number))","name":"N, \"\#(number)\""}"# }
    _ = try await site.upload(path, (0..<100).map(row))
    // Ten lines again, and ninety new ones, of which the last has no name.
    let more = (90..<189).map(row) + [#"{"token":"\#(HTTP2Site.token(189))"}"#]
    let upload = try await site.upload(path, more, headers: ["Carillon-First-Line": "91"])
    #expect(upload == CampaignSite.Campaign.Upload(lines: 190, complete: true))
    let gap = try await site.call("POST", "\(path)/audience", "ab\n", headers: ["Carillon-First-Line": "192"])
    #expect(gap.status == 409, "\(gap.text)")
    #expect(gap.text.contains("Carillon-First-Line: 191"))
    #expect(
      try await site.call("POST", "\(path)/audience", "<a/>", headers: ["Content-Type": "text/xml"]).status == 415)

    let rename = #"{"name":"autumn","rateLimit":null}"#
    #expect(try await site.call("PATCH", path, rename).status == 428)
    #expect(try await site.call("PATCH", path, rename, headers: ["If-Match": "\"0\""]).status == 412)
    let tag = try #require(try await site.call("GET", path).headers["etag"])
    let changed = try await site.call("PATCH", path, rename, headers: ["If-Match": tag])
    #expect(changed.status == 200, "\(changed.text)")
    #expect(try changed.decoded(CampaignSite.Campaign.self).name == "autumn")

    // The upload kept the values of its placeholder, and no other ones.
    func greet(_ text: String) async throws -> CampaignSite.Answer {
      let body = #"{"payload":{"aps":{"alert":"\#(text)"}}}"#
      return try await site.call("PATCH", path, body, headers: ["If-Match": "*"])
    }
    let unknown = try await greet("Hello {{name}} of {{city}}")
    #expect(unknown.status == 409, "\(unknown.text)")
    #expect(unknown.text.contains("no values for {{city}}"), "\(unknown.text)")
    #expect(try await greet("Good morning {{name}}").status == 200)

    try await site.act(path, "start")
    #expect(try await site.ended(path).state == "finished")
    let account = try await site.account(path)
    #expect(account.submitted == 190)
    #expect(account.accepted.confirmed == 189)
    let late = try await site.call("PATCH", path, rename, headers: ["If-Match": "*"])
    #expect(late.status == 409, "\(late.text)")
    struct List: Decodable {
      let items: [CampaignSite.Campaign]
      let nextCursor: String?
    }
    var paths = [path]
    for _ in 0..<4 { paths.append(try await site.make()) }
    var found: [String] = []
    var cursor = ""
    repeat {
      let page = try await site.call("GET", "/campaigns?limit=2\(cursor)").decoded(List.self)
      found += page.items.map { "/campaigns/\($0.id)" }
      cursor = page.nextCursor.map { "&cursor=\($0)" } ?? ""
    } while !cursor.isEmpty
    #expect(Set(found) == Set(paths))
    #expect(found.count == 5)
    for body in [
      #"{"name":"x"}"#, #"{"payload":{"aps":{}}}"#, #"{"name":"x","payload":{"aps":{}},"colour":1}"#,
      #"{"name":"x","payload":{"aps":{}},"sendAt":"2027-01-01T09:00:00"}"#,
      #"{"name":"x","payload":{"aps":{}},"audience":{"source":"upload","filter":{}}}"#,
    ] {
      let answer = try await site.call("POST", "/campaigns", body)
      #expect(answer.status == 400, "\(body): \(answer.text)")
    }
    #expect(try await site.call("POST", "/campaigns", #"{"name":"x","payload":{"aps":7}}"#).status == 422)
    try await running.end()
  }
}
