internal import Foundation
internal import PushStore
internal import Support
internal import Synchronization
internal import Testing

/// What the configuration changes while the service runs.
@Suite("reloads of carillon serve", .timeLimit(.minutes(20)))
struct ServeReloadTests {
  private struct App: Decodable {
    struct Rates: Decodable { let limitPerSecond: Double? }
    let weight: Int
    let rates: Rates
  }

  @Test(
    "weight, rate, patience, queue and quiet hours count after a reload; what does not is named in one sentence",
    .inProcess)
  func settings() async throws {
    let running = try await RunningServe(configure: { try $0.configure($1, apps: ["news"]) })
    let site = running.campaigns
    func change(_ settings: String, more: String = "") throws {
      try running.serve.configure(running.upstream, apps: ["news"], settings: settings, more: more)
    }
    let day = Int(Date().timeIntervalSince1970) % 86_400
    func clock(_ second: Int) -> String {
      let minute = (second + 86_400) / 60 % 1440
      return String(format: "%02d:%02d", minute / 60, minute % 60)
    }
    try change(
      """
      weight: 7
          rate-limit: 100/s
          quiet-hours: "\(clock(day - 120))-\(clock(day + 3600))"
          connections: { min: 2, max: 3 }
          attempts: 4
      """, more: "retention: 24h")
    let done = try await running.reload()
    #expect(done.waiting == ["retention", "app news: connections, attempts"])
    #expect(running.service.process.errors.contains("other settings count after the next start"))
    let app = try await running.call("/v1/apps/news").decoded(App.self)
    #expect(app.weight == 7)
    #expect(app.rates.limitPerSecond == 100)
    // Quiet hours hold a campaign back, and the rate holds for single notifications.
    let path = try await site.make()
    _ = try await site.upload(path, (1000..<1010).map { HTTP2Site.token($0) })
    try await site.act(path, "start")
    try await waitUntil("it is held") { try await site.campaign(path).state == "held" }
    let began = ContinuousClock.now
    let lines = (0..<150).map { ServeSite.body(HTTP2Site.token($0)) }.joined(separator: "\n")
    let batch = try await running.call("/v1/apps/news/notifications:batch", body: lines)
    let taken = try batch.decoded(ServeSite.TakenBatch.self)
    _ = try await running.serve.account(of: taken.batchId, running.service, key: running.key)
    #expect(ContinuousClock.now - began > .milliseconds(1_300), "150 at 100/s")

    try change("weight: 2")
    #expect(try await running.reload().waiting.isEmpty)
    #expect(try await running.call("/v1/apps/news").decoded(App.self).rates.limitPerSecond == nil)
    #expect(try await site.ended(path).state == "finished")
    #expect(try await running.end().count == 160)
  }

  @Test("a campaign whose app is removed is held and says why; it goes on when the app comes back, also after kill -9")
  func removed() async throws {
    var running = try await RunningServe.withCampaigns(more: ["admin"])
    // It takes longer than any machine needs for the rest of this test.
    let count = 50_000
    let path = try await running.campaigns.make(#","rateLimit":100"#)
    _ = try await running.campaigns.upload(path, (0..<count).map { HTTP2Site.token($0) })
    try await running.campaigns.act(path, "start")
    for life in 0..<2 {
      let site = running.campaigns
      let enough = (life + 1) * 50
      try await waitUntil("\(enough) are sent") { try await site.campaign(path).progress.accepted >= enough }
      try running.serve.configure(running.upstream, apps: ["chat"])
      #expect(try await running.reload().removed == ["news"])
      #expect(try await running.call("/v1/apps/news").status == 404)
      let held = try await Self.stored(running, path)
      try await waitUntil("it is held") { try await held().state == "held" }
      #expect(try await held().reason.contains("not in the configuration"))
      if life == 1 {
        try await running.restart()
        try await waitUntil("it is held") { try await held().state == "held" }
      }
      try running.serve.configure(running.upstream)
      #expect(try await running.reload().added == ["news"])
    }
    let site = running.campaigns
    // Until what was in doubt after kill -9 is sent again: cancelled before, it would be unknown.
    // Twice, because the progress of one that is held may not have what its journal knows.
    for part in ["it goes on", "what was in doubt was sent"] {
      let before = try await site.campaign(path).progress.accepted
      try await waitUntil(part) { try await site.campaign(path).progress.accepted > before + 50 }
    }
    try await site.act(path, "cancel")
    #expect(try await site.ended(path).state == "cancelled")
    let account = try await site.account(path)
    #expect(account.sum == account.submitted)
    #expect(account.unknown == 0)
    let taken = try await running.end().compactMap(\.token)
    #expect(Set(taken).count == account.accepted.confirmed)
    #expect(taken.count - Set(taken).count <= account.possibleDuplicates)
  }

  @Test("campaigns that begin while their app leaves and returns all reach everybody once, and none fails", .inProcess)
  func removedWhileTheyBegin() async throws {
    let running = try await RunningServe.withCampaigns(more: ["admin"])
    let site = running.campaigns
    let (count, size) = (60, 20)
    var paths: [String] = []
    for number in 0..<count {
      let path = try await site.make()
      _ = try await site.upload(path, (0..<size).map { HTTP2Site.token(number * size + $0) })
      paths.append(path)
    }
    let begun = Acknowledged()
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask {
        while !begun.isOver {
          for apps in [["chat"], ["news", "chat"]] {
            try running.serve.configure(running.upstream, apps: apps)
            #expect(try await running.call("/v1/reload", body: "").status == 200)
          }
        }
      }
      for path in paths {
        try await waitUntil("\(path) is started") {
          // While the app is away, it is not found.
          let answer = try await site.call("POST", "\(path):start")
          if answer.status == 404 { return false }
          #expect(answer.status == 202, "\(answer.text)")
          return true
        }
      }
      begun.end()
      try await tasks.waitForAll()
    }
    for path in paths {
      let campaign = try await site.ended(path)
      #expect(campaign.state == "finished", "\(campaign.reason ?? "")")
      #expect(try await site.account(path).accepted.confirmed == size)
    }
    let taken = try await running.end().compactMap(\.token)
    #expect(Set(taken).count == count * size)
    #expect(taken.count == count * size)
  }

