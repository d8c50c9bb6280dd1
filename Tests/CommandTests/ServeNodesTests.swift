internal import Foundation
internal import FoundationNetworking
internal import Support
internal import Testing

/// They serve side by side, and one of them leads.
@Suite("Several services on one database", .timeLimit(.minutes(5)))
struct ServeNodesTests {
  /// A service beside another one, for the same apps and gateway.
  private struct Second {
    let site: ServeSite
    let service: ServeSite.Service

    init(_ node: String, besides first: RunningServe, _ store: String) async throws {
      site = try ServeSite(besides: first.serve)
      try site.configure(first.upstream, more: store + "\ncluster: { node: \(node) }")
      service = try await site.start()
    }
  }

  private static func end(_ service: ServeSite.Service) async {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
  }

  @Test("one leads; when it is silent another one does, and it ends as soon as it goes on")
  func leading() async throws {
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    var first = try await RunningServe { try $0.configure($1, more: store) }
    #expect(first.service.process.errors.contains("this service leads"))
    let other = try await Second("second", besides: first, store)
    let second = other.service
    #expect(!second.process.errors.contains("this service leads"))
    // The next process of the leader's journal leads at once.
    try await first.restart()
    #expect(first.service.process.errors.contains("this service leads"))
    first.service.process.send(SIGSTOP)
    try await waitUntil("the other one leads", limit: .seconds(30)) {
      second.process.errors.contains("this service leads")
    }
    #expect(second.process.errors.contains("others take its place"))
    first.service.process.send(SIGCONT)
    let ending = await first.service.process.ending()
    #expect(ending.status != 0)
    #expect(ending.errors.contains("has taken its place"), "\(ending)")
    let third = try await first.serve.start()
    #expect(!third.process.errors.contains("this service leads"))
    await Self.end(second)
    // Whoever leaves need not become silent first.
    try await waitUntil("the third one leads", limit: .seconds(5)) {
      third.process.errors.contains("this service leads")
    }
    await Self.end(third)
  }

  @Test("a service waits for another one of its name, and serves when that ends")
  func names() async throws {
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    let first = try await RunningServe { try $0.configure($1, more: store) }
    let site = try ServeSite(besides: first.serve)
    try site.configure(first.upstream, more: store)
    let second = try ChildProcess(["serve", "--config", "carillon.yaml", "--json"], directory: site.site.place.url)
    try await waitUntil("it waits", limit: .seconds(30)) { second.errors.contains("has the name of this one") }
    await Self.end(first.service)
    _ = try #require(await second.line(0), "\(second.errors)")
    second.send(SIGTERM)
    #expect(await second.ending().status == 0)
  }

