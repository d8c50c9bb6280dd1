internal import Foundation
internal import Support
internal import Testing

/// `/metrics` of a running service, as a monitor reads it.
@Suite("Metrics of carillon serve", .timeLimit(.minutes(10)))
struct MetricsServeTests {
  /// The lines of an export: a number by series.
  private struct Export {
    let text: String

    func value(_ series: String) -> Double? {
      text.split(separator: "\n").first { $0.hasPrefix(series + " ") }
        .flatMap { Double($0.dropFirst(series.count + 1)) }
    }

    func series(_ part: String) -> [Substring] { text.split(separator: "\n").filter { $0.contains(part) } }
  }

  private static func export(_ serve: ServeSite, _ admin: Endpoint) async throws -> Export {
    let reply = try await serve.request(admin, "/metrics")
    #expect(reply.status == 200)
    #expect(reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
    return Export(text: reply.text)
  }

  @Test("a campaign that stands still has an age of its own, and none while it is paused", .inProcess)
  func stalledCampaign() async throws {
    let running = try await RunningServe.withCampaigns(rules: "http2: { no-answer: { every: 1, taken: true } }")
    let site = running.campaigns
    func age(_ name: String) async throws -> Double {
      let export = try await Self.export(running.serve, running.service.admin)
      return try #require(export.value("carillon_\(name)_seconds{app=\"news\"}"))
    }
    #expect(try await age("campaign_stalled") == 0)
    let path = try await site.make()
    _ = try await site.upload(path, (0..<100).map { HTTP2Site.token($0) })
    try await site.act(path, "start")
    try await waitUntil("it stands still") { try await age("campaign_stalled") >= 2 }
    #expect(try await age("queue_oldest") == 0)
    try await site.act(path, "pause")
    try await waitUntil("it is paused") { try await age("campaign_stalled") == 0 }
    // What is in flight gets no outcome: an orderly end would wait for it.
    running.service.process.send(SIGKILL)
    _ = await running.service.process.ending()
    running.upstream.simulator.send(SIGTERM)
    _ = await running.upstream.simulator.ending()
  }

