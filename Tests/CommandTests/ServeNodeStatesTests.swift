internal import Foundation
internal import FoundationNetworking
internal import Support
internal import Testing

/// Operators see the services that share a database, and steer them.
@Suite("Nodes of one database, as operators see them", .timeLimit(.minutes(5)))
struct ServeNodeStatesTests {
  @Test("a service without a database answers for itself, and has nobody who could take over", .ofStoreFile)
  func alone() async throws {
    let running = try await RunningServe(scopes: ["read", "admin"])
    let nodes = try await running.call("/v1/nodes").decoded(NodeList.self).items
    #expect(nodes.map(\.state) == ["running"])
    #expect(nodes.map(\.leads) == [true])
    let name = try #require(nodes.first?.name)
    #expect(try await running.call("/v1/nodes/\(name):drain", body: "").status == 409)
    #expect(try await running.call("/v1/nodes/\(name):forget", body: "").status == 409)
    #expect(try await running.call("/v1/nodes/other:drain", body: "").status == 404)
    // Neither is there a page of it.
    let browser = Browser(running.service.api)
    _ = try await browser.logIn(running.key)
    #expect(try await !browser.get("/").text.contains("/nodes"))
    #expect(try await browser.get("/nodes").status == 404)
    let one = try await running.serve.key(["--scope", "read", "--app", "news"])
    #expect(try await running.serve.request(running.service.api, "/v1/nodes", key: one).status == 403)
    try await running.end()
  }

  private struct App: Decodable {
    struct Count: Decodable {
      let open: Int
      let opening: Int?
      let closed: Int?
    }
    struct Node: Decodable {
      let name: String
      let settledPerSecond: Double
      let pending: Int
      let connections: Count
    }
    let nodes: [Node]
    /// Of the node that answers.
    let connections: Count
  }

