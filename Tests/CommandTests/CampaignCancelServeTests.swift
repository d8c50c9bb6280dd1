internal import Foundation
internal import Support
internal import Testing

/// Whatever a campaign has done before it is cancelled: everybody is in its account and its list.
@Suite("cancelled campaigns of carillon serve", .timeLimit(.minutes(20)))
struct CampaignCancelServeTests {
  private static let count = 30_000

  /// What a cancelled campaign says of its tokens.
  private struct Told {
    /// They are not in its list.
    var reached: Set<String>
    /// They may have arrived.
    var unknown: Set<String>
  }

  private static func told(_ site: CampaignSite, _ path: String, of tokens: some Sequence<String>) async throws -> Told
  {
    let rows = try await site.outcomes(path)
    let unknown = Set(rows.filter { $0[2] == "unknown" }.map { $0[1] })
    return Told(reached: Set(tokens).subtracting(rows.map { $0[1] }), unknown: unknown)
  }

  /// Whom no list names has got the notification, and nobody else has.
  private static func compare(_ told: [Told], with taken: [String]) {
    let unknown = told.reduce(into: Set<String>()) { $0.formUnion($1.unknown) }
    let reached = told.reduce(into: Set<String>()) { $0.formUnion($1.reached) }
    #expect(Set(taken).subtracting(unknown) == reached)
  }

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
    var audiences: [String: [String]] = [:]
    var told: [Told] = []
    func uploaded(_ rest: String) async throws -> String {
      let path = try await site.make(rest)
      let tokens = (0..<Self.count).map { HTTP2Site.token($0 + audiences.count * Self.count) }
      audiences[path] = tokens
      _ = try await site.upload(path, tokens)
      try await site.act(path, "start")
      return path
    }
    func cancel(_ path: String, _ state: String) async throws {
      try await site.act(path, "cancel")
      #expect(try await site.ended(path).state == "cancelled")
      try await Self.check(site, path, state)
      told.append(try await Self.told(site, path, of: audiences[path] ?? []))
    }
    let later = try await uploaded(#","sendAt":"2099-01-01T00:00:00Z""#)
    try await cancel(later, "scheduled")
    #expect(try await site.account(later).cancelled == Self.count)
    let waiting = try await uploaded(#","sendAt":"2099-01-01T00:00:00Z""#)
    try await site.act(waiting, "pause")
    try await cancel(waiting, "paused before its time")
    let day = Int(Date().timeIntervalSince1970) / 60
    let clocks = [day - 60, day + 60].map { String(format: "%02d:%02d", $0 / 60 % 24, $0 % 60) }
    let held = try await uploaded(#","quietHours":"\#(clocks[0])-\#(clocks[1])""#)
    try await waitUntil("it is held") { try await site.campaign(held).state == "held" }
    try await cancel(held, "held")
    #expect(try await site.account(held).cancelled == Self.count)
    let slow = try await uploaded(#","rateLimit":45"#)
    try await waitUntil("it sends") { try await site.campaign(slow).progress.accepted >= 20 }
    try await cancel(slow, "running")
    let paused = try await uploaded(#","rateLimit":45"#)
    try await waitUntil("it sends") { try await site.campaign(paused).progress.accepted >= 20 }
    try await site.act(paused, "pause")
    try await running.restart()
    site = running.campaigns
    try await cancel(paused, "paused, in another process")
    for _ in 0..<10 { try await cancel(try await uploaded(#","rateLimit":2000"#), "as it begins") }
    Self.compare(told, with: try await running.end().compactMap(\.token))
  }

  @Test("a service that ends meanwhile leaves the rest of a cancelled campaign to the next one", .inProcess)
  func ending() async throws {
    var running = try await RunningServe.withCampaigns()
    var site = running.campaigns
    let tokens = (0..<100_000).map { HTTP2Site.token($0) }
    let path = try await site.make(#","rateLimit":200"#)
    _ = try await site.upload(path, tokens)
    try await site.act(path, "start")
    try await waitUntil("it sends") { try await site.campaign(path).progress.accepted >= 100 }
    try await site.act(path, "cancel")
    var ended = Date.distantFuture
    try await running.restart(after: SIGTERM) { ended = .now }
    site = running.campaigns
    let text = try #require(try await site.ended(path).endedAt)
    #expect(try Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true)) > ended)
    try await Self.check(site, path, "cancelled", count: tokens.count)
    Self.compare([try await Self.told(site, path, of: tokens)], with: try await running.end().compactMap(\.token))
  }

  @Test("of stored devices, all who were not reached are listed as cancelled, by their tokens", .inProcess)
  func devices() async throws {
    let tokens = (0..<3_000).map { HTTP2Site.token($0) }
    let running = try await RunningServe.withCampaigns(more: ["devices"])
    let site = running.campaigns
    let lines = tokens.map { #"{"token":"\#($0)"}"# }.joined(separator: "\n")
    #expect(
      try await running.call(
        "/v1/apps/news/devices:import", body: lines, headers: ["Content-Type": "application/x-ndjson"]
      ).status == 200)
    let path = try await site.make(#","rateLimit":45,"audience":{"source":"devices"}"#)
    try await site.act(path, "start")
    try await waitUntil("it sends") { try await site.campaign(path).progress.accepted >= 45 }
    try await site.act(path, "cancel")
    #expect(try await site.ended(path).state == "cancelled")
    try await Self.check(site, path, "running", count: tokens.count)
    let told = try await Self.told(site, path, of: tokens)
    Self.compare([told], with: try await running.end().compactMap(\.token))
  }

  @Test("rows whose zone is damaged, and whose token is too, are left out of a local send and listed once", .inProcess)
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
