internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// The flags of `send` for a journal, and their combinations.
struct JournalUsageTests {
  @Test(
    "flags that the journal stores exclude --resume",
    arguments: [
      ["--app", "a"], ["--campaign", "c"], ["--gateway", "h:1"], ["--payload", "p"], ["--tokens", "t"],
      ["--connections", "1"], ["--command", "2"],
      ["--expiration", "1h"], ["--priority", "10"], ["--settle-quiet", "1s"], ["--confirm", "quiet"],
      ["--outcomes", "o"], ["--certificate", "c"],
    ])
  func excluded(flags: [String]) async throws {
    let ending = try await ChildProcess.run(["send", "--resume", "--journal", "j"] + flags)
    expectOneSentence(
      ending, status: 2, containing: "\(flags[0]) and --resume exclude each other: the journal stores it")
  }

  @Test(
    "flags that need others are errors without them",
    arguments: [
      (["--resume"], "--resume needs --journal DIR"),
      (["--skip-damaged", "--payload", "p", "--tokens", "t"], "--skip-damaged needs --resume"),
      (["--resume", "--journal", "j", "--sync", "sometimes"], "sometimes"),
      (["--resume", "--journal", "no-such-folder"], "There is no journal in no-such-folder"),
    ])
  func needs(flags: [String], expected: String) async throws {
    expectOneSentence(try await ChildProcess.run(["send"] + flags), status: 2, containing: expected)
  }

  @Test("standard input cannot be read again, --sync needs a journal, and two equal entries are refused")
  func plans() async throws {
    let place = try Workplace()
    let app = try #require(CertificateFixture(in: place).files.apps[CertificateFixture.topic])
    try place.write(#"{"aps":{"alert":"Hello"}}"#, to: "hello.json")
    try place.write(SendFilesTests.token + "\n", to: "tokens.txt")
    try place.write(
      """
      apps:
        - { id: news, gateway: "127.0.0.1:1", credential: { certificate: \(app.certificate), key: \(app.key ?? "") } }
      """, to: "carillon.yaml")
    func send(_ flags: [String]) async throws -> Ending {
      try await ChildProcess.run(
        ["send", "--config", "carillon.yaml"] + flags, input: SendFilesTests.token, directory: place.url)
    }
    let usual = ["--payload", "hello.json"]
    expectOneSentence(
      try await send(usual + ["--tokens", "-", "--journal", "j"]), status: 2,
      containing: "Standard input cannot be read again when the campaign is resumed")
    expectOneSentence(
      try await send(usual + ["--tokens", "tokens.txt", "--sync", "always"]), status: 2,
      containing: "--sync needs --journal DIR")
    let entry = "- { app: news, payload: hello.json, tokens: tokens.txt }\n"
    try place.write(entry + entry, to: "twice.yaml")
    expectOneSentence(
      try await send(["--campaign", "twice.yaml", "--journal", "j", "--outcomes", "o.csv"]), status: 2,
      containing: "Two entries of twice.yaml send to tokens.txt through news")
    #expect(!FileManager.default.fileExists(atPath: place.path("j")))
  }

  @Test(
    "every command shows its help with an example",
    arguments: [["journal", "inspect"], ["journal", "verify"], ["journal", "abandon"]])
  func help(command: [String]) async throws {
    let ending = try await ChildProcess.run(command + ["--help"])
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.errors.isEmpty, "\(ending)")
    #expect(ending.output.contains("  carillon \(command.joined(separator: " ")) DIR"), "\(ending)")
    #expect(ending.output.contains("Exit status"), "\(ending)")
  }
}
