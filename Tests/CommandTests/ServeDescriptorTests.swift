internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

@Suite("carillon serve has no file descriptors left", .timeLimit(.minutes(20)))
struct ServeDescriptorTests {
  private static let message = "no connection can be accepted: too many open files"
  /// Enough for the service, and for some dozens of connections.
  private static let limit = 140

  @Test("it says so once, answers for its health, spins in no loop, and goes on when there are some")
  func shortage() async throws {
    let running = try await RunningServe()
    running.service.process.send(SIGTERM)
    #expect(await running.service.process.ending().status == 0)
    let service = try await running.serve.start(preparation: "ulimit -n \(Self.limit) && exec")
    let usage = ProcessUsage(process: service.process)
    func admin(_ path: String) async throws -> ServeSite.Reply {
      let client = try RawConnection(port: service.admin.port)
      client.send("GET \(path) HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
      let text = await client.received()
      return ServeSite.Reply(
        status: Int(text.dropFirst("HTTP/1.1 ".count).prefix(3)) ?? 0, body: Data(text.utf8))
    }
    var clients = try (0..<2 * Self.limit).map { _ in try RawConnection(port: service.api.port) }
    try await waitUntil("it lacks descriptors") { service.process.errors.contains(Self.message) }
    let (began, used) = (ContinuousClock.now, try usage.processorTime())
    try await waitUntil("some seconds have passed") {
      let answer = try await admin("/healthz")
      #expect(answer.status == 200, "\(answer.text)")
      return ContinuousClock.now - began > .seconds(3)
    }
    #expect(try await admin("/readyz").status == 503)
    let metrics = try await admin("/metrics").text
    #expect(metrics.contains("carillon_descriptors_lacking 1"), "\(metrics.suffix(400))")
    // A loop that spins takes a whole core.
    let share = (try usage.processorTime() - used) / (ContinuousClock.now - began)
    #expect(share < 0.6, "\(share) of a core")
    // A client of a proxy that waits is served when there are descriptors.
    clients.removeAll()
    try await waitUntil("it is ready again") { try await admin("/readyz").status == 200 }
    let sent = try await running.serve.request(
      service.api, "/v1/apps/news/notifications", key: running.key, body: ServeSite.body(HTTP2Site.token(1)))
    #expect(sent.status == 202, "\(sent.text)")
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.errors.split(separator: "\n").count { $0.contains(Self.message) } == 1, "\(ending.errors)")
    #expect(!ending.errors.contains("resolve"), "\(ending.errors)")
    #expect(try await running.serve.site.taken(running.upstream).count == 1)
  }

  @Test("clients of the bridge that take all descriptors do not make it spin, and are accepted when there are some")
  func bridge() async throws {
    let site = try BridgeSite()
    let upstream = try await site.site.simulate()
    try site.configure(upstream)
    let service = try await site.start(preparation: "ulimit -n \(Self.limit) && exec")
    let usage = ProcessUsage(process: service.process)
    var clients = try (0..<2 * Self.limit).map { _ in try RawConnection(port: service.bridge) }
    try await waitUntil("it lacks descriptors") { service.process.errors.contains(Self.message) }
    let share = try await usage.share(of: .seconds(3))
    #expect(share < 0.6, "\(share) of a core")
    clients.removeAll()
    let key = try await site.serve.key(["--scope", "admin"])
    let client = try site.client(service.bridge, count: 10, badEvery: 0)
    #expect(await client.ending().status == 0)
    try await waitUntil("its frames are accepted") {
      try await site.counts(service, key: key).forwarded == 10
    }
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.errors.split(separator: "\n").count { $0.contains(Self.message) } == 1, "\(ending.errors)")
    #expect(try await site.site.taken(upstream).count == 10)
  }

  @Test("clients of the simulator that take all descriptors do not make it spin")
  func simulator() async throws {
    let site = try HTTP2Site()
    let simulator = try ChildProcess(
      ["simulate", "--gateway-port", "0", "--feedback-port", "0", "--json"] + site.certificates.server,
      directory: site.place.url, preparation: "ulimit -n 60 && exec")
    let line = try #require(await simulator.line(0), "\(simulator.errors)")
    let match = try #require(line.firstMatch(of: /"gateway":(\d+)/))
    let port = try #require(Int(match.1))
    let clients = try (0..<120).map { _ in try RawConnection(port: port) }
    try await waitUntil("it says so") { simulator.errors.contains("no connection can be accepted") }
    let share = try await ProcessUsage(process: simulator).share(of: .seconds(3))
    #expect(share < 0.6, "\(share) of a core")
    withExtendedLifetime(clients) {}
    simulator.send(SIGTERM)
    let ending = await simulator.ending()
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.errors.split(separator: "\n").count { $0.contains("can be accepted") } == 1, "\(ending.errors)")
  }

  @Test("without a descriptor for a connection, the name of the gateway is not to blame")
  func blame() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.site.place.write(
      """
      apps:
        - id: news
          topic: \(HTTP2Site.topic)
          transport: http2
          gateway: "localhost:\(upstream.port)"
          trust: \(serve.site.certificates.files.authority)
          credential: { key: \(HTTP2Site.keyFile), team-id: \(HTTP2Site.team) }
      """, to: "apps.yaml")
    try serve.site.place.write(HTTP2Site.token(1) + "\n", to: "tokens.txt")
    var blamed = 0
    // With the fewest it does not get so far, with the most it sends.
    for limit in 8..<32 {
      let process = try ChildProcess(
        ["send", "--config", "apps.yaml", "--app", "news", "--tokens", "tokens.txt", "--payload", "hello.json"],
        directory: serve.site.place.url, preparation: "ulimit -n \(limit) && exec")
      let ending = await process.ending()
      #expect(!ending.errors.contains("resolve"), "\(limit): \(ending)")
      if ending.errors.contains("no file descriptor is free") { blamed += 1 }
    }
    #expect(blamed > 0)
  }
}