  @Test("two services carry one campaign, and each of them answers for both")
  func together() async throws {
    // Two segments.
    let count = 20_000
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    let tokens = (0..<count).map { HTTP2Site.token($0) }
    let first = try await RunningServe(scopes: ["campaigns", "read", "send", "admin"]) {
      try $0.configure($1, more: store)
    } prepare: {
      try await CampaignAudienceServeTests.register($0, tokens.map { ($0, nil, nil, []) })
    }
    let other = try await Second("second", besides: first, store)
    let second = other.service
    let (here, there) = (first.campaigns, CampaignSite(second, key: first.key))
    // The other one leads: it has to hear of both.
    // Slow enough to be paused in the middle on a busy machine.
    let path = try await there.make(#","audience":{"source":"devices"},"rateLimit":800"#)
    try await there.act(path, "start")
    try await waitUntil("both send") {
      for service in [first.service, second] where try await sentCount(service) < 200 { return false }
      return true
    }
    try await there.act(path, "pause")
    try await Task.sleep(for: .seconds(1))
    let paused = try await (sentCount(first.service), sentCount(second))
    try await Task.sleep(for: .seconds(1))
    #expect(try await (sentCount(first.service), sentCount(second)) == paused)
    #expect(try await here.campaign(path).state == "paused")
    #expect(try await here.campaign(path).progress.accepted == there.campaign(path).progress.accepted)
    try await here.act(path, "resume")
    // Meanwhile each takes what comes, and tells of it.
    let key = ["Idempotency-Key": "k"]
    let body = ServeSite.body(HTTP2Site.token(1, prefix: "aa"))
    let sent = try await there.call("POST", "/notifications", body, headers: key)
    #expect(sent.status == 202, "\(sent.text)")
    let id = try sent.decoded(ServeSite.Queued.self).id
    #expect(try await here.call("POST", "/notifications", body, headers: key).body == sent.body)
    try await waitUntil("the other one knows it") {
      try await here.call("GET", "/notifications/\(id)").status == 200
    }
    let batch = try await there.call(
      "POST", "/notifications:batch", "[\(ServeSite.body(HTTP2Site.token(2, prefix: "aa")))]")
    struct Batch: Decodable {
      var batchId: String?
      var state: String?
    }
    let batchID = try #require(try batch.decoded(Batch.self).batchId, "\(batch.text)")
    try await waitUntil("the other one knows what became of the batch") {
      try await here.call("GET", "/batches/\(batchID)").decoded(Batch.self).state == "finished"
    }
    #expect(try await there.ended(path).state == "finished")
    #expect(try await here.account(path).accepted.confirmed == count)
    #expect(try await here.account(path).possibleDuplicates == 0)
    // Nothing is left of a segment, such as its list on the disk.
    for service in [first.service, second] {
      #expect(try ProcessUsage(process: service.process).openFiles().filter { $0.contains("outcomes-") } == [])
    }
    await Self.end(second)
    withExtendedLifetime(other) {}
    let taken = try await first.end()
    let campaign = Set(tokens)
    #expect(taken.count { campaign.contains($0.token ?? "") } == count)
    #expect(Set(taken.map(\.token)).count == count + 2)
    #expect(taken.count == count + 2)
  }

  @Test("both services are restarted in mid-campaign, one after the other: nobody may have got it twice")
  func rolling() async throws {
    // Two segments.
    let count = 20_000
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    let tokens = (0..<count).map { HTTP2Site.token($0) }
    var first = try await RunningServe(rules: "http2: { delay: { fixed: 50ms } }", scopes: ["campaigns", "read"]) {
      try $0.configure($1, more: store)
    } prepare: {
      try await CampaignAudienceServeTests.register($0, tokens.map { ($0, nil, nil, []) })
    }
    let other = try await Second("second", besides: first, store)
    var second = other.service
    let path = try await first.campaigns.make(#","audience":{"source":"devices"},"rateLimit":2500"#)
    try await first.campaigns.act(path, "start")
    try await waitUntil("both send") {
      for service in [first.service, second] where try await sentCount(service) < 500 { return false }
      return true
    }
    try await first.restart(after: SIGTERM)
    // It gets what it gave back, unless the other one was quicker.
    try await waitUntil("it sends again") {
      if try await sentCount(first.service) > 100 { return true }
      return try await first.campaigns.campaign(path).endedAt != nil
    }
    await Self.end(second)
    second = try await other.site.start()
    #expect(try await first.campaigns.ended(path).state == "finished")
    let account = try await first.campaigns.account(path)
    #expect(account.accepted.confirmed == count)
    #expect(account.possibleDuplicates == 0)
    await Self.end(second)
    let taken = try await first.end()
    #expect(taken.count == count)
    #expect(Set(taken.compactMap(\.token)) == Set(tokens))
  }

  @Test("an app that is paused at one service is paused at all of them")
  func pausedApp() async throws {
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    let first = try await RunningServe { try $0.configure($1, more: store) }
    let other = try await Second("second", besides: first, store)
    let second = other.service
    func state(_ service: ServeSite.Service) async throws -> String {
      struct App: Decodable {
        let state: String
      }
      return try await first.serve.request(service.api, "/v1/apps/news", key: first.key).decoded(App.self).state
    }
    for (action, isPaused) in [("pause", true), ("resume", false)] {
      #expect(try await first.call("/v1/apps/news:\(action)", body: "").status == 202)
      try await waitUntil("the other one knows") {
        try await (state(second) == "paused") == isPaused
      }
      #expect(try await (state(first.service) == "paused") == isPaused)
    }
    await Self.end(second)
    withExtendedLifetime(other) {}
    await Self.end(first.service)
  }

  /// How many notifications of the app `news` have their outcome, by the service's own metrics.
  private func sentCount(_ service: ServeSite.Service) async throws -> Int {
    let metrics = try await service.admin.request("/metrics", over: URLSession.shared).text
    return metrics.split(separator: "\n").filter {
      $0.hasPrefix("carillon_notifications_total{") && $0.contains("\"news\"")
    }.compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }.reduce(0, +)
  }

  /// How a service is lost.
  enum Loss: String, CaseIterable, CustomTestStringConvertible {
    case killed, stopped

    var testDescription: String { rawValue }
  }

  /// How many lines the ledger has granted, when whatever was on its way to it has arrived.
  private static func granted(in database: String, of server: PostgreSQLServer) async throws -> Int {
    let now = try server.query("SELECT clock_timestamp()")
    try await waitUntil("earlier transactions have ended") {
      try server.query(
        """
        SELECT count(*) FROM pg_stat_activity WHERE datname = '\(database)' AND state = 'active' AND xact_start < '\(now)'
        """) == "0"
    }
    return try #require(Int(try server.query("SELECT sum(granted) FROM segments", in: database)))
  }

  @Test(
    "a service is lost in mid-campaign: another one sends the rest, and whoever may have got it twice is counted",
    arguments: Loss.allCases)
  func lost(how loss: Loss) async throws {
    let count = 6_000
    let server = try PostgreSQLServer.shared.get()
    let database = try server.makeDatabase()
    let store = ServeSite.store(in: server, database: database)
    let tokens = (0..<count).map { HTTP2Site.token($0, prefix: $0 % 100 == 50 ? "dead" : "00") }
    let first = try await RunningServe(rules: CampaignServeTests.dead, scopes: ["campaigns", "read"]) {
      try $0.configure($1, more: store)
    } prepare: {
      try await CampaignAudienceServeTests.register($0, tokens.map { ($0, nil, nil, []) })
    }
    let path = try await first.campaigns.make(#","audience":{"source":"devices"},"rateLimit":1000"#)
    try await first.campaigns.act(path, "start")
    let site = try ServeSite(besides: first.serve)
    try site.configure(first.upstream, more: store + "\ncluster: { node: second }")
    async let second = site.start()
    try await waitUntil("some are sent") { try await first.campaigns.campaign(path).progress.accepted > 1_000 }
    first.service.process.send(loss == .killed ? SIGKILL : SIGSTOP)
    let campaigns = CampaignSite(try await second, key: first.key)
    let told = try await campaigns.campaign(path).progress.accepted
    let granted = try await Self.granted(in: database, of: server)
    #expect(told < count, "it is lost in the middle")
    #expect(try await campaigns.ended(path).state == "finished")
    if loss == .stopped {
      first.service.process.send(SIGCONT)
      #expect(await first.service.process.ending().status != 0)
    }
    let account = try await campaigns.account(path)
    let dead = tokens.count { $0.hasPrefix("dead") }
    #expect(account.submitted == count)
    #expect(account.accepted.confirmed == count - dead)
    // The device of an answer that only the first one had is marked as gone by then.
    #expect(account.rejected.total + account.unknown == dead)
    #expect(try await campaigns.outcomes(path).count == dead)
    let all = try await first.serve.site.taken(first.upstream)
    #expect(Set(all.map(\.id)).count == Set(all.map(\.token)).count, "a copy has the same identifier")
    let taken = all.compactMap(\.token)
    #expect(Set(taken) == Set(tokens.filter { !$0.hasPrefix("dead") }))
    // How far ahead it was granted depends on how busy the machine is.
    #expect(account.possibleDuplicates <= granted - told)
    #expect(taken.count - Set(taken).count <= account.possibleDuplicates)
    let service = try await second
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }
}
