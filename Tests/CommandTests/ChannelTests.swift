internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

@testable internal import Carillon
@testable internal import CarillonCommand

/// `carillon channel`, and broadcasts.
struct ChannelTests {
  private let site: HTTP2Site

  init() throws { site = try HTTP2Site() }

  private func channel(
    _ service: HTTP2Site.Service, _ arguments: [String], by identity: [String]? = nil
  ) async throws -> Ending {
    try await site.run(
      ["channel"] + arguments + ["--gateway", "localhost:\(service.channelsPort)"] + (identity ?? site.key))
  }

  @Test("a channel is created, listed, read, used and deleted; errors show the service's reason with advice")
  func life() async throws {
    let service = try await site.simulate()
    let created = try await channel(service, ["create", "--store", "none"])
    let identifier = created.output.trimmingCharacters(in: .newlines)
    #expect(created.status == 0, "\(created)")
    #expect(identifier.count == 24, "\(created)")
    #expect(try await channel(service, ["list"]).output == "\(identifier)\n")
    let listed = try await channel(service, ["list", "--json"], by: site.certificates.client)
    #expect(
      try JSONDecoder().decode([String: [String]].self, from: Data(listed.output.utf8)) == ["channels": [identifier]],
      "\(listed)")
    let read = try await channel(service, ["read", identifier])
    #expect(read.status == 0, "\(read)")
    #expect(read.output.hasPrefix("\(identifier) stores nothing"), "\(read)")

    let flags = ["--channel", identifier, "--payload", "goal.json", "--json", "--outcomes", "out.csv"]
    let sent = try await site.send(service, flags + ["--expiration", "0"])
    #expect(sent.status == 0, "\(sent)")
    #expect(SentAccount(sent)?.apps[HTTP2Site.topic]?.acceptedTotal == 1, "\(sent)")
    let stored = try await site.send(service, flags + ["--expiration", "1h"])
    #expect(SentAccount(stored)?.apps[HTTP2Site.topic]?.rejected.byReason == ["400 BadExpirationDate": 1], "\(stored)")
    // A field that begins with + gets an apostrophe, because spreadsheets would run it as a
    // formula. One identifier in 64 does.
    let field = identifier.hasPrefix("+") ? "'" + identifier : identifier
    #expect(
      try site.place.read("out.csv")
        == "line,token,outcome,reason,gone-since\n1,\(field),rejected,400 BadExpirationDate,\n")

    let deleted = try await channel(service, ["delete", identifier])
    #expect(deleted.status == 0, "\(deleted)")
    #expect(deleted.output.isEmpty, "\(deleted)")
    let gone = try await channel(service, ["read", identifier])
    expectOneSentence(
      gone, status: 1, containing: "400 ChannelNotRegistered: the app has no such channel in this environment")
    expectOneSentence(try await channel(service, ["delete", "!"]), status: 1, containing: "BadChannelId")
    service.simulator.send(SIGTERM)
    #expect(await service.simulator.ending().output.contains("\"broadcasts\":1"))
  }

  @Test(
    "flags that do not fit, and a service that cannot be reached, give one sentence",
    arguments: [
      (["list"], 2, "A credential is missing: --token-key FILE, --certificate FILE or --config FILE"),
      (["create", "--store", "all", "--certificate", "c"], 2, "all"),
      (["list", "--token-key", "k"], 2, "--token-key needs --team-id"),
      (["list", "--certificate", "c", "--app", "news"], 2, "--app needs --config"),
      (["list", "--config", "c", "--topic", "t"], 2, "--topic and --config exclude each other"),
      (["list", "--certificate", "none.pem"], 2, "cannot read none.pem"),
    ] as [([String], Int32, String)])
  func usage(arguments: [String], status: Int32, expected: String) async throws {
    expectOneSentence(try await site.run(["channel"] + arguments), status: status, containing: expected)
  }

  @Test("each channel is one line, whatever its name")
  func escaped() {
    #expect(ChannelCommand.List.lines(["dHN0", "a\nb\u{1B}[2J"]) == "dHN0\na\\u{a}b\\u{1b}[2J")
  }

  @Test("a service that does not answer is named in the error")
  func unreachable() async throws {
    let ending = try await site.run(["channel", "list", "--gateway", "127.0.0.1:1"] + site.key)
    expectOneSentence(ending, status: 3, containing: "127.0.0.1:1 cannot be reached")
  }
}

/// `carillon credential inspect` on token signing keys.
struct TokenKeyInspectTests {
  @Test(
    "a token key is recognised by its content; its identifier comes from the file's name; open permissions are an error"
  )
  func inspect() async throws {
    let site = try HTTP2Site()
    let good = try await site.run(["credential", "inspect", HTTP2Site.keyFile])
    #expect(good.status == 0, "\(good)")
    #expect(good.output.contains("EC P-256"), "\(good)")
    #expect(good.output.contains("ABC123DEFG"), "\(good)")
    #expect(good.output.contains("0600"), "\(good)")
    try FileManager.default.moveItem(atPath: site.place.path(HTTP2Site.keyFile), toPath: site.place.path("key.pem"))
    let renamed = try await site.run(["credential", "inspect", "key.pem", "--json"])
    #expect(renamed.status == 0, "\(renamed)")
    #expect(renamed.output.contains(#""format":"p8""#), "\(renamed)")
    #expect(!renamed.output.contains("keyID"), "\(renamed)")
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: site.place.path("key.pem"))
    let open = try await site.run(["credential", "inspect", "key.pem"])
    #expect(open.status == 1, "\(open)")
    #expect(open.output.contains("run: chmod 600"), "\(open)")
    try site.place.write("nonsense", to: "AuthKey_ABC123DEFG.p8")
    expectOneSentence(
      try await site.run(["credential", "inspect", "AuthKey_ABC123DEFG.p8"]), status: 2,
      containing: "not a token signing key")
    // The key of a certificate is not a token key.
    let key = site.certificates.files.server.key ?? ""
    let other = try await site.run(["credential", "inspect", key])
    #expect(other.status == 0 || other.errors.contains("holds no certificate"), "\(other)")
  }
}
