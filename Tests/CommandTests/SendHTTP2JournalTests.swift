internal import Foundation
internal import PushTransport
internal import Testing

/// What a crash leaves in doubt over HTTP/2, where every request is answered: little more than was really under way.
@Suite(.serialized) struct SendHTTP2JournalTests {
  private struct Report: Decodable {
    struct Campaign: Decodable {
      let submitted: Int
      let unsent: Int
      let unknown: Int
    }
    let campaigns: [Campaign]
  }

  @Test("of a campaign that is killed only what the connection was about to send is unknown; the rest is certainly unsent")
  func boundedDoubt() async throws {
    let site = try HTTP2Site()
    let count = 50_000
    try site.place.write((1...count).map { HTTP2Site.token($0) }.joined(separator: "\n"), to: "tokens.txt")
    // Some thousands a second: long before the end, all is taken in.
    let service = try await site.simulate(rules: "http2: { delay: { fixed: 300ms } }")
    let sender = try ChildProcess(
      [
        "send", "--transport", "http2", "--gateway", "localhost:\(service.port)", "--payload", "hello.json", "--tokens", "tokens.txt", "--journal", "journal",
        "--connections", "1",
      ] + site.certificates.client, directory: site.place.url)
    var report = try await inspect(site)
    while !sender.hasEnded, report?.submitted != count || report?.unknown == 0 { report = try await inspect(site) }
    sender.send(SIGKILL)
    _ = await sender.ending()
    let campaign = try #require(try await inspect(site))
    // 8192 may be ahead of what is under way, which is a thousand.
    #expect((1...9500).contains(campaign.unknown) && campaign.unsent > count / 4, "\(campaign)")
    _ = try await site.taken(service)
  }

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

  /// Nil: it holds no campaign yet.
  private func inspect(_ site: HTTP2Site) async throws -> Report.Campaign? {
    let ending = try await site.run(["journal", "inspect", "journal", "--json"])
    return try? JSONDecoder().decode(Report.self, from: Data(ending.output.utf8)).campaigns.first
  }
}
