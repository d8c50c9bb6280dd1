internal import Foundation
internal import Support
internal import Testing

/// Clients that read or write slowly, or not at all, for as long as they like: they hold their own
/// connection, and nothing else.
@Suite("carillon serve has slow clients", .timeLimit(.minutes(20)))
struct ServeSlowClientsTests {
  /// A request's head but for its blank line.
  private static func head(_ method: String, _ path: String, _ key: String) -> String {
    "\(method) \(path) HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \(key)\r\n"
  }

  private static func chunkedUpload(_ path: String, _ key: String) -> String {
    head("POST", path, key) + "content-type: text/csv\r\ntransfer-encoding: chunked\r\n\r\n"
  }

  private static func chunk(_ text: some StringProtocol) -> String {
    String(text.utf8.count, radix: 16) + "\r\n\(text)\r\n"
  }

  @Test("slow uploads of devices and audiences hold up nobody, and are taken in as far as they come")
  func uploads() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "admin"])
    let service = try await serve.start()
    let site = CampaignSite(service, key: key)
    let path = try await site.make()
    let slow = 20
    var imports: [RawConnection] = []
    for _ in 0..<slow {
      let client = try RawConnection(port: service.api.port)
      client.send(Self.chunkedUpload("/v1/apps/news/devices:import", key))
      client.send(Self.chunk("token\n"))
      imports.append(client)
    }
    var audience: RawConnection? = try RawConnection(port: service.api.port)
    audience?.send(Self.chunkedUpload("/v1/apps/news\(path)/audience", key))
    audience?.send(Self.chunk("token\n"))
    for round in 0..<10 {
      // Each sends a part of a line.
      for (index, client) in imports.enumerated() {
        let digits = Array(HTTP2Site.token(1_000 + index).utf8)
        client.send(Self.chunk(String(decoding: digits[(round * 6)..<(round * 6 + 6)], as: UTF8.self)))
      }
      // The rest of a line, and the beginning of the next one.
      let line = HTTP2Site.token(2_000 + round) + "\n"
      audience?.send(Self.chunk((round == 0 ? "" : line.dropFirst(20)) + line.prefix(20)))
      // Others import, change devices and send meanwhile.
      let token = HTTP2Site.token(round)
      let imported = try await serve.request(
        service.api, "/v1/apps/chat/devices:import", key: key, body: "token\n\(token)\n",
        headers: ["Content-Type": "text/csv"])
      #expect(imported.status == 200, "\(imported.text)")
      let put = try await serve.request(
        service.api, "/v1/apps/news/devices/\(token)", key: key, body: "{}", method: "PUT")
      #expect((200...201).contains(put.status), "\(put.text)")
      let sent = try await serve.request(
        service.api, "/v1/apps/chat/notifications", key: key, body: ServeSite.body(token))
      #expect(sent.status == 202, "\(sent.text)")
    }
    // What is missing of the lines, and the end.
    for (index, client) in imports.enumerated() {
      client.send(Self.chunk(HTTP2Site.token(1_000 + index).dropFirst(60) + "\n") + "0\r\n\r\n")
      let answer = await client.received(until: "}")
      #expect(answer.hasPrefix("HTTP/1.1 200"), "\(answer)")
      #expect(answer.contains(#""created":1"#), "\(answer)")
    }
    // The header and nine lines; the client leaves in the tenth.
    audience = nil
    try await waitUntil("what came of the audience is kept") {
      try await site.campaign(path).upload == CampaignSite.Campaign.Upload(lines: 10, complete: false)
    }
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).count == 10)
  }

  @Test("a client that never reads its answer does not hold up the end")
  func unreadAnswer() async throws {
    let running = try await RunningServe(
      scopes: ["campaigns", "read"], configure: { try $0.configure($1, more: "shutdown: { drain: 1s }") })
    let site = running.campaigns
    let path = try await site.make()
    // More than the buffers of both sides hold.
    let line = String(repeating: "no token ", count: 20)
    _ = try await site.upload(path, (0..<60_000).lazy.map { "\(line)\($0)" } + [HTTP2Site.token(1)])
    try await site.act(path, "start")
    #expect(try await site.ended(path).state == "finished")
    let client = try RawConnection(port: running.service.api.port)
    client.send(Self.head("GET", "/v1/apps/news\(path)/outcomes.csv", running.key) + "\r\n")
    #expect(await client.received(until: "HTTP/1.1 200").hasSuffix("HTTP/1.1 200"))
    running.service.process.send(SIGTERM)
    try await waitUntil("it ends", limit: .seconds(60)) { running.service.process.hasEnded }
    #expect(try await running.end().count == 1)
    withExtendedLifetime(client) {}
  }

  @Test("uploads that have stalled do not hold up the end")
  func stalledUploads() async throws {
    let running = try await RunningServe(configure: { try $0.configure($1, more: "shutdown: { drain: 1s }") })
    let path = try await running.campaigns.make()
    let clients = try ["/v1/apps/news/devices:import", "/v1/apps/news\(path)/audience"].map { address in
      let client = try RawConnection(port: running.service.api.port)
      client.send(Self.chunkedUpload(address, running.key) + Self.chunk("token\n"))
      return client
    }
    try await waitUntil("the service takes them in") {
      try await running.campaigns.campaign(path).state == "uploading"
    }
    running.service.process.send(SIGTERM)
    try await waitUntil("it ends", limit: .seconds(60)) { running.service.process.hasEnded }
    #expect(try await running.end().isEmpty)
    withExtendedLifetime(clients) {}
  }
}
