internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// A journal over HTTP/2. `CrashDoubtTests` shows how many notifications a kill leaves in doubt.
@Suite(.serialized) struct SendHTTP2JournalTests {
  @Test("a key that the service refuses rejects nothing: with the right key --resume delivers the whole campaign")
  func mendedKey() async throws {
    let site = try HTTP2Site()
    let count = 3_000
    try site.place.write((1...count).map { HTTP2Site.token($0) }.joined(separator: "\n"), to: "tokens.txt")
    let service = try await site.simulate()
    let good = try site.place.read(HTTP2Site.keyFile)
    // Another key with the same identifier, so the signature is wrong.
    try FileManager.default.removeItem(atPath: site.place.path(HTTP2Site.keyFile))
    try ProviderKey.make(keyIdentifier: HTTP2Site.keyIdentifier, teamIdentifier: HTTP2Site.team)
      .write(to: site.place.path(HTTP2Site.keyFile))
    let flags = ["--payload", "hello.json", "--tokens", "tokens.txt", "--journal", "journal", "--json"]
    let refused = try await site.send(service, flags)
    #expect(refused.status == 3, "\(refused)")
    #expect(refused.errors.contains("InvalidProviderToken"), "\(refused)")
    let stopped = try #require(SentAccount(refused)?.apps[HTTP2Site.topic], "\(refused)")
    #expect(stopped.rejected.total == 0, "\(refused)")
    #expect(stopped.unknown == 0, "\(refused)")
    #expect(stopped.acceptedTotal == 0, "\(refused)")
    try Data(good.utf8).write(to: URL(fileURLWithPath: site.place.path(HTTP2Site.keyFile)))
    let resumed = try await site.run(["send", "--resume", "--journal", "journal", "--json"])
    let app = try #require(SentAccount(resumed)?.apps[HTTP2Site.topic], "\(resumed)")
    #expect(resumed.status == 0, "\(resumed)")
    #expect(app.accepted.confirmed == count, "\(resumed)")
    #expect(app.submitted == count, "\(resumed)")
    #expect(app.possibleDuplicates == 0, "\(resumed)")
    #expect(try await site.taken(service).count == count)
  }

  @Test(
    "a reason that is not in the table is shown as the service sent it, also after a kill, without control characters")
  func otherReason() async throws {
    let site = try HTTP2Site()
    let count = 5_000
    let bad = stride(from: 1, through: count, by: 50).map { ($0, HTTP2Site.token($0, prefix: "bad0")) }
    var lines = (1...count).map { HTTP2Site.token($0) }
    for (line, token) in bad { lines[line - 1] = token }
    try site.place.write(lines.joined(separator: "\n"), to: "tokens.txt")
    let long = String(repeating: "x", count: 80)
    let reason = #""Out, \u009b2J\u202e\u001b[2J\#(long)""#
    let service = try await site.simulate(
      rules: "http2: { delay: { fixed: 100ms }, refuse: { prefixes: [bad0], status: 451, reason: \(reason) } }")
    // Characters that JSON escapes stay as the service wrote them.
    let shown = "451 " + (#"Out, \u{9b}2J\u{202e}\u001b[2J"# + long).prefix(64)
    try site.place.write(
      """
      apps:
        - id: news
          topic: \(HTTP2Site.topic)
          transport: http2
          gateway: "localhost:\(service.port)"
          trust: \(site.certificates.files.authority)
          credential: { key: \(HTTP2Site.keyFile), team-id: \(HTTP2Site.team) }
          connections: { min: 1, max: 1 }
          streams: 100
      """, to: "carillon.yaml")
    let flags = ["--payload", "hello.json", "--tokens", "tokens.txt", "--journal", "journal", "--outcomes", "out.csv"]
    let sender = try ChildProcess(["send", "--config", "carillon.yaml"] + flags, directory: site.place.url)
    try await site.kill(sender, afterRecording: 150_000)
    #expect(await sender.ending().status == 128 + SIGKILL)
    // The list is lost, but the journal has the rows.
    let header = "line,token,outcome,reason,gone-since\n"
    try site.place.write(header, to: "out.csv")
    let resumed = try await site.run(["send", "--resume", "--journal", "journal", "--json"])
    let app = try #require(SentAccount(resumed)?.apps["news"], "\(resumed)")
    #expect(resumed.status == 1, "\(resumed)")
    #expect(app.submitted == count, "\(resumed)")
    #expect(app.acceptedTotal == count - bad.count, "\(resumed)")
    #expect(app.rejected.byReason == [shown: bad.count], "\(resumed)")
    #expect(resumed.errors.contains(/out.csv lacked \d+ rows .* written again\.\n/), "\(resumed)")
    let rows = try site.place.read("out.csv").split(separator: "\n").dropFirst().map(String.init)
    #expect(rows.sorted() == bad.map { "\($0.0),\($0.1),rejected,\"\(shown)\"," }.sorted())
    let table = try await site.run(["send", "--resume", "--journal", "journal"])
    #expect(table.output.contains(shown), "\(table)")
    for text in [resumed.output, resumed.errors, table.output, table.errors] + rows {
      #expect(!text.unicodeScalars.contains { ["\u{1B}", "\u{9B}", "\u{202E}"].contains($0) }, "\(text)")
    }
    service.simulator.send(SIGKILL)
  }
}
