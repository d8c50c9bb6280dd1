internal import Foundation
internal import PushServer
internal import PushTransport
internal import Support
internal import Synchronization
internal import Testing

@testable internal import CarillonCommand

/// What people and programs see of many campaigns, and of one that sends.
@Suite("lists and progress of campaigns of carillon serve", .timeLimit(.minutes(20)))
struct CampaignProgressServeTests {
  /// A plan of about 0.2 MB: a payload in each of fifty languages.
  private static func variants(_ number: Int) -> String {
    let text = String(repeating: "x", count: 3_900)
    let languages = (0..<50).map { index in
      let (first, second) = (UInt8(97 + index / 26), UInt8(97 + index % 26))
      let language = String(decoding: [UInt8(ascii: "x"), first, second], as: UTF8.self)
      return #""\#(language)":{"aps":{"alert":"\#(number) \#(text)"}}"#
    }
    return #","variants":{\#(languages.joined(separator: ","))}"#
  }

  private final class Heard: Sendable {
    private let events = Mutex<[ServiceEvent]>([])
    var all: [ServiceEvent] { events.withLock { $0 } }
    func add(_ event: ServiceEvent) { events.withLock { $0.append(event) } }
  }

  private struct Page: Decodable {
    struct Item: Decodable {
      let id: String
      let name: String
      let state: String
      let variants: [String: Variant]
    }
    struct Variant: Decodable {}
    let items: [Item]
    let nextCursor: String?
  }

  @Test(
    "many large plans: pages end at a megabyte, the app's limit is 409, and nothing of it is in others' events",
    .inProcess)
  func manyPlans() async throws {
    let running = try await RunningServe(scopes: ["campaigns", "read"]) { serve, upstream in
      try serve.configure(upstream, settings: "campaigns: { unfinished: 14 }")
    }
    let site = running.campaigns
    let other = try await running.serve.key(["--scope", "read", "--app", "chat"])
    var made: [String] = []
    for number in 0..<14 { made.append(try await site.make(Self.variants(number), name: "sale \(number)")) }
    let refused = try await site.call("POST", "/campaigns", #"{"name":"x","payload":{"aps":{}}}"#)
    #expect(refused.status == 409)
    #expect(refused.text.contains("has 14 campaigns that have not ended, and may have no more"), "\(refused.text)")
    // Another app's limit is its own.
    let path = "/v1/apps/chat/campaigns"
    #expect(try await running.call(path, body: #"{"name":"x","payload":{"aps":{}}}"#).status == 201)

    let (own, others) = (Heard(), Heard())
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      for (key, heard) in [(running.key, own), (other, others)] {
        tasks.addTask { try? await running.service.api.events("/v1/events", key: key) { heard.add($0) } }
      }
      try await waitUntil("both are told of what they see") {
        own.all.count >= 15 && !others.all.isEmpty
      }
      var (found, pageCount, cursor): ([String], Int, String?) = ([], 0, "")
      while let behind = cursor {
        let answer = try await site.call(
          "GET", "/campaigns?limit=1000" + (behind.isEmpty ? "" : "&cursor=\(behind)"))
        #expect(answer.body.count < 1_100_000, "\(answer.body.count) bytes")
        let page = try answer.decoded(Page.self)
        #expect(page.items.allSatisfy { $0.variants.count == 50 && $0.state == "draft" })
        found += page.items.map(\.id)
        pageCount += 1
        cursor = page.nextCursor
      }
      #expect(found.map { "/campaigns/\($0)" } == made.reversed())
      #expect(pageCount == 3)
      try await site.act(made[0], "cancel")
      try await waitUntil("the end is told") {
        own.all.contains { $0.name == "end" && $0.campaign.map { made[0].hasSuffix($0.id) } == true }
      }
      #expect(try await site.call("POST", "/campaigns", #"{"name":"x","payload":{"aps":{}}}"#).status == 201)
      running.service.process.send(SIGTERM)
      try await tasks.waitForAll()
    }
    let told = others.all
    #expect(told.allSatisfy { !$0.data.contains(#""app":"news""#) })
    #expect(told.contains { $0.data.contains(#""app":"chat""#) })
    try await running.end()
  }

