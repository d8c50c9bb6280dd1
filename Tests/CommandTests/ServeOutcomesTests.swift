internal import Foundation
internal import Support
internal import Testing

/// All outcomes of an app, one after the other.
@Suite("Outcomes of carillon serve", .timeLimit(.minutes(20)))
struct ServeOutcomesTests {
  struct Outcome: Decodable, Hashable {
    let cursor: String
    let at: String
    let id: String
    let app: String
    let token: String
    let outcome: String
    let reason: String?
    let goneSince: String?
    let possibleDuplicate: Bool?
    let reference: String?
    let campaign: String?
    let batch: String?
    let bridge: Bool?
  }

  struct Page: Decodable {
    let items: [Outcome]
    let nextCursor: String
  }

  private static let path = "/v1/apps/news/outcomes"
  private static let rules =
    "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 1700000000123 } ] }"

  private static func page(
    _ serve: ServeSite, _ service: ServeSite.Service, _ query: String, key: String
  ) async throws -> Page {
    let reply = try await serve.request(service.api, "\(path)?\(query)", key: key)
    #expect(reply.status == 200, "\(reply.text)")
    return try reply.decoded(Page.self)
  }

  /// All that are there, in pages of this size.
  static func all(
    _ serve: ServeSite, _ service: ServeSite.Service, limit: Int = 10_000, key: String
  ) async throws -> [Outcome] {
    var (found, cursor): ([Outcome], String) = ([], "0")
    while true {
      let page = try await page(serve, service, "cursor=\(cursor)&limit=\(limit)", key: key)
      if page.items.isEmpty { return found }
      #expect(page.items.last?.cursor == page.nextCursor)
      #expect(page.items.count <= limit)
      found += page.items
      cursor = page.nextCursor
    }
  }

