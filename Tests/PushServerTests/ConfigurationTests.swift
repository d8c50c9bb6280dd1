internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushServer
internal import PushTransport
internal import PushWire
internal import Testing

struct ConfigurationTests {
  private func parse(
    _ text: String, file: String = "etc/carillon.yaml"
  ) throws(ConfigurationError) -> DeploymentConfiguration {
    try DeploymentConfiguration.parse(text, file: file)
  }

  private func complaint(_ text: String) -> String? {
    do {
      _ = try parse(text)
      return nil
    } catch { return error.description }
  }

  @Test("every key is read")
  func everything() throws {
    let text = """
      journal: { directory: /var/lib/carillon/journal, sync: always, interval: 20ms }
      apps:
        - id: news
          topic: com.example.news
          environment: sandbox            # production | sandbox
          transport: binary
          command: 1
          credential: { p12: news.p12, passphrase-file: secret/news.pass }
          gateway: gateway.example.com:2195
          trust: ca.pem
          connections: { min: 2, max: 4, per-minute: 500 }
          batching: { max-bytes: 128KiB, max-delay: 1.5ms }
          window: { notifications: 1000, bytes: 1MiB }
          settle: { quiet: 2s, confirm: quiet }
          on-unknown: hold
          attempts: 3
          patience: 2h
          rate-limit: 300/m
        - { id: other, credential: { certificate: /certs/other.pem, key: other.key } }
      """
    let configuration = try parse(text)
    #expect(configuration.journal.directory == "/var/lib/carillon/journal")
    #expect(configuration.journal.sync == .always)
    #expect(configuration.journal.interval == .milliseconds(20))
    #expect(configuration.apps.map(\.id) == ["news", "other"])
    let news = configuration.apps[0]
    #expect(news.topic == "com.example.news")
    #expect(news.environment == .sandbox)
    #expect(!news.transport.isHTTP2)
    #expect(news.command == .enhanced)
    #expect(
      news.credential.settings
        == .certificate(CredentialFiles(certificate: "etc/news.p12", passphraseFile: "etc/secret/news.pass")))
    #expect(news.gateway == AppConfiguration.Gateway(host: "gateway.example.com", port: 2195))
    #expect(news.trustedAuthorities == "etc/ca.pem")
    #expect(news.connections == 2...4)
    #expect(news.engineRules.connectionsPerMinute == 500)
    #expect(news.batching.byteCount == 131_072)
    #expect(news.batching.delay == .microseconds(1500))
    #expect(news.window.notifications == 1000)
    #expect(news.window.bytes == 1_048_576)
    #expect(news.settling.quiet == .seconds(2))
    #expect(!news.settling.usesProbes)
    #expect(news.onUnknown == .hold)
    #expect(news.attempts == 3)
    #expect(news.patience == .seconds(7200))
    #expect(news.rateLimit == 5)
    #expect(
      configuration.apps[1].credential.settings
        == .certificate(CredentialFiles(certificate: "/certs/other.pem", key: "etc/other.key")))
  }

  @Test("every key that is left out has a default")
  func defaults() throws {
    let app = try parse("apps: [ { id: a, credential: { certificate: a.pem } } ]", file: "a.yaml").apps[0]
    #expect(
      app
        == AppConfiguration(id: "a", topic: nil, transport: .binary(), credential: .certificate(file: "a.pem")))
    #expect(app.connections == 1...8)
    #expect(app.batching.byteCount == 65_536)
    #expect(app.window.notifications == 262_144)
    #expect(app.settling.quiet == .seconds(5))
    #expect(app.attempts == 5)
    #expect(app.patience == .seconds(900))
    #expect(app.rateLimit == nil)
    #expect(app.onUnknown == .resend)
    #expect(app.settling.usesProbes)
    #expect(app.gatewayOrDefault == Endpoint(host: "gateway.push.apple.com", port: 2195))
  }

  private static let app = "- id: a\n  credential: { certificate: a.pem }\n  "

  @Test(
    "a mistake is an error with file, line and advice",
    arguments: [
      ("topc: x", "etc/carillon.yaml:4: unknown key \"topc\" in apps[0]; did you mean \"topic\"?"),
      (
        "batching: { max_bytes: 1KiB }",
        "etc/carillon.yaml:4: unknown key \"max_bytes\" in apps[0].batching; did you mean \"max-bytes\"?"
      ),
      (
        "settle:\n    quiet: 5s\n    xyzzy: 1",
        "etc/carillon.yaml:6: unknown key \"xyzzy\" in apps[0].settle; known here: quiet, confirm"
      ), ("command: 3", "etc/carillon.yaml:4: apps[0].command must be 0 or 1 or 2, not \"3\""),
      (
        "on-unknown: resent",
        "etc/carillon.yaml:4: apps[0].on-unknown must be resend or hold or drop, "
          + "not \"resent\"; did you mean \"resend\"?"
      ),
      (
        "gateway: localhost",
        "etc/carillon.yaml:4: apps[0].gateway must be host:port, as in gateway.example.com:2195, not \"localhost\""
      ),
      (
        "connections: { min: 4, max: 2 }",
        "etc/carillon.yaml:4: apps[0].connections.max (2) is below connections.min (4); exchange them"
      ),
      (
        "batching: { max-delay: 5 }",
        "etc/carillon.yaml:4: apps[0].batching.max-delay must be a duration from 0ms to 10s, not \"5\""
      ),
      (
        "window: { bytes: 64KB }",
        "etc/carillon.yaml:4: apps[0].window.bytes must be a size from 64KiB to 1GiB, not \"64KB\""
      ),
      (
        "rate-limit: 0/s", "etc/carillon.yaml:4: apps[0].rate-limit must be a rate such as 5000/s or 300/m, not \"0/s\""
      ),
      ("transport: http3", "etc/carillon.yaml:4: apps[0].transport must be binary or http2, not \"http3\""),
      ("topic: [a]", "etc/carillon.yaml:4: apps[0].topic must be a single value"),
      ("attempts: 1\n  attempts: 2", "occurs twice"),
      ("topic: \"a", "not valid YAML"),
    ])
  func mistakes(lines: String, expected: String) throws {
    let said = try #require(complaint("apps:\n\(Self.app)\(lines)\n"), "\(lines) was accepted")
    #expect(said.contains(expected), "\(said)")
    #expect(said.hasPrefix("etc/carillon.yaml"), "\(said)")
    #expect(!said.contains("\n"), "\(said)")
  }

  @Test("a mistake of the whole file is one sentence too")
  func wholeFile() {
    #expect(complaint("")?.contains("names no app; add \"apps:\"") == true)
    #expect(complaint("apps: []")?.contains("names no app") == true)
    #expect(complaint("aps: []") == "etc/carillon.yaml:1: unknown key \"aps\"; did you mean \"apps\"?")
    #expect(complaint("- 1")?.contains("must hold keys and values") == true)
    #expect(
      complaint("apps:\n\(Self.app)\n\(Self.app)")?.contains(
        "etc/carillon.yaml:5: apps[1] has the same id as the entry in line 2, \"a\"") == true)
    #expect(
      complaint("apps: [ { id: a } ]")
        == "etc/carillon.yaml:1: apps[0] needs the key \"credential\", "
        + "as in \"credential: { certificate: news.pem, key: news.key }\"")
    #expect(
      complaint("apps: [ { id: a, credential: { p12: a, certificate: b } } ]")?.contains("must name either p12") == true
    )
    #expect(
      complaint("apps: [ { id: a, credential: { p12: a, passphrase: x } } ]")?.contains(
        "did you mean \"passphrase-file\"?") == true)
    #expect(complaint("apps: [ { id: a b, credential: { p12: a } } ]")?.contains("must consist of letters") == true)
    #expect(
      complaint("journal: { sync: sometimes }\napps: []")?.contains("journal.sync must be always or interval or never")
        == true)
  }

  @Test("a file that cannot be read is an error with its name and the reason")
  func unreadable() {
    #expect(
      throws: ConfigurationError(
        file: "no/such.yaml", problem: "cannot be read: there is no such file; check the path and its permissions")
    ) {
      try DeploymentConfiguration.read(file: "no/such.yaml")
    }
    #expect(
      throws: ConfigurationError(
        file: "/", problem: "cannot be read: it is a folder; check the path and its permissions")
    ) {
      try DeploymentConfiguration.read(file: "/")
    }
  }

  @Test(
    "Apple's hosts get fewer new connections a minute than other gateways",
    arguments: [
      ("gateway: gateway.example.com:2195", 60_000), ("gateway: api.push.apple.com:443", 3_000),
      ("transport: http2", 3_000),
    ])
  func connectionsPerMinute(line: String, expected: Int) throws {
    let text = "apps:\n  - id: news\n    credential: { p12: news.p12 }\n    \(line)\n"
    #expect(try parse(text).apps[0].connectionsPerMinuteOrDefault == expected)
  }
}

