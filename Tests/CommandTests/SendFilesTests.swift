internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// The errors that `carillon send` finds in files before it sends. The gateway in the arguments is
/// never reached.
struct SendFilesTests {
  let place: Workplace
  let certificates: CertificateFixture
  static let token = String(repeating: "ab", count: 32)

  init() throws {
    place = try Workplace()
    certificates = try CertificateFixture(in: place)
    try place.write(#"{"aps":{"alert":"Hello"}}"#, to: "hello.json")
    try place.write("\(Self.token)\n", to: "tokens.txt")
  }

  private func send(
    payload: String = "hello.json", tokens: String = "tokens.txt", input: String = "", besides: [String] = []
  ) async throws -> Ending {
    // No program listens on port 1 of this machine.
    let arguments =
      ["send", "--gateway", "127.0.0.1:1", "--payload", payload, "--tokens", tokens] + certificates.client + besides
    return try await ChildProcess.run(arguments, input: input, directory: place.url)
  }

  @Test("a payload that would be refused, or cannot be read")
  func payload() async throws {
    try place.write(#"{"aps":{"alert":"Hello"}"#, to: "cut.json")
    expectOneSentence(
      try await send(payload: "cut.json"), status: 2,
      containing: "The payload cut.json cannot be sent: The payload is not JSON")
    try place.write("[1]", to: "array.json")
    expectOneSentence(try await send(payload: "array.json"), status: 2, containing: "must be a JSON object")
    try place.write(#"{"aps":{"alert":"\#(String(repeating: "x", count: 3000))"}}"#, to: "large.json")
    expectOneSentence(
      try await send(payload: "large.json"), status: 2,
      containing: "than command 2 of the binary protocol allows (2048)")
    expectOneSentence(
      try await send(payload: "none.json"), status: 2, containing: "none.json: cannot be read: there is no such file")
    expectOneSentence(try await send(payload: "."), status: 2, containing: "it is a folder")
    try place.write(#"{"aps":{"alert":{{name}}}}"#, to: "outside.json")
    expectOneSentence(
      try await send(payload: "outside.json"), status: 2,
      containing: "outside.json, line 1, column 17: a placeholder stands outside a JSON string")
  }

  @Test("a token file that is missing, empty or without the column that is needed")
  func tokens() async throws {
    expectOneSentence(
      try await send(tokens: "none.txt"), status: 2,
      containing: "The token file none.txt cannot be opened: No such file or directory")
    try place.write("", to: "empty.txt")
    expectOneSentence(try await send(tokens: "empty.txt"), status: 2, containing: "empty.txt holds no device token")
    try place.write("token,name\n\n", to: "header.csv")
    expectOneSentence(try await send(tokens: "header.csv"), status: 2, containing: "header.csv holds no device token")
    expectOneSentence(try await send(tokens: "-"), status: 2, containing: "standard input holds no device token")
    try place.write("id,name\n1,Ann\n", to: "columns.csv")
    expectOneSentence(
      try await send(tokens: "columns.csv"), status: 2,
      containing: "columns.csv, line 1: the header has no column \"token\"")
    try place.write(#"{"aps":{"alert":"Hello {{name}}"}}"#, to: "named.json")
    try place.write("token,first\n\(Self.token),Ann\n", to: "people.csv")
    expectOneSentence(
      try await send(payload: "named.json", tokens: "people.csv"), status: 2,
      containing: "the token file has no column \"name\" (it has \"token\", \"first\")")
  }

  @Test("a certificate that is missing, invalid, or has a key that others can read")
  func certificate() async throws {
    func send(_ flags: [String]) async throws -> Ending {
      try await ChildProcess.run(
        ["send", "--gateway", "127.0.0.1:1", "--payload", "hello.json", "--tokens", "tokens.txt"] + flags,
        directory: place.url)
    }
    expectOneSentence(
      try await send(["--certificate", "none.pem"]), status: 2,
      containing: "cannot read none.pem: No such file or directory")
    expectOneSentence(
      try await send(["--certificate", "hello.json"]), status: 2,
      containing: "hello.json is neither a PEM nor a PKCS#12 file")
    let app = try #require(certificates.files.apps[CertificateFixture.topic])
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: app.key ?? "")
    expectOneSentence(
      try await send(["--certificate", app.certificate, "--key", app.key ?? ""]), status: 2,
      containing: "run: chmod 600")
  }

  /// Makes a client certificate with its key in one file.
  private func issue(_ name: String, daysLeft: Int64) throws -> String {
    let now = Int64(Date().timeIntervalSince1970)
    var request = CertificateRequest.app(topic: CertificateFixture.topic, at: now)
    request.environments = [.production]
    // One more hour, so that the day does not end during the test.
    request.validity = (now - 365 * 86_400)...(now + daysLeft * 86_400 + 3600)
    let path = place.path(name)
    try CertificateAuthority(at: now).issue(request).writePEM(certificate: path, key: path)
    return path
  }

  @Test("an expired client certificate is refused with one sentence, and inspection reports an error")
  func expiredCertificate() async throws {
    let path = try issue("old.pem", daysLeft: -2)
    let arguments = [
      "send", "--gateway", "127.0.0.1:1", "--payload", "hello.json", "--tokens", "tokens.txt", "--certificate", path,
    ]
    let sent = try await ChildProcess.run(arguments, directory: place.url)
    expectOneSentence(sent, status: 2, containing: "he certificate in \(path) expired on ")
    #expect(sent.errors.contains("; request a new one"), "\(sent)")
    let inspected = try await ChildProcess.run(["credential", "inspect", path], directory: place.url)
    #expect(inspected.status == 1, "\(inspected)")
    #expect(inspected.errors.isEmpty, "\(inspected)")
    #expect(inspected.output.contains(/\nError: expired on .*; request a new certificate/), "\(inspected)")
  }

  @Test("send and inspection warn of a certificate that expires in less than 30 days, not of others")
  func expiringCertificate() async throws {
    for (days, isWarned) in [(Int64(30), false), (29, true)] {
      let path = try issue("\(days).pem", daysLeft: days)
      let arguments = [
        "send", "--gateway", "127.0.0.1:1", "--payload", "hello.json", "--tokens", "tokens.txt", "--certificate", path,
      ]
      let sent = try await ChildProcess.run(arguments, directory: place.url)
      // It continues, to a gateway that cannot be reached.
      #expect(sent.status == 3, "\(sent)")
      #expect(
        sent.errors.hasPrefix("carillon: warning: The certificate \(path) expires in 29 days; request a new one.\n")
          == isWarned, "\(sent)")
      #expect(sent.errors.contains("expires") == isWarned, "\(sent)")
      let inspected = try await ChildProcess.run(["credential", "inspect", path], directory: place.url)
      #expect(inspected.status == 0, "\(inspected)")
      #expect(inspected.output.contains("\(days) days left"), "\(inspected)")
      #expect(inspected.output.contains("\nWarning: expires in 29 days, on ") == isWarned, "\(inspected)")
    }
  }

  @Test("a mistake in a configuration or campaign file is an error with its line")
  func configuration() async throws {
    let credential =
      "credential: { certificate: certs/\(CertificateFixture.topic).pem, key: certs/\(CertificateFixture.topic).key }"
    try place.write("apps:\n  - id: news\n    \(credential)\n    topc: x\n", to: "wrong.yaml")
    try place.write("apps:\n  - id: news\n    \(credential)\n  - id: chat\n    \(credential)\n", to: "good.yaml")
    func send(_ flags: [String]) async throws -> Ending {
      try await ChildProcess.run(["send"] + flags, directory: place.url)
    }
    let usual = ["--payload", "hello.json", "--tokens", "tokens.txt"]
    expectOneSentence(
      try await send(["--config", "wrong.yaml"] + usual), status: 2,
      containing: "wrong.yaml:4: unknown key \"topc\" in apps[0]; did you mean \"topic\"?")
    expectOneSentence(
      try await send(["--config", "good.yaml"] + usual), status: 2,
      containing: "--app: good.yaml has several apps, so one must be named: news, chat")
    expectOneSentence(
      try await send(["--config", "good.yaml", "--app", "nwes"] + usual), status: 2,
      containing: "did you mean \"news\"?")
    try place.write(
      "- { app: news, payload: hello.json, tokens: none.txt }\n- { app: cat, payload: hello.json, tokens: t }\n",
      to: "campaign.yaml")
    expectOneSentence(
      try await send(["--config", "good.yaml", "--campaign", "campaign.yaml"]), status: 2,
      containing: "campaign.yaml:2: [1].app is \"cat\"")
    try place.write("- { app: news, payload: hello.json, tokens: none.txt }\n", to: "campaign.yaml")
    expectOneSentence(
      try await send(["--config", "good.yaml", "--campaign", "campaign.yaml"]), status: 2,
      containing: "The token file none.txt cannot be opened")
  }
}