  @Test("the bridge: what clients did is in the metrics and on the app's page")
  func bridge() async throws {
    let bridge = try BridgeSite()
    let serve = bridge.serve
    let upstream = try await bridge.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [bad], reason: BadDeviceToken } ] }")
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let before = try await Self.export(serve, .port(service.admin))
    #expect(before.value(#"carillon_bridge_frames_total{app="news"}"#) == 0)
    #expect(before.value(#"carillon_bridge_responses_total{app="news",status="8"}"#) == 0)
    #expect(before.value("carillon_bridge_refused_total") == 0)
    let key = try await serve.key(["--scope", "read"])
    let browser = Browser(port: service.api)
    _ = try await browser.logIn(key)
    #expect(try await browser.get("/apps/news").text.contains("No client of the binary protocol has connected"))

    let refused = try await BridgeClient.report(
      bridge.client(service.bridge, count: 1, badEvery: 0, topic: "com.example.other"))
    #expect(refused.refused != nil)
    let report = try await BridgeClient.report(bridge.client(service.bridge, count: 200, badEvery: 50))
    #expect(report.reported?.count == 4, "\(report)")
    _ = try await bridge.feedback(service.feedback)
    struct Counts: Decodable {
      let clients: Int
      let frames: Int
      let alreadyDelivered: Int
      let responses: [String: Int]
      let feedback: Int
    }
    var counts: Counts?
    try await waitUntil("no client is connected") {
      let reply = try await serve.request(service.api, "/v1/apps/news/bridge", key: key)
      counts = try reply.decoded(Counts.self)
      return counts?.clients == 0
    }
    let found = try #require(counts)
    #expect(found.frames >= 200)
    #expect((found.responses["8"] ?? 0) >= 4, "\(found)")
    let after = try await Self.export(serve, .port(service.admin))
    #expect(after.value(#"carillon_bridge_clients{app="news"}"#) == 0)
    #expect(after.value(#"carillon_bridge_frames_total{app="news"}"#) == Double(found.frames))
    #expect(after.value(#"carillon_bridge_already_delivered_total{app="news"}"#) == Double(found.alreadyDelivered))
    #expect(after.value(#"carillon_bridge_feedback_total{app="news"}"#) == Double(found.feedback))
    #expect(after.value(#"carillon_bridge_silent_closes_total{app="news"}"#) == 0)
    #expect(after.value("carillon_bridge_refused_total") == 1)
    for (status, count) in found.responses {
      #expect(after.value(#"carillon_bridge_responses_total{app="news",status="\#(status)"}"#) == Double(count))
    }
    let page = try await browser.get("/apps/news").text
    let frames = found.frames.formatted(.number.locale(Locale(identifier: "en_US")))
    #expect(page.contains("<dt>Clients connected</dt><dd>0</dd>"))
    #expect(page.contains("<dt>Frames in</dt><dd>\(frames)</dd>"), "\(page)")
    #expect(page.contains("<dt>Already delivered</dt><dd>\(found.alreadyDelivered)</dd>"))
    #expect(page.contains("<dt>Feedback handed out</dt><dd>\(found.feedback)</dd>"))
    #expect(
      page.contains(
        "<td>8</td><td>invalid token</td><td class=\"number\">\(found.responses["8"] ?? 0)</td>"))
    #expect(try await browser.get("/").text.contains("bridge: 0 clients, 1 refused since the start"))
    // Whose clients were refused is not known: it is nothing for those who see some apps.
    let tenant = Browser(port: service.api)
    _ = try await tenant.logIn(try await serve.key(["--scope", "admin", "--app", "news"]))
    let overview = try await tenant.get("/").text
    #expect(overview.contains("bridge: 0 clients"))
    #expect(!overview.contains("refused since the start"))
    try await check(after)
    service.process.send(SIGTERM)
    _ = await service.process.ending()
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("a removed app leaves nothing behind; added again it begins at 0", .inProcess)
  func removedApp() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key()
    let service = try await serve.start()
    func send(_ token: Int) async throws {
      let reply = try await serve.request(
        service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(token)))
      try #require(reply.status == 202, "\(reply.text)")
      _ = try await serve.finished(reply.decoded(ServeSite.Queued.self).id, service, key: key)
    }
    let delivered = #"carillon_delivery_duration_seconds_count{app="news",stage="gateway"}"#
    try await send(1)
    try await send(2)
    try await waitUntil("they are measured") { try await Self.export(serve, service.admin).value(delivered) == 2 }
    try serve.configure(upstream, apps: ["chat"])
    service.process.send(SIGHUP)
    try await waitUntil("the app is gone") {
      try await Self.export(serve, service.admin).series(#"app="news""#).isEmpty
    }
    let without = try await Self.export(serve, service.admin)
    #expect(without.series(#"app="chat""#).count > 40)
    try serve.configure(upstream)
    service.process.send(SIGHUP)
    try await waitUntil("the app is back") { try await Self.export(serve, service.admin).value(delivered) == 0 }
    try await send(3)
    try await waitUntil("it is measured") { try await Self.export(serve, service.admin).value(delivered) == 1 }
    try await check(try await Self.export(serve, service.admin))
    service.process.send(SIGTERM)
    _ = await service.process.ending()
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  /// What `promtool check metrics` says about names, types and help, where Debian's prometheus is.
  private func check(_ export: Export) async throws {
    let tool = "/usr/bin/promtool"
    guard FileManager.default.isExecutableFile(atPath: tool) else { return }
    let ending = try await ChildProcess.run(["check", "metrics"], program: tool, input: export.text)
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.output.isEmpty, "\(ending)")
    #expect(ending.errors.isEmpty, "\(ending)")
  }
}
