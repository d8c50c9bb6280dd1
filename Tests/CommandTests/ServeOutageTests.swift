internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// One app's trouble: what it says of itself, when it tries again, and what it takes from others.
@Suite("apps in trouble in carillon serve", .inProcess, .timeLimit(.minutes(20)))
struct ServeOutageTests {
  private struct App: Decodable {
    let state: String
    let reason: String?
    let nextTryAt: String?
  }

  /// A gateway that is away is not waited for.
  private static let shutdown = "shutdown: { drain: 1s }"

  @Test("an app without patience says when it tries again, holds its campaigns, and goes on without anybody's help")
  func retry() async throws {
    let serve = try ServeSite()
    let absent = try await serve.site.simulate()
    try serve.configure(absent, apps: ["news"], settings: "patience: 1s", more: Self.shutdown)
    absent.simulator.send(SIGTERM)
    _ = await absent.simulator.ending()
    let key = try await serve.key(["--scope", "admin"])
    let service = try await serve.start()
    func app() async throws -> App { try await serve.request(service.api, "/v1/apps/news", key: key).decoded(App.self) }
    var ids: [String] = []
    for number in 0..<5 {
      let reply = try await serve.request(
        service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(number)))
      ids.append(try reply.decoded(ServeSite.Queued.self).id)
    }
    let site = CampaignSite(service, key: key)
    let path = try await site.make()
    _ = try await site.upload(path, (10..<20).map { HTTP2Site.token($0) })
    try await site.act(path, "start")
    var suspended: App?
    try await waitUntil("the app is suspended") {
      suspended = try await app()
      return suspended?.state == "suspended"
    }
    #expect(suspended?.reason?.contains("it tries again by itself") == true, "\(suspended?.reason ?? "")")
    #expect(suspended?.nextTryAt?.hasSuffix("Z") == true)
    // The app tries again from time to time: then the campaign goes on for a moment.
    var heldBecause: String?
    try await waitUntil("the campaign is held") {
      let campaign = try await site.campaign(path)
      heldBecause = campaign.reason
      return campaign.state == "held"
    }
    #expect(heldBecause?.contains("no progress") == true, "\(heldBecause ?? "")")
    let upstream = try await serve.site.simulate(port: absent.port)
    for id in ids { #expect(try await serve.finished(id, service, key: key).outcome == "accepted") }
    #expect(try await site.ended(path).state == "finished")
    #expect(try await app().nextTryAt == nil)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let taken = try await serve.site.taken(upstream).compactMap(\.token)
    #expect(taken.sorted() == (Array(0..<5) + Array(10..<20)).map { HTTP2Site.token($0) }.sorted())
  }

  @Test("a dead gateway, a refused certificate and another's campaign: a small app's notifications arrive meanwhile")
  func tenants() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    // Of an authority that the simulator does not know.
    let now = Int64(Date().timeIntervalSince1970)
    try CertificateAuthority(at: now).issue(.app(topic: HTTP2Site.topic, at: now)).writePEM(
      certificate: serve.site.place.path("stranger.pem"), key: serve.site.place.path("stranger.key"))
    // Somebody listens there, and never answers.
    let silent = try ListeningSocket()
    try serve.configure(upstream, apps: ["news", "small", "dead", "refused"], more: Self.shutdown)
    let text = try serve.site.place.read("carillon.yaml")
    let entries = text.components(separatedBy: "  - id: ").map { entry in
      if entry.hasPrefix("dead") {
        return entry.replacing("localhost:\(upstream.port)", with: "127.0.0.1:\(silent.port)")
      }
      if entry.hasPrefix("refused") {
        return entry.replacing(
          "key: \(HTTP2Site.keyFile), team-id: \(HTTP2Site.team)", with: "certificate: stranger.pem, key: stranger.key")
      }
      return entry
    }
    try serve.site.place.write(entries.joined(separator: "  - id: "), to: "carillon.yaml")
    let key = try await serve.key(["--scope", "admin"])
    let service = try await serve.start()
    func state(_ app: String) async throws -> App {
      try await serve.request(service.api, "/v1/apps/\(app)", key: key).decoded(App.self)
    }
    for app in ["dead", "refused"] {
      let lines = (0..<2_000).map { ServeSite.body(HTTP2Site.token($0, prefix: "bad")) }.joined(separator: "\n")
      let reply = try await serve.request(service.api, "/v1/apps/\(app)/notifications:batch", key: key, body: lines)
      #expect(reply.status == 202, "\(app): \(reply.text)")
    }
    try await waitUntil("one is suspended") { try await state("refused").state == "suspended" }
    // It says what is wrong, and what to do.
    #expect(
      try await state("refused").reason
        == "the server refused our certificate: unknown certificate authority; "
        + "renew the certificate, or check its topic and environment")
    let site = CampaignSite(service, key: key)
    // It takes a quarter of an hour, so that a slow machine does not see its end.
    let path = try await site.make(#","rateLimit":100"#)
    _ = try await site.upload(path, (0..<100_000).lazy.map { HTTP2Site.token($0, prefix: "ca") })
    try await site.act(path, "start")
    try await waitUntil("the campaign sends") { try await site.campaign(path).progress.accepted > 0 }
    for number in 0..<30 {
      let reply = try await serve.request(
        service.api, "/v1/apps/small/notifications", key: key, body: ServeSite.body(HTTP2Site.token(number)))
      let id = try reply.decoded(ServeSite.Queued.self).id
      try await waitUntil("the notification \(number) has its outcome") {
        let found = try await serve.request(service.api, "/v1/apps/small/notifications/\(id)", key: key)
        return try found.decoded(ServeSite.Notification.self).outcome == "accepted"
      }
    }
    // All of them arrived while the others were in trouble or busy.
    let campaign = try await site.campaign(path)
    #expect(campaign.state == "running")
    #expect(campaign.progress.accepted < 100_000)
    #expect(try await state("refused").state == "suspended")
    #expect(try await state("dead").state == "running")
    #expect(try await state("small").reason == nil)
    try await site.act(path, "cancel")
    let account = try await {
      _ = try await site.ended(path); return try await site.account(path)
    }()
    #expect(account.sum == account.submitted)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let taken = try await serve.site.taken(upstream).compactMap(\.token)
    #expect(taken.count { $0.hasPrefix("00") } == 30)
    #expect(!taken.contains { $0.hasPrefix("bad") })
    silent.close()
  }
}

/// Accepts connections, as the kernel does, and says nothing.
private final class ListeningSocket: Sendable {
  private let descriptor: Int32
  let port: Int

  init() throws {
    let made = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let result = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        unsafe bind(made, name, length) == 0 && listen(made, 16) == 0 && getsockname(made, name, &length) == 0
      }
    }
    try #require(result)
    descriptor = made
    port = Int(UInt16(bigEndian: address.sin_port))
  }

  func close() { _ = Foundation.close(descriptor) }
}
