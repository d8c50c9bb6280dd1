internal import Foundation
internal import Support
internal import Testing

/// Requests that last longer than their key: a revoked key keeps neither streams nor uploads.
@Suite("Keys that are revoked while their requests last", .timeLimit(.minutes(20)))
struct ServeRevokedKeyTests {
  private static let lastChunk = "\r\n0\r\n\r\n"

  private let running: RunningServe
  /// May do everything, and is revoked.
  private let key: String

  init() async throws {
    running = try await RunningServe()
    key = try await running.serve.key(["--scope", "admin"])
  }

  private func connect(_ method: String, _ path: String, _ headers: String = "") throws -> RawConnection {
    let client = try RawConnection(port: running.service.api.port)
    client.send("\(method) \(path) HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \(key)\r\n\(headers)\r\n")
    return client
  }

  private func upload(_ path: String, _ first: String) async throws -> RawConnection {
    let client = try connect("POST", path, "content-type: text/csv\r\ntransfer-encoding: chunked\r\n")
    client.send(Self.chunk(first))
    return client
  }

  private static func chunk(_ text: String) -> String { String(text.utf8.count, radix: 16) + "\r\n\(text)\r\n" }

  /// Returns when the service knows it.
  private func revoke() async throws {
    try await running.serve.revoke(key)
    try await waitUntil("it is refused") {
      try await running.serve.request(running.service.api, "/v1/apps", key: key).status == 401
    }
  }

  private func tokens(_ numbers: Range<Int>) -> String { numbers.map { HTTP2Site.token($0) + "\n" }.joined() }

  @Test("event streams end, of all campaigns and of one")
  func streams() async throws {
    let path = try await running.campaigns.make()
    var streams: [RawConnection] = []
    for address in ["/v1/events", "/v1/apps/news\(path)/events"] {
      let stream = try connect("GET", address)
      #expect(await stream.received(until: ": carillon\n").hasPrefix("HTTP/1.1 200"))
      streams.append(stream)
    }
    try await revoke()
    for stream in streams {
      let rest = await stream.received(until: Self.lastChunk)
      #expect(rest.hasSuffix(Self.lastChunk), "\(rest)")
    }
    try await running.end()
  }

  @Test("uploads of devices, audiences and batches end with 401, and what came after is not taken in")
  func uploads() async throws {
    let site = running.campaigns
    let path = try await site.make()
    let devices = try await upload("/v1/apps/news/devices:import", "token\n" + tokens(0..<100))
    let audience = try await upload("/v1/apps/news\(path)/audience", "token\n" + tokens(0..<100))
    let lines = (0..<100).map { ServeSite.body(HTTP2Site.token($0)) }.joined(separator: "\n")
    let half = lines.prefix(lines.count / 2)
    var others: [RawConnection] = []
    for (name, more) in [("notifications:batch", ""), ("notifications:batch", "idempotency-key: once\r\n")] {
      let batch = try connect(
        "POST", "/v1/apps/news/\(name)",
        "content-type: application/x-ndjson\r\ncontent-length: \(lines.utf8.count)\r\n\(more)")
      batch.send(String(half))
      others.append(batch)
    }
    try await waitUntil("the audience has begun") { try await site.campaign(path).upload != nil }
    try await revoke()
    for batch in others { batch.send(String(lines.dropFirst(half.count))) }
    devices.send(Self.chunk(tokens(100..<200)) + "0\r\n\r\n")
    audience.send(Self.chunk(tokens(100..<200)) + "0\r\n\r\n")
    for client in others + [devices, audience] {
      let answer = await client.received(until: "\"action\"")
      #expect(answer.hasPrefix("HTTP/1.1 401"), "\(answer)")
      #expect(answer.contains("The key was revoked"), "\(answer)")
    }
    let stored = try await running.call("/v1/apps/news/devices?limit=1000")
    for number in 0..<200 { #expect(!stored.text.contains(HTTP2Site.token(number)), "\(number)") }
    #expect(try await site.campaign(path).upload?.complete == false)
    #expect(try await running.end().isEmpty)
  }

  @Test("a list is cut off, and does not look complete")
  func list() async throws {
    let site = running.campaigns
    let path = try await site.make()
    // More than the buffers of both sides hold.
    let line = String(repeating: "no token ", count: 20)
    _ = try await site.upload(path, (0..<60_000).lazy.map { "\(line)\($0)" })
    try await site.act(path, "start")
    _ = try await site.ended(path)
    let list = try connect("GET", "/v1/apps/news\(path)/outcomes.csv")
    #expect(await list.received(until: "HTTP/1.1 200").hasSuffix("HTTP/1.1 200"))
    try await revoke()
    let rest = await list.received()
    #expect(rest.contains("\n"))
    #expect(!rest.hasSuffix(Self.lastChunk))
    try await running.end()
  }

  @Test("a stream ends when its client sends nothing more, and its place is free then")
  func closedStreams() async throws {
    let stream = try connect("GET", "/v1/events")
    #expect(await stream.received(until: ": carillon\n").hasPrefix("HTTP/1.1 200"))
    stream.closeOutput()
    // The client would still read, so that no write fails.
    let rest = await stream.received()
    #expect(!rest.contains("nothing came"), "\(rest)")
    try await running.end()
  }
}
