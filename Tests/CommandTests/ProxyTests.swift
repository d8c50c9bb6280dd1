internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// The way out through real proxies, over TLS, to a gateway whose name only the proxy can resolve.
@Suite("proxies", .timeLimit(.minutes(20)))
struct ProxyTests {
  private let site: HTTP2Site

  init() throws { site = try HTTP2Site() }

  private struct Case: CustomTestStringConvertible {
    let kind: ProxyProgram.Kind
    let demandsLogin: Bool
    let transport: String

    static let all = ProxyProgram.Kind.allCases.flatMap { kind in
      [false, true].flatMap { login in
        ["binary", "http2"].map { Case(kind: kind, demandsLogin: login, transport: $0) }
      }
    }

    var testDescription: String { "\(kind), \(demandsLogin ? "with" : "without") a login, \(transport)" }
  }

  private struct App: Decodable { let reason: String? }

  private struct Ports {
    let gateway: Int
    let feedback: Int
    let http2: Int
    let channels: Int
    /// It lives as long as this.
    private let service: HTTP2Site.Service

    init(_ service: HTTP2Site.Service) async throws {
      self.service = service
      let line = try #require(await service.simulator.line(0))
      gateway = try #require(line.firstMatch(of: /"gateway":(\d+)/).flatMap { Int($0.1) })
      feedback = try #require(line.firstMatch(of: /"feedback":(\d+)/).flatMap { Int($0.1) })
      http2 = try #require(Int(service.port))
      channels = try #require(Int(service.channelsPort))
    }
  }

  private static let rules = """
    refuse: [ { prefixes: [dead] } ]
    feedback: [ { token: 0a1b, timestamp: 1400000000 } ]
    http2: { refuse: [ { prefixes: [dead], reason: Unregistered } ] }
    """

  private func send(
    _ ports: Ports, _ transport: String, _ proxy: ProxyProgram, _ more: [String] = []
  ) async throws -> Ending {
    let tokens = (1...400).map { HTTP2Site.token($0, prefix: $0 % 80 == 0 ? "dead" : "00") }
    try site.place.write(tokens.joined(separator: "\n") + "\n", to: "tokens.txt")
    let port = transport == "http2" ? ports.http2 : ports.gateway
    let identity = transport == "http2" ? site.key : site.certificates.client
    return try await site.run(
      ["send", "--transport", transport, "--gateway", "\(CertificateFixture.unknownName):\(port)"] + identity
        + proxy.flags + ["--payload", "hello.json", "--tokens", "tokens.txt", "--outcomes", "list.csv", "--json"] + more
    )
  }

  @Test("a campaign through a proxy has the gateway's account", arguments: Case.all)
  private func campaign(_ way: Case) async throws {
    let service = try await site.simulate(rules: Self.rules)
    let ports = try await Ports(service)
    let proxy = try ProxyProgram(way.kind, demandsLogin: way.demandsLogin, for: site)
    let programs = try await proxy.start()
    let sent = try await send(ports, way.transport, proxy)
    #expect(sent.status == 1, "\(sent)")
    let app = try #require(SentAccount(sent)?.apps[HTTP2Site.topic], "\(sent)")
    #expect((app.submitted, app.acceptedTotal, app.rejected.total) == (400, 395, 5), "\(sent)")
    service.simulator.send(SIGTERM)
    _ = await service.simulator.ending()
    try site.place.write(sent.output, to: "account.json")
    let verified = try await site.run(
      ["verify", "--account", "account.json", "--outcomes", "list.csv", "--record", "truth.jsonl"])
    #expect(verified.status == 0, "\(verified)")
    // It was asked for the name.
    #expect(proxy.log.contains(CertificateFixture.unknownName), "\(proxy.log)")
    for program in programs { program.send(SIGKILL) }
  }

