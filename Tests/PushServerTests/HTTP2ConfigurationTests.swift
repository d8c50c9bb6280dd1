internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushServer
internal import PushTransport
internal import PushWire
internal import Testing

/// `transport: http2` in the configuration, and the engine's configuration that follows from it.
struct HTTP2ConfigurationTests {
  private func app(
    _ lines: String, credential: String = "{ key: keys/AuthKey_ABC123DEFG.p8, team-id: DEF123GHIJ }"
  ) throws -> AppConfiguration {
    let text = "apps:\n- id: a\n  credential: \(credential)\n  transport: http2\n  \(lines)\n"
    return try DeploymentConfiguration.parse(text, file: "etc/carillon.yaml").apps[0]
  }

  private func complaint(
    _ lines: String, credential: String = "{ key: a.p8, key-id: K, team-id: T }", transport: String = "http2"
  ) -> String? {
    do {
      _ = try DeploymentConfiguration.parse(
        "apps:\n- id: a\n  credential: \(credential)\n  transport: \(transport)\n  \(lines)\n", file: "c.yaml")
      return nil
    } catch { return "\(error)" }
  }

  @Test("every key of HTTP/2 is read; the key's identifier can come from the file's name")
  func everything() throws {
    let read = try app(
      "topic: com.example.news\n  push-type: voip\n  request-timeout: 5s\n"
        + "  streams: 50\n  ping-interval: 10m\n  environment: sandbox")
    #expect(
      read.credential.settings
        == .tokenKey(
          TokenKeyFile(
            file: "etc/keys/AuthKey_ABC123DEFG.p8", keyIdentifier: "ABC123DEFG", teamIdentifier: "DEF123GHIJ")))
    #expect(read.transport.isHTTP2)
    #expect(read.topic == "com.example.news")
    #expect(read.pushType == .voip)
    #expect(read.http2.requestTimeout == .seconds(5))
    #expect(read.http2.concurrentRequests == 50)
    #expect(read.http2.pingInterval == .seconds(600))
    let plain = try app("", credential: "{ certificate: a.pem, key: a.key }")
    #expect(plain.pushType == .alert)
    #expect(plain.http2.requestTimeout == .seconds(30))
    #expect(plain.http2.concurrentRequests == 1000)
    #expect(plain.http2.pingInterval == .seconds(3600))
  }

  @Test(
    "the gateway is Apple's for environment and transport, unless the app names one",
    arguments: [
      ("environment: production", "api.push.apple.com:443"), ("environment: sandbox", "api.sandbox.push.apple.com:443"),
      ("gateway: localhost:8443", "localhost:8443"),
    ])
  func gateways(lines: String, expected: String) throws {
    #expect(try app(lines).gatewayOrDefault.description == expected)
  }

  @Test("the authority leaves out the port that https implies, and no other")
  func authority() throws {
    #expect(Endpoint(host: "api.push.apple.com", port: 443).authority == "api.push.apple.com")
    #expect(Endpoint(host: "api.push.apple.com", port: 2197).authority == "api.push.apple.com:2197")
    #expect(Endpoint(host: "::1", port: 443).authority == "[::1]")
  }

  @Test(
    "a key that does not fit the transport is an error with its line",
    arguments: [
      ("command: 1", "c.yaml:5: apps[0].command does not fit transport: http2"),
      ("settle: { quiet: 1s }", "c.yaml:5: apps[0].settle.quiet does not fit transport: http2"),
      ("push-type: alerts", "must be alert or background"),
      ("request-timeout: 1h", "must be a duration from 100ms to 10m"),
      ("streams: 0", "must be a whole number"),
      ("streams: 65536", "c.yaml:5: apps[0].streams must be a whole number from 1 to 65535, not \"65536\""),
      ("attempts: 1001", "c.yaml:5: apps[0].attempts must be a whole number from 1 to 1000, not \"1001\""),
      ("ping-interval: 2h", "must be a duration from 1s to 1h"),
    ])
  func mistakes(lines: String, expected: String) {
    #expect(complaint(lines)?.contains(expected) == true, "\(complaint(lines) ?? "nothing")")
  }

  @Test("keys for HTTP/2 and a token key need transport: http2; a token key needs its identifiers")
  func binary() {
    let files = "{ certificate: a.pem }"
    for line in ["push-type: alert", "request-timeout: 1s", "streams: 5", "ping-interval: 5s"] {
      #expect(
        complaint(line, credential: files, transport: "binary")?.contains("needs transport: http2") == true, "\(line)")
    }
    #expect(
      complaint("", transport: "binary")?.contains(
        "c.yaml:3: apps[0].credential names a token key, which only transport: http2 can use") == true)
    #expect(complaint("", credential: "{ key: a.p8, key-id: K }")?.contains("needs team-id beside key-id") == true)
    #expect(complaint("", credential: "{ key: a.p8, team-id: T }")?.contains("needs key-id beside team-id") == true)
    for mixed in [
      "{ key: a.p8, key-id: K, team-id: T, certificate: b }", "{ p12: a, key-id: K }", "{ key: a.p8 }",
      "{ key: a, key-id: K, team-id: T, passphrase-file: p }",
    ] {
      #expect(complaint("", credential: mixed)?.contains("must name either p12") == true, "\(mixed)")
    }
  }

  @Test(
    "a key file's name gives the identifier only in the developer account's form",
    arguments: [
      ("keys/AuthKey_ABC123DEFG.p8", "ABC123DEFG"), ("AuthKey_ABC.p8", nil), ("AuthKey_abc123defg.p8", nil),
      ("key.p8", nil), ("AuthKey_ABC123DEFG.pem", nil),
      ("", nil),
    ] as [(String, String?)])
  func names(file: String, expected: String?) { #expect(TokenKeyFile.keyIdentifier(inNameOf: file) == expected) }
}

