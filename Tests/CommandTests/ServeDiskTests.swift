internal import Foundation
internal import Support
internal import Testing

/// A disk that is full, and has room again.
@Suite("carillon serve on a full disk", .timeLimit(.minutes(20)))
struct ServeDiskTests {
  /// Payloads that do not become smaller when they are compressed.
  private static func batch(_ number: Int) -> (tokens: [String], body: String) {
    let tokens = (0..<100).map { HTTP2Site.token(number * 100 + $0) }
    let lines = tokens.map { token in
      let text = (0..<30).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }.joined()
      return #"{"token":"\#(token)","payload":{"aps":{"alert":"\#(text)"}}}"#
    }
    return (tokens, lines.joined(separator: "\n"))
  }

  /// Sends until the service takes nothing more.
  private func fill(
    _ serve: ServeSite, _ service: ServeSite.Service, _ key: String
  ) async throws -> (
    batches: [String], tokens: [String], refusal: ServeSite.Reply
  ) {
    var (batches, tokens) = ([String](), [String]())
    for number in 0..<2_000 {
      let (added, body) = Self.batch(number)
      let reply = try await serve.request(service.api, "/v1/apps/news/notifications:batch", key: key, body: body)
      guard reply.status == 202 else { return (batches, tokens, reply) }
      batches.append(try reply.decoded(ServeSite.TakenBatch.self).batchId)
      tokens += added
    }
    throw CampaignSite.Unexpected(text: "200,000 notifications did not fill the disk")
  }

  private static let notifications = "/v1/apps/news/notifications"
  private static let onlyOnce = ["Idempotency-Key": "once"]

  /// What holds while the disk is full, and after it has room.
  private func check(_ serve: ServeSite, _ service: ServeSite.Service, _ key: String) async throws {
    try await waitUntil("it is not ready") { try await serve.request(service.admin, "/readyz").status == 503 }
    #expect(try await serve.request(service.admin, "/healthz").status == 200)
    // It refuses, and still answers questions.
    for _ in 0..<2 {
      let again = try await serve.request(
        service.api, Self.notifications, key: key, body: ServeSite.body(HTTP2Site.token(1)), headers: Self.onlyOnce)
      #expect(again.status == 507, "\(again.text)")
    }
    #expect(try await serve.request(service.api, "/v1/apps", key: key).status == 200)
    let raised = try await ChildProcess.run(
      ["--pid", "\(service.process.identifier)", "--fsize=unlimited:"], program: "prlimit")
    #expect(raised.status == 0, "\(raised)")
    try await waitUntil("it is ready again") {
      guard !service.process.hasEnded else { throw CampaignSite.Unexpected(text: service.process.errors) }
      return (try? await serve.request(service.admin, "/readyz").status) == 200
    }
    let single = try await serve.request(
      service.api, Self.notifications, key: key, body: ServeSite.body(HTTP2Site.token(1 << 30)), headers: Self.onlyOnce)
    #expect(single.status == 202, "\(single.text)")
    let id = try single.decoded(ServeSite.Queued.self).id
    #expect(try await serve.finished(id, service, key: key).outcome == "accepted")
  }

  /// Ends both.
  ///
  /// - Parameter tokens: of everything that was acknowledged.
  private func end(
    _ serve: ServeSite, _ service: ServeSite.Service, _ upstream: HTTP2Site.Service, _ tokens: [String]
  ) async throws {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.output.split(separator: "\n").count == 1, "one ready line: \(ending.output)")
    let missing = Set(tokens).subtracting(try await serve.site.taken(upstream).compactMap(\.token))
    #expect(!tokens.isEmpty, "\(missing.count) of \(tokens.count) have not arrived")
    #expect(missing.isEmpty, "\(missing.count) of \(tokens.count) have not arrived")
  }

  /// A service that can write no file beyond some 2 MB, and its simulator.
  private func start(
    _ serve: ServeSite
  ) async throws -> (service: ServeSite.Service, upstream: HTTP2Site.Service, key: String) {
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "devices"])
    // In units of 512 bytes.
    return (try await serve.start(preparation: "ulimit -S -f 4000 && exec"), upstream, key)
  }

  @Test(
    "a start without room waits, says so, and serves once there is room; a port in use is named with its key",
    .ofStoreFile)
  func start() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    // In units of 512 bytes.
    for ends in [true, false] {
      let process = try ChildProcess(
        ["serve", "--config", "carillon.yaml", "--json"], directory: serve.site.place.url,
        preparation: "ulimit -S -f 16 && exec")
      try await waitUntil("it waits") {
        guard !process.hasEnded else { throw CampaignSite.Unexpected(text: process.errors) }
        return process.errors.contains("the service waits until it can start")
      }
      #expect(process.errors.contains("File too large"), "\(process.errors)")
      if ends {
        process.send(SIGTERM)
        #expect(await process.ending().status == 0)
        continue
      }
      let raised = try await ChildProcess.run(
        ["--pid", "\(process.identifier)", "--fsize=unlimited:"], program: "prlimit")
      #expect(raised.status == 0, "\(raised)")
      _ = try #require(await process.line(0), "it does not serve: \(process.errors)")
      process.send(SIGTERM)
      #expect(await process.ending().status == 0)
    }
    let text = try serve.site.place.read("carillon.yaml")
    try serve.site.place.write(
      text.replacing(#"admin: { listen: "127.0.0.1:0" }"#, with: #"admin: { listen: "127.0.0.1:\#(upstream.port)" }"#),
      to: "used.yaml")
    let used = try await serve.site.run(["serve", "--config", "used.yaml"])
    #expect(used.status == 3, "\(used)")
    #expect(
      used.errors.contains(
        "carillon: it cannot listen on 127.0.0.1:\(upstream.port): another process does; end it, or set admin.listen"),
      "\(used)")
    #expect(!used.errors.contains("the store cannot be written"), "\(used)")
    // Damage is found before the start.
    let segments = try FileManager.default.contentsOfDirectory(atPath: serve.site.place.path("journal"))
    for name in segments where name.hasPrefix("segment") {
      try Data("no journal".utf8 + [UInt8](repeating: 7, count: 5000)).write(
        to: URL(filePath: serve.site.place.path("journal/\(name)")))
    }
    try serve.site.place.write("x", to: "journal/segment-000000009999.lz4")
    let damaged = try await serve.site.run(["serve", "--config", "carillon.yaml", "--check"])
    #expect(damaged.status == 2, "\(damaged)")
    #expect(damaged.output.contains("problem: journal: "), "\(damaged)")
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("507 while the journal cannot be written; with room again everything acknowledged has its outcome")
  func journal() async throws {
    let serve = try ServeSite()
    let (service, upstream, key) = try await start(serve)
    // The store needs less.
    let (batches, tokens, refusal) = try await fill(serve, service, key)
    #expect(refusal.status == 507, "\(refusal.text)")
    #expect(try refusal.decoded(ServeSite.Problem.self).action?.contains("Make room") == true)
    try await check(serve, service, key)
    for batch in batches {
      #expect(try await serve.account(of: batch, service, key: key).accepted.confirmed == 100)
    }
    try await end(serve, service, upstream, tokens)
  }

  @Test("507 while only the store cannot be written; with room again everything acknowledged is there", .ofStoreFile)
  func store() async throws {
    let serve = try ServeSite()
    let (service, upstream, key) = try await start(serve)
    func put(_ number: Int) async throws -> ServeSite.Reply {
      try await serve.request(
        service.api, "/v1/apps/news/devices/\(HTTP2Site.token(number))", key: key, body: #"{"tags":["a"]}"#,
        method: "PUT")
    }
    // The journal knows nothing of devices.
    var devices = 0
    var refusal = try await put(devices)
    while (200..<300).contains(refusal.status), devices < 5_000 {
      devices += 1
      refusal = try await put(devices)
    }
    #expect(devices > 0)
    #expect(refusal.status == 507, "\(refusal.text)")
    let problem = try refusal.decoded(ServeSite.Problem.self)
    #expect(problem.detail.contains("store.db"), "\(refusal.text)")
    #expect(problem.action?.contains("Make room") == true, "\(refusal.text)")
    // The journal has room: notifications are taken in until the first outcome finds none.
    var acknowledged: [(id: String, token: String)] = []
    while acknowledged.count < 100_000 {
      let token = HTTP2Site.token(acknowledged.count, prefix: "01")
      let reply = try await serve.request(service.api, Self.notifications, key: key, body: ServeSite.body(token))
      guard reply.status == 202 else {
        #expect(reply.status == 507, "\(reply.text)")
        break
      }
      acknowledged.append((try reply.decoded(ServeSite.Queued.self).id, token))
    }
    let segments = try FileManager.default.subpathsOfDirectory(atPath: serve.site.place.path("journal"))
    for name in segments {
      let size = try FileManager.default.attributesOfItem(atPath: serve.site.place.path("journal/\(name)"))[.size]
      #expect((size as? Int ?? 0) < 1 << 20, "the journal was not full: \(name)")
    }
    try await check(serve, service, key)
    for (id, token) in acknowledged {
      #expect(try await serve.finished(id, service, key: key).outcome == "accepted", "\(token)")
    }
    for number in 0..<devices {
      let device = try await serve.request(
        service.api, "/v1/apps/news/devices/\(HTTP2Site.token(number))", key: key)
      #expect(device.status == 200, "\(number) of \(devices): \(device.text)")
    }
    let again = try await put(devices)
    #expect((200..<300).contains(again.status), "\(again.text)")
    try await end(serve, service, upstream, acknowledged.map(\.token))
  }

  @Test("a campaign shows what it has sent while the disk is full, and goes on when there is room")
  func campaign() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    let key = try await serve.key(["--scope", "campaigns", "--scope", "read", "--scope", "devices"])
    let service = try await serve.start(preparation: "ulimit -S -f unlimited && exec")
    func limitFiles(_ value: String) async throws {
      let set = try await ChildProcess.run(
        ["--pid", "\(service.process.identifier)", "--fsize=\(value):"], program: "prlimit")
      #expect(set.status == 0, "\(set)")
    }
    let site = CampaignSite(service, key: key)
    let tokens = (0..<1_000).map { HTTP2Site.token($0) }
    let lines = tokens.map { #"{"token":"\#($0)"}"# }.joined(separator: "\n")
    let imported = try await site.call(
      "POST", "/devices:import", lines, headers: ["Content-Type": "application/x-ndjson"])
    #expect(imported.status == 200, "\(imported.text)")
    let path = try await site.make(#","rateLimit":40,"audience":{"source":"devices"}"#)
    try await site.act(path, "start")
    try await waitUntil("it sends, and its audience is counted") {
      let progress = try await site.campaign(path).progress
      return progress.accepted >= 20 && progress.total != nil
    }
    try await limitFiles("0")
    try await waitUntil("it is not ready") { try await serve.request(service.admin, "/readyz").status == 503 }
    for _ in 0..<20 {
      let progress = try await site.campaign(path).progress
      #expect(progress.accepted >= 20)
      #expect(progress.total == tokens.count)
      #expect(try await site.account(path).accepted.confirmed + site.account(path).accepted.quiet >= 20)
      try await Task.sleep(for: .milliseconds(50))
    }
    try await limitFiles("unlimited")
    // It begins anew then, and listens again.
    try await waitUntil("it is ready again") {
      guard !service.process.hasEnded else { throw CampaignSite.Unexpected(text: service.process.errors) }
      return (try? await serve.request(service.admin, "/readyz").status) == 200
    }
    #expect(try await site.ended(path).state == "finished")
    let account = try await site.account(path)
    #expect(account.submitted == tokens.count)
    #expect(account.sum == tokens.count)
    try await end(serve, service, upstream, tokens)
  }
}
