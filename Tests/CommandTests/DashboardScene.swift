internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// A service with everything that the dashboard can show: apps that send, wait, are paused and are
/// suspended, a certificate that ends soon, a campaign in each state, keys, and clients of the
/// bridge.
struct DashboardScene {
  let serve: ServeSite
  let upstream: HTTP2Site.Service
  let service: ServeSite.Service
  private let bridge: Int
  private let bridgeClients: CertificateMaker.Files
  /// A client of the bridge that stays.
  private var idleClient: ChildProcess?
  /// May do everything.
  let key: String
  let campaigns: CampaignSite
  /// Paths of pages, by the campaign's state.
  private(set) var pages: [String: String] = [:]

  static let apps = ["bank", "chat", "news", "sport", longName]
  /// Nothing can be connected to at its gateway.
  static let longName = "com.example.weather.an-app-with-a-name-that-somebody-thought-was-short"
  private static let sportTopic = "com.example.sport"
  /// Days until the certificate of `sport` ends.
  static let daysLeft: Int64 = 12

  private static let rules = """
    http2:
      refuse:
        - { prefixes: [dead], reason: Unregistered, timestamp: 1700000000123 }
        - { prefixes: [bad], reason: BadDeviceToken }
    """

  /// Starts the service, and fills it.
  init() async throws {
    serve = try ServeSite()
    let place = serve.site.place
    let now = Int64(Date().timeIntervalSince1970)
    let old = try CertificateMaker.makeAll(
      in: place.path("old"), topics: [Self.sportTopic], at: now - (365 - Self.daysLeft) * 86_400 - 3600)
    // The gateway trusts both authorities.
    let authority = serve.site.certificates.files.authority
    try Data(try [authority, old.authority].map { try String(contentsOfFile: $0, encoding: .utf8) }.joined().utf8)
      .write(to: URL(filePath: authority))
    bridgeClients = try CertificateMaker.makeAll(
      in: place.path("clients"), topics: [HTTP2Site.topic, "com.example.unknown"], at: now)
    try ProviderKey.make(keyIdentifier: "OTHER12345", teamIdentifier: HTTP2Site.team)
      .write(to: place.path("AuthKey_OTHER12345.p8"))
    upstream = try await serve.site.simulate(rules: Self.rules)
    try place.write(
      Self.configuration(serve.site, upstream, sport: try #require(old.apps[Self.sportTopic]), bridgeClients),
      to: "carillon.yaml")
    key = try await serve.key(["--scope", "admin"])
    let process = try ChildProcess(["serve", "--config", "carillon.yaml", "--json"], directory: place.url)
    let line = try #require(await process.line(0), "it does not serve: \(process.errors)")
    struct Ready: Decodable {
      let api: Int
      let admin: Int
      let bridge: Int
    }
    let ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
    service = ServeSite.Service(process: process, api: .port(ready.api), admin: .port(ready.admin))
    bridge = ready.bridge
    campaigns = CampaignSite(service, key: key)
    let scene = self
    async let keys: Void = scene.makeKeys()
    async let client = scene.useBridge()
    try await makeCampaigns()
    try await keys
    idleClient = try await client
    try await send()
  }

  func end() async {
    service.process.send(SIGTERM)
    _ = await service.process.ending()
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  private static func configuration(
    _ site: HTTP2Site, _ upstream: HTTP2Site.Service, sport: CredentialFiles, _ clients: CertificateMaker.Files
  ) -> String {
    let server = site.certificates.files.server
    func app(_ id: String, _ topic: String, _ credential: String, port: String) -> String {
      """
        - id: \(id)
          topic: \(topic)
          transport: http2
          gateway: "localhost:\(port)"
          trust: \(site.certificates.files.authority)
          credential: { \(credential) }

      """
    }
    let key = "key: \(HTTP2Site.keyFile), team-id: \(HTTP2Site.team)"
    let other = "key: AuthKey_OTHER12345.p8, team-id: \(HTTP2Site.team)"
    let apps = [
      app("news", HTTP2Site.topic, key, port: upstream.port),
      app("chat", "com.example.chat", key, port: upstream.port),
      app("bank", "com.example.bank", other, port: upstream.port),
      app(
        "sport", sportTopic, "certificate: \(sport.certificate), key: \(sport.key ?? "")", port: upstream.port),
      // No program listens at the port of TCPMUX.
      app(longName, "com.example.weather", key, port: "1"),
    ]
    return """
      journal: { directory: journal, sync: interval }
      api: { listen: "127.0.0.1:0" }
      admin: { listen: "127.0.0.1:0" }
      bridge:
        listen: "127.0.0.1:0"
        feedback: "127.0.0.1:0"
        certificate: \(server.certificate)
        key: \(server.key ?? "")
        client-ca: \(clients.authority)
      apps:
      \(apps.joined())
      """
  }

  private func makeKeys() async throws {
    let sender = try await serve.key(
      ["--scope", "send", "--app", "news", "--app", "chat"], name: "The shop's order service")
    _ = try await serve.key(["--scope", "read"], name: "reporting")
    let revoked = try await serve.key(
      ["--scope", "campaigns", "--scope", "devices"], name: "a contractor, until March")
    try await serve.revoke(revoked)
    let reply = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: sender, body: ServeSite.body(HTTP2Site.token(1)))
    try #require(reply.status == 202, "\(reply.text)")
  }

  /// One client is refused, one sends and ends, and the one that is returned stays.
  private func useBridge() async throws -> ChildProcess {
    for topic in ["com.example.unknown", HTTP2Site.topic] {
      let files = try #require(bridgeClients.apps[topic])
      let client = try BridgeClient.start(
        in: serve.site.place, port: bridge, authority: serve.site.certificates.files.authority,
        certificate: files.certificate, key: try #require(files.key), count: 120, badEvery: 60)
      _ = await client.ending()
    }
    let files = try #require(bridgeClients.apps[HTTP2Site.topic])
    return try ChildProcess(
      [
        "s_client", "-quiet", "-connect", "127.0.0.1:\(bridge)", "-cert", files.certificate, "-key", files.key ?? "",
        "-CAfile", serve.site.certificates.files.authority,
      ], program: "openssl", directory: serve.site.place.url)
  }

  /// Notifications of every app, more for some.
  private func send() async throws {
    _ = try await serve.request(service.api, "/v1/apps/chat:pause", key: key, method: "POST")
    for (app, count) in [("news", 1000), ("chat", 1234), ("bank", 3), ("sport", 250), (Self.longName, 40)] {
      let lines = (0..<count).map {
        ServeSite.body(HTTP2Site.token($0 + 5000, prefix: $0 % 150 == 149 ? "dead" : "00"))
      }
      let reply = try await serve.request(
        service.api, "/v1/apps/\(app)/notifications:batch", key: key, body: lines.joined(separator: "\n"))
      try #require(reply.status == 202, "\(app): \(reply.text)")
    }
    for (app, state) in [("chat", "paused"), ("bank", "suspended")] {
      try await waitUntil("\(app) is \(state)") {
        try await serve.request(service.api, "/v1/apps/\(app)", key: key).text.contains("\"state\":\"\(state)\"")
      }
    }
  }

  // MARK: Campaigns

  private mutating func makeCampaigns() async throws {
    let site = campaigns
    let lines = (0..<3_000).lazy.map(CampaignServeTests.line)
    let tokens = (0..<4_000).lazy.map { HTTP2Site.token($0) }
    let hours = Self.hoursAround(Date())
    let tomorrow = Date(timeIntervalSinceNow: 86_400).formatted(.iso8601)
    let settings: [(state: String, rest: String, lines: any Sequence<String>)] = [
      ("finished", "", lines),
      ("draft", "", ["\(HTTP2Site.token(1))"]),
      ("scheduled", #","sendAt":"\#(tomorrow)""#, (0..<500).map { HTTP2Site.token($0) }),
      ("running", #","rateLimit":30"#, tokens),
      ("paused", #","rateLimit":60"#, tokens),
      ("cancelled", #","rateLimit":60"#, tokens),
      ("held", #","quietHours":"\#(hours)""#, (0..<500).map { HTTP2Site.token($0) }),
    ]
    for (state, rest, lines) in settings {
      let path = try await site.make(rest, name: Self.name(state))
      _ = try await site.upload(path, lines)
      if state != "draft" { try await site.act(path, "start") }
      pages[state] = "/apps/news\(path)"
    }
    // Nobody is in its audience.
    let failing = try await site.make(name: Self.name("failed"))
    _ = try await site.upload(failing, ["token,city"])
    try await site.act(failing, "start")
    pages["failed"] = "/apps/news\(failing)"
    for (state, action) in [("paused", "pause"), ("cancelled", "cancel")] {
      let path = try path(state)
      try await waitUntil("the campaign sends") { try await site.campaign(path).progress.accepted >= 50 }
      try await site.act(path, action)
    }
    for state in pages.keys {
      let path = try path(state)
      var last = ""
      try await waitUntil("the campaign is \(state)") {
        last = try await site.campaign(path).state
        try #require(last == state || last == "running" || last == "draft", "\(path) is \(last) instead of \(state)")
        return last == state
      }
    }
    let running = try path("running")
    try await waitUntil("a part of it is done") { try await site.campaign(running).progress.accepted >= 50 }
  }

  /// Of the interface, behind the app's.
  func path(_ state: String) throws -> String { String(try #require(pages[state]).dropFirst("/apps/news".count)) }

  private static func name(_ state: String) -> String {
    switch state {
    case "finished": "Spring sale: everything must go"
    case "held": "Match reminder, not at night"
    case "running": "Breaking: <b>the final</b> & what comes next, with a name that is rather long for a list"
    default: "Campaign that is \(state)"
    }
  }

  private static func hoursAround(_ date: Date) -> String {
    func text(_ offset: Double) -> String {
      date.addingTimeInterval(offset).formatted(.iso8601.time(includingFractionalSeconds: false)).prefix(5).description
    }
    return "\(text(-3600))-\(text(7200))"
  }
}