/// Reading the credentials of apps.
struct AppAccessTests {
  private func app(
    _ id: String, _ file: String, _ change: (inout AppConfiguration) -> Void = { _ in }
  ) -> AppConfiguration {
    var app = AppConfiguration(
      id: id, topic: "com.example.\(id)", transport: .http2(),
      credential: .tokenKey(file: file, keyID: "ABC123DEFG", teamID: "DEF123GHIJ"))
    change(&app)
    return app
  }

  private func makeKey(in folder: URL) throws -> String {
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let file = folder.appending(path: "key.p8").path(percentEncoded: false)
    try ProviderKey.make(keyIdentifier: "ABC123DEFG", teamIdentifier: "DEF123GHIJ").write(to: file)
    return file
  }

  @Test("apps with one key and environment share tokens on all Apple ports; other environments and gateways do not")
  func sharing() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "carillon-access-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = try makeKey(in: folder)
    let registry = ProviderTokenRegistry()
    func tokens(_ app: AppConfiguration) throws -> ProviderTokenSource? {
      try ResolvedCredential.load(app, registry: registry, validAt: 0).tokens
    }
    let news = try #require(try tokens(app("news", file)))
    #expect(try tokens(app("chat", file)) === news)
    #expect(
      try tokens(app("chat", file) { $0.gateway = AppConfiguration.Gateway(host: "api.push.apple.com", port: 2197) })
        === news)
    #expect(try tokens(app("chat", file) { $0.environment = .sandbox }) !== news)
    let local = try #require(
      try tokens(app("chat", file) { $0.gateway = AppConfiguration.Gateway(host: "localhost", port: 1) }))
    #expect(local !== news)
    #expect(news.owner.environment == "production")
    #expect(local.owner.environment == "localhost:1")
  }

  @Test("a token key that others can read is an error with the command that corrects it")
  func permissions() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "carillon-access-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = try makeKey(in: folder)
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
    #expect(throws: CredentialError.openToOthers(file: file, mode: 0o644)) {
      try ResolvedCredential.load(app("news", file), registry: ProviderTokenRegistry(), validAt: 0)
    }
    #expect(try TokenKeyInspection.load(file: file).findings == [.openToOthers(file: file, mode: 0o644)])
  }

  @Test("a certificate gives its topics, including VoIP's, and no tokens are made")
  func certificate() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "carillon-access-\(UUID().uuidString)").path(
      percentEncoded: false)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let now = Int64(Date().timeIntervalSince1970)
    let files = try CertificateMaker.makeAll(in: folder, topics: ["com.example.news"], at: now)
    let own = try #require(files.apps["com.example.news"])
    let app = AppConfiguration(
      id: "news", topic: nil, transport: .http2(), credential: AppConfiguration.Credential(.certificate(own)))
    let access = try ResolvedCredential.load(app, registry: ProviderTokenRegistry(), validAt: now)
    #expect(access.tokens == nil)
    guard case .certificate(let userIdentifier, let topics) = access.kind else {
      Issue.record("not a certificate")
      return
    }
    #expect(userIdentifier == "com.example.news")
    #expect(topics.contains("com.example.news"))
    #expect(access.plan(app).configuration.id == "news")
  }
}
