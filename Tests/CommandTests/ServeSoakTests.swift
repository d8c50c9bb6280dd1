internal import Foundation
internal import Support
internal import Testing

/// A short soak: everything that clients do, over and over.
@Suite("carillon serve over time", .timeLimit(.minutes(20)))
struct ServeSoakTests {
  private static let roundCount = 24
  /// Caches and pools are filled by then.
  private static let warmCount = 8

  @Test("descriptors and memory stay flat, whatever clients do")
  func flat() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "admin"])
    let service = try await serve.start()
    let usage = ProcessUsage(process: service.process)
    var (warm, last) = ((descriptors: 0, megabytes: 0), (descriptors: 0, megabytes: 0))
    for round in 0..<Self.roundCount {
      try await use(serve, service, key, round)
      // Of connections that have just closed, the descriptors are closed soon.
      if round >= Self.warmCount {
        // The store's readers and the client's connections may be a few more on a busy machine. A
        // leak of one in each of a round's requests is more.
        let known = warm.descriptors + 12
        try await waitUntil("no more than \(known) descriptors in round \(round)") {
          try usage.descriptorCount() <= known
        }
      } else {
        try await waitUntil("the connections of round \(round) are closed") {
          try sockets(service) <= 2 + Self.keptConnections
        }
        warm.descriptors = max(warm.descriptors, try usage.descriptorCount())
        warm.megabytes = max(warm.megabytes, try usage.megabytes())
      }
      last = (try usage.descriptorCount(), try usage.megabytes())
    }
    #expect(last.megabytes <= warm.megabytes + 16, "\(warm) after \(Self.warmCount) rounds, \(last) at the end")
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).count == Self.roundCount * (20 + 500 + 200))
  }

  /// The client keeps some, and the service keeps those to its gateways.
  private static let keptConnections = 24

  private func sockets(_ service: ServeSite.Service) throws -> Int {
    let folder = "/proc/\(service.process.identifier)/fd"
    return try FileManager.default.contentsOfDirectory(atPath: folder).count {
      (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)"))?.hasPrefix("socket") == true
    }
  }

  private func use(_ serve: ServeSite, _ service: ServeSite.Service, _ key: String, _ round: Int) async throws {
    let first = round * 1_000
    let api = "/v1/apps/news"
    for index in 0..<20 {
      let reply = try await serve.request(
        service.api, "\(api)/notifications", key: key, body: ServeSite.body(HTTP2Site.token(first + index)),
        headers: index % 2 == 0 ? ["Idempotency-Key": "\(first + index)"] : [:])
      #expect(reply.status == 202, "\(reply.text)")
    }
    let lines = (0..<500).map { ServeSite.body(HTTP2Site.token(first + 100 + $0)) }.joined(separator: "\n")
    #expect(try await serve.request(service.api, "\(api)/notifications:batch", key: key, body: lines).status == 202)
    let device = "\(api)/devices/\(HTTP2Site.token(first))"
    for method in ["PUT", "GET", "DELETE"] {
      let body = method == "PUT" ? #"{"tags":["a"]}"# : nil
      let reply = try await serve.request(service.api, device, key: key, body: body, method: method)
      #expect((200...204).contains(reply.status), "\(method): \(reply.text)")
    }
    // Those who leave early, in the middle of an upload, of events, and of a head.
    let fields = "HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \(key)\r\n"
    for request in [
      "POST \(api)/devices:import \(fields)content-length: 99\r\n\r\ntoken\n", "GET /v1/events \(fields)\r\n",
      "POST \(api)/notif", "nonsense\r\n\r\n",
    ] {
      let client = try RawConnection(port: service.api.port)
      client.send(request)
      if request.hasPrefix("GET") { #expect(await client.received(until: ": carillon").contains("200")) }
    }
    let site = CampaignSite(service, key: key)
    let path = try await site.make()
    _ = try await site.upload(path, (0..<200).lazy.map { HTTP2Site.token(first + 700 + $0) })
    try await site.act(path, "start")
    #expect(try await site.ended(path).progress.accepted == 200)
    #expect(try await serve.request(service.admin, "/metrics").status == 200)
  }
}
