internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// `carillon send` against `carillon simulate`, both as a user starts them.
struct SendTests {
  let place: Workplace
  let certificates: CertificateFixture

  init() throws {
    place = try Workplace()
    certificates = try CertificateFixture(in: place)
    try place.write(#"{"aps":{"alert":"Hello {{name}}"}}"#, to: "named.json")
    try place.write(#"{"aps":{"alert":"Hello"}}"#, to: "hello.json")
  }

  private func simulate(_ flags: [String] = []) async throws -> (ChildProcess, port: String) {
    let simulator = try ChildProcess(
      ["simulate", "--gateway-port", "0", "--feedback-port", "0", "--json"] + certificates.server + flags,
      directory: place.url)
    let line = try #require(await simulator.line(0), "the simulator did not start")
    return (simulator, try String(#require(line.firstMatch(of: /"gateway":(\d+)/)).1))
  }

  private func token(_ number: Int, prefix: String = "00") -> String {
    let digits = String(number, radix: 16)
    return prefix + String(repeating: "0", count: 62 - digits.count) + digits
  }

  private func report(_ ending: Ending) throws -> SentAccount { try #require(SentAccount(ending), "\(ending)") }

  @Test("bad tokens and malformed lines are counted and listed with their lines, and everything else arrives")
  func account() async throws {
    let (simulator, port) = try await simulate(["--refuse-prefix", "dead"])
    var lines = ["token,name"] + (2...301).map { "\(token($0)),\"Ann \"\"\($0)\"\"\"" }
    lines[10] = "\(token(10, prefix: "dead").prefix(64)),Bad"
    lines[200] = "nonsense,Bad"
    lines[201] = "\(token(201)),too,many"
    try place.write(lines.joined(separator: "\n"), to: "people.csv")
    let sent = try await ChildProcess.run(
      [
        "send", "--gateway", "localhost:\(port)", "--payload", "named.json", "--tokens", "people.csv", "--json",
        "--outcomes", "out.csv",
      ] + certificates.client,
      directory: place.url)
    #expect(sent.status == 1, "\(sent)")
    let app = try #require(try report(sent).apps[CertificateFixture.topic], "\(sent)")
    #expect(app.submitted == 300, "\(sent)")
    #expect(app.sum == 300, "\(sent)")
    #expect(app.unknown == 0, "\(sent)")
    #expect(app.possibleDuplicates == 0, "\(sent)")
    #expect(
      app.rejected.byReason == [
        "8 invalid token": 1, "malformed token": 1, "malformed row (not as many columns as the header)": 1,
      ], "\(sent)")
    let listed = try place.read("out.csv").split(separator: "\n").dropFirst().sorted()
    let expected = [
      "11,\(lines[10].prefix(64)),rejected,8 invalid token", "201,nonsense,rejected,malformed token",
      "202,\"\(token(201)),too,many\",rejected,malformed row (not as many columns as the header)",
    ]
    #expect(listed.map(String.init) == expected, "\(listed)")
    simulator.send(SIGTERM)
    let truth = await simulator.ending()
    #expect(
      truth.output.contains("\"accepted\":297,\"refused\":{\"total\":1,\"byReason\":{\"8 invalid token\":1}}"),
      "\(truth)")
  }

  @Test("standard input is sent, the default output is a table, and exit status 0 means that all were accepted")
  func standardInput() async throws {
    let (simulator, port) = try await simulate()
    // The shell has read the first of 51.
    let sent = try await ChildProcess.run(
      ["send", "--gateway", "localhost:\(port)", "--payload", "hello.json", "--tokens", "-", "--app", "news"]
        + certificates.client,
      input: (0...50).map { token($0) + "\n" }.joined(), directory: place.url, preparation: "read skipped && exec")
    #expect(sent.status == 0, "\(sent)")
    #expect(sent.output.contains(/submitted +50\naccepted +50\n/), "\(sent)")
    #expect(sent.output.contains("news"), "\(sent)")
    simulator.send(SIGTERM)
    let truth = await simulator.ending()
    #expect(truth.output.contains("\"accepted\":50,"), "\(truth)")
  }

  @Test("a gateway that cannot be reached gives one sentence and exit status 3")
  func unreachable() async throws {
    try place.write(token(1), to: "tokens.txt")
    let sent = try await ChildProcess.run(
      ["send", "--gateway", "127.0.0.1:1", "--payload", "hello.json", "--tokens", "tokens.txt"] + certificates.client,
      directory: place.url)
    expectOneSentence(sent, status: 3, containing: "127.0.0.1:1")
  }

  @Test("nothing is sent to a gateway whose certificate has another name, and the error has both names")
  func wrongServerName() async throws {
    let now = Int64(Date().timeIntervalSince1970)
    let authority = try CertificateAuthority(at: now)
    var request = CertificateRequest(
      commonName: "push.example.com", usage: .server, validity: CertificateRequest.lasting(from: now))
    request.serverNames = ["push.example.com"]
    try authority.issue(request).writePEM(certificate: place.path("other.pem"), key: place.path("other.key"))
    try authority.write(to: place.path("other-ca.pem"))
    // The last of two equal flags counts.
    let (simulator, port) = try await simulate(["--certificate", "other.pem", "--key", "other.key"])
    try place.write(token(1), to: "tokens.txt")
    let sent = try await ChildProcess.run(
      ["send", "--gateway", "localhost:\(port)", "--payload", "hello.json", "--tokens", "tokens.txt"]
        + certificates.client + ["--trust", "other-ca.pem"],
      directory: place.url)
    expectOneSentence(sent, status: 3, containing: "push.example.com")
    #expect(sent.errors.contains("localhost"), "\(sent)")
    simulator.send(SIGTERM)
    let truth = await simulator.ending()
    #expect(truth.output.contains("\"apps\":{},\"failedHandshakes\":"), "\(truth)")
  }

  @Test(
    "an interrupted campaign takes in nothing more, and its account still adds up, also when its terminal goes away",
    arguments: [SIGINT, SIGTERM, SIGHUP])
  func interrupted(signal: Int32) async throws {
    let (simulator, port) = try await simulate()
    let app = try #require(certificates.files.apps[CertificateFixture.topic])
    try place.write(
      """
      apps:
        - id: news
          gateway: localhost:\(port)
          trust: \(certificates.files.authority)
          credential: { certificate: \(app.certificate), key: \(app.key ?? "") }
          rate-limit: 10/s
      """, to: "carillon.yaml")
    try place.write((1...5000).map { token($0) + "\n" }.joined(), to: "tokens.txt")
    let sender = try ChildProcess(
      ["send", "--config", "carillon.yaml", "--payload", "hello.json", "--tokens", "tokens.txt", "--json"],
      directory: place.url)
    // Its first line of progress shows that it is sending. It needs over eight minutes for all.
    try await waitUntil("the first line of progress") { !sender.errors.isEmpty }
    sender.send(signal)
    // As a shell does that receives a SIGHUP itself.
    if signal == SIGHUP { sender.send(SIGHUP) }
    let sent = await sender.ending()
    #expect(sent.status == 1, "\(sent)")
    let account = try #require(try report(sent).apps["news"], "\(sent)")
    #expect(account.submitted > 0, "\(sent)")
    #expect(account.submitted < 5000, "\(sent)")
    #expect(account.sum == account.submitted, "\(sent)")
    simulator.send(SIGTERM)
    let truth = await simulator.ending()
    #expect(
      truth.output.contains("\"accepted\":\(account.accepted.confirmed + account.accepted.quiet),"), "\(sent) \(truth)")
  }

  @Test("a campaign that is interrupted twice ends at once, and notifications in flight count as unknown")
  func interruptedTwice() async throws {
    // A gateway that reads nothing for longer than the test, so everything stays in flight.
    try place.write("stop-reading: { after: 0, for: 1h }\n", to: "rules.yaml")
    let (simulator, port) = try await simulate(["--rules", "rules.yaml"])
    try place.write((1...5000).map { token($0) + "\n" }.joined(), to: "tokens.txt")
    let sender = try ChildProcess(
      [
        "send", "--gateway", "localhost:\(port)", "--payload", "hello.json", "--tokens", "tokens.txt", "--json",
        "--settle-quiet", "1h", "--outcomes", "out.csv",
      ] + certificates.client,
      directory: place.url)
    try await waitUntil("the first line of progress") { !sender.errors.isEmpty }
    sender.send(SIGINT)
    // The second signal counts only when the first one has been handled.
    try await waitUntil("the process stops") { sender.errors.contains("stopping") }
    sender.send(SIGINT)
    let sent = await sender.ending()
    #expect(sent.status == 1, "\(sent)")
    #expect(sent.output.split(separator: "\n").count == 1, "\(sent)")
    let account = try #require(try report(sent).apps[CertificateFixture.topic], "\(sent)")
    // A single connection need not have taken all of them.
    #expect(account.submitted == account.neverRead.first.map { $0.fromLine - 1 } ?? 5000, "\(sent)")
    #expect(account.sum == account.submitted, "\(sent)")
    #expect(account.unknown > 0, "\(sent)")
    // Connections are closed, so every notification in flight gets its row.
    let rows = try #require(OutcomeRow.parse(try place.read("out.csv")), "\(sent)")
    #expect(rows.count { $0.outcome == "unknown" } == account.unknown, "\(sent)")
    #expect(rows.count == account.submitted, "\(sent)")
    #expect(Set(rows.map(\.line)).count == rows.count, "\(sent)")
    #expect(!sent.errors.contains("not listed"), "\(sent)")
    simulator.send(SIGKILL)
    _ = await simulator.ending()
  }

  @Test("reading an endless token file without tokens can be interrupted; a file without line ends is refused")
  func endlessTokens() async throws {
    let (simulator, port) = try await simulate()
    func arguments(_ tokens: String) -> [String] {
      ["send", "--gateway", "localhost:\(port)", "--payload", "hello.json", "--tokens", tokens, "--json"]
        + certificates.client
    }
    let zero = try await ChildProcess.run(arguments("/dev/zero"), directory: place.url)
    #expect(zero.status == 1, "\(zero)")
    #expect(zero.errors.contains("line 1 has more than 1 MiB"), "\(zero)")
    #expect(
      try report(zero).apps[CertificateFixture.topic]?.rejected.byReason["malformed line (longer than 64 KiB)"] == 1,
      "\(zero)")
    let sender = try ChildProcess(
      arguments("endless"), directory: place.url, preparation: "mkfifo endless && { yes '' >endless & } && exec")
    try await waitUntil("the first line of progress") { sender.hasEnded || !sender.errors.isEmpty }
    sender.send(SIGTERM)
    let sent = await sender.ending()
    #expect(sent.status == 1, "\(sent)")
    #expect(sent.errors.contains("carillon: stopping"), "\(sent)")
    let again = try await ChildProcess.run(
      arguments("again") + ["--journal", "journal"], directory: place.url,
      preparation: "mkfifo again && { yes '' >again & } && exec")
    expectOneSentence(
      again, status: 2, containing: "again cannot be read again when the campaign is resumed, so a journal cannot")
    simulator.send(SIGKILL)
    _ = await simulator.ending()
  }

  @Test(
    "an account that cannot be written is reported, and is not a success", arguments: [">/dev/full", ">&-", "<&- >&-"])
  func unwrittenAccount(redirection: String) async throws {
    let (simulator, port) = try await simulate()
    try place.write(token(1), to: "tokens.txt")
    let sent = try await ChildProcess.run(
      ["send", "--gateway", "localhost:\(port)", "--payload", "hello.json", "--tokens", "tokens.txt", "--json"]
        + certificates.client, directory: place.url,
      redirection: redirection)
    let reason = redirection == ">/dev/full" ? "No space left on device" : "Bad file descriptor"
    #expect(sent.status == 3, "\(sent)")
    #expect(
      sent.errors.contains(
        "carillon: the account cannot be written to standard output: \(reason); it is on standard error instead"),
      "\(sent)")
    let account = SentAccount(Ending(status: sent.status, output: sent.errors, errors: ""))?.apps[
      CertificateFixture.topic]
    #expect(account?.acceptedTotal == 1, "\(sent)")
    simulator.send(SIGTERM)
    let truth = await simulator.ending()
    #expect(truth.output.contains("\"accepted\":1,"), "\(truth)")
  }
}
