internal import Foundation
internal import Support
internal import Testing

@Suite("carillon serve while its store is away", .timeLimit(.minutes(20)))
struct ServeStoreAwayTests {
  /// Another program that has `store.db` locked for writing.
  private struct Lock {
    private let process: ChildProcess

    init(_ serve: ServeSite) async throws {
      let script = """
        import sqlite3, time
        store = sqlite3.connect("store.db", isolation_level=None, timeout=60)
        store.execute("BEGIN IMMEDIATE")
        print("locked", flush=True)
        time.sleep(600)
        """
      process = try ChildProcess(["-c", script], program: "python3", directory: serve.site.place.url)
      try #require(await process.line(0) == "locked", "\(process.errors)")
    }

    func end() async {
      process.send(SIGKILL)
      _ = await process.ending()
    }
  }

  @Test("another process locks store.db for 12 s: nothing fails, nothing is sent twice, all have their outcomes")
  func locked() async throws {
    let running = try await RunningServe(scopes: Self.scopes) {
      try $0.configure($1, more: "store: { path: store.db }")
    }
    try await check(running, canBeRead: true) {
      let lock = try await Lock(running.serve)
      return { await lock.end() }
    }
  }

  @Test("the database is stopped for 12 s, its connections open: nothing fails, nothing is sent twice")
  func stopped() async throws {
    let server = try PostgreSQLServer()
    let store = try ServeSite.store(in: server)
    let running = try await RunningServe(scopes: Self.scopes) { try $0.configure($1, more: store) }
    try await check(running, canBeRead: false) {
      try server.setStopped(true)
      return { try server.setStopped(false) }
    }
  }

  @Test("a client of the bridge sends while store.db is locked: it is served, and no app waits for it")
  func bridge() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [bad0], reason: BadDeviceToken } ] }")
    try bridge.configure(upstream, more: "store: { path: store.db }")
    let key = try await bridge.serve.key(["--scope", "admin"])
    let service = try await bridge.start()
    let lock = try await Lock(bridge.serve)
    let client = try bridge.client(service.bridge, count: 400, badEvery: 100)
    var count = 0
    // The first waits until a write has failed; then nothing waits any more.
    while count < 300 || !client.hasEnded {
      let reply = try await bridge.serve.request(
        service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(count)))
      #expect(reply.status == 202, "\(reply.text)")
      count += 1
    }
    let report = try await BridgeClient.report(client)
    #expect(report.reported?.count == 4)
    await lock.end()
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let arrived = try await bridge.site.taken(upstream).compactMap(\.token)
    #expect(arrived.count == 396 + count)
    #expect(Set(arrived).count == arrived.count)
    let files = try FileManager.default.contentsOfDirectory(atPath: bridge.site.place.path("journal"))
    #expect(!files.contains("deferred"), "\(files)")
  }

  private static let scopes = ["campaigns", "read", "send"]
  private static let batchCount = 50

  private static func batch(from number: Int) -> String {
    (number..<number + batchCount).map { ServeSite.body(HTTP2Site.token($0)) }.joined(separator: "\n")
  }

  /// - Parameters:
  ///   - canBeRead: Only what is written waits.
  ///   - leave: sends the store away; what it returns brings it back.
  private func check(
    _ running: RunningServe, canBeRead: Bool, _ leave: () async throws -> () async throws -> Void
  ) async throws {
    let site = running.campaigns
    let count = 3_000
    let path = try await site.make(#","rateLimit":200"#)
    // The journal says of some lines that they were passed over, while the store is away.
    let lines = (0..<count).flatMap { ($0 % 10 == 5 ? ["no token"] : []) + [HTTP2Site.token($0)] }
    _ = try await site.upload(path, lines)
    try await site.act(path, "start")
    try await waitUntil("the campaign sends") { try await site.campaign(path).progress.accepted > 200 }
    let comeBack = try await leave()
    let (began, end) = (ContinuousClock.now, Duration.seconds(12))
    // Posted before anybody knows: it is taken in and answered when its row is in the store, or
    // refused because its key could not be read in time.
    async let early = running.call(
      "/v1/apps/news/notifications:batch", body: Self.batch(from: 2 * count),
      headers: ["Content-Type": "application/x-ndjson"])
    var ids: [String] = []
    var metrics = ""
    while ContinuousClock.now - began < end {
      let reply = try await running.call(
        "/v1/apps/news/notifications", body: ServeSite.body(HTTP2Site.token(count + ids.count)))
      try #require(reply.status == 202, "\(reply.text)")
      ids.append(try reply.decoded(ServeSite.Queued.self).id)
      if !metrics.contains("carillon_store_away_seconds ") || metrics.contains("carillon_store_away_seconds 0\n") {
        metrics = try await running.serve.request(running.service.admin, "/metrics").text
      }
    }
    #expect(!metrics.contains("carillon_store_away_seconds 0\n"), "a monitor sees it")
    let readiness = try await running.serve.request(running.service.admin, "/readyz")
    #expect(readiness.status == 200, "single notifications are taken in")
    #expect(readiness.text.contains(#""waitsFor":"the "#), "\(readiness.text)")
    let answer = try await running.call("/v1/apps/news\(path)")
    #expect(answer.status == (canBeRead ? 200 : 503), "\(answer.text)")
    #expect(answer.text.contains(#""waitsFor":"the store""#) == canBeRead, "\(answer.text)")
    // Later ones are refused before anything is taken in, whoever repeats them.
    for _ in 0..<3 {
      let refused = try await running.call(
        "/v1/apps/news/notifications:batch", body: Self.batch(from: 3 * count),
        headers: ["Content-Type": "application/x-ndjson"])
      #expect(refused.status == 503)
      #expect(refused.retryAfter != nil)
    }
    try await comeBack()
    // Connections that were being opened then fail once more.
    try await waitUntil("the store answers") {
      for _ in 0..<20 where try await running.call("/v1/apps/news\(path)").status != 200 { return false }
      return true
    }
    let taken = try await early
    if taken.status == 202 {
      let batch = try taken.decoded(ServeSite.TakenBatch.self).batchId
      try await waitUntil("the batch has ended") {
        try await running.call("/v1/apps/news/batches/\(batch)").text.contains(#""state":"finished""#)
      }
    } else {
      #expect(taken.status == 503, "\(taken.text)")
      #expect(!canBeRead, "its key could be read in time")
    }
    for id in ids {
      let notification = try await running.serve.finished(id, running.service, key: running.key)
      #expect(notification.outcome == "accepted")
    }
    #expect(try await site.ended(path).state == "finished")
    let account = try await site.account(path)
    #expect(account.accepted.confirmed == count)
    #expect(account.possibleDuplicates == 0)
    let arrived = try await running.end().compactMap(\.token)
    #expect(arrived.count == count + ids.count + (taken.status == 202 ? Self.batchCount : 0))
    #expect(Set(arrived).count == arrived.count)
  }
}
