internal import Foundation
internal import PushServer
internal import PushTransport
internal import Support
internal import Synchronization
internal import Testing

@testable internal import CarillonCommand

@Suite("events and commands of campaigns", .timeLimit(.minutes(20)))
struct CampaignEventsServeTests {
  private final class Heard: Sendable {
    private let events = Mutex<[ServiceEvent]>([])
    var all: [ServiceEvent] { events.withLock { $0 } }
    func add(_ event: ServiceEvent) { events.withLock { $0.append(event) } }
  }

  @Test("events tell a campaign from its snapshot to its end; streams end with the service", .inProcess)
  func events() async throws {
    let running = try await RunningServe.withCampaigns()
    let (site, service) = (running.campaigns, running.service)
    let path = try await site.make(#","rateLimit":300"#)
    _ = try await site.upload(path, (0..<5000).lazy.map { HTTP2Site.token($0) })
    let (one, all) = (Heard(), Heard())
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await running.events("/v1/apps/news\(path)/events") { one.add($0) } }
      // It ends with the service, in good order or not.
      tasks.addTask { try? await running.events("/v1/events") { all.add($0) } }
      try await waitUntil("both streams have begun") { !one.all.isEmpty && !all.all.isEmpty }
      try await site.act(path, "start")
      try await waitUntil("it sends") { try await site.campaign(path).progress.accepted > 500 }
      try await site.act(path, "pause")
      try await waitUntil("the pause is told") { one.all.contains { $0.campaign?.state == "paused" } }
      try await site.act(path, "resume")
      _ = try await site.ended(path)
      // The stream of the campaign ends by itself.
      try await tasks.next()
      try await waitUntil("the end is told to all") { all.all.contains { $0.name == "end" } }
      service.process.send(SIGTERM)
      try await tasks.waitForAll()
    }
    try await running.end()
    let names = one.all.map(\.name)
    #expect(names.first == "snapshot")
    #expect(names.last == "end")
    #expect(names.contains("progress"))
    let states = one.all.compactMap { $0.name == "progress" ? nil : $0.campaign?.state }
    #expect(states.last == "finished")
    #expect(one.all.last?.campaign?.progress?.accepted == 5000)
  }

  @Test(
    "an alarm is told when quiet hours or a person hold a campaign or its app, and everything says the same", .inProcess
  )
  func alarms() async throws {
    let running = try await RunningServe.withCampaigns(more: ["admin"])
    let (site, service) = (running.campaigns, running.service)
    let day = Int(Date().timeIntervalSince1970) % 86_400
    func clock(_ second: Int) -> String {
      let minute = (second + 86_400) / 60 % 1440
      return String(format: "%02d:%02d", minute / 60, minute % 60)
    }
    let quiet = try await site.make(#","quietHours":"\#(clock(day - 60))-\#(clock(day + 3600))""#)
    let slow = try await site.make(#","rateLimit":50"#)
    for path in [quiet, slow] { _ = try await site.upload(path, (0..<5000).lazy.map { HTTP2Site.token($0) }) }
    let (one, all) = (Heard(), Heard())
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      for (path, heard) in [("/v1/apps/news\(quiet)/events", one), ("/v1/events", all)] {
        tasks.addTask { try? await running.events(path) { heard.add($0) } }
      }
      try await waitUntil("both streams have begun") { !one.all.isEmpty && !all.all.isEmpty }
      try await site.act(quiet, "start")
      for heard in [one, all] {
        for name in ["state", "alarm"] {
          try await waitUntil("\(name) is told") {
            heard.all.contains {
              $0.name == name && $0.campaign?.state == "held" && $0.campaign?.reason?.contains("Quiet hours") == true
            }
          }
        }
      }
      try await site.act(quiet, "cancel")
      try await waitUntil("its end is told") { one.all.last?.name == "end" }
      #expect(one.all.contains { $0.name == "state" && $0.campaign?.state == "cancelled" })

      try await site.act(slow, "start")
      try await waitUntil("it sends") { try await site.campaign(slow).progress.accepted > 0 }
      #expect(try await running.call("/v1/apps/news:pause", method: "POST").status == 202)
      func isTold(_ state: String, _ campaign: (ServiceCampaign) -> Bool) async throws {
        try await waitUntil("the app is \(state)") {
          all.all.last { $0.name == "state" && $0.data.contains(#""app":"news","state":"\#(state)""#) } != nil
        }
        try await waitUntil("its campaign says so") {
          all.all.last { $0.campaign.map { slow.hasSuffix($0.id) } == true }?.campaign.map(campaign) == true
        }
      }
      try await isTold("paused") { $0.state == "running" && $0.reason?.contains("The app is paused") == true }
      let list = try await site.call("GET", "/campaigns").decoded(ServiceCampaign.List.self)
      for reason in [
        try await site.campaign(slow).reason, list.items.first { slow.hasSuffix($0.id) }?.reason,
        try await site.account(slow).notes.first,
      ] {
        #expect(reason?.contains("The app is paused") == true)
      }
      #expect(try await running.call("/v1/apps/news:resume", method: "POST").status == 202)
      try await isTold("running") { $0.state == "running" && $0.reason == nil }
      try await site.act(slow, "cancel")
      _ = try await site.ended(slow)
      service.process.send(SIGTERM)
      try await tasks.waitForAll()
    }
    try await running.end()
  }

  @Test("a stream without news has a comment every 15 s, so that both sides know that it lives")
  func comments() async throws {
    let running = try await RunningServe.withCampaigns()
    let reader = try RawConnection(port: running.service.api.port)
    let began = ContinuousClock.now
    reader.send("GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(running.key)\r\n\r\n")
    // A chunk of its own.
    let text = await reader.received(until: "\n:\n\n")
    #expect(text.contains("text/event-stream"), "\(text)")
    #expect(text.contains("\n:\n\n"), "\(text)")
    #expect(ContinuousClock.now - began >= .seconds(14))
    try await running.end()
  }

  @Test("carillon campaign makes, uploads, starts and watches a campaign, and shows its account and list")
  func command() async throws {
    let running = try await RunningServe.withCampaigns(rules: CampaignServeTests.dead)
    let place = running.serve.site.place
    try place.writeSecret(running.key, to: "api.key")
    try place.write(
      (0..<300).map { HTTP2Site.token($0, prefix: $0 < 3 ? "dead" : "00") }.joined(separator: "\n") + "\n",
      to: "tokens.txt")
    let url = ["--url", "http://127.0.0.1:\(running.service.api.port)", "--key-file", "api.key", "--app", "news"]
    func run(_ arguments: [String], status: Int32 = 0) async throws -> Ending {
      let ending = try await running.serve.site.run(["campaign"] + arguments + url)
      #expect(ending.status == status, "\(arguments): \(ending)")
      return ending
    }
    let made = try await run([
      "create", "--name", "sale", "--payload", "hello.json", "--tokens", "tokens.txt", "--start", "--watch",
      "--expires-after", "1h",
    ])
    let id = try #require(made.output.split(separator: "\n").first.map(String.init))
    #expect(made.output.contains("410 Unregistered"))
    #expect(made.errors.contains("finished: 297 accepted, 3 not accepted"))
    #expect(try await run(["list"]).output.contains(id))
    #expect(try await run(["account", id]).output.contains("297"))
    #expect(try await run(["account", id, "--json"]).output.contains(#""submitted":300"#))
    #expect(try await run(["outcomes", id]).output.split(separator: "\n").count == 4)
    // A file that the service would refuse makes no campaign; lines of JSON are no header.
    try place.write("id,name\n1,Anna\n", to: "people.csv")
    let refused = try await run(
      ["create", "--name", "none", "--payload", "hello.json", "--tokens", "people.csv"], status: 2)
    expectOneSentence(refused, status: 2, containing: #"people.csv, line 1: the header has no column "token""#)
    #expect(try await !run(["list"]).output.contains("none"))
    try place.write(#"{"token":"\#(HTTP2Site.token(1))","language":"de"}"# + "\n", to: "people.ndjson")
    _ = try await run(["create", "--name", "lines", "--payload", "hello.json", "--tokens", "people.ndjson"])
    let draft = try await run(["create", "--name", "later", "--payload", "hello.json", "--tokens", "tokens.txt"])
    let later = try #require(draft.output.split(separator: "\n").first.map(String.init))
    _ = try await run(["pause", later], status: 2)
    _ = try await run(["cancel", later])
    _ = try await run(["start", later], status: 2)
    _ = try await run(["watch", later], status: 1)
    let started = try await run([
      "create", "--name", "slow", "--payload", "hello.json", "--tokens", "tokens.txt", "--rate-limit", "10/s",
      "--start",
    ])
    let slow = "/campaigns/\(try #require(started.output.split(separator: "\n").first.map(String.init)))"
    let site = running.campaigns
    for (action, state) in [("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")] {
      _ = try await run([action, String(slow.dropFirst("/campaigns/".count))])
      #expect(try await site.campaign(slow).state == state)
    }
    #expect(try await site.ended(slow).state == "cancelled")
    try await running.end()
  }
}