struct QuantityTests {
  @Test("sizes, durations and rates are read in their usual notations")
  func quantities() {
    for (text, value) in [
      ("64KiB", 65_536), ("16MiB", 16 << 20), ("1GiB", 1 << 30), ("12", 12), ("12B", 12), ("1.5KiB", 1536),
    ] as [(String, Int)] {
      #expect(Quantity.byteCount(text) == value)
    }
    for text in ["", "KiB", "64kb", "-1", "1e3", "64 KiB", ".5KiB", "1.", "99999999999999999999"] {
      #expect(Quantity.byteCount(text) == nil, "\(text)")
    }
    for (text, value) in [
      ("5ms", .milliseconds(5)), ("2m", .seconds(120)), ("1.5s", .milliseconds(1500)), ("250us", .microseconds(250)),
      ("1h", .seconds(3600)), ("0s", .zero),
    ]
      as [(String, Duration)]
    {
      #expect(Quantity.duration(text) == value)
      #expect(Quantity.duration(Quantity.describe(value)) == value)
    }
    for text in ["5", "ms", "-5s", "5 s", "1w", "99999999999h"] { #expect(Quantity.duration(text) == nil, "\(text)") }
    #expect(Quantity.rate("5000/s") == 5000)
    #expect(Quantity.rate("300/m") == 5)
    #expect(Quantity.rate("36/h") == 0.01)
    for text in ["5000", "0/s", "/s", "5/d"] { #expect(Quantity.rate(text) == nil, "\(text)") }
  }

  @Test("an endpoint is a host and a port")
  func endpoints() {
    #expect(Endpoint("a.example:2195") == Endpoint(host: "a.example", port: 2195))
    #expect(Endpoint("[::1]:80")?.host == "::1")
    #expect(Endpoint("[::1]:80")?.description == "[::1]:80")
    for text in ["", "host", ":1", "host:", "host:0", "host:65536", "::1:80", "ho st:1", "[]:1"] {
      #expect(Endpoint(text) == nil, "\(text)")
    }
  }

  @Test("a misspelt word gets a suggestion, nonsense does not")
  func suggestions() {
    let known = ["max-bytes", "max-delay", "quiet", "passphrase-file"]
    for (word, meant) in [
      ("maxBytes", "max-bytes"), ("max-dealy", "max-delay"), ("quite", "quiet"), ("passphrase", "passphrase-file"),
      ("x", nil), ("", nil), ("confirm", nil),
    ]
      as [(String, String?)]
    {
      #expect(Suggestion.nearest(to: word, in: known) == meant, "\(word)")
    }
    #expect(Suggestion.nearest(to: "a", in: []) == nil)
  }

  @Test("an expiration is none, a time from now, or a date")
  func expirations() {
    typealias Expiration = PushNotification.Expiration
    #expect(Expiration(parsing: "0") == .notStored)
    #expect(Expiration(parsing: "3600") == .after(.seconds(3600)))
    #expect(Expiration(parsing: "2h") == .after(.seconds(7200)))
    #expect(Expiration(parsing: "1400000000") == .at(Date(timeIntervalSince1970: 1_400_000_000)))
    for text in ["", "-1", "soon", "0s", "4294967296"] { #expect(Expiration(parsing: text) == nil, "\(text)") }
    #expect(Expiration.after(.milliseconds(1500)).unixSeconds(now: 100) == 102)
    #expect(Expiration.notStored.unixSeconds(now: 100) == 0)
    #expect(Expiration.at(Date(timeIntervalSince1970: 1_400_000_000)).unixSeconds(now: 100) == 1_400_000_000)
    #expect(Expiration.after(.seconds(100)).unixSeconds(now: .max) == .max)
  }
}

struct CampaignFileTests {
  private func complaint(_ text: String) -> String? {
    do {
      _ = try CampaignEntry.parse(text, file: "c/today.yaml", apps: ["news", "chat"])
      return nil
    } catch { return error.description }
  }

  @Test("a campaign file lists apps, payloads and tokens")
  func entries() throws {
    let text = """
      - { app: news, payload: news.json, tokens: news.csv }
      - app: chat
        payload: /p/chat.json
        tokens: "-"
        expiration: 1h
        priority: 5
      - { app: news, payload: n.json, tokens: n.txt, priority: 1, push-type: voip, collapse-id: score }
      """
    var headers = CampaignEntry(app: "news", payload: "c/n.json", tokens: "c/n.txt", priority: 1)
    (headers.pushType, headers.collapseIdentifier) = (.voip, "score")
    #expect(
      try CampaignEntry.parse(text, file: "c/today.yaml", apps: ["news", "chat"]) == [
        CampaignEntry(app: "news", payload: "c/news.json", tokens: "c/news.csv"),
        CampaignEntry(
          app: "chat", payload: "/p/chat.json", tokens: "-", expiration: .after(.seconds(3600)), priority: 5), headers,
      ])
  }

  @Test("mistakes are errors with line and advice")
  func mistakes() {
    #expect(complaint("")?.contains("a campaign file is a list") == true)
    #expect(
      complaint("- { app: new, payload: a, tokens: b }")
        == "c/today.yaml:1: [0].app is \"new\", which the configuration does not have; did you mean \"news\"?")
    #expect(
      complaint("- { app: news, tokens: b }")
        == "c/today.yaml:1: [0] needs the key \"payload\", as in \"payload: news.json\"")
    #expect(
      complaint("- { app: news, payload: a, tokens: b, priority: 7 }")?.contains(
        "must be 5 or 10, or 1 where the app's transport is http2, not \"7\"") == true)
    #expect(
      complaint("- { app: news, payload: a, tokens: b, token: 7 }")?.contains(
        "unknown key \"token\" in [0]; did you mean \"tokens\"?") == true)
    #expect(
      complaint("- { app: news, payload: a, tokens: '-' }\n- { app: chat, payload: a, tokens: '-' }")?.contains(
        "today.yaml:2: [1] reads standard input")
        == true)
  }
}