  @Test("feedback and channels go through the proxy", arguments: ProxyProgram.Kind.allCases)
  func others(_ kind: ProxyProgram.Kind) async throws {
    let ports = try await Ports(try await site.simulate(rules: Self.rules))
    let proxy = try ProxyProgram(kind, demandsLogin: true, for: site)
    let programs = try await proxy.start()
    let host = CertificateFixture.unknownName
    let read = try await site.run(
      ["feedback", "--service", "\(host):\(ports.feedback)"] + site.certificates.client + proxy.flags)
    #expect(read.status == 0, "\(read)")
    #expect(read.output == "timestamp,token\n1400000000,0a1b\n", "\(read)")
    let made = try await site.run(
      ["channel", "create", "--gateway", "\(host):\(ports.channels)"] + site.key + proxy.flags)
    #expect(made.status == 0, "\(made)")
    #expect(made.output.count == 25, "\(made)")
    for program in programs { program.send(SIGKILL) }
  }

  @Test("without its proxy, nobody knows the gateway, and the environment's proxy is not followed")
  func direct() async throws {
    let ports = try await Ports(try await site.simulate())
    let proxy = try ProxyProgram(.tinyproxy, for: site)
    let programs = try await proxy.start()
    try site.place.write(HTTP2Site.token(1) + "\n", to: "tokens.txt")
    let sent = try await ChildProcess.run(
      ["send", "--transport", "http2", "--gateway", "\(CertificateFixture.unknownName):\(ports.http2)"] + site.key
        + ["--payload", "hello.json", "--tokens", "tokens.txt"], directory: site.place.url,
      preparation: "export HTTPS_PROXY=\(proxy.url) ALL_PROXY=\(proxy.url) && exec")
    #expect(sent.status == 3, "\(sent)")
    #expect(sent.errors.contains("cannot resolve \(CertificateFixture.unknownName)"), "\(sent)")
    #expect(!proxy.log.contains(CertificateFixture.unknownName))
    for program in programs { program.send(SIGKILL) }
  }

