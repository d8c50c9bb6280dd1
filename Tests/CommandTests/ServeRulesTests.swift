internal import Foundation
internal import Support
internal import Testing

/// What every address of the interface has in common.
@Suite("rules of the control interface", .inProcess, .timeLimit(.minutes(10)))
struct ServeRulesTests {
  @Test("a query parameter that an address does not have is refused by its name, and lists have bounds")
  func parameters() async throws {
    let running = try await RunningServe()
    let apps = "/v1/apps"
    for (path, name) in [
      (apps + "?limt=5", "limt"), (apps + "?limit=0", "limit"), (apps + "?limit=1001", "limit"),
      (apps + "?limit=x", "limit"), (apps + "?limit=1&limit=2", "limit"), (apps + "/news?x=1", "x"),
      (apps + "/news/devices?cursor=-1", "cursor"), (apps + "/news/feedback?tag=a", "tag"),
      (apps + "/news/campaigns?cursor=zz", "cursor"), (apps + "/news/campaigns?limit=", "limit"),
      ("/v1/openapi.yaml?format=json", "format"), ("/v1/events?app=news", "app"),
    ] {
      let reply = try await running.call(path)
      #expect(reply.status == 400, "\(path): \(reply.text)")
      #expect(reply.text.contains(name), "\(path): \(reply.text)")
    }
    for path in [apps + "?limit=1000&cursor=x", apps + "/news/devices?limit=1&cursor=0&tag=a", apps + "/news/feedback"]
    {
      #expect(try await running.call(path).status == 200, "\(path)")
    }
    let sent = try await running.call(
      apps + "/news/notifications?dryRun=true", body: ServeSite.body(HTTP2Site.token(1)))
    #expect(sent.status == 400, "\(sent.text)")
    #expect(try await running.end().isEmpty)
  }

  private struct Apps: Decodable {
    struct App: Decodable {
      struct Rates: Decodable {
        let settledPerSecond: Double
        let limitPerSecond: Double?
      }
      let id: String
      let weight: Int
      let rates: Rates
    }
    let items: [App]
    let nextCursor: String?
  }

  @Test("the apps come in pages, each with its rates and its weight; a key sees only its own")
  func apps() async throws {
    let names = (1...5).map { "app\($0)" }
    let running = try await RunningServe(
      configure: { try $0.configure($1, apps: names, settings: "weight: 3\n    rate-limit: 5000/s") })
    var (found, cursor) = ([String](), "")
    repeat {
      let page = try await running.call("/v1/apps?limit=2\(cursor)").decoded(Apps.self)
      #expect(page.items.count <= 2)
      #expect(page.items.allSatisfy { $0.weight == 3 && $0.rates.limitPerSecond == 5000 })
      found += page.items.map(\.id)
      cursor = page.nextCursor.map { "&cursor=\($0)" } ?? ""
    } while !cursor.isEmpty
    #expect(found == names)
    let own = try await running.serve.key(["--scope", "read", "--app", "app2", "--app", "app4"])
    let seen = try await running.serve.request(running.service.api, "/v1/apps?limit=1", key: own).decoded(Apps.self)
    #expect(seen.items.map(\.id) == ["app2"])
    #expect(seen.nextCursor == "app2")
    let lines = (0..<500).map { ServeSite.body(HTTP2Site.token($0)) }.joined(separator: "\n")
    #expect(try await running.call("/v1/apps/app3/notifications:batch", body: lines).status == 202)
    try await waitUntil("the rate is that of the one that sends") {
      let apps = try await running.call("/v1/apps").decoded(Apps.self).items
      return apps.filter { $0.rates.settledPerSecond > 0 }.map(\.id) == ["app3"]
    }
    #expect(try await running.end().count == 500)
  }

