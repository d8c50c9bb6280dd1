internal import Foundation
internal import Support
internal import Testing

/// Clients that read or write slowly, or not at all, for as long as they like: they hold their own
/// connection, and nothing else.
@Suite("carillon serve has slow clients", .timeLimit(.minutes(20)))
struct ServeSlowClientsTests {
  private static func head(_ method: String, _ path: String, _ key: String, _ more: String = "") -> String {
    "\(method) \(path) HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \(key)\r\n\(more)\r\n"
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
      let client = try RawConnection(port: service.api)
      client.send(
        Self.head(
          "POST", "/v1/apps/news/devices:import", key, "content-type: text/csv\r\ntransfer-encoding: chunked\r\n"))
      client.send("6\r\ntoken\n\r\n")
      imports.append(client)
    }
    let audience = try RawConnection(port: service.api)
    audience.send(
      Self.head(
        "POST", "/v1/apps/news\(path)/audience", key, "content-type: text/csv\r\ntransfer-encoding: chunked\r\n"))
    audience.send("6\r\ntoken\n\r\n")
    for round in 0..<10 {
      // Each sends a part of a line.
      for (index, client) in imports.enumerated() {
        let digits = Array(HTTP2Site.token(1_000 + index).utf8)
        let part = digits[(round * 6)..<min(digits.count, round * 6 + 6)]
        client.send(String(part.count, radix: 16) + "\r\n" + String(decoding: part, as: UTF8.self) + "\r\n")
      }
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
      let rest = HTTP2Site.token(1_000 + index).dropFirst(60) + "\n"
      client.send(String(rest.utf8.count, radix: 16) + "\r\n" + rest + "\r\n0\r\n\r\n")
      let answer = await client.received(until: "}")
      #expect(answer.hasPrefix("HTTP/1.1 200") && answer.contains(#""created":1"#), "\(answer)")
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
    let client = try RawConnection(port: running.service.api)
    client.send(Self.head("GET", "/v1/apps/news\(path)/outcomes.csv", running.key))
    #expect(await client.received(until: "HTTP/1.1 200").hasSuffix("HTTP/1.1 200"))
    running.service.process.send(SIGTERM)
    try await waitUntil("it ends", limit: .seconds(60)) { running.service.process.hasEnded }
    #expect(try await running.end().count == 1)
    withExtendedLifetime(client) {}
  }
}
