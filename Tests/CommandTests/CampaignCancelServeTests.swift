internal import Foundation
internal import Support
internal import Testing

/// Whatever a campaign has done before it is cancelled: everybody is in its account and its list.
@Suite("cancelled campaigns of carillon serve", .timeLimit(.minutes(20)))
struct CampaignCancelServeTests {
  private static let count = 30_000

  private static func check(_ site: CampaignSite, _ path: String, _ state: String, count: Int = count) async throws {
    let account = try await site.account(path)
    #expect(account.submitted == count, "\(state): \(account)")
    #expect(account.sum == count, "\(state)")
    let rows = try await site.outcomes(path)
    #expect(Set(rows.map { $0[0] }).count == rows.count, "\(state): a line is listed twice")
    #expect(rows.count { $0[2] == "cancelled" } == account.cancelled, "\(state)")
    #expect(rows.count == count - account.accepted.confirmed - account.accepted.quiet, "\(state)")
  }

  @Test("scheduled, paused, running or resumed after a restart: all who were not reached are listed as cancelled")
  func states() async throws {
    var running = try await RunningServe.withCampaigns()
    var site = running.campaigns
    let tokens = (0..<Self.count).lazy.map { HTTP2Site.token($0) }
    func uploaded(_ rest: String) async throws -> String {
      let path = try await site.make(rest)
      _ = try await site.upload(path, tokens)
      try await site.act(path, "start")
      return path
    }
    func cancel(_ path: String, _ state: String) async throws {
      try await site.act(path, "cancel")
      #expect(try await site.ended(path).state == "cancelled")
      try await Self.check(site, path, state)
    }
    let later = try await uploaded(#","sendAt":"2099-01-01T00:00:00Z""#)
    try await cancel(later, "scheduled")
    #expect(try await site.account(later).cancelled == Self.count)
    let waiting = try await uploaded(#","sendAt":"2099-01-01T00:00:00Z""#)
    try await site.act(waiting, "pause")
    try await cancel(waiting, "paused before its time")
    let slow = try await uploaded(#","rateLimit":45"#)
    try await waitUntil("it sends") { try await site.campaign(slow).progress.accepted >= 20 }
    try await cancel(slow, "running")
    let paused = try await uploaded(#","rateLimit":45"#)
    try await waitUntil("it sends") { try await site.campaign(paused).progress.accepted >= 20 }
    try await site.act(paused, "pause")
    try await running.restart()
    site = running.campaigns
    try await cancel(paused, "paused, in another process")
    for _ in 0..<10 { try await cancel(try await uploaded(""), "as it begins") }
    _ = try await running.end()
  }

  @Test("rows whose zone is damaged, and whose token is too, are left out of a local send and listed once")
  func damagedZones() async throws {
    let running = try await RunningServe.withCampaigns()
    let site = running.campaigns
    // It is this time at UTC+1 in two hours.
    let text = Date.now.addingTimeInterval(3 * 3600).formatted(
      Date.ISO8601FormatStyle().year().month().day().time(includingFractionalSeconds: false))
    let path = try await site.make(#","localSend":{"time":"\#(text.prefix(19))","missingTimeZone":"skip"}"#)
    let long = String(repeating: "z", count: 5_000)
    let rows = [
      "token,timeZone", "\(HTTP2Site.token(1)),Etc/GMT-1", "\(HTTP2Site.token(2)),", "\(HTTP2Site.token(3)),\(long)",
      "\(HTTP2Site.token(4)),nowhere", "no token,nowhere", "no token,Etc/GMT-1",
    ]
    var body = Array(rows.map { $0 + "\n" }.joined().utf8)
    body += Array("\(HTTP2Site.token(5)),Asia/".utf8) + [0xFF, 0xFE, 0x0A]
    let upload = try await site.call(
      "POST", "\(path)/audience", data: Data(body), headers: ["Content-Type": "text/csv"])
    #expect(upload.status == 200, "\(upload.text)")
    try await site.act(path, "start")
    try await waitUntil("it is divided") { try await site.account(path).suppressed > 0 }
    let account = try await site.account(path)
    #expect(account.suppressed == 4)
    #expect(account.rejected.total == 1)
    let listed = try await site.outcomes(path)
    #expect(listed.map { $0[0] }.sorted() == ["3", "4", "5", "6", "8"])
    try await site.act(path, "cancel")
    _ = try await site.ended(path)
    try await Self.check(site, path, "divided", count: 7)
    _ = try await running.end()
  }
}