  @Test("a body of another type is 415, one that is too large 413, whatever the address")
  func bodies() async throws {
    let running = try await RunningServe(configure: { try $0.configure($1, api: ", max-body: 4KiB") })
    let path = try await running.campaigns.make()
    let large = #"{"name":"\#(String(repeating: "x", count: 5000))"}"#
    let device = "/devices/\(HTTP2Site.token(1))"
    for (method, address, type) in [
      ("POST", "/notifications", "text/csv"), ("POST", "/notifications:batch", "text/csv"),
      ("POST", "/campaigns", "text/csv"), ("PATCH", path, "text/csv"), ("PUT", device, "text/csv"),
      ("POST", "/devices:import", "application/json"), ("POST", "\(path)/audience", "application/json"),
    ] {
      let headers = ["Content-Type": type, "If-Match": "*"]
      let reply = try await running.call("/v1/apps/news\(address)", body: "{}", method: method, headers: headers)
      #expect(reply.status == 415, "\(method) \(address): \(reply.text)")
    }
    for (method, address) in [
      ("POST", "/notifications"), ("POST", "/notifications:batch"), ("POST", "/campaigns"), ("PATCH", path),
    ] {
      let reply = try await running.call(
        "/v1/apps/news\(address)", body: large, method: method, headers: ["If-Match": "*"])
      #expect(reply.status == 413, "\(method) \(address): \(reply.text)")
    }
    // Devices have a limit of their own.
    let device413 = try await running.call(
      "/v1/apps/news\(device)", body: String(repeating: " ", count: 20_000), method: "PUT")
    #expect(device413.status == 413, "\(device413.text)")
    try await running.end()
  }

  @Test("names and references have as many characters as openapi.yaml says, whatever their bytes")
  func lengths() async throws {
    let running = try await RunningServe()
    for (count, status) in [(100, 201), (101, 400)] {
      let body = #"{"name":"\#(String(repeating: "é", count: count))","payload":{"aps":{"alert":"a"}}}"#
      #expect(try await running.call("/v1/apps/news/campaigns", body: body).status == status, "\(count)")
    }
    for (count, status) in [(128, 202), (129, 400)] {
      let text = String(repeating: "ü", count: count)
      let body = #"{"token":"\#(HTTP2Site.token(1))","reference":"\#(text)","payload":{"aps":{"alert":"a"}}}"#
      #expect(try await running.call("/v1/apps/news/notifications", body: body).status == status, "\(count)")
    }
    #expect(try await running.end().count == 1)
  }

