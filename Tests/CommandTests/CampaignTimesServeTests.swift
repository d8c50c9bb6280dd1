internal import Foundation
internal import Support
internal import Testing

@Suite("times of campaigns of carillon serve", .inProcess, .timeLimit(.minutes(20)))
struct CampaignTimesServeTests {
  @Test("expiresAfter counts from the campaign's beginning; what expires while its app is paused is in the account")
  func expiry() async throws {
    let running = try await RunningServe.withCampaigns(more: ["admin"])
    let site = running.campaigns
    func start(_ expiresAfter: Int, _ tokens: Range<Int>) async throws -> String {
      let path = try await site.make(#","expiresAfter":\#(expiresAfter)"#)
      _ = try await site.upload(path, tokens.map { HTTP2Site.token($0) })
      try await site.act(path, "start")
      return path
    }
    let began = Date().timeIntervalSince1970
    for (seconds, tokens) in [(3600, 0..<10), (0, 10..<20)] {
      #expect(try await site.ended(try await start(seconds, tokens)).state == "finished")
    }
    let sentBy = Date().timeIntervalSince1970
    #expect(try await running.call("/v1/apps/news:pause", method: "POST").status == 202)
    let late = try await start(1, 20..<30)
    try await waitUntil("it runs") { try await site.campaign(late).startedAt != nil }
    let startedAt = Date()
    try await waitUntil("its time is over") { Date().timeIntervalSince(startedAt) > 2.5 }
    #expect(try await running.call("/v1/apps/news:resume", method: "POST").status == 202)
    #expect(try await site.ended(late).state == "finished")
    let account = try await site.account(late)
    #expect(account.submitted == 10)
    #expect(account.expired == 10)
    #expect(try await site.outcomes(late).allSatisfy { $0[2] == "expired" })
    let taken = try await running.end()
    let expirations = Dictionary(grouping: taken, by: \.expiration).mapValues(\.count)
    #expect(expirations["0"] == 10)
    #expect(taken.count == 20)
    let other = taken.compactMap { $0.expiration.flatMap(Double.init) }.filter { $0 > 0 }
    #expect(other.count == 10)
    #expect(other.allSatisfy { (began + 3599...sentBy + 3600).contains($0) }, "\(other), from \(began) to \(sentBy)")
  }

  @Test("a local send that is still under way when its zone's quiet hours begin rests, and says so")
  func restingPart() async throws {
    let running = try await RunningServe.withCampaigns()
    let site = running.campaigns
    // On a busy machine the quiet hours may begin before anything was sent.
    var begun: String?
    for seconds in [40.0, 80, 160] where begun == nil {
      let path = try await restingSoon(site, after: seconds)
      try await waitUntil("it sends or rests") {
        let campaign = try await site.campaign(path)
        return campaign.progress.accepted > 0 || campaign.reason?.contains("Quiet hours") == true
      }
      if try await site.campaign(path).progress.accepted > 0 {
        begun = path
      } else {
        try await site.act(path, "cancel")
      }
    }
    let path = try #require(begun)
    try await waitUntil("it rests") { try await site.campaign(path).reason?.contains("Quiet hours") == true }
    // What was sent before is answered yet; where nodes can share it, that is told to the ledger.
    var (looked, known) = (ContinuousClock.now, -1)
    try await waitUntil("nothing more is sent for two seconds") {
      let progress = try await site.campaign(path).progress
      if progress.submitted != known || progress.inFlight > 0 { (looked, known) = (.now, progress.submitted) }
      return ContinuousClock.now - looked > .seconds(2)
    }
    let resting = try await site.campaign(path)
    #expect(resting.state == "running")
    #expect((1..<5000).contains(resting.progress.accepted))
    try await site.act(path, "cancel")
    #expect(try await site.ended(path).state == "cancelled")
    try await running.end()
  }

  /// A started campaign whose quiet hours begin in some seconds by the clocks of UTC+1.
  private func restingSoon(_ site: CampaignSite, after seconds: Double) async throws -> String {
    let local = Date().timeIntervalSince1970 + 3600
    func clock(_ time: Double) -> String {
      let second = Int(time) % 86_400
      return String(format: "%02d:%02d:%02d", second / 3600, second / 60 % 60, second % 60)
    }
    let minuteAgo = Date(timeIntervalSince1970: local - 60).formatted(
      Date.ISO8601FormatStyle().year().month().day().time(includingFractionalSeconds: false))
    let path = try await site.make(
      """
      ,"localSend":{"time":"\(minuteAgo.prefix(19))"},"rateLimit":20,
      "quietHours":"\(clock(local + seconds))-\(clock(local + 7200))"
      """)
    let rows = (0..<5000).map { "\(HTTP2Site.token($0)),Etc/GMT-1" }
    _ = try await site.upload(path, ["token,timeZone"] + rows)
    try await site.act(path, "start")
    return path
  }

  @Test("a scheduled campaign gets another time and payload, if nobody else has changed it; a running one does not")
  func rescheduled() async throws {
    let running = try await RunningServe.withCampaigns()
    let site = running.campaigns
    func instant(_ seconds: Double) -> String {
      Date().addingTimeInterval(seconds).formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }
    let path = try await site.make(#","sendAt":"\#(instant(3600))""#)
    _ = try await site.upload(path, [HTTP2Site.token(1)])
    try await site.act(path, "start")
    #expect(try await site.campaign(path).state == "scheduled")
    func patch(_ body: String, tag: String) async throws -> CampaignSite.Answer {
      try await site.call("PATCH", path, body, headers: ["If-Match": tag])
    }
    let first = try #require(try await site.call("GET", path).headers["etag"])
    let renamed = try await patch(#"{"name":"autumn"}"#, tag: first)
    #expect(renamed.status == 200, "\(renamed.text)")
    #expect(try await patch(#"{"name":"winter"}"#, tag: first).status == 412)
    let second = try #require(renamed.headers["etag"])
    #expect(second != first)
    #expect(try await patch(#"{"colour":1}"#, tag: second).status == 400)
    let soon = #"{"sendAt":"\#(instant(1))","payload":{"aps":{"alert":"Changed"}}}"#
    let moved = try await patch(soon, tag: second)
    #expect(moved.status == 200, "\(moved.text)")
    let campaign = try await site.ended(path)
    #expect(campaign.state == "finished")
    #expect(campaign.name == "autumn")
    #expect(try await patch(#"{"name":"spring"}"#, tag: "*").status == 409)
    #expect(try await running.end().count == 1)
  }
}