  @Test("a new app whose key is missing begins suspended, as at a start, and the reload names it once", .inProcess)
  func missingKey() async throws {
    let running = try await RunningServe(configure: { try $0.configure($1, apps: ["news"]) })
    try running.serve.configure(running.upstream, apps: ["news", "late"])
    let parts = try running.serve.site.place.read("carillon.yaml").components(separatedBy: HTTP2Site.keyFile)
    try #require(parts.count == 3)
    let key = "later.p8, key-id: \(HTTP2Site.keyIdentifier)"
    try running.serve.site.place.write(parts[0] + HTTP2Site.keyFile + parts[1] + key + parts[2], to: "carillon.yaml")
    let reply = try await running.call("/v1/reload", body: "")
    #expect(reply.text.contains("later.p8"), "\(reply.text)")
    #expect(!reply.text.contains(#"App late: The app"#), "\(reply.text)")
    struct Suspended: Decodable {
      let state: String
      let reason: String?
    }
    let late = try await running.call("/v1/apps/late").decoded(Suspended.self)
    #expect(late.state == "suspended")
    #expect(late.reason?.contains("later.p8") == true)
    let sent = try await running.call("/v1/apps/late/notifications", body: ServeSite.body(HTTP2Site.token(1)))
    #expect(sent.status == 202, "\(sent.text)")
    try await running.end()
  }

  @Test("apps that are removed together wait for what they have in flight at the same time", .inProcess)
  func removedTogether() async throws {
    let apps = (0..<20).map { "app\($0)" }
    let drain = "shutdown: { drain: 3s }"
    // The answers come after the time for draining.
    let running = try await RunningServe(
      rules: "http2: { delay: { fixed: 60s } }",
      configure: { try $0.configure($1, apps: ["stays"] + apps, more: drain) })
    for app in apps {
      let reply = try await running.call("/v1/apps/\(app)/notifications", body: ServeSite.body(HTTP2Site.token(1)))
      #expect(reply.status == 202, "\(reply.text)")
    }
    try running.serve.configure(running.upstream, apps: ["stays"], more: drain)
    let began = ContinuousClock.now
    _ = try await running.reload()
    #expect(ContinuousClock.now - began < .seconds(30), "3 s for all of them, not for each")
    for app in apps { #expect(try await running.call("/v1/apps/\(app)").status == 404) }
    #expect(try await running.call("/v1/apps/stays").status == 200)
    try await running.end()
  }

  /// Reads a campaign of an app that the interface does not show any more.
  private static func stored(_ running: RunningServe, _ path: String) async throws -> () async throws -> StoredCampaign
  {
    let store = try running.serve.openStore()
    let id = try #require(path.split(separator: "/").last.flatMap { Self.identifier(String($0)) })
    return { try #require(try await store.campaign(id)) }
  }

  private static func identifier(_ text: String) -> StoredUUID? {
    let digits = text.filter { $0 != "-" }
    guard digits.count == 32, let high = UInt64(digits.prefix(16), radix: 16),
      let low = UInt64(digits.suffix(16), radix: 16)
    else { return nil }
    return StoredUUID(high: high, low: low)
  }

  /// Tokens of notifications that were acknowledged.
  private final class Acknowledged: Sendable {
    private let state = Mutex<(tokens: [String], isOver: Bool)>(([], false))
    var tokens: [String] { state.withLock { $0.tokens } }
    var isOver: Bool { state.withLock { $0.isOver } }
    func add(_ token: String) { state.withLock { $0.tokens.append(token) } }
    func end() { state.withLock { $0.isOver = true } }
  }

  @Test("reloads under load drop nothing, and send nothing twice", .inProcess)
  func load() async throws {
    let running = try await RunningServe(rules: "http2: { delay: { fixed: 10ms } }")
    let acknowledged = Acknowledged()
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      for client in 0..<8 {
        tasks.addTask {
          var number = client << 20
          while !acknowledged.isOver {
            let token = HTTP2Site.token(number)
            let reply = try await running.call("/v1/apps/news/notifications", body: ServeSite.body(token))
            #expect(reply.status == 202, "\(reply.text)")
            acknowledged.add(token)
            number += 1
          }
        }
      }
      for round in 0..<8 {
        let enough = acknowledged.tokens.count + 100
        try await waitUntil("\(enough) are acknowledged") { acknowledged.tokens.count >= enough }
        try running.serve.configure(
          running.upstream, apps: round % 2 == 0 ? ["news", "chat", "late\(round)"] : ["news"],
          settings: "weight: \(round + 1)")
        _ = try await running.reload()
      }
      acknowledged.end()
      try await tasks.waitForAll()
    }
    let all = acknowledged.tokens
    #expect(all.count >= 800)
    let taken = try await running.end().compactMap(\.token)
    #expect(taken.sorted() == all.sorted())
  }
}