  @Test("each node shows what both have: pending, rates, connections, and why a campaign waits")
  func figures() async throws {
    // Two segments.
    let pair = try await NodePair(devices: 20_000, rules: "http2: { delay: { fixed: 50ms } }")
    let (first, second) = (pair.first, pair.second)
    let there = CampaignSite(second, key: first.key)
    let path = try await there.make(#","audience":{"source":"devices"},"rateLimit":400"#)
    try await there.act(path, "start")
    for site in [first.campaigns, there] {
      try await waitUntil("it has the figures of both") {
        let nodes = try await site.call("GET", "").decoded(App.self).nodes
        return nodes.map(\.name) == ["n1", "n2"]
          && nodes.filter { $0.pending > 0 && $0.connections.open > 0 && $0.settledPerSecond > 0 }.count == 2
      }
      try await waitUntil("it knows how long the campaign takes yet") {
        try await site.campaign(path).progress.secondsLeft != nil
      }
    }
    try await there.act(path, "cancel")
    let hour = Int(Date().timeIntervalSince1970) / 3_600
    let quiet = String(format: "%02d:00-%02d:00", (hour + 23) % 24, (hour + 2) % 24)
    let resting = try await there.make(#","audience":{"source":"devices"},"quietHours":"\#(quiet)""#)
    try await there.act(resting, "start")
    for site in [first.campaigns, there] {
      try await waitUntil("it says why it waits") {
        try await site.campaign(resting).reason?.contains("Quiet hours") == true
      }
    }
    try await there.act(resting, "cancel")
    await NodePair.end(second)
    _ = try await first.end()
  }

  @Test("nodes divide the connections that an app may have, and one that is left has all of them")
  func connections() async throws {
    let pair = try await NodePair(
      devices: 20_000, rules: "http2: { delay: { fixed: 50ms } }", settings: "connections: { min: 4, max: 8, total: 4 }"
    )
    let (first, second) = (pair.first, pair.second)
    let path = try await first.campaigns.make(#","audience":{"source":"devices"},"rateLimit":200"#)
    try await first.campaigns.act(path, "start")
    try await waitUntil("each has two") {
      try await first.campaigns.call("GET", "").decoded(App.self).nodes.map(\.connections.open) == [2, 2]
    }
    await NodePair.end(second)
    // They open when there is more to send than the others can.
    try await waitUntil("the other one may have four") {
      let own = try await first.campaigns.call("GET", "").decoded(App.self).connections
      return own.open + (own.opening ?? 0) + (own.closed ?? 0) == 4
    }
    try await first.campaigns.act(path, "cancel")
    _ = try await first.end()
  }

  @Test("a node is drained in mid-campaign at another one, and resumed: nobody is lost or in doubt")
  func draining() async throws {
    // Two segments.
    let count = 20_000
    let pair = try await NodePair(devices: count, rules: "http2: { delay: { fixed: 50ms } }")
    let (first, second) = (pair.first, pair.second)
    let there = CampaignSite(second, key: first.key)
    #expect(try await pair.nodes().map(\.leads) == [true, false])
    let path = try await first.campaigns.make(#","audience":{"source":"devices"},"rateLimit":1000"#)
    try await first.campaigns.act(path, "start")
    try await waitUntil("both carry some of it") {
      try await pair.nodes().allSatisfy { $0.segments > 0 && $0.pending > 0 }
    }
    let drained = try await pair.run("drain", "n1", at: second)
    #expect(drained.status == 0, "\(drained)")
    #expect(drained.output.contains("The node n1 is drained. It carries 1 segment"), "\(drained)")
    try await waitUntil("it has nothing left") {
      let node = try await pair.node("n1")
      return node.state == "draining" && node.segments == 0 && node.pending == 0
    }
    #expect(try await first.campaigns.campaign(path).endedAt == nil, "it was in the middle")
    // Balancers and clients go elsewhere, and everything else is still answered.
    #expect(try await !pair.isReady(first.service))
    #expect(try await pair.isReady(second))
    let body = ServeSite.body(HTTP2Site.token(1, prefix: "aa"))
    for (path, body) in [("notifications", body), ("notifications:batch", "[\(body)]")] {
      let refused = try await first.call("/v1/apps/news/\(path)", body: body)
      #expect(refused.status == 503)
      #expect(refused.retryAfter != nil)
      #expect(refused.text.contains("drained"), "\(refused.text)")
    }
    let draft = try await first.campaigns.make(#","audience":{"source":"devices","filter":{"all":["nobody"]}}"#)
    try await first.campaigns.act(draft, "start", status: 503)
    #expect(try await first.call("/v1/apps/news").status == 200)
    #expect(try await pair.status(of: second, "/v1/apps/news/notifications", body: body).status == 202)
    try await waitUntil("the other one leads") { try await pair.nodes().map(\.leads) == [false, true] }
    #expect(first.service.process.errors.contains("node drained") == false)
    #expect(second.process.errors.contains("node drained"))
    #expect(try await there.ended(path).state == "finished")
    #expect(try await pair.node("n1").segments == 0)
    let account = try await there.account(path)
    #expect(account.accepted.confirmed == count)
    #expect(account.possibleDuplicates == 0)
    #expect(try await pair.run("resume", "n1").status == 0)
    try await waitUntil("it takes part again") { try await pair.isReady(first.service) }
    #expect(try await pair.node("n1").state == "running")
    try await first.campaigns.act(draft, "start")
    #expect(try await there.ended(draft).state == "finished")
    await NodePair.end(second)
    let taken = try await first.end()
    #expect(taken.count == count + 1)
    #expect(Set(taken.map(\.token)).count == count + 1)
  }

  @Test("a lost node is in the list with its doubt, until it is forgotten or serves again")
  func lost() async throws {
    let count = 20_000
    var pair = try await NodePair(devices: count, rules: "http2: { delay: { fixed: 50ms } }")
    let first = pair.first
    let listed = try await pair.run("list")
    #expect(listed.status == 0, "\(listed)")
    #expect(listed.output.contains(/n1 +running, leads/), "\(listed)")
    let alive = try await pair.run("forget", "--yes", "n2")
    #expect(alive.status == 2)
    #expect(alive.errors.contains("is alive"), "\(alive)")
    // Half a minute for all, so that its half is far from done when it is killed.
    let path = try await first.campaigns.make(#","audience":{"source":"devices"},"rateLimit":700"#)
    try await first.campaigns.act(path, "start")
    try await waitUntil("the second one sends") { try await pair.node("n2").pending > 0 }
    pair.second.process.send(SIGKILL)
    _ = await pair.second.process.ending()
    try await waitUntil("others take its place") { try await pair.node("n2").state == "lost" }
    #expect(try await first.campaigns.ended(path).state == "finished")
    let account = try await first.campaigns.account(path)
    #expect(account.accepted.confirmed == count)
    #expect(account.possibleDuplicates > 0)
    let lost = try await pair.node("n2")
    #expect(lost.takenOver.segments == 1)
    #expect(lost.takenOver.possibleDuplicates == account.possibleDuplicates)
    #expect(try await pair.run("drain", "n2").errors.contains("lost"))
    let found = try await pair.run("list")
    #expect(found.status == 1)
    #expect(found.output.contains("n2: others have taken its place."), "\(found)")
    let meaning = try await pair.run("forget", "n2")
    #expect(meaning.status == 1)
    #expect(meaning.output.contains("when it was last heard of"), "\(meaning)")
    #expect(try await pair.nodes().count == 2)
    #expect(try await pair.run("forget", "--yes", "n2").status == 0)
    #expect(try await pair.nodes().map(\.name) == ["n1"])
    #expect(first.service.process.errors.contains("node forgotten"))
    pair.second = try await pair.site.start()
    #expect(try await pair.nodes().map(\.state) == ["running", "running"])
    await NodePair.end(pair.second)
    #expect(try await pair.nodes().map(\.state) == ["running", "ended"])
    let taken = try await first.end()
    #expect(Set(taken.map(\.token)).count == count)
    #expect(taken.count - count <= account.possibleDuplicates)
  }

  @Test("the page shows all nodes and has their buttons; a node with other settings is named")
  func page() async throws {
    let pair = try await NodePair(more: "\nretention: 30h")
    let first = pair.first
    let browser = Browser(first.service.api)
    _ = try await browser.logIn(first.key)
    try await waitUntil("the other one has told its settings") { try await pair.node("n2").configurationDiffers }
    #expect(try await pair.node("n2").version != nil)
    #expect(try await abs(pair.node("n2").clockOffsetSeconds ?? 99) < 1)
    var page = try await browser.get("/nodes")
    #expect(page.status == 200)
    #expect(page.text.contains("aria-current=\"page\">Nodes</a>"))
    for text in ["n1", "leads", "n2", "differs", "<button>Drain</button>"] {
      #expect(page.text.contains(text), "\(text): \(page.text)")
    }
    try await waitUntil("the overview says so") {
      try await browser.get("/").text.contains("data-alarm=\"configurationsDiffer\"")
    }
    #expect(
      try await first.serve.request(pair.second.admin, "/metrics").text
        .contains("carillon_node_configuration_differs 1\n"))
    #expect(
      try await first.serve.request(first.service.admin, "/metrics").text
        .contains("carillon_nodes{state=\"running\"} 2\n"))
    let token = try #require(page.formToken)
    #expect(try await browser.post("/nodes/n2/drain", [("form-token", "wrong")]).status == 403)
    #expect(try await browser.post("/nodes/n2/drain", [("form-token", token)]).headers["location"] == "/nodes")
    page = try await browser.get("/nodes")
    #expect(page.text.contains("<span class=\"badge waiting\">draining</span>"))
    #expect(page.text.contains("<button>Resume</button>"))
    try await waitUntil("the other one has heard of it") { try await !pair.isReady(pair.second) }
    #expect(try await browser.post("/nodes/n2/resume", [("form-token", token)]).status == 303)
    try await waitUntil("the other one has heard of it") { try await pair.isReady(pair.second) }
    #expect(try await browser.post("/nodes/n2/forget", [("form-token", token)]).status == 409)
    await NodePair.end(pair.second)
    #expect(try await browser.get("/nodes").text.contains("Forget it"))
    #expect(try await browser.post("/nodes/n2/forget", [("form-token", token)]).status == 303)
    #expect(try await !browser.get("/nodes").text.contains("n2"))
    // A reader sees no button, and the reader of one app nothing at all.
    _ = try await browser.logIn(try await first.serve.key(["--scope", "read"]))
    #expect(try await !browser.get("/nodes").text.contains("<button>Drain</button>"))
    _ = try await browser.logIn(try await first.serve.key(["--scope", "read", "--app", "news"]))
    #expect(try await browser.get("/nodes").status == 404)
    try await first.end()
  }
}

struct NodeList: Decodable {
  struct Node: Decodable {
    struct TakenOver: Decodable {
      let segments: Int
      let possibleDuplicates: Int
    }
    let name: String
    let state: String
    let leads: Bool
    let version: String?
    let configurationDiffers: Bool
    let clockOffsetSeconds: Double?
    let segments: Int
    let pending: Int
    let takenOver: TakenOver
  }
  let items: [Node]
}

/// Two services for the same apps and gateway, `n1` and `n2`.
struct NodePair {
  let first: RunningServe
  let site: ServeSite
  var second: ServeSite.Service

  /// - Parameters:
  ///   - count: of registered devices.
  ///   - settings: of each app.
  init(devices count: Int = 0, rules: String = "", settings: String = "", more: String = "") async throws {
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    first = try await RunningServe(rules: rules, scopes: ["campaigns", "read", "send", "admin"]) {
      try $0.configure($1, settings: settings, more: store + "\ncluster: { node: n1, lease: 4s }")
    } prepare: {
      guard count > 0 else { return }
      try await CampaignAudienceServeTests.register($0, (0..<count).map { (HTTP2Site.token($0), nil, nil, []) })
    }
    site = try ServeSite(besides: first.serve)
    try site.configure(
      first.upstream, settings: settings, more: store + "\ncluster: { node: n2, lease: 3s }" + more)
    second = try await site.start()
    try first.serve.site.place.writeSecret(first.key + "\n", to: "api.key")
  }

  /// `carillon node`, which asks the first service, or another one.
  func run(_ arguments: String..., at service: ServeSite.Service? = nil) async throws -> Ending {
    let url = "http://127.0.0.1:\((service ?? first.service).api.port)"
    return try await first.serve.site.run(["node"] + arguments + ["--url", url, "--key-file", "api.key"])
  }

  func nodes(at service: ServeSite.Service? = nil) async throws -> [NodeList.Node] {
    try await first.serve.request((service ?? first.service).api, "/v1/nodes", key: first.key)
      .decoded(NodeList.self).items
  }

  func node(_ name: String, at service: ServeSite.Service? = nil) async throws -> NodeList.Node {
    try #require(try await nodes(at: service).first { $0.name == name })
  }

  func status(of service: ServeSite.Service, _ path: String, body: String? = nil) async throws -> ServeSite.Reply {
    try await first.serve.request(service.api, path, key: first.key, body: body)
  }

  func isReady(_ service: ServeSite.Service) async throws -> Bool {
    try await first.serve.request(service.admin, "/readyz").status == 200
  }

  static func end(_ service: ServeSite.Service) async {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
  }
}
