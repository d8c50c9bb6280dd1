internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// `carillon simulate` with its HTTP/2 ports.
struct SimulateHTTP2Tests {
  private static let topic = "com.example.news"
  let place: Workplace

  init() throws { place = try Workplace() }

  private struct Ready: Decodable {
    struct Key: Decodable {
      let file: String
      let keyId: String
      let teamId: String
    }

    let event: String
    let http2: Int?
    let channels: Int?
    let tokenKey: Key?
  }

  private struct Truth: Decodable {
    struct App: Decodable {
      struct Refused: Decodable {
        let total: Int
        let byReason: [String: Int]
      }

      let accepted: Int
      let refused: Refused
      let duplicates: Int
      let connections: Int
    }

    let http2: [String: App]?
  }

  private func start(_ flags: [String]) async throws -> (ChildProcess, Ready) {
    let simulator = try ChildProcess(
      ["simulate", "--gateway-port", "0", "--feedback-port", "0", "--json", "--app", Self.topic] + flags,
      directory: place.url)
    guard let line = await simulator.line(0) else {
      let ending = await simulator.ending()
      Issue.record("the simulator did not start: \(ending)")
      throw CancellationError()
    }
    return (simulator, try JSONDecoder().decode(Ready.self, from: Data(line.utf8)))
  }

  private func stop(_ simulator: ChildProcess) async throws -> Truth {
    simulator.send(SIGTERM)
    let ending = await simulator.ending()
    #expect(ending.status == 0, "\(ending)")
    let line = try #require(ending.output.split(separator: "\n").last)
    return try JSONDecoder().decode(Truth.self, from: Data(line.utf8))
  }

