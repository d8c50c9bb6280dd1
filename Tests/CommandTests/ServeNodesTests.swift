internal import Foundation
internal import Support
internal import Testing

/// One of several services on a database serves.
@Suite("Several services on one database", .timeLimit(.minutes(5)))
struct ServeNodesTests {
  @Test("a second service waits; when the first is silent it serves, and the first ends as soon as it goes on")
  func takeover() async throws {
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    var first = try await RunningServe { try $0.configure($1, more: store) }
    let site = try ServeSite()
    try site.configure(first.upstream, more: store)
    let arguments = ["serve", "--config", "carillon.yaml", "--json"]
    let second = try ChildProcess(arguments, directory: site.site.place.url)
    try await waitUntil("it waits", limit: .seconds(30)) { second.errors.contains("another service has the store") }
    // A first one that was killed has its journal's word that it has ended, and need not wait.
    try await first.restart()
    #expect(!first.service.process.errors.contains("another service has the store"))
    #expect(!second.errors.contains("this one takes its place"))
    first.service.process.send(SIGSTOP)
    let line = try #require(await second.line(0), "\(second.errors)")
    #expect(line.contains("\"api\""))
    #expect(second.errors.contains("this one takes its place"))
    first.service.process.send(SIGCONT)
    let ending = await first.service.process.ending()
    #expect(ending.status != 0)
    #expect(ending.errors.contains("has taken its place"), "\(ending)")
    let third = try ChildProcess(arguments, directory: first.serve.site.place.url)
    try await waitUntil("it waits, too", limit: .seconds(30)) { third.errors.contains("another service has the store") }
    second.send(SIGTERM)
    #expect(await second.ending().status == 0)
    // Whoever leaves need not become silent first.
    _ = try #require(await third.line(0), "\(third.errors)")
    third.send(SIGTERM)
    #expect(await third.ending().status == 0)
  }

  /// How a service is lost.
  enum Loss: String, CaseIterable, CustomTestStringConvertible {
    case killed, stopped

    var testDescription: String { rawValue }
  }

  @Test(
    "a service is lost in mid-campaign: another one sends the rest, and whoever may have got it twice is counted",
    arguments: Loss.allCases)
  func lost(how loss: Loss) async throws {
    let count = 6_000
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    let tokens = (0..<count).map { HTTP2Site.token($0, prefix: $0 % 100 == 50 ? "dead" : "00") }
    let first = try await RunningServe(rules: CampaignServeTests.dead, scopes: ["campaigns", "read"]) {
      try $0.configure($1, more: store)
    } prepare: {
      try await CampaignAudienceServeTests.register($0, tokens.map { ($0, nil, nil, []) })
    }
    let path = try await first.campaigns.make(#","audience":{"source":"devices"},"rateLimit":1000"#)
    try await first.campaigns.act(path, "start")
    let site = try ServeSite(besides: first.serve)
    try site.configure(first.upstream, more: store + "\ncluster: { node: second }")
    async let second = site.start()
    try await waitUntil("some are sent") { try await first.campaigns.campaign(path).progress.accepted > 1_000 }
    first.service.process.send(loss == .killed ? SIGKILL : SIGSTOP)
    let campaigns = CampaignSite(try await second, key: first.key)
    #expect(try await campaigns.campaign(path).progress.accepted < count, "it is lost in the middle")
    #expect(try await campaigns.ended(path).state == "finished")
    if loss == .stopped {
      first.service.process.send(SIGCONT)
      #expect(await first.service.process.ending().status != 0)
    }
    let account = try await campaigns.account(path)
    let dead = tokens.count { $0.hasPrefix("dead") }
    #expect(account.submitted == count)
    #expect(account.accepted.confirmed == count - dead)
    // The device of an answer that only the first one had is marked as gone by then.
    #expect(account.rejected.total + account.unknown == dead)
    #expect(try await campaigns.outcomes(path).count == dead)
    let all = try await first.serve.site.taken(first.upstream)
    #expect(Set(all.map(\.id)).count == Set(all.map(\.token)).count, "a copy has the same identifier")
    let taken = all.compactMap(\.token)
    #expect(Set(taken) == Set(tokens.filter { !$0.hasPrefix("dead") }))
    #expect(account.possibleDuplicates > 0)
    // A step ahead, and what was in flight.
    #expect(account.possibleDuplicates <= 2 * 1_024)
    #expect(taken.count - Set(taken).count <= account.possibleDuplicates)
    let service = try await second
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }
}
