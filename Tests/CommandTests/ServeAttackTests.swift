internal import Foundation
internal import Support
internal import Testing

/// Clients without a key that ask for much and read nothing.
@Suite("carillon serve under clients that read nothing", .timeLimit(.minutes(20)))
struct ServeAttackTests {
  private static let attackers = 300
  private static let connections = 200
  private static let requests = String(
    repeating: "GET /v1/openapi.yaml HTTP/1.1\r\nhost: localhost\r\n\r\n", count: 200)
  /// What the attack may add: some buffers for each connection that clients without a key may have.
  private static let megabytes = 100

  @Test("pipelined requests whose answers nobody reads lock nobody out, take little memory, and are ended")
  func unread() async throws {
    let running = try await RunningServe { upstream, service in
      try upstream.configure(service, api: ", max-connections: \(Self.connections), idle-timeout: 5s")
    }
    let (serve, service) = (running.serve, running.service)
    let usage = ProcessUsage(process: service.process)
    func ask(_ method: String, _ path: String, body: String = "", for status: Int) async throws {
      // A connection of its own, as a new client has: one that is kept may be idle for too long.
      let client = try RawConnection(port: service.api.port)
      client.send(
        "\(method) \(path) HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \(running.key)\r\nconnection: close\r\n"
          + "content-length: \(body.utf8.count)\r\n\r\n\(body)")
      let answer = await client.received()
      #expect(answer.hasPrefix("HTTP/1.1 \(status)"), "\(answer)")
    }
    func list() async throws { try await ask("GET", "/v1/apps", for: 200) }
    try await list()
    let (descriptors, memory) = (try usage.descriptorCount(), try usage.peakMegabytes())
    var attack: [RawConnection] = []
    for number in 0..<Self.attackers {
      let client = try RawConnection(port: service.api.port)
      // It may be closed already: newer ones take its place.
      client.send(Self.requests)
      attack.append(client)
      if number % 10 == 9 {
        try await list()
        let body = ServeSite.body(HTTP2Site.token(number))
        try await ask("POST", "/v1/apps/news/notifications", body: body, for: 202)
      }
    }
    #expect(try await serve.request(service.admin, "/readyz").status == 200)
    #expect(try usage.peakMegabytes() - memory < Self.megabytes)
    // The client itself has a connection or two.
    try await waitUntil("the attackers are disconnected") { try usage.descriptorCount() <= descriptors + 8 }
    try await list()
    withExtendedLifetime(attack) {}
    #expect(try await running.end().count == Self.attackers / 10)
    #expect(service.process.errors.contains("connections without a key are closed"))
  }
}
