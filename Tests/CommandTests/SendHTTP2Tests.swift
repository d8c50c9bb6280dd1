internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// `carillon send --transport http2` against the simulator's service, both as a user starts them.
struct SendHTTP2Tests {
  private let site: HTTP2Site

  init() throws { site = try HTTP2Site() }

  @Test("a campaign by token key: identifiers per line, refused notifications, and gone devices with their time")
  func campaign() async throws {
    let own = "123e4567-e89b-12d3-a456-426614174000"
    var lines = ["token,apns-id,collapse-id"] + (2...400).map { "\(HTTP2Site.token($0)),," }
    lines[9] = "\(HTTP2Site.token(10, prefix: "dead")),,"
    lines[19] = "\(HTTP2Site.token(20, prefix: "bad0")),,"
    lines[29] = "\(HTTP2Site.token(30)),\(own.uppercased()),\"goal \"\"1\"\"\""
    lines[39] = "\(HTTP2Site.token(40)),nonsense,"
    try site.place.write(lines.joined(separator: "\n"), to: "people.csv")
    let service = try await site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 1700000000123 }, "
        + "{ prefixes: [bad0], reason: BadDeviceToken } ] }")
    let sent = try await site.send(
      service,
      [
        "--payload", "hello.json", "--tokens", "people.csv", "--json", "--outcomes", "out.csv", "--gone", "gone.csv",
        "--collapse-id", "all",
      ])
    #expect(sent.status == 1, "\(sent)")
    let app = try #require(SentAccount(sent)?.apps[HTTP2Site.topic], "\(sent)")
    #expect(app.submitted == 399, "\(sent)")
    #expect(app.sum == 399, "\(sent)")
    #expect(app.accepted.confirmed == 396, "\(sent)")
    #expect(app.unknown == 0, "\(sent)")
    #expect(
      app.rejected.byReason == ["410 Unregistered": 1, "400 BadDeviceToken": 1, "malformed apns-id (not a UUID)": 1],
      "\(sent)")
    let listed = try site.place.read("out.csv").split(separator: "\n").map(String.init)
    #expect(listed.first == "line,token,outcome,reason,gone-since")
    #expect(
      listed.dropFirst().sorted() == [
        "10,\(HTTP2Site.token(10, prefix: "dead")),rejected,410 Unregistered,1700000000",
        "20,\(HTTP2Site.token(20, prefix: "bad0")),rejected,400 BadDeviceToken,",
        "40,\(HTTP2Site.token(40)),rejected,malformed apns-id (not a UUID),",
      ])
    #expect(try site.place.read("gone.csv") == "timestamp,token\n1700000000,\(HTTP2Site.token(10, prefix: "dead"))\n")
    let taken = try await site.taken(service)
    #expect(taken.count == 396)
    #expect(Set(taken.map(\.id)).count == 396)
    #expect(taken.allSatisfy { $0.topic == HTTP2Site.topic && $0.type == "alert" })
    let personal = taken.first { $0.token == HTTP2Site.token(30) }
    #expect(personal?.id == own)
    #expect(personal?.collapse == "goal \"1\"")
    #expect(taken.filter { $0.collapse == "all" }.count == 395)
  }

  @Test("--rate-limit bounds what is sent in a second")
  func rateLimit() async throws {
    try site.place.write((0..<120).map { HTTP2Site.token($0) }.joined(separator: "\n"), to: "tokens.txt")
    let service = try await site.simulate()
    let began = ContinuousClock.now
    let sent = try await site.send(
      service, ["--payload", "hello.json", "--tokens", "tokens.txt", "--json", "--rate-limit", "50/s"])
    #expect(sent.status == 0, "\(sent)")
    #expect(ContinuousClock.now - began > .milliseconds(1_500), "120 at 50/s")
    #expect(try await site.taken(service).count == 120)
  }

  @Test(
    "of 20,000 tokens one cuts the connection: it is found, and all others are accepted", arguments: ["1", "4"])
  func poison(connections: String) async throws {
    let bad = HTTP2Site.token(7_777, prefix: "bad0")
    let lines = (1...20_000).map { $0 == 7_777 ? bad : HTTP2Site.token($0) }
    try site.place.write(lines.joined(separator: "\n"), to: "tokens.txt")
    let service = try await site.simulate(
      rules: "http2: { poison: { prefixes: [bad0], how: reset }, delay: { uniform: 1ms, to: 20ms } }")
    let sent = try await site.send(
      service,
      [
        "--payload", "hello.json", "--tokens", "tokens.txt", "--json", "--outcomes", "out.csv", "--connections",
        connections,
      ])
    let account = try #require(SentAccount(sent), "\(sent)")
    let app = try #require(account.apps[HTTP2Site.topic], "\(sent)")
    #expect(sent.status == 1, "\(sent)")
    #expect(app.accepted.confirmed == 19_999, "\(sent)")
    #expect(app.rejected.byReason == ["closed without a reason": 1], "\(sent)")
    // A release build takes a second or two, however busy the machine. With back-offs it would take
    // minutes.
    #expect(account.seconds < 40, "\(sent)")
    #expect(try site.place.read("out.csv").contains("7777,\(bad),rejected,closed without a reason"))
    // The bad one is never accepted, so all duplicates are of its neighbours.
    let taken = try await site.taken(service)
    let counts = Dictionary(grouping: taken, by: \.token).mapValues(\.count)
    #expect(counts.count == 19_999, "\(sent)")
    #expect(counts.values.allSatisfy { $0 <= 5 }, "\(sent)")
    #expect(taken.count - 19_999 <= app.possibleCopies, "\(sent)")
  }

  @Test("a certificate gives the topic, the push type its suffix; another campaign appends to the list of gone devices")
  func certificate() async throws {
    let service = try await site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 1700000000123 } ] }")
    try site.place.write("\(HTTP2Site.token(1))\n\(HTTP2Site.token(2, prefix: "dead"))\n", to: "tokens.txt")
    try site.place.write(#"{"aps":{"content-available":1}}"#, to: "silent.json")
    let identity = site.certificates.client
    for _ in 0..<2 {
      let sent = try await site.send(
        service,
        ["--payload", "silent.json", "--tokens", "tokens.txt", "--push-type", "background", "--gone", "gone.csv"],
        by: identity)
      #expect(sent.status == 1, "\(sent)")
    }
    let row = "1700000000,\(HTTP2Site.token(2, prefix: "dead"))\n"
    #expect(try site.place.read("gone.csv") == "timestamp,token\n\(row)\(row)")
    let taken = try await site.taken(service)
    #expect(taken.count == 2)
    #expect(Set(taken.map(\.id)).count == 2)
    #expect(taken.allSatisfy { $0.type == "background" && $0.topic == HTTP2Site.topic })
  }

  enum Audience: CaseIterable {
    /// A list of tokens, killed after 20 kB of the service's record.
    case tokens
    /// Every other line has its own identifier. Killed after 40 kB.
    case identifiers
  }

  @Test(
    "with kill -9 and --resume a notification keeps its apns-id, and the account is the whole campaign's",
    arguments: Audience.allCases)
  func resume(_ audience: Audience) async throws {
    let count = 10_000
    var own: [String] = []
    switch audience {
    case .tokens:
      try site.place.write((1...count).map { HTTP2Site.token($0) }.joined(separator: "\n"), to: "tokens.txt")
    case .identifiers:
      own = (1...count).map { $0 % 2 == 0 ? UUID().uuidString.lowercased() : "" }
      let lines = (1...count).map { "\(HTTP2Site.token($0)),\(own[$0 - 1])" }
      try site.place.write("token,apns-id\n" + lines.joined(separator: "\n"), to: "tokens.txt")
    }
    let service = try await site.simulate(rules: "http2: { delay: { fixed: 200ms } }")
    let flags = ["--payload", "hello.json", "--tokens", "tokens.txt", "--journal", "journal", "--outcomes", "out.csv"]
    let first = try ChildProcess(
      ["send", "--transport", "http2", "--gateway", "localhost:\(service.port)", "--json"] + site.key + flags,
      directory: site.place.url)
    try await site.kill(first, afterRecording: audience == .tokens ? 20_000 : 40_000)
    let resumed = try await site.run(["send", "--resume", "--journal", "journal", "--json"])
    let app = try #require(SentAccount(resumed)?.apps[HTTP2Site.topic], "\(resumed)")
    #expect(resumed.status == 0, "\(resumed)")
    #expect(app.submitted == count, "\(resumed)")
    #expect(app.sum == count, "\(resumed)")
    #expect(app.accepted.confirmed == count, "\(resumed)")
    let taken = try await site.taken(service)
    let identifiers = Dictionary(grouping: taken, by: \.token).mapValues { Set($0.map(\.id)) }
    #expect(identifiers.count == count)
    #expect(identifiers.values.allSatisfy { $0.count == 1 })
    #expect(Set(taken.map(\.id)).count == count)
    for (index, identifier) in own.enumerated() where !identifier.isEmpty {
      #expect(identifiers[HTTP2Site.token(index + 1)] == [identifier])
    }
    #expect(taken.count - count <= app.possibleCopies, "\(taken.count) arrivals, \(resumed)")
  }

  @Test("a campaign is not resumed with another topic or transport")
  func otherHeaders() async throws {
    try site.place.write((1...50_000).map { HTTP2Site.token($0) }.joined(separator: "\n"), to: "tokens.txt")
    let service = try await site.simulate(rules: "http2: { delay: { fixed: 200ms } }")
    func configuration(_ topic: String, _ transport: String) -> String {
      let credential =
        transport == "http2"
        ? "{ key: \(HTTP2Site.keyFile), team-id: \(HTTP2Site.team) }"
        : "{ certificate: certs/\(HTTP2Site.topic).pem, key: certs/\(HTTP2Site.topic).key }"
      return
        "apps: [ { id: news, topic: \(topic), transport: \(transport), "
        + "gateway: \"localhost:\(service.port)\", trust: \(site.certificates.files.authority), "
        + "credential: \(credential) } ]"
    }
    try site.place.write(configuration(HTTP2Site.topic, "http2"), to: "carillon.yaml")
    try site.place.write(configuration("com.example.other", "http2"), to: "topic.yaml")
    try site.place.write(configuration(HTTP2Site.topic, "binary"), to: "binary.yaml")
    let first = try ChildProcess(
      [
        "send", "--config", "carillon.yaml", "--payload", "hello.json", "--tokens", "tokens.txt", "--journal",
        "journal",
      ], directory: site.place.url)
    try await site.kill(first, afterRecording: 1)
    let topic = try await site.run(["send", "--resume", "--journal", "journal", "--config", "topic.yaml"])
    #expect(topic.status == 2, "\(topic)")
    #expect(
      topic.errors.contains("has the topic com.example.other now, and the campaign began with \(HTTP2Site.topic)"),
      "\(topic)")
    let transport = try await site.run(["send", "--resume", "--journal", "journal", "--config", "binary.yaml"])
    #expect(transport.status == 2, "\(transport)")
    #expect(
      transport.errors.contains("has the transport binary now, had http2 when the campaign began"), "\(transport)")
    service.simulator.send(SIGKILL)
  }

  @Test(
    "flags that do not fit the transport, or each other, give one sentence",
    arguments: [
      (["--push-type", "alert", "--certificate", "c"], "--push-type needs --transport http2"),
      (["--token-key", "k.p8", "--certificate", "c"], "--token-key needs --transport http2"),
      (["--gone", "g", "--certificate", "c"], "--gone needs --transport http2"),
      (["--priority", "1", "--certificate", "c"], "--priority 1 needs --transport http2"),
      (
        ["--transport", "http2", "--certificate", "c", "--command", "1"],
        "--command and --transport http2 exclude each other"
      ),
      (
        ["--transport", "http2", "--certificate", "c", "--settle-quiet", "1"],
        "--settle-quiet and --transport http2 exclude each other"
      ),
      (["--transport", "http2"], "A credential is missing: --certificate FILE or --token-key FILE"),
      (
        ["--transport", "http2", "--certificate", "c", "--token-key", "k"],
        "--certificate and --token-key exclude each other"
      ),
      (["--transport", "http2", "--token-key", "k"], "--token-key needs --team-id"),
      (["--transport", "http2", "--token-key", "k", "--team-id", "T"], "--token-key needs --key-id"),
      (["--transport", "http2", "--token-key", "k", "--team-id", "T", "--key-id", "K"], "--token-key needs --topic"),
      (
        ["--transport", "http2", "--certificate", "c", "--environment", "sandbox"],
        "--gateway and --environment exclude each other"
      ),
      (
        ["--transport", "http2", "--certificate", "c", "--request-timeout", "1h"],
        "--request-timeout must be a duration from 100ms to 10m"
      ),
      (["--transport", "http2", "--certificate", "c", "--key-id", "K"], "--key-id needs --token-key"),
      (["--transport", "http2", "--certificate", "c", "--channel", "x"], "--tokens and --channel exclude each other"),
      (["--transport", "http3", "--certificate", "c"], "http3"),
    ])
  func usage(flags: [String], expected: String) async throws {
    expectOneSentence(
      try await site.run(["send", "--gateway", "h:1", "--payload", "p", "--tokens", "t"] + flags), status: 2,
      containing: expected)
  }

  @Test(
    "rules of headers are checked before anything is sent",
    arguments: [
      (["--push-type", "background", "--priority", "10"], "A background notification must have priority 5, not 10"),
      (["--push-type", "mdm"], "can be sent with its certificate only"),
      (["--push-type", "mdm"], "The payload of device management must contain mdm. The payload"),
      (["--collapse-id", String(repeating: "x", count: 65)], "at most 64 are allowed"),
      (["--push-type", "liveactivity"], "must say which event it is"),
      (["--channel", "abc", "--push-type", "liveactivity"], "must have an expiration"),
    ])
  func rules(flags: [String], expected: String) async throws {
    try site.place.write("\(HTTP2Site.token(1))\n", to: "tokens.txt")
    let payload = flags.first == "--channel" ? "goal.json" : "hello.json"
    let to = flags.first == "--channel" ? [] : ["--tokens", "tokens.txt"]
    let arguments =
      ["send", "--transport", "http2", "--gateway", "127.0.0.1:1", "--payload", payload] + to + site.key + flags
    expectOneSentence(try await site.run(arguments), status: 2, containing: expected)
  }

  @Test("a payload may have 4096 bytes, or 5120 for VoIP, and a template's lines have the same limits")
  func limits() async throws {
    let service = try await site.simulate()
    try site.place.write(
      "token,text\n\(HTTP2Site.token(1)),\(String(repeating: "x", count: 4076))\n"
        + "\(HTTP2Site.token(2)),\(String(repeating: "x", count: 4077))\n",
      to: "people.csv")
    try site.place.write(#"{"aps":{"alert":"{{text}}"}}"#, to: "long.json")
    let alert = try await site.send(service, ["--payload", "long.json", "--tokens", "people.csv", "--json"])
    #expect(SentAccount(alert)?.apps[HTTP2Site.topic]?.rejected.byReason == ["payload too large": 1], "\(alert)")
    let voip = try await site.send(
      service, ["--payload", "long.json", "--tokens", "people.csv", "--json", "--push-type", "voip"])
    #expect(voip.status == 0, "\(voip)")
    service.simulator.send(SIGKILL)
  }
}