  @Test("every answer names lines as their sender counts them: blank ones, values with line ends, two uploads")
  func lines() async throws {
    let running = try await RunningServe(rules: CampaignServeTests.dead)
    func good(_ number: Int) -> String { ServeSite.body(HTTP2Site.token(number)) }
    let bad = #"{"token":"zz","payload":{"aps":{}}}"#
    struct Rejected: Decodable {
      struct Line: Decodable { let line: Int }
      let errors: [Line]
    }
    func rejected(_ path: String, _ lines: [String], _ type: String = "application/x-ndjson") async throws -> [Int] {
      let reply = try await running.call(
        "/v1/apps/news\(path)", body: lines.joined(separator: "\n"), headers: ["Content-Type": type])
      return try reply.decoded(Rejected.self).errors.map(\.line)
    }
    #expect(try await rejected("/notifications:batch", ["", "", good(1), " ", bad, good(2), "{}"]) == [5, 7])
    #expect(try await rejected("/notifications:batch", ["[", bad, ",", good(3), "]"], "application/json") == [1])
    let device = #"{"token":"\#(HTTP2Site.token(4))"}"#
    #expect(try await rejected("/devices:import", ["", device, "", #"{"token":"zz"}"#, "{}"]) == [4, 5])
    #expect(try await rejected("/devices:import", ["", "token,language", "zz,", "", "yy,"], "text/csv") == [3, 5])

    let site = running.campaigns
    func row(_ number: Int, _ name: String, prefix: String = "00") -> String {
      #"{"token":"\#(HTTP2Site.token(number, prefix: prefix))","name":"\#(name)"}"#
    }
    let objects = try await site.make(payload: #"{"aps":{"alert":"Hello {{name}}"}}"#)
    _ = try await site.upload(objects, ["", "", row(10, #"a\nb\nc"#), "", row(11, "d", prefix: "dead"), "no JSON"])
    let rest = [row(12, #"\n"#), row(13, "e", prefix: "dead"), "", #"{"token":"zz","name":"f"}"#]
    let upload = try await site.upload(objects, rest, headers: ["Carillon-First-Line": "7"])
    #expect(upload.lines == 10)
    let table = try await site.make(payload: #"{"aps":{"alert":"Hello {{name}}"}}"#)
    func cells(_ number: Int, _ name: String, prefix: String = "00") -> String {
      "\(HTTP2Site.token(number, prefix: prefix)),\(name)"
    }
    _ = try await site.upload(
      table, ["", "token,name", cells(20, "a"), "", cells(21, "b", prefix: "dead"), "zz,c", "\(HTTP2Site.token(22))"])
    for (path, lines) in [(objects, ["5", "6", "8", "10"]), (table, ["5", "6", "7"])] {
      try await site.act(path, "start")
      #expect(try await site.ended(path).state == "finished")
      #expect(try await site.outcomes(path).map { $0[0] }.sorted { (Int($0) ?? 0) < (Int($1) ?? 0) } == lines)
    }
    let taken = try await running.end().compactMap(\.token)
    #expect(taken.sorted() == [1, 2, 3, 10, 12, 20].map { HTTP2Site.token($0) })
  }

  @Test("a POST that makes or changes something is carried out once for each Idempotency-Key", .ofStoreFile)
  func idempotency() async throws {
    let running = try await RunningServe()
    struct List: Decodable { let items: [CampaignSite.Campaign] }
    func post(_ path: String, _ body: String = "", key: String) async throws -> ServeSite.Reply {
      try await running.call("/v1\(path)", body: body, headers: ["Idempotency-Key": key])
    }
    let plan = #"{"name":"sale","payload":{"aps":{"alert":"Hello"}},"audience":{"source":"devices"}}"#
    let made = try await post("/apps/news/campaigns", plan, key: "make")
    let again = try await post("/apps/news/campaigns", plan, key: "make")
    #expect(made.status == 201)
    #expect(again.status == 201)
    #expect(made.body == again.body)
    #expect(again.headers["idempotent-replayed"] == "true")
    #expect(try await running.call("/v1/apps/news/campaigns").decoded(List.self).items.count == 1)
    let id = try made.decoded(CampaignSite.Campaign.self).id
    for path in ["/apps/news/campaigns/\(id):start", "/apps/news:pause", "/apps/news:resume", "/reload"] {
      let first = try await post(path, key: path)
      #expect([200, 202].contains(first.status), "\(path): \(first.text)")
      let repeated = try await post(path, key: path)
      #expect(repeated.headers["idempotent-replayed"] == "true", "\(path): \(repeated.text)")
    }
    // A copy of the store is no answer to be kept in it.
    for path in ["/store:backup", "/store:backup", "/store:backup/", "//store:backup"] {
      let copy = try await post(path, key: "copy")
      #expect(copy.status == 200)
      #expect(copy.headers["idempotent-replayed"] == nil)
      #expect(copy.body.starts(with: Data("SQLite format 3".utf8)))
    }
    try await running.end()
  }

  @Test("the pages answer to the names of api.hosts, to addresses and to localhost only; the API to any name")
  func hosts() async throws {
    let running = try await RunningServe(configure: { try $0.configure($1, api: ", hosts: [Push.Example.com, other]") })
    let browser = Browser(running.service.api)
    let port = 8480
    for host in [
      "push.example.com", "PUSH.example.com:\(port)", "other:\(port)", "localhost", "127.0.0.1:\(port)", "[::1]",
    ] {
      #expect(try await browser.get("/login", host: host).status == 200, "\(host)")
    }
    for host in ["example.com", "push.example.com.evil.example", "evil.example:\(port)", "1.2.3.4.evil.example"] {
      #expect(try await browser.get("/login", host: host).status == 421, "\(host)")
    }
    #expect(try await running.call("/v1/apps", headers: ["Host": "evil.example"]).status == 200)
    try await running.end()
  }
}
