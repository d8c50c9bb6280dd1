internal import Foundation
internal import FoundationNetworking
internal import Support
internal import Testing

/// Apps with `durability: cluster`: what one service has acknowledged, another one sends.
@Suite("Services that take in for each other", .timeLimit(.minutes(5)))
struct ServeDurabilityTests {
  private struct Batch: Decodable {
    var batchId: String?
    var state: String?
    var account: Account?

    struct Account: Decodable {
      struct Accepted: Decodable {
        var confirmed: Int
      }
      var submitted: Int
      var accepted: Accepted
      var possibleDuplicates: Int
      var possibleCopies: Int
    }
  }

  private static let settings = "durability: cluster\n    rate-limit: 100/s"

  @Test(
    "a service is lost with a full queue: another one sends it, and whoever may have got it twice is counted",
    arguments: ServeNodesTests.Loss.allCases)
  func lost(how loss: ServeNodesTests.Loss) async throws {
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    let first = try await RunningServe(scopes: ["send", "read"]) {
      try $0.configure($1, settings: Self.settings, more: store)
    }
    let site = try ServeSite(besides: first.serve)
    try site.configure(first.upstream, settings: Self.settings, more: store + "\ncluster: { node: second }")
    let second = try await site.start()
    let tokens = (0..<1_500).map { HTTP2Site.token($0) }
    let here = first.campaigns
    var batches: [String] = []
    for start in stride(from: 0, to: tokens.count, by: 500) {
      let lines = tokens[start..<(start + 500)].map { ServeSite.body($0) }.joined(separator: ",")
      let answer = try await here.call("POST", "/notifications:batch", "[\(lines)]")
      #expect(answer.status == 202, "\(answer.text)")
      batches.append(try #require(try answer.decoded(Batch.self).batchId))
    }
    let single = HTTP2Site.token(1, prefix: "aa")
    let answer = try await here.call("POST", "/notifications", ServeSite.body(single))
    #expect(answer.status == 202, "\(answer.text)")
    let id = try answer.decoded(ServeSite.Queued.self).id
    try await waitUntil("some have arrived") {
      try await here.call("GET", "/batches/\(batches[0])").decoded(Batch.self).account?.accepted.confirmed ?? 0 > 50
    }
    first.service.process.send(loss == .killed ? SIGKILL : SIGSTOP)
    let there = CampaignSite(second, key: first.key)
    #expect(try await there.call("GET", "/notifications/\(id)").decoded(ServeSite.Queued.self).state == "queued")
    var accounts: [Batch.Account] = []
    for batch in batches {
      try await waitUntil("the batch is finished", limit: .seconds(90)) {
        try await there.call("GET", "/batches/\(batch)").decoded(Batch.self).state == "finished"
      }
      accounts.append(try #require(try await there.call("GET", "/batches/\(batch)").decoded(Batch.self).account))
    }
    try await waitUntil("the single one has its outcome") {
      try await there.call("GET", "/notifications/\(id)").decoded(ServeSite.Queued.self).state == "finished"
    }
    if loss == .stopped {
      first.service.process.send(SIGCONT)
      #expect(await first.service.process.ending().status != 0)
    }
    #expect(accounts.map(\.submitted) == [500, 500, 500])
    #expect(accounts.map(\.accepted.confirmed) == [500, 500, 500])
    let page = try await there.call("GET", "/outcomes?limit=10000&cursor=0").decoded(ServeOutcomesTests.Page.self)
    let listed = Set(page.items.filter { $0.possibleDuplicate == true }.map(\.token))
    let all = try await first.serve.site.taken(first.upstream).compactMap(\.token)
    #expect(Set(all) == Set(tokens + [single]))
    let twice = Dictionary(grouping: all) { $0 }.filter { $0.value.count > 1 }.keys
    #expect(listed.isSuperset(of: twice), "\(listed.count) are listed as possible duplicates")
    let copies = all.count { $0 != single } - tokens.count
    #expect(copies <= accounts.reduce(0) { $0 + $1.possibleCopies }, "\(copies) copies, \(accounts)")
    second.process.send(SIGTERM)
    #expect(await second.process.ending().status == 0)
    withExtendedLifetime(site) {}
  }

  @Test("a service that ends in good order and comes back sends its queue itself: nobody is in doubt")
  func restarted() async throws {
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    var first = try await RunningServe(scopes: ["send", "read"]) {
      // What is in flight gets its outcome within that time. The rest stays.
      try $0.configure($1, settings: Self.settings, more: store + "\nshutdown: { drain: 5s }")
    }
    let tokens = (0..<600).map { HTTP2Site.token($0) }
    let lines = tokens.map { ServeSite.body($0) }.joined(separator: ",")
    let answer = try await first.campaigns.call("POST", "/notifications:batch", "[\(lines)]")
    let batch = try #require(try answer.decoded(Batch.self).batchId, "\(answer.text)")
    let site = try ServeSite(besides: first.serve)
    try site.configure(first.upstream, settings: Self.settings, more: store + "\ncluster: { node: second }")
    let second = try await site.start()
    try await first.restart(after: SIGTERM)
    let there = CampaignSite(second, key: first.key)
    try await waitUntil("the batch is finished") {
      try await there.call("GET", "/batches/\(batch)").decoded(Batch.self).state == "finished"
    }
    let account = try #require(try await there.call("GET", "/batches/\(batch)").decoded(Batch.self).account)
    #expect(account.accepted.confirmed == 600)
    #expect(account.possibleCopies == 0)
    second.process.send(SIGTERM)
    #expect(await second.process.ending().status == 0)
    withExtendedLifetime(site) {}
    let taken = try await first.end().compactMap(\.token)
    #expect(taken.sorted() == tokens.sorted())
  }
}