  @Test("single notifications, batches and campaigns are in one list, as the gateway's record has them", .inProcess)
  func listed() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(rules: Self.rules)
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "campaigns"])
    let service = try await serve.start()

    let single = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key,
      body: ServeSite.body(HTTP2Site.token(1)).dropLast() + #","reference":"order \"1\""}"#)
    let id = try single.decoded(ServeSite.Queued.self).id
    let lines =
      (0..<50).map { ServeSite.body(HTTP2Site.token(100 + $0)) }
      + (0..<5).map { ServeSite.body(HTTP2Site.token($0, prefix: "dead")) }
    let batch = try await serve.request(
      service.api, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n")
    ).decoded(ServeSite.TakenBatch.self)
    let campaigns = CampaignSite(service, key: key)
    let path = try await campaigns.make()
    let rows = (0..<300).map { HTTP2Site.token(1_000 + $0) } + ["not a token", HTTP2Site.token(9, prefix: "dead")]
    _ = try await campaigns.upload(path, ["token"] + rows)
    try await campaigns.act(path, "start")
    _ = try await campaigns.ended(path)
    let campaign = try await campaigns.campaign(path).id

    var outcomes: [Outcome] = []
    try await waitUntil("all are listed") {
      outcomes = try await Self.all(serve, service, key: key)
      return outcomes.count >= 1 + 55 + 302
    }
    #expect(outcomes.count == 1 + 55 + 302)
    #expect(outcomes.map(\.cursor) == (1...outcomes.count).map { "\($0)" })
    #expect(Set(outcomes.map(\.id)).count == outcomes.count)
    #expect(outcomes.allSatisfy { $0.app == "news" && $0.possibleDuplicate == nil && $0.bridge == nil })

    let first = try #require(outcomes.first { $0.id == id })
    #expect(first.reference == #"order "1""#)
    #expect(first.token == HTTP2Site.token(1))
    #expect([first.outcome, first.reason] == ["accepted", "confirmed"])
    #expect([first.batch, first.campaign] == [nil, nil])

    let ofBatch = outcomes.filter { $0.batch == batch.batchId }
    #expect(ofBatch.count == 55)
    let gone = ofBatch.filter { $0.outcome == "rejected" }
    #expect(Set(gone.map(\.token)) == Set((0..<5).map { HTTP2Site.token($0, prefix: "dead") }))
    #expect(
      gone.allSatisfy { $0.reason == "410 Unregistered" && $0.goneSince == "2023-11-14T22:13:20.123Z" }, "\(gone)")

    let ofCampaign = outcomes.filter { $0.campaign == campaign }
    #expect(Set(ofCampaign.map(\.token)) == Set(rows))
    #expect(ofCampaign.filter { $0.outcome == "accepted" }.count == 300)
    #expect(ofCampaign.first { $0.token == "not a token" }?.outcome == "rejected")

    // In small pages, and as lines: the same.
    #expect(try await Self.all(serve, service, limit: 7, key: key) == outcomes)
    let reply = try await serve.request(
      service.api, "\(Self.path)?cursor=10&limit=200", key: key, headers: ["Accept": "application/x-ndjson"])
    #expect(reply.headers["content-type"] == "application/x-ndjson")
    let read = try reply.text.split(separator: "\n").map {
      try JSONDecoder().decode(Outcome.self, from: Data($0.utf8))
    }
    #expect(read == Array(outcomes[10..<210]))
    // Nobody else's, and not for everybody.
    let chat = try await serve.request(service.api, "/v1/apps/chat/outcomes", key: key).decoded(Page.self)
    #expect(chat.items.isEmpty)
    let sender = try await serve.key(["--scope", "send"])
    #expect(try await serve.request(service.api, Self.path, key: sender).status == 403)
    #expect(try await serve.request(service.api, "\(Self.path)?limit=10001", key: key).status == 400)
    #expect(try await serve.request(service.api, "\(Self.path)?wait=61", key: key).status == 400)

    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    // What the gateway has taken, by identifier where the caller chose none.
    let record = try await serve.site.taken(upstream)
    #expect(record.compactMap(\.token).sorted() == outcomes.filter { $0.outcome == "accepted" }.map(\.token).sorted())
  }

  @Test("who waits gets an outcome when it comes, and the references of a batch with it", .inProcess)
  func waited() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "send", "--scope", "read"])
    let service = try await serve.start()
    var cursor = "0"
    for round in 0..<10 {
      let known = cursor
      async let next = Self.page(serve, service, "cursor=\(known)&wait=60", key: key)
      let lines = (0..<20).map {
        ServeSite.body(HTTP2Site.token(round * 20 + $0)).dropLast() + #","reference":"\#($0)"}"#
      }
      let reply = try await serve.request(
        service.api, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n"))
      #expect(reply.status == 202)
      var page = try await next
      var count = 0
      while count < 20 {
        if page.items.isEmpty { page = try await Self.page(serve, service, "cursor=\(cursor)&wait=60", key: key) }
        #expect(page.items.allSatisfy { $0.reference != nil && $0.batch != nil }, "\(page.items)")
        count += page.items.count
        cursor = page.nextCursor
        page = Page(items: [], nextCursor: cursor)
      }
    }
    // Nothing comes: the answer is empty when the time is over.
    let page = try await Self.page(serve, service, "cursor=\(cursor)&wait=1", key: key)
    #expect(page.items.isEmpty)
    #expect(page.nextCursor == cursor)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }

  @Test("after kill -9 each of a campaign is in the list, and the accepted ones are those that arrived")
  func killed() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered } ], delay: { fixed: 20ms } }")
    try serve.configure(upstream, settings: "rate-limit: 2000/s")
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "campaigns"])
    let rows = (0..<4_000).map { HTTP2Site.token($0, prefix: $0 % 20 == 3 ? "dead" : "00") }
    var service = try await serve.start()
    var campaigns = CampaignSite(service, key: key)
    let path = try await campaigns.make()
    _ = try await campaigns.upload(path, ["token"] + rows)
    try await campaigns.act(path, "start")
    for part in 1...3 {
      try await waitUntil("more of it is settled") {
        let progress = try await campaigns.campaign(path).progress
        return progress.submitted - progress.inFlight > part * 800
      }
      service.process.send(SIGKILL)
      _ = await service.process.ending()
      service = try await serve.start()
      campaigns = CampaignSite(service, key: key)
    }
    _ = try await campaigns.ended(path)
    let account = try await campaigns.account(path)
    let outcomes = try await Self.all(serve, service, key: key)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    // The last one counts of those that came twice.
    let last = Dictionary(outcomes.map { ($0.id, $0) }) { _, last in last }
    #expect(Set(last.values.map(\.token)) == Set(rows))
    #expect(last.count == rows.count)
    #expect(last.values.filter { $0.outcome == "accepted" }.count == account.accepted.confirmed)
    #expect(last.values.filter { $0.outcome == "rejected" }.count == account.rejected.total)
    #expect(outcomes.count - last.count <= account.possibleDuplicates)
    let arrived = Set(try await serve.site.taken(upstream).compactMap(\.token))
    #expect(arrived == Set(last.values.filter { $0.outcome == "accepted" }.map(\.token)))
  }
}
