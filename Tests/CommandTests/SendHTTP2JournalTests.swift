internal import Foundation
internal import PushTransport
internal import Testing

/// A journal over HTTP/2. What a kill leaves in doubt is in `CrashDoubtTests`.
@Suite(.serialized) struct SendHTTP2JournalTests {
  @Test("a key that the service refuses rejects nothing: with the mended key --resume delivers the whole campaign")
  func mendedKey() async throws {
    let site = try HTTP2Site()
    let count = 3_000
    try site.place.write((1...count).map { HTTP2Site.token($0) }.joined(separator: "\n"), to: "tokens.txt")
    let service = try await site.simulate()
    let good = try site.place.read(HTTP2Site.keyFile)
    // Another key under the same identifier: the signature is wrong.
    try FileManager.default.removeItem(atPath: site.place.path(HTTP2Site.keyFile))
    try ProviderKey.make(keyIdentifier: HTTP2Site.keyIdentifier, teamIdentifier: HTTP2Site.team)
      .write(to: site.place.path(HTTP2Site.keyFile))
    let flags = ["--payload", "hello.json", "--tokens", "tokens.txt", "--journal", "journal", "--json"]
    let refused = try await site.send(service, flags)
    #expect(refused.status == 3 && refused.errors.contains("InvalidProviderToken"), "\(refused)")
    let stopped = try #require(SentAccount(refused)?.apps[HTTP2Site.topic], "\(refused)")
    #expect(stopped.rejected.total == 0 && stopped.unknown == 0 && stopped.acceptedTotal == 0, "\(refused)")
    try Data(good.utf8).write(to: URL(fileURLWithPath: site.place.path(HTTP2Site.keyFile)))
    let resumed = try await site.run(["send", "--resume", "--journal", "journal", "--json"])
    let app = try #require(SentAccount(resumed)?.apps[HTTP2Site.topic], "\(resumed)")
    #expect(resumed.status == 0 && app.accepted.confirmed == count && app.submitted == count, "\(resumed)")
    #expect(app.possibleDuplicates == 0, "\(resumed)")
    #expect(try await site.taken(service).count == count)
  }
}
