internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import Support
internal import Synchronization
internal import Testing

/// Clients that behave badly, and what they cost the others: nothing.
@Suite("Limits of carillon serve", .timeLimit(.minutes(20)))
struct ServeLimitsTests {
  @Test("a key that asks more often than allowed is told when to come back; other keys are not affected", .inProcess)
  func rates() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    // One request in a hundred seconds: a slow machine changes nothing.
    try serve.configure(upstream, api: ", rate-limit: 36/h")
    let (first, second) = (try await serve.key(), try await serve.key())
    let service = try await serve.start()
    let path = "/v1/apps/news"
    #expect(try await serve.request(service.api, path, key: first).status == 200)
    let refused = try await serve.request(service.api, path, key: first)
    #expect(refused.status == 429, "\(refused.text)")
    #expect(refused.retryAfter.map { (1...101).contains($0) } == true, "\(String(describing: refused.retryAfter))")
    #expect(try refused.decoded(ServeSite.Problem.self).action?.contains("rate-limit") == true)
    #expect(try await serve.request(service.api, path, key: second).status == 200)
    // Who has no valid key costs no key anything.
    #expect(try await serve.request(service.api, path, key: "car_000000000000_0").status == 401)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("a request with an Idempotency-Key counts once against the rate, and so does its repetition", .inProcess)
  func keyedRates() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, api: ", rate-limit: 36/h")
    let (first, second) = (try await serve.key(), try await serve.key())
    let service = try await serve.start()
    let body = ServeSite.body(HTTP2Site.token(1))
    func post(_ key: String) async throws -> Int {
      try await serve.request(
        service.api, "/v1/apps/news/notifications", key: key, body: body, headers: ["Idempotency-Key": "a"]
      ).status
    }
    #expect(try await post(first) == 202)
    #expect(try await post(first) == 429)
    #expect(try await post(second) == 202)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).count == 2)
  }

  @Test("slow uploaders are cut off, and others are served meanwhile")
  func slowUploads() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, api: ", idle-timeout: 10s")
    let key = try await serve.key()
    let service = try await serve.start()
    let slow = SlowClients(port: service.api.port, key: key)
    try await slow.connect(count: 40)
    var served = 0
    try await waitUntil("every slow client is cut off") {
      // Each sends a byte, so that its connection is not idle.
      await slow.sendByte()
      let reply = try await serve.request(
        service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(served)))
      #expect(reply.status == 202, "\(reply.text)")
      served += 1
      return slow.refusedCount == 40
    }
    try await slow.end()
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).count == served)
  }

  @Test("a slow body of a request with an Idempotency-Key is cut off after idle-timeout, as any other")
  func slowKeyedBody() async throws {
    let running = try await RunningServe(configure: { try $0.configure($1, api: ", idle-timeout: 3s") })
    let slow = try RawConnection(port: running.service.api.port)
    slow.send(
      "POST /v1/apps/news/notifications HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \(running.key)\r\n"
        + "idempotency-key: a\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
    let sentCount = Mutex(0)
    // So that the connection is not idle. A thread of its own: the pool's threads may be busy for
    // longer than idle-timeout.
    Thread.detachNewThread {
      while slow.send(" ") {
        sentCount.withLock { $0 += 1 }
        Thread.sleep(forTimeInterval: 0.2)
      }
    }
    let answer = await slow.received(until: "\r\n\r\n")
    #expect(answer.hasPrefix("HTTP/1.1 408"), "\(answer)")
    #expect(sentCount.withLock { $0 } < 100, "after more than idle-timeout")
    #expect(try await running.end().isEmpty)
  }

  @Test("a silent connection is closed after idle-timeout, also behind a request")
  func silence() async throws {
    let running = try await RunningServe(configure: { try $0.configure($1, api: ", idle-timeout: 2s") })
    let (silent, used) = (
      try RawConnection(port: running.service.api.port), try RawConnection(port: running.service.api.port)
    )
    used.send("GET /v1/apps HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \(running.key)\r\n\r\n")
    let began = ContinuousClock.now
    async let nothing = silent.received()
    let answer = await used.received()
    #expect(await nothing.isEmpty)
    #expect(answer.hasPrefix("HTTP/1.1 200"), "\(answer)")
    #expect(!answer.contains("nothing came"), "\(answer)")
    #expect(ContinuousClock.now - began >= .milliseconds(1_900))
    try await running.end()
  }

  @Test("a batch that is cut off in the middle sends nothing, and at most 100 of its lines are named")
  func batches() async throws {
    let running = try await RunningServe()
    let path = "/v1/apps/news/notifications:batch"
    let lines = (0..<50).map { ServeSite.body(HTTP2Site.token($0)) }.joined(separator: "\n") + "\n"
    let head =
      "POST \(path) HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \(running.key)\r\n"
      + "content-type: application/x-ndjson\r\n"
    var cut: RawConnection? = try RawConnection(port: running.service.api.port)
    cut?.send(head + "content-length: \(lines.utf8.count + 1)\r\n\r\n" + lines)
    cut = nil
    cut = try RawConnection(port: running.service.api.port)
    cut?.send(head + "transfer-encoding: chunked\r\n\r\n\(String(lines.utf8.count, radix: 16))\r\n\(lines)\r\n")
    cut = nil
    // An array without its end is read as a whole, or not at all.
    let array = "[" + (0..<50).map { ServeSite.body(HTTP2Site.token($0)) }.joined(separator: ",")
    let half = try await running.call(path, body: array)
    #expect(try half.decoded(ServeSite.TakenBatch.self).queued == 0, "\(half.text)")
    let bad =
      (0..<150).map { #"{"token":"zz","payload":{"aps":{"badge":\#($0)}}}"# } + [ServeSite.body(HTTP2Site.token(99))]
    let taken = try await running.call(path, body: bad.joined(separator: "\n")).decoded(ServeSite.TakenBatch.self)
    #expect(taken.rejected == 150)
    #expect(taken.accepted == 1)
    #expect(taken.errors.map(\.line) == Array(1...100))
    _ = try await running.serve.account(of: taken.batchId, running.service, key: running.key)
    let metrics = try await running.serve.request(running.service.admin, "/metrics").text
    #expect(metrics.contains(#"carillon_notifications_submitted_total{app="news"} 1"#))
    #expect(try await running.end().compactMap(\.token) == [HTTP2Site.token(99)])
  }

  @Test("readers of events that read nothing cost nobody else anything, and end with the service")
  func slowReaders() async throws {
    let running = try await RunningServe.withCampaigns(more: ["send"])
    let site = running.campaigns
    let path = try await site.make(#","rateLimit":500"#)
    _ = try await site.upload(path, (0..<1_000).map { HTTP2Site.token($0) })
    let readers = try (0..<60).map { number in
      let reader = try RawConnection(port: running.service.api.port)
      let address = number % 2 == 0 ? "/v1/events" : "/v1/apps/news\(path)/events"
      reader.send(
        "GET \(address) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(running.key)\r\n\r\n")
      return reader
    }
    try await site.act(path, "start")
    for number in 0..<20 {
      let reply = try await running.call(
        "/v1/apps/chat/notifications", body: ServeSite.body(HTTP2Site.token(number, prefix: "aa")))
      #expect(reply.status == 202, "\(reply.text)")
    }
    #expect(try await site.ended(path).state == "finished")
    #expect(try await running.end().count == 1_020)
    withExtendedLifetime(readers) {}
  }
}

/// Connections that announce a large body and send a byte of it now and then.
private final class SlowClients: Sendable {
  /// Counts connections that were answered by 408, or closed.
  private final class Answer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let refused: @Sendable () -> Void
    private var isRefused = false

    init(refused: @escaping @Sendable () -> Void) { self.refused = refused }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      if String(buffer: unwrapInboundIn(data)).hasPrefix("HTTP/1.1 408") { note() }
    }

    func channelInactive(context: ChannelHandlerContext) { note() }

    private func note() {
      if !isRefused { refused() }
      isRefused = true
    }
  }

  private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  private let port: Int
  private let head: String
  private let channels = Mutex<[any Channel]>([])
  private let refused = Atomic<Int>(0)

  init(port: Int, key: String) {
    self.port = port
    head = """
      POST /v1/apps/news/notifications:batch HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \(key)\r\n\
      content-type: application/x-ndjson\r\ncontent-length: 1000000\r\n\r\n
      """
  }

  var refusedCount: Int { refused.load(ordering: .relaxed) }

  func connect(count: Int) async throws {
    for _ in 0..<count {
      let channel = try await ClientBootstrap(group: group)
        .channelInitializer { [self] channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(
              Answer { [self] in refused.add(1, ordering: .relaxed) })
          }
        }
        .connect(host: "127.0.0.1", port: port).get()
      channels.withLock { $0.append(channel) }
      // One that is slow to begin with may have been closed.
      try? await channel.writeAndFlush(ByteBuffer(string: head)).get()
    }
  }

  func sendByte() async {
    for channel in channels.withLock({ $0 }) { try? await channel.writeAndFlush(ByteBuffer(string: " ")).get() }
  }

  func end() async throws {
    for channel in channels.withLock({ $0 }) { try? await channel.close().get() }
    try await group.shutdownGracefully()
  }
}
