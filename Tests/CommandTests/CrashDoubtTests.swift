internal import Foundation
internal import PushGateway
internal import PushTransport
internal import Support
internal import Testing

/// How many notifications a kill leaves in doubt, measured by what the gateway received, not by the
/// clock.
@Suite("What a kill leaves in doubt", .serialized, .timeLimit(.minutes(20)))
struct CrashDoubtTests {
  private static let connectionCount = 3
  /// How far an intent may be ahead of what is sent.
  private static let step = 8192

  @Test(
    "over the binary protocol: what was written since the last proof, plus a step for each lane",
    arguments: [25_000, 60_000])
  func binary(arrivals: Int) async throws {
    var random = SeededGenerator(seed: UInt64(arrivals))
    var settings = JournalSite.Settings(connections: Self.connectionCount)
    settings.answerDelay = .milliseconds(50)
    let shape = TestAudience.Shape(count: 120_000, refusedCount: 60)
    var site = try await JournalSite(settings, audiences: [(0, shape)], using: &random)
    // On a busy machine the campaign may end before anybody looks: then it says nothing.
    while try await !site.sendAndKill(after: arrivals) {
      site = try await JournalSite(settings, audiences: [(0, shape)], using: &random)
    }
    // Bytes in flight at that moment still arrive.
    let memory = site.gateway.memory
    try await waitUntil("all connections have ended") {
      await site.gateway.connectionCount <= memory.endedConnections.count
    }
    let inspected = try await site.journal("inspect", ["--json"])
    let left = try #require(
      JournalInspection(inspected).campaigns.first, "\(inspected)")

    let written = Self.unconcluded(memory.endedConnections, refusals: left.rejected).map {
      $0.accepted + $0.discarded + 1
    }.reduce(0, +)
    #expect(left.unknown <= written + Self.connectionCount * Self.step, "\(left), \(written) written")
    // Nothing that has arrived counts as unsent.
    #expect(site.gateway.arrivedTokenCount - left.accepted <= left.unknown, "\(left)")
    #expect(try await site.truth(try await site.resume()).problems().isEmpty)
  }

  /// The connections without a proof in the journal: those that were not refused, and all refused
  /// ones but the first to end, as many as the journal has refusals.
  private static func unconcluded(
    _ connections: [RecordedFrames.Connection], refusals: Int
  ) -> [RecordedFrames.Connection] {
    var left = refusals
    return connections.filter { connection in
      guard case .status? = connection.refusal, left > 0 else { return true }
      left -= 1
      return false
    }
  }

  @Test(
    "over HTTP/2: at most twice the streams plus 500 for each connection; the rest is unsent",
    arguments: [(1, 1000), (4, 1000), (4, 100)])
  func requests(connections: Int, streams: Int) async throws {
    // On a busy machine the campaign may end before anybody looks: then it says nothing.
    while try await !kill(connections: connections, streams: streams) {}
  }

  /// Kills a campaign in its course, and checks what is left. False: it had ended before.
  private func kill(connections: Int, streams: Int) async throws -> Bool {
    let site = try HTTP2Site()
    let count = 50_000
    try site.place.write((1...count).map { HTTP2Site.token($0) }.joined(separator: "\n"), to: "tokens.txt")
    let service = try await site.simulate(rules: "http2: { delay: { fixed: 300ms } }")
    try site.place.write(
      """
      apps:
        - id: news
          topic: \(HTTP2Site.topic)
          transport: http2
          gateway: "localhost:\(service.port)"
          trust: \(site.certificates.files.authority)
          credential: { key: \(HTTP2Site.keyFile), team-id: \(HTTP2Site.team) }
          connections: { min: \(connections), max: \(connections) }
          streams: \(streams)
      """, to: "carillon.yaml")
    let sender = try ChildProcess(
      [
        "send", "--config", "carillon.yaml", "--payload", "hello.json", "--tokens", "tokens.txt", "--journal",
        "journal",
      ], directory: site.place.url)
    var left = try await inspect(site)
    // With every stream in use.
    while !sender.hasEnded, (left?.settled ?? 0) < 4 * streams { left = try await inspect(site) }
    sender.send(SIGKILL)
    _ = await sender.ending()
    let campaign = try #require(try await inspect(site))
    guard campaign.unknown > 0, campaign.settled + campaign.unknown < count else {
      _ = try await site.taken(service)
      return false
    }
    #expect((1...connections * (2 * streams + 500)).contains(campaign.unknown), "\(campaign)")
    let taken = try await site.taken(service)
    #expect(taken.count - campaign.accepted <= campaign.unknown, "\(campaign)")
    return true
  }

  /// Nil: the journal has no campaign yet.
  private func inspect(_ site: HTTP2Site) async throws -> JournalInspection.Campaign? {
    let ending = try await site.run(["journal", "inspect", "journal", "--json"])
    return try? JournalInspection(ending).campaigns.first
  }
}