  @Test("a campaign to stored devices has a total, progress and time left, paused and after kill -9 as well")
  func devices() async throws {
    var running = try await RunningServe.withCampaigns(more: ["devices"])
    let count = 3_000
    let lines = (0..<count).map { #"{"token":"\#(HTTP2Site.token($0))","tags":["\#($0 % 3 == 0 ? "few" : "most")"]}"# }
    let imported = try await running.call(
      "/v1/apps/news/devices:import", body: lines.joined(separator: "\n"),
      headers: ["Content-Type": "application/x-ndjson"])
    #expect(imported.status == 200, "\(imported.text)")
    let path = try await running.campaigns.make(
      #","rateLimit":100,"audience":{"source":"devices","filter":{"all":["most"]}}"#)
    #expect(try await running.campaigns.campaign(path).progress.total == nil)
    try await running.campaigns.act(path, "start")
    var seen: CampaignSite.Campaign?
    try await waitUntil("it is known how long it takes") {
      seen = try await running.campaigns.campaign(path)
      return seen?.progress.secondsLeft != nil
    }
    let sending = try #require(seen?.progress)
    #expect(sending.total == 2_000)
    #expect((1...25).contains(sending.secondsLeft ?? 0), "\(sending)")
    let share = try #require(sending.fractionDone)
    #expect(abs(share - Double(sending.submitted - sending.inFlight) / 2_000) < 0.001)
    try running.serve.site.place.writeSecret(running.key, to: "api.key")
    let url = ["--url", "http://127.0.0.1:\(running.service.api.port)", "--key-file", "api.key", "--app", "news"]
    let listed = try await running.serve.site.run(["campaign", "list"] + url)
    #expect(listed.output.contains(" of 2,000"), "\(listed)")
    try await running.campaigns.act(path, "pause")
    try await waitUntil("nothing is in flight") {
      try await running.campaigns.campaign(path).progress.inFlight == 0
    }
    for isRestarted in [false, true] {
      // The last outcomes may not be durable when it is killed: those are in flight until it is
      // resumed.
      if isRestarted { try await running.restart() }
      let paused = try await running.campaigns.campaign(path)
      #expect(paused.state == "paused")
      #expect(paused.progress.total == 2_000)
      #expect(paused.progress.fractionDone ?? 0 > 0)
      #expect(paused.progress.secondsLeft == nil)
    }
    try await running.campaigns.act(path, "resume")
    let ended = try await running.campaigns.ended(path)
    #expect((ended.progress.total, ended.progress.fractionDone) == (2_000, 1))
    try await running.end()
  }

  @Test("a campaign whose gateway is away says so; it is not shown as running, and has no time left", .inProcess)
  func outage() async throws {
    let running = try await RunningServe.withCampaigns(more: ["admin"])
    let site = running.campaigns
    let path = try await site.make(#","rateLimit":100"#)
    _ = try await site.upload(path, (0..<50_000).lazy.map { HTTP2Site.token($0) })
    try await site.act(path, "start")
    try await waitUntil("it is known how long it takes") { try await site.campaign(path).progress.secondsLeft != nil }
    running.upstream.simulator.send(SIGKILL)
    _ = await running.upstream.simulator.ending()
    var seen: CampaignSite.Campaign?
    try await waitUntil("it says what it waits for") {
      seen = try await site.campaign(path)
      return seen?.reason?.contains("Nothing gets through at present") == true
    }
    #expect(seen?.state == "running")
    #expect(seen?.progress.total == 50_000)
    #expect(seen?.progress.secondsLeft == nil)
    let browser = Browser(running.service.api)
    _ = try await browser.logIn(running.key)
    let page = try await browser.get("/apps/news\(path)").text
    #expect(page.contains(#"class="badge waiting""#), "\(page)")
    #expect(!page.contains(#"class="badge running""#))
    #expect(!page.contains("data-left"))
    try await waitUntil("the alarm says how long it has waited") {
      let overview = try await browser.get("/").text
      // There may be a single one.
      return overview.firstMatch(of: /waits?, the oldest for [1-9]/) != nil
    }
    try await site.act(path, "cancel")
    running.service.process.send(SIGKILL)
    _ = await running.service.process.ending()
  }

  @Test("a local send shows its first and its last start, before and after it was divided", .inProcess)
  func localStarts() async throws {
    let running = try await RunningServe.withCampaigns()
    let site = running.campaigns
    let soon = Date().addingTimeInterval(3 * 86_400)
    let day = soon.formatted(Date.ISO8601FormatStyle().year().month().day())
    let path = try await site.make(#","localSend":{"time":"\#(day)T09:00"}"#)
    _ = try await site.upload(path, ["token,timeZone", "\(HTTP2Site.token(1)),Europe/Berlin"])
    try await site.act(path, "start")
    let campaign = try await site.campaign(path)
    #expect(campaign.state == "scheduled")
    let before = soon.addingTimeInterval(-86_400).formatted(Date.ISO8601FormatStyle().year().month().day())
    #expect(campaign.firstStartAt == "\(before)T19:00:00.000Z")
    #expect(campaign.lastStartAt == "\(day)T21:00:00.000Z")
    try await running.end()
  }
}