  /// Posts to tokens with nghttp and a provider token. Returns nghttp's output.
  private func post(_ port: Int, _ tokens: [String], key: ProviderKey) async throws -> String {
    try place.write(#"{"aps":{"alert":"Hello"}}"#, to: "payload.json")
    let token = try key.token(issuedAt: Int64(Date().timeIntervalSince1970))
    let arguments =
      [
        "-v", "-y", "-d", place.path("payload.json"), "-H", ":method: POST", "-H",
        "apns-topic: \(Self.topic)", "-H",
        "authorization: bearer \(token)",
      ]
      + tokens.map { "https://localhost:\(port)/3/device/\($0)" }
    return try await ChildProcess.run(arguments, program: "nghttp", redirection: "2>&1").output
  }

  private static func token(_ prefix: String) -> String { prefix + String(repeating: "0", count: 64 - prefix.count) }

  @Test("it prints the HTTP/2 port and the accepted key; prefixes are refused over HTTP/2 too, and counted at the end")
  func prefixes() async throws {
    let (simulator, ready) = try await start([
      "--http2-port", "0", "--channels-port", "0", "--refuse-prefix", "dead", "--record", place.path("record.jsonl"),
    ])
    let (port, file) = (try #require(ready.http2), try #require(ready.tokenKey))
    #expect(ready.channels != nil)
    #expect(ready.channels != port)
    #expect(port > 0)
    let key = try ProviderKey.load(file: file.file, keyIdentifier: file.keyId, teamIdentifier: file.teamId)
    let text = try await post(port, [Self.token("aa"), Self.token("dead")], key: key)
    #expect(text.contains(":status: 200"), "\(text)")
    #expect(text.contains(":status: 400"), "\(text)")
    #expect(text.contains(#"{"reason":"BadDeviceToken"}"#), "\(text)")
    let app = try #require(try await stop(simulator).http2?[Self.topic])
    #expect(app.accepted == 1)
    #expect(app.refused.byReason == ["400 BadDeviceToken": 1])
    #expect(app.connections == 1)
    #expect(app.duplicates == 0)
    let lines = try place.read("record.jsonl").split(separator: "\n")
    #expect(lines.count == 2)
    #expect(lines.count { $0.contains(#""refused":"400 BadDeviceToken""#) } == 1)
    #expect(!FileManager.default.fileExists(atPath: file.file), "the key was only for this run")
  }

  @Test("a given key is accepted and a given reason is sent; rules file and flags are combined")
  func ownKey() async throws {
    let made = try await ChildProcess.run([
      "simulate", "--make-certificates", place.path("made"), "--app", Self.topic, "--json",
    ])
    struct Made: Decodable { let tokenKey: Ready.Key }
    let file = try JSONDecoder().decode(Made.self, from: Data(made.output.utf8)).tokenKey
    try place.write("http2:\n  delay: { fixed: 5ms }\n  refuse: [ { prefixes: [cc] } ]\n", to: "rules.yaml")
    let (simulator, ready) = try await start([
      "--http2-port", "0", "--token-key", file.file, "--key-id", file.keyId, "--team-id", file.teamId,
      "--refuse-prefix", "dead", "--refuse-reason",
      "Unregistered", "--rules", "rules.yaml",
    ])
    #expect(ready.tokenKey == nil)
    #expect(ready.channels == nil)
    let key = try ProviderKey.load(file: file.file, keyIdentifier: file.keyId, teamIdentifier: file.teamId)
    let text = try await post(try #require(ready.http2), [Self.token("cc"), Self.token("dead")], key: key)
    #expect(text.contains(":status: 200"), "\(text)")
    #expect(text.contains(":status: 410"), "\(text)")
    #expect(text.contains(#"{"reason":"Unregistered","timestamp":"#), "\(text)")
    _ = try await stop(simulator)
  }

  @Test("the path of a key in the rules file starts at that file's folder")
  func keyInRules() async throws {
    let made = try await ChildProcess.run([
      "simulate", "--make-certificates", place.path("made"), "--app", Self.topic, "--json",
    ])
    struct Made: Decodable { let tokenKey: Ready.Key }
    let file = try JSONDecoder().decode(Made.self, from: Data(made.output.utf8)).tokenKey
    let name = URL(fileURLWithPath: file.file).lastPathComponent
    try place.write(
      "http2: { keys: [ { file: \(name), key-id: \(file.keyId), team-id: \(file.teamId) } ] }\n", to: "made/rules.yaml")
    let (simulator, ready) = try await start(["--http2-port", "0", "--rules", "made/rules.yaml"])
    #expect(ready.tokenKey == nil)
    let key = try ProviderKey.load(file: file.file, keyIdentifier: file.keyId, teamIdentifier: file.teamId)
    let text = try await post(try #require(ready.http2), [Self.token("cc")], key: key)
    #expect(text.contains(":status: 200"), "\(text)")
    _ = try await stop(simulator)
  }

  @Test("a mistake gives one sentence")
  func mistakes() async throws {
    try place.write("http2:\n  refuse:\n    - { every: 5, reason: Unregisterd }\n", to: "rules.yaml")
    try place.write("http2: { goaways: { after: 5 } }\n", to: "unknown.yaml")
    for (flags, status, expected) in [
      (["--http2-port", "70000"], 2, "--http2-port must be a port"),
      (["--token-key", "x"], 2, "Each --token-key needs a --key-id: there are 1 and 0."),
      (["--token-key", "x", "--key-id", "k"], 2, "Each --token-key needs a --team-id"),
      (["--token-key", "x", "--key-id", "k", "--team-id", "t"], 2, "--token-key needs --http2-port"),
      (["--strict"], 2, "--strict needs --http2-port"),
      (["--refuse-reason", "x"], 2, "--refuse-reason needs"),
      (
        ["--refuse-prefix", "00", "--refuse-reason", "Odd"], 2,
        "--refuse-reason: \"Odd\" is not one of the service's reasons"
      ),
      (["--http2-port", "0", "--token-key", "none.p8", "--key-id", "k", "--team-id", "t"], 2, "cannot read none.p8"),
      (
        ["--rules", "rules.yaml"], 2,
        "--rules: rules.yaml:3: http2.refuse[0] \"Unregisterd\" is not one of the service's reasons"
      ),
      (["--rules", "unknown.yaml"], 2, "--rules: unknown.yaml:1: http2 unknown key \"goaways\""),
    ] as [([String], Int32, String)] {
      let ending = try await ChildProcess.run(
        ["simulate", "--gateway-port", "0", "--feedback-port", "0"] + flags, directory: place.url)
      expectOneSentence(ending, status: status, containing: expected)
    }
  }
}
