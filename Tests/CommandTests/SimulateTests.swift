internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

struct SimulateTests {
  let place: Workplace
  let certificates: CertificateFixture

  init() throws {
    place = try Workplace()
    certificates = try CertificateFixture(in: place)
  }

  private struct Ready: Decodable {
    let event: String
    let gateway: Int
    let feedback: Int
  }

  private func start(_ flags: [String] = []) async throws -> (ChildProcess, Ready) {
    let simulator = try ChildProcess(
      ["simulate", "--gateway-port", "0", "--feedback-port", "0", "--json"] + flags, directory: place.url)
    guard let line = await simulator.line(0) else {
      let ending = await simulator.ending()
      Issue.record("the simulator did not start: \(ending)")
      throw CancellationError()
    }
    return (simulator, try JSONDecoder().decode(Ready.self, from: Data(line.utf8)))
  }

  @Test("it reports when it listens, and on SIGTERM or SIGINT its counts", arguments: [SIGTERM, SIGINT])
  func readyAndCounts(signal: Int32) async throws {
    let (simulator, ready) = try await start(certificates.server)
    #expect(ready.event == "ready")
    #expect(ready.gateway > 0)
    #expect(ready.feedback > 0)
    #expect(ready.gateway != ready.feedback)
    simulator.send(signal)
    let ending = await simulator.ending()
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.output.split(separator: "\n").count == 2, "\(ending)")
    #expect(
      ending.output.split(separator: "\n").last == #"{"event":"stopped","apps":{},"failedHandshakes":0}"#, "\(ending)")
  }

  @Test("without certificates it makes some, prints their place, and removes them at the end")
  func throwAway() async throws {
    let (simulator, _) = try await start(["--app", "com.example.one", "--app", "com.example.two"])
    simulator.send(SIGTERM)
    let ending = await simulator.ending()
    let directory = try #require(
      ending.errors.firstMatch(
        of: /: (\/[^ ]+) \(trust ca\.pem; clients: com\.example\.one\.pem, com\.example\.two\.pem/), "\(ending)")
    #expect(!FileManager.default.fileExists(atPath: String(directory.1)))
  }

  @Test("feedback is read to its end, as CSV or JSON lines, and is then cleared")
  func feedback() async throws {
    try place.write(
      "feedback: [ { token: 0a1b, timestamp: 1400000000 }, { token: \"00112233\", timestamp: 7 } ]\n", to: "rules.yaml")
    for flags in [[], ["--json"]] {
      let (simulator, ready) = try await start(certificates.server + ["--rules", "rules.yaml"])
      let reading = ["feedback", "--service", "localhost:\(ready.feedback)"] + certificates.client + flags
      let first = try await ChildProcess.run(reading)
      let expected =
        flags.isEmpty
        ? "timestamp,token\n1400000000,0a1b\n7,00112233\n"
        : "{\"timestamp\":1400000000,\"token\":\"0a1b\"}\n{\"timestamp\":7,\"token\":\"00112233\"}\n"
      #expect(first.status == 0, "\(first)")
      #expect(first.output == expected, "\(first)")
      #expect(first.errors == "2 entries read from localhost:\(ready.feedback).\n", "\(first)")
      let second = try await ChildProcess.run(reading)
      #expect(second.status == 0, "\(second)")
      #expect(second.output == (flags.isEmpty ? "timestamp,token\n" : ""), "\(second)")
      simulator.send(SIGTERM)
      let ending = await simulator.ending()
      #expect(ending.output.contains("\"feedbackServed\":2"), "\(ending)")
    }
  }

  @Test("feedback is appended to a file, with one header")
  func feedbackFile() async throws {
    try place.write("feedback: [ { token: 0a1b, timestamp: 1 } ]\n", to: "rules.yaml")
    for _ in 0..<2 {
      let (simulator, ready) = try await start(certificates.server + ["--rules", "rules.yaml"])
      let ending = try await ChildProcess.run(
        ["feedback", "--service", "localhost:\(ready.feedback)", "--output", place.path("gone.csv")]
          + certificates.client)
      #expect(ending.status == 0, "\(ending)")
      #expect(ending.output.isEmpty, "\(ending)")
      simulator.send(SIGTERM)
      _ = await simulator.ending()
    }
    #expect(try place.read("gone.csv") == "timestamp,token\n1,0a1b\n1,0a1b\n")
  }

  @Test("a feedback service that cannot be reached, or is not trusted, gives one sentence and exit status 3")
  func feedbackFailures() async throws {
    expectOneLine(
      try await ChildProcess.run(["feedback", "--service", "127.0.0.1:1", "--json"] + certificates.client),
      "127.0.0.1:1 cannot be reached")
    let (simulator, ready) = try await start(certificates.server)
    let app = try #require(certificates.files.apps[CertificateFixture.topic])
    let flags = ["--certificate", app.certificate, "--key", app.key ?? "", "--json"]
    expectOneLine(
      try await ChildProcess.run(["feedback", "--service", "localhost:\(ready.feedback)"] + flags), "is not trusted")
    simulator.send(SIGTERM)
    _ = await simulator.ending()
  }

  private func expectOneLine(_ ending: Ending, _ expected: String, sourceLocation: SourceLocation = #_sourceLocation) {
    expectOneSentence(ending, status: 3, containing: expected, sourceLocation: sourceLocation)
  }

  @Test("an error at the start gives one sentence")
  func cannotStart() async throws {
    try place.write("answer-delay: 200ms\nrefuse:\n  - { prefixes: [zz] }\n", to: "rules.yaml")
    let rules = try await ChildProcess.run(["simulate", "--rules", "rules.yaml"], directory: place.url)
    expectOneSentence(rules, status: 2, containing: "--rules: rules.yaml:3: refuse[0].prefixes")
    expectOneSentence(
      try await ChildProcess.run(["simulate", "--certificate", "none.pem"], directory: place.url), status: 2,
      containing: "cannot read none.pem")
    let (simulator, ready) = try await start(certificates.server)
    let second = try await ChildProcess.run(
      ["simulate", "--gateway-port", "\(ready.gateway)", "--feedback-port", "0"] + certificates.server)
    expectOneSentence(second, status: 3, containing: "port \(ready.gateway)")
    simulator.send(SIGTERM)
    _ = await simulator.ending()
  }

  @Test("certificates are made on request, and can be inspected")
  func makeCertificates() async throws {
    let made = try await ChildProcess.run([
      "simulate", "--make-certificates", place.path("made"), "--app", "com.example.chat", "--json",
    ])
    #expect(made.status == 0, "\(made)")
    #expect(made.output.hasPrefix("{\"authority\":"), "\(made)")
    let container = place.path("made/com.example.chat.p12")
    let table = try await ChildProcess.run([
      "credential", "inspect", container, "--passphrase-file", place.path("made/com.example.chat.pass"),
    ])
    #expect(table.status == 0, "\(table)")
    #expect(table.output.contains(/Topics +com\.example\.chat\n/), "\(table)")
    let json = try await ChildProcess.run(["credential", "inspect", place.path("made/com.example.chat.pem"), "--json"])
    let object = try #require(try JSONSerialization.jsonObject(with: Data(json.output.utf8)) as? [String: Any])
    #expect(object["topics"] as? [String] == ["com.example.chat"])
    #expect(object["key"] as? String == "none")
    #expect(json.status == 0)
    expectOneSentence(
      try await ChildProcess.run(["credential", "inspect", container]), status: 2, containing: "is encrypted")
    try place.write("wrong\n", to: "wrong.pass")
    expectOneSentence(
      try await ChildProcess.run(["credential", "inspect", container, "--passphrase-file", place.path("wrong.pass")]),
      status: 2, containing: "does not open")
  }

  @Test("a certificate that expires soon gives a warning, an expired one exit status 1")
  func expiry() async throws {
    let now = Int64(Date().timeIntervalSince1970)
    let authority = try CertificateAuthority(at: now)
    for (days, status, word) in [(40, 0, ""), (20, 0, "Warning: expires in 20 days"), (-1, 1, "Error: expired on")]
      as [(Int64, Int32, String)]
    {
      var request = CertificateRequest.app(topic: CertificateFixture.topic, at: now)
      request.validity = (now - 100 * 86_400)...(now + days * 86_400 + 3600)
      let path = place.path("app\(days).pem")
      try authority.issue(request).writePEM(certificate: path, key: path)
      let ending = try await ChildProcess.run(["credential", "inspect", path])
      #expect(ending.status == status, "\(ending)")
      #expect((word.isEmpty ? !ending.output.contains("xpire") : ending.output.contains(word)), "\(ending)")
    }
  }
}
