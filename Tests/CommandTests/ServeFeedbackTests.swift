internal import Foundation
internal import PushStore
internal import PushTransport
internal import Support
internal import Testing

@Suite("Feedback services of carillon serve", .timeLimit(.minutes(20)))
struct ServeFeedbackTests {
  private struct Feedback: Decodable {
    struct Item: Decodable {
      let token: String
      let since: String?
    }
    let items: [Item]
  }

  private struct Device: Decodable {
    let suppressed: Bool
  }

  @Test("a binary app's list is read, stored, and suppresses the devices that have not registered since", .inProcess)
  func polled() async throws {
    let serve = try ServeSite()
    let later = 4_000_000_000
    let (gone, silent) = (HTTP2Site.token(1), HTTP2Site.token(2))
    let upstream = try await serve.site.simulate(
      rules: """
        feedback:
          - { token: "\(gone)", timestamp: 1400000000 }
          - { token: "\(silent)", timestamp: \(later) }
        """)
    let line = try #require(await upstream.simulator.line(0))
    let gateway = try #require(line.firstMatch(of: /"gateway":(\d+)/)).1
    let feedback = try #require(line.firstMatch(of: /"feedback":(\d+)/)).1
    let files = serve.site.certificates.files
    let credential = try #require(files.apps[HTTP2Site.topic])
    func apps(every interval: String) -> String {
      """
      apps:
        - id: news
          topic: \(HTTP2Site.topic)
          gateway: "localhost:\(gateway)"
          trust: \(files.authority)
          credential: { certificate: \(credential.certificate), key: \(credential.key ?? "") }
          feedback: { every: \(interval), service: "localhost:\(feedback)" }
      """
    }
    func configure(every interval: String) throws {
      try serve.site.place.write(
        """
        journal: { directory: journal, sync: interval }
        api: { listen: "127.0.0.1:0" }
        admin: { listen: "127.0.0.1:0" }
        \(apps(every: interval))
        """, to: "carillon.yaml")
    }
    // Devices first, while nothing is read.
    try configure(every: "never")
    let key = try await serve.key(["--scope", "devices", "--scope", "feedback"])
    var service = try await serve.start()
    for token in [gone, silent] {
      let reply = try await serve.request(
        service.api, "/v1/apps/news/devices/\(token)", key: key, body: "{}", method: "PUT")
      #expect(reply.status == 201)
    }
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)

    try configure(every: "1s")
    service = try await serve.start()
    var items: [Feedback.Item] = []
    try await waitUntil("the list is read") {
      items = try await serve.request(service.api, "/v1/apps/news/feedback", key: key).decoded(Feedback.self).items
      return items.count == 2
    }
    #expect(items.map(\.token) == [gone, silent])
    #expect(items.first?.since == "2014-05-13T16:53:20.000Z")
    func isSuppressed(_ token: String) async throws -> Bool {
      try await serve.request(service.api, "/v1/apps/news/devices/\(token)", key: key).decoded(Device.self).suppressed
    }
    // The first registered after the service had last found it.
    #expect(try await !isSuppressed(gone))
    #expect(try await isSuppressed(silent))
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    // The other commands name and ask the same service.
    let checked = try await serve.site.run(["serve", "--check", "--config", "carillon.yaml"])
    #expect("\(checked)".contains("its feedback service at localhost:\(feedback) is read"), "\(checked)")
    try serve.site.place.write(apps(every: "1s"), to: "apps.yaml")
    let asked = try await serve.site.run(["feedback", "--config", "apps.yaml", "--app", "news"])
    #expect(asked.status == 0, "\(asked)")
    #expect("\(asked)".contains("read from localhost:\(feedback)."), "\(asked)")
    // The next process knows when the list was read.
    let store = try serve.openStore()
    let last = try #require(try await store.lastFeedbackPoll(app: "news"))
    #expect(abs(Double(last.milliseconds) / 1000 - Date().timeIntervalSince1970) < 600)
    try store.close()
    upstream.simulator.send(SIGTERM)
    let ending = await upstream.simulator.ending()
    #expect(ending.output.contains("\"feedbackServed\":2"), "\(ending)")
  }

  @Test("reading takes nothing away: whoever begins again reads the same, and the cursor goes on behind it", .inProcess)
  func readAgain() async throws {
    struct Page: Decodable {
      let items: [Feedback.Item]
      let nextCursor: String?
    }
    var running = try await RunningServe.withCampaigns(rules: CampaignServeTests.dead, more: ["feedback"])
    func send(_ tokens: Range<Int>) async throws {
      let path = try await running.campaigns.make()
      _ = try await running.campaigns.upload(path, tokens.map { HTTP2Site.token($0, prefix: "dead") })
      try await running.campaigns.act(path, "start")
      _ = try await running.campaigns.ended(path)
    }
    func pages(_ limit: Int, from cursor: String? = nil) async throws -> (tokens: [String], cursor: String?) {
      var (tokens, cursor): ([String], String?) = ([], cursor)
      while true {
        let place = cursor.map { "&cursor=\($0)" } ?? ""
        let page = try await running.campaigns.call("GET", "/feedback?limit=\(limit)\(place)").decoded(Page.self)
        tokens += page.items.map(\.token)
        cursor = page.nextCursor ?? cursor
        if page.items.count < limit { return (tokens, cursor) }
      }
    }
    try await send(0..<50)
    let first = try await pages(7)
    #expect(Set(first.tokens) == Set((0..<50).map { HTTP2Site.token($0, prefix: "dead") }))
    #expect(try await pages(1000).tokens == first.tokens)
    try await running.restart(after: SIGTERM)
    #expect(try await pages(3).tokens == first.tokens)
    try await send(50..<60)
    let behind = try await pages(7, from: first.cursor)
    #expect(Set(behind.tokens) == Set((50..<60).map { HTTP2Site.token($0, prefix: "dead") }))
    #expect(try await pages(9).tokens == first.tokens + behind.tokens)
    try await running.end()
  }
}