  @Test("a wrong password is named with the proxy's answer, and not shown", arguments: ProxyProgram.Kind.allCases)
  func wrongPassword(_ kind: ProxyProgram.Kind) async throws {
    let ports = try await Ports(try await site.simulate())
    let proxy = try ProxyProgram(kind, demandsLogin: true, for: site)
    let programs = try await proxy.start()
    try site.place.writeSecret("mellon-9\n", to: ProxyProgram.passwordFile)
    let answer = kind == .microsocks ? "answered 2:" : "answered 401 Unauthorized:"
    for transport in ["binary", "http2"] {
      let sent = try await send(ports, transport, proxy)
      #expect(sent.status == 3, "\(sent)")
      #expect(
        sent.errors.contains(
          "the proxy localhost:\(proxy.port) \(answer) it does not accept this username with this password; check both"),
        "\(sent)")
      #expect(!"\(sent)".contains("mellon"), "\(sent)")
    }
    #expect(((try? site.place.read("truth.jsonl")) ?? "").isEmpty)
    try site.place.writeSecret("\(ProxyProgram.password)\n", to: ProxyProgram.passwordFile)
    #expect(try await send(ports, "http2", proxy).status == 0)
    for program in programs { program.send(SIGKILL) }
  }

  @Test("a proxy that refuses the gateway, and one that is none, are named with what to do")
  func refused() async throws {
    let ports = try await Ports(try await site.simulate())
    let proxy = try ProxyProgram(.tinyproxy, for: site)
    let programs = try await proxy.start(onlyTo: ports.gateway)
    let sent = try await send(ports, "http2", proxy)
    #expect(sent.status == 3, "\(sent)")
    #expect(sent.errors.contains("the proxy localhost:\(proxy.port) answered 403 "), "\(sent)")
    #expect(
      sent.errors.contains(
        "it does not let this client reach \(CertificateFixture.unknownName):\(ports.http2); ask for that at its "
          + "operator"), "\(sent)")
    for program in programs { program.send(SIGKILL) }
  }

  @Test("a service waits for a proxy that is away, or refuses its login, and sends when it comes", .inProcess)
  func away() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    let proxy = try ProxyProgram(.tinyproxy, demandsLogin: true, for: serve.site)
    try serve.site.place.writeSecret("mellon-9\n", to: ProxyProgram.passwordFile)
    try serve.configure(
      upstream, apps: ["news", "chat"], settings: "patience: 1s", more: "\(proxy.setting)\nshutdown: { drain: 1s }")
    // One reaches the gateway without it.
    var parts = try serve.site.place.read("carillon.yaml").replacing(
      "localhost:\(upstream.port)", with: "\(CertificateFixture.unknownName):\(upstream.port)"
    ).components(separatedBy: "  - id: chat\n")
    try #require(parts.count == 2)
    parts[1] = parts[1].replacing(CertificateFixture.unknownName, with: "localhost") + "\n    proxy: none\n"
    try serve.site.place.write(parts.joined(separator: "  - id: chat\n"), to: "carillon.yaml")
    let checked = try await serve.site.run(["serve", "--check", "--config", "carillon.yaml"])
    #expect(checked.output.contains("it sends through http://localhost:\(proxy.port) as \"carillon\""), "\(checked)")

    let key = try await serve.key(["--scope", "admin"])
    let service = try await serve.start()
    func reason(contains text: String) async throws {
      var last: String?
      try await waitUntil("the app says: \(text)") {
        last = try await serve.request(service.api, "/v1/apps/news", key: key).decoded(App.self).reason
        return last?.contains(text) == true
      }
      #expect(last?.contains("mellon") == false)
    }
    func queue(_ app: String, _ number: Int) async throws -> String {
      let reply = try await serve.request(
        service.api, "/v1/apps/\(app)/notifications", key: key, body: ServeSite.body(HTTP2Site.token(number)))
      return try reply.decoded(ServeSite.Queued.self).id
    }
    let id = try await queue("news", 1)
    try await reason(contains: "cannot connect to the proxy localhost:\(proxy.port)")
    let programs = try await proxy.start()
    try await reason(contains: "the proxy localhost:\(proxy.port) answered 401")
    // The other app has its own way.
    let other = try await queue("chat", 2)
    try await waitUntil("the other app's notification is accepted") {
      let reply = try await serve.request(service.api, "/v1/apps/chat/notifications/\(other)", key: key)
      return try reply.decoded(ServeSite.Notification.self).outcome == "accepted"
    }
    // The file is noticed by itself.
    try serve.site.place.writeSecret("\(ProxyProgram.password)\n", to: ProxyProgram.passwordFile)
    #expect(try await serve.finished(id, service, key: key).outcome == "accepted")
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0)
    #expect(!"\(ending)\(service.process.errors)".contains("mellon"))
    #expect(!"\(ending)\(service.process.errors)".contains(ProxyProgram.password))
    #expect(proxy.log.contains(CertificateFixture.unknownName), "\(proxy.log)")
    for program in programs { program.send(SIGKILL) }
  }

  @Test("flags that do not fit together are named")
  func usage() async throws {
    for (flags, expected) in [
      (["--proxy-username", "a", "--proxy-password-file", "b"], "--proxy-username needs --proxy URL"),
      (["--proxy", "http://p:1", "--proxy-username", "a"], "--proxy-username needs --proxy-password-file FILE"),
      (["--proxy", "http://p:1", "--proxy-password-file", "a"], "--proxy-password-file needs --proxy-username NAME"),
      (["--proxy", "http://p:1", "--proxy-trust", "a"], "--proxy has a certificate to check only with https"),
      (["--proxy", "http://a:sesame@p:1"], "--proxy has a username in its URL"),
    ] {
      for command in [["send"], ["feedback", "--service", "localhost:1", "--certificate", "a.pem"]] {
        let ending = try await site.run(command + flags)
        #expect(ending.status == 2, "\(ending)")
        #expect(ending.errors.contains(expected), "\(ending)")
        #expect(!ending.errors.contains("sesame"), "\(ending)")
      }
    }
    let both = try await site.run(["feedback", "--config", "c.yaml", "--proxy", "http://p:1"])
    #expect(both.errors.contains("--proxy and --config exclude each other"), "\(both)")
  }
}
