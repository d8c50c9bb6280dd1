internal import Foundation
internal import Support
internal import Testing

@Suite("The dashboard", .inProcess, .timeLimit(.minutes(10)))
struct DashboardTests {
  private struct Site {
    let serve: ServeSite
    let service: ServeSite.Service
    let upstream: HTTP2Site.Service

    func end() async {
      service.process.send(SIGTERM)
      let ending = await service.process.ending()
      #expect(ending.status == 0, "\(ending)")
      upstream.simulator.send(SIGTERM)
      _ = await upstream.simulator.ending()
    }
  }

  private static func site(rules: String = "") async throws -> Site {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(rules: rules)
    try serve.configure(upstream)
    return Site(serve: serve, service: try await serve.start(), upstream: upstream)
  }

  @Test("logging in needs a key and the login page's own form; the cookie is the browser's alone")
  func login() async throws {
    let site = try await Self.site()
    let key = try await site.serve.key(["--scope", "read"])
    let browser = Browser(site.service.api)
    let refused = try await browser.get("/")
    #expect(refused.status == 303)
    #expect(refused.headers["location"] == "/login")
    let page = try await browser.get("/login")
    #expect(page.status == 200)
    #expect(page.headers["content-security-policy"]?.hasPrefix("default-src 'none';") == true)
    #expect(page.headers["content-security-policy"]?.contains("unsafe") == false)
    #expect(page.headers["x-content-type-options"] == "nosniff")

    let wrong = try await browser.logIn("car_000000000000_" + String(repeating: "0", count: 64))
    #expect(wrong.status == 401)
    #expect(wrong.text.contains("The key is unknown"))
    let sender = try await site.serve.key(["--scope", "send"])
    #expect(try await browser.logIn(sender).status == 401)
    let token = try #require(try await browser.get("/login").formToken)
    #expect(try await browser.post("/login", [("key", key)]).status == 403)
    #expect(
      try await Browser(site.service.api).post("/login", [("form-token", token), ("key", key)]).status == 403)
    #expect(browser.cookies["carillon_session"] == nil)

    let right = try await browser.logIn(key)
    #expect(right.status == 303)
    let cookie = try #require(right.headers["set-cookie"])
    #expect(cookie.contains(/carillon_session=[0-9a-f]{64}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict/))
    let overview = try await browser.get("/")
    #expect(overview.status == 200)
    #expect(overview.headers["cache-control"] == "no-store")
    #expect(overview.text.contains("href=\"/apps/news\""))
    #expect(overview.text.contains("<footer>carillon 0."))

    // A session ends when it is logged out, and when its key is revoked.
    let old = browser.cookies
    let formToken = try #require(overview.formToken)
    #expect(try await browser.post("/logout", [("form-token", formToken)]).headers["location"] == "/login")
    browser.cookies = old
    #expect(try await browser.get("/").status == 303)
    _ = try await browser.logIn(key)
    #expect(try await browser.get("/").status == 200)
    try await site.serve.revoke(key)
    try await waitUntil("the session has ended") { try await browser.get("/").status == 303 }
    await site.end()
  }

  @Test("the page of an app draws what it did lately, and the overview how fast it was")
  func charts() async throws {
    let site = try await Self.site(rules: "http2: { refuse: [ { prefixes: [dead], reason: BadDeviceToken } ] }")
    let key = try await site.serve.key(["--scope", "read", "--scope", "send"])
    let browser = Browser(site.service.api)
    _ = try await browser.logIn(key)
    let lines = (0..<40).map { ServeSite.body(HTTP2Site.token($0, prefix: $0 < 30 ? "00" : "dead")) }
    _ = try await site.serve.request(
      site.service.api, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n"))
    try await waitUntil("the outcomes are drawn") {
      try await browser.get("/apps/news").text.contains("30 accepted, 10 not accepted, at most ")
    }
    let page = try await browser.get("/apps/news").text
    #expect(page.contains(/<path class="accepted" d="M\d+ 1000v-\d+h1v\d+z/))
    #expect(page.contains(/<path class="others" d="M\d+ \d+v-\d+h1v\d+z/))
    #expect(page.contains(/lately half within [\d.]+ m?s, 99 of 100 within [\d.]+ m?s/))
    #expect(try await browser.get("/apps/news?span=day").text.contains("30 accepted, 10 not accepted"))
    #expect(try await browser.get("/apps/chat").text.contains("0 accepted, 0 not accepted"))
    #expect(try await browser.get("/").text.contains("<svg class=\"spark\""))
    await site.end()
  }

  @Test("the events say who did what, page by page, and are only for those who may do everything")
  func events() async throws {
    let site = try await Self.site()
    let browser = Browser(site.service.api)
    #expect(try await browser.logIn("nonsense").status == 401)
    let key = try await site.serve.key(["--scope", "admin"], name: "<b>Ann</b>")
    _ = try await browser.logIn(key)
    let token = try #require(try await browser.get("/keys").formToken)
    for action in ["pause", "resume"] {
      #expect(try await browser.post("/apps/chat/\(action)", [("form-token", token)]).status == 303)
    }
    try await waitUntil("the service has written what it noticed") {
      try await browser.get("/events").text.contains(">service started</th>")
    }
    let page = try await browser.get("/events").text
    for action in ["app paused", "app resumed", "logged in", "login failed", "service started", "key created"] {
      #expect(page.contains(">\(action)</th>"), "\(action)")
    }
    #expect(page.contains(/&lt;b&gt;Ann&lt;\/b&gt; <span class="hint">[0-9a-f]{12}, 127\.0\.0\.1<\/span>/))
    #expect(page.contains("an operator at the machine"))
    #expect(!page.contains(">Older</a>"))
    let chat = try await browser.get("/events?app=chat").text
    #expect(chat.contains(">app paused</th>"))
    #expect(!chat.contains(">logged in</th>"))
    #expect(try await browser.get("/events?cursor=x").status == 400)
    for _ in 0..<50 {
      for action in ["pause", "resume"] {
        #expect(try await browser.post("/apps/chat/\(action)", [("form-token", token)]).status == 303)
      }
    }
    let first = try await browser.get("/events?app=chat").text
    let older = try #require(first.firstMatch(of: /href="(\/events\?app=chat&amp;cursor=[0-9a-f-]+)"/)).1
    let second = try await browser.get(String(older).replacing("&amp;", with: "&")).text
    #expect(first.matches(of: /<th scope="row">/).count == 100)
    #expect(second.matches(of: /<th scope="row">/).count == 2)
    _ = try await browser.logIn(try await site.serve.key(["--scope", "read"]))
    #expect(try await browser.get("/events").status == 403)
    #expect(try await !browser.get("/").text.contains("href=\"/events\""))
    await site.end()
  }

  @Test("forms of other sites, other hosts and other sessions change nothing")
  func foreignForms() async throws {
    let site = try await Self.site()
    let browser = Browser(site.service.api)
    _ = try await browser.logIn(try await site.serve.key(["--scope", "admin"]))
    let token = try #require(try await browser.get("/keys").formToken)
    let fields = [("form-token", token), ("name", "smuggled"), ("scope", "read"), ("all-apps", "yes")]
    #expect(try await browser.post("/keys", fields, origin: "http://evil.example").status == 403)
    #expect(try await browser.post("/keys", fields, origin: "null").status == 403)
    #expect(
      try await browser.post("/keys", [("form-token", String(token.reversed()))] + fields.dropFirst()).status == 403)
    #expect(try await browser.post("/keys", Array(fields.dropFirst())).status == 403)
    #expect(try await browser.get("/", host: "evil.example").status == 421)
    let rebound = try await browser.post("/keys", fields, origin: "http://evil.example", host: "evil.example")
    #expect(rebound.status == 421)
    #expect(try await !site.serve.keyNames().contains("smuggled"))
    #expect(try await browser.post("/keys", fields).status == 200)
    await site.end()
  }

  @Test("a key sees its own apps only, and no buttons that it may not press")
  func scopes() async throws {
    let site = try await Self.site()
    let browser = Browser(site.service.api)
    _ = try await browser.logIn(try await site.serve.key(["--scope", "read", "--app", "chat"]))
    let overview = try await browser.get("/")
    #expect(overview.text.contains("/apps/chat"))
    #expect(!overview.text.contains("/apps/news"))
    #expect(try await browser.get("/apps/news").status == 404)
    #expect(try await browser.get("/apps/none").status == 404)
    #expect(try await browser.get("/keys").status == 403)
    let app = try await browser.get("/apps/chat")
    #expect(app.status == 200)
    #expect(!app.text.contains("Test notification"))
    #expect(!app.text.contains("Pause"))
    let token = try #require(app.formToken)
    let fields = [("form-token", token), ("token", HTTP2Site.token(1)), ("message", "Hello")]
    #expect(try await browser.post("/apps/chat/test", fields).status == 403)
    #expect(try await browser.post("/apps/news/test", fields).status == 404)
    #expect(try await browser.post("/apps/chat/pause", fields).status == 403)
    await site.end()
  }

  @Test("the admin of one app makes no key that reaches further, whatever the form says")
  func adminOfOneApp() async throws {
    let site = try await Self.site()
    let browser = Browser(site.service.api)
    _ = try await browser.logIn(try await site.serve.key(["--scope", "admin", "--app", "chat"]))
    let page = try await browser.get("/keys")
    #expect(!page.text.contains("all-apps"))
    let token = try #require(page.formToken)
    let fields = [("form-token", token), ("name", "more"), ("scope", "admin")]
    #expect(try await browser.post("/keys", fields).status == 422)
    #expect(try await browser.post("/keys", fields + [("all-apps", "yes")]).status == 403)
    #expect(try await browser.post("/keys", fields + [("app", "news")]).status == 404)
    #expect(try await !site.serve.keyNames().contains("more"))
    #expect(try await browser.post("/keys", fields + [("app", "chat")]).status == 200)
    await site.end()
  }

  @Test("an app is paused and resumed on its page, which says so afterwards")
  func pausedApp() async throws {
    let site = try await Self.site()
    let key = try await site.serve.key(["--scope", "admin"])
    let browser = Browser(site.service.api)
    _ = try await browser.logIn(key)
    let page = try await browser.get("/apps/news")
    #expect(page.text.contains("<button>Pause</button>"))
    let token = try #require(page.formToken)
    #expect(try await browser.post("/apps/news/pause", [("form-token", "wrong")]).status == 403)
    #expect(try await browser.get("/apps/news").text.contains("<span class=\"badge running\">running</span>"))
    let paused = try await browser.post("/apps/news/pause", [("form-token", token)])
    #expect(paused.status == 303)
    #expect(paused.headers["location"] == "/apps/news")
    let after = try await browser.get("/apps/news").text
    #expect(after.contains("<span class=\"badge paused\">paused</span>"))
    #expect(
      after.contains(/data-alarm="appPaused"\s+data-of="news">\s*<strong>It was paused by hand \d+ s ago\./), "\(after)"
    )
    #expect(after.contains("<button>Resume</button>"))
    let overview = try await browser.get("/").text
    #expect(overview.contains("2 apps: 1 paused, 1 running"), "\(overview)")
    // What needs somebody comes first.
    let rows = overview.matches(of: /<th scope="row"><a href="\/apps\/(\w+)"/).map { String($0.1) }
    #expect(rows == ["news", "chat"])
    let state = try await site.serve.request(site.service.api, "/v1/apps/news", key: key)
    #expect(state.text.contains(#""state":"paused""#))
    #expect(try await browser.post("/apps/news/resume", [("form-token", token)]).status == 303)
    #expect(try await browser.get("/apps/news").text.contains("<span class=\"badge running\">running</span>"))
    #expect(try await browser.get("/").text.contains("No alarms."))
    await site.end()
  }

  @Test("without JavaScript: a test notification, its outcome, and what the gateway refused")
  func withoutScript() async throws {
    let site = try await Self.site(rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered } ] }")
    let browser = Browser(site.service.api)
    _ = try await browser.logIn(try await site.serve.key())
    func send(_ device: String) async throws -> String {
      let token = try #require(try await browser.get("/apps/news").formToken)
      let sent = try await browser.post(
        "/apps/news/test", [("form-token", token), ("token", device), ("title", "A"), ("message", "B")])
      #expect(sent.status == 303, "\(sent.text)")
      let path = try #require(sent.headers["location"]?.split(separator: "#").first)
      var state = "queued"
      try await waitUntil("the page shows an outcome") {
        let page = try await browser.get(String(path))
        state = page.text.firstMatch(of: /data-state="(\w+)"/).map { String($0.1) } ?? ""
        return state != "queued"
      }
      return state
    }
    #expect(try await send(HTTP2Site.token(1)) == "accepted")
    #expect(try await send(HTTP2Site.token(2, prefix: "dead")) == "rejected")
    let page = try await browser.get("/apps/news")
    #expect(page.text.contains("410 Unregistered"))
    #expect(page.text.contains("<code>dead0000…</code>"))
    let token = try #require(page.formToken)
    let malformed = try await browser.post(
      "/apps/news/test", [("form-token", token), ("token", "zz"), ("message", "B")])
    #expect(malformed.status == 422)
    await site.end()
  }

  @Test("a hostile name stays text; a new key is shown once and works until it is revoked")
  func keys() async throws {
    let site = try await Self.site()
    let browser = Browser(site.service.api)
    _ = try await browser.logIn(try await site.serve.key(["--scope", "admin"]))
    let hostile = #"<img src=x onerror="alert(1)">&'"#
    let token = try #require(try await browser.get("/keys").formToken)
    let made = try await browser.post(
      "/keys", [("form-token", token), ("name", hostile), ("scope", "read"), ("app", "chat")])
    let key = try #require(made.text.firstMatch(of: /car_[0-9a-f]{12}_[0-9a-f]{64}/)).0
    let list = try await browser.get("/keys")
    // The key of this session is in use; the new one was never used.
    #expect(list.text.matches(of: /data-label="Last used">20\d\d-\d\d-\d\d \d\d:\d\d UTC</).count == 1, "\(list.text)")
    #expect(list.text.matches(of: /data-label="Last used">never</).count == 1)
    #expect(!list.text.contains(key))
    #expect(!list.text.contains("<img"))
    #expect(list.text.contains("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;&#39;"))
    #expect(try await site.serve.request(site.service.api, "/v1/apps/chat", key: String(key)).status == 200)
    #expect(try await site.serve.request(site.service.api, "/v1/apps/news", key: String(key)).status == 404)
    let id = try #require(key.split(separator: "_").dropFirst().first)
    #expect(try await browser.post("/keys/\(id)/revoke", [("form-token", token)]).status == 303)
    try await waitUntil("the key is refused") {
      try await site.serve.request(site.service.api, "/v1/apps/chat", key: String(key)).status == 401
    }
    await site.end()
  }

  @Test("a campaign's page has the exact sum, and its buttons act on it")
  func campaigns() async throws {
    let site = try await Self.site(rules: CampaignServeTests.dead)
    let key = try await site.serve.key(["--scope", "admin"])
    let campaigns = CampaignSite(site.service, key: key)
    let browser = Browser(site.service.api)
    _ = try await browser.logIn(key)
    let path = try await campaigns.make()
    _ = try await campaigns.upload(path, (0..<2_000).map(CampaignServeTests.line))
    try await campaigns.act(path, "start")
    _ = try await campaigns.ended(path)
    #expect(try await browser.get("/campaigns").text.contains("href=\"/apps/news\(path)\""))
    let page = try await browser.get("/apps/news\(path)")
    #expect(page.text.contains("data-sum>2,000</td>"), "\(page.text)")
    #expect(page.text.contains("<td>410 Unregistered</td><td class=\"number\">20</td>"))
    #expect(page.text.contains("<td>confirmed</td><td class=\"number\">1,978</td>"))
    #expect(!page.text.contains("\(path)/pause"))
    #expect(page.text.contains("<rect class=\"others\" x=\"1978\" width=\"22\" height=\"1\"/>"))
    #expect(page.text.contains("<strong>410 Unregistered</strong>: devices have removed the app."))
    let list = try await browser.get("/apps/news\(path)/not-accepted.csv")
    #expect(list.headers["content-disposition"]?.hasPrefix("attachment; filename=") == true)
    #expect(list.headers["x-content-type-options"] == "nosniff")
    let known = try await site.serve.request(site.service.api, "/v1/apps/news\(path)/outcomes.csv", key: key)
    #expect(known.text.split(separator: "\n").count == 23)
    #expect(list.text == known.text)
    try await duplicate(path, browser, campaigns, try #require(page.formToken))

    let tomorrow = Date(timeIntervalSinceNow: 86_400).formatted(.iso8601)
    let other = try await campaigns.make(#","sendAt":"\#(tomorrow)""#)
    _ = try await campaigns.upload(other, ["\(HTTP2Site.token(1))"])
    try await campaigns.act(other, "start")
    let token = try #require(page.formToken)
    for (action, state) in [("pause", "paused"), ("resume", "scheduled"), ("cancel", "cancelled")] {
      #expect(try await browser.get("/apps/news\(other)").text.contains("\(other)/\(action)"))
      #expect(try await browser.post("/apps/news\(other)/\(action)", [("form-token", "wrong")]).status == 403)
      let reply = try await browser.post("/apps/news\(other)/\(action)", [("form-token", token)])
      #expect(reply.status == 303, "\(reply.text)")
      #expect(reply.headers["location"] == "/apps/news\(other)")
      #expect(try await campaigns.campaign(other).state == state)
      let after = try await browser.get("/apps/news\(other)").text
      #expect(after.contains("<span class=\"badge \(state)\">\(state)</span>"), "\(after)")
    }
    let again = try await browser.post("/apps/news\(other)/resume", [("form-token", token)])
    #expect(again.status == 409)
    await site.end()
  }

  /// A draft of the same plan, which is started from its page.
  private func duplicate(_ path: String, _ browser: Browser, _ campaigns: CampaignSite, _ token: String) async throws {
    let made = try await browser.post("/apps/news\(path)/duplicate", [("form-token", token)])
    #expect(made.status == 303, "\(made.text)")
    let copy = try #require(made.headers["location"]?.dropFirst("/apps/news".count)).description
    #expect(copy != path)
    let draft = try await browser.get("/apps/news\(copy)").text
    #expect(draft.contains(" (copy) <span class=\"badge draft\">"), "\(draft)")
    #expect(!draft.contains("<button>Start</button>"), "it has no audience")
    #expect(try await browser.post("/apps/news\(copy)/start", [("form-token", token)]).status == 409)
    _ = try await campaigns.upload(copy, [HTTP2Site.token(7)])
    #expect(try await browser.get("/apps/news\(copy)").text.contains("<button>Start</button>"))
    #expect(try await browser.post("/apps/news\(copy)/start", [("form-token", token)]).status == 303)
    _ = try await campaigns.ended(copy)
    #expect(try await browser.get("/apps/news\(copy)").text.contains("data-sum>1</td>"))
  }

  @Test("the list of apps is sorted as its head says, and begins with a few numbers")
  func order() async throws {
    let site = try await Self.site()
    let key = try await site.serve.key(["--scope", "admin"])
    let browser = Browser(site.service.api)
    _ = try await browser.logIn(key)
    _ = try await site.serve.request(
      site.service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(1)))
    func apps(_ query: String) async throws -> [String] {
      try await browser.get("/" + query).text.matches(of: /<th scope="row"><a href="\/apps\/(\w+)"/).map {
        String($0.1)
      }
    }
    try await waitUntil("it has its outcome") { try await apps("?sort=accepted") == ["news", "chat"] }
    #expect(try await apps("?sort=app") == ["chat", "news"])
    #expect(try await apps("?sort=nonsense") == apps(""))
    let page = try await browser.get("/?sort=accepted").text
    #expect(page.contains("aria-sort=\"descending\"><a href=\"/?sort=accepted\">Accepted</a>"), "\(page)")
    #expect(page.matches(of: /aria-sort/).count == 1)
    try await waitUntil("the tiles have it") {
      try await browser.get("/").text.contains(/<dt>Accepted<\/dt><dd><strong>1<\/strong>/)
    }
    #expect(!page.contains("dense"))
    await site.end()
  }

  @Test("metrics agree with what was sent")
  func metrics() async throws {
    let site = try await Self.site(rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered } ] }")
    let key = try await site.serve.key()
    let lines = (0..<30).map { ServeSite.body(HTTP2Site.token($0, prefix: $0 < 10 ? "dead" : "00")) }
    let reply = try await site.serve.request(
      site.service.api, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n"))
    #expect(reply.status == 202)
    var text = ""
    func value(_ series: String) -> Double? {
      text.split(separator: "\n").first { $0.hasPrefix(series + " ") }.flatMap {
        Double($0.dropFirst(series.count + 1))
      }
    }
    try await waitUntil("all have their outcome") {
      text = try await site.serve.request(site.service.admin, "/metrics").text
      return value(#"carillon_notifications_total{app="news",outcome="accepted",reason="confirmed"}"#) == 20
        && value(#"carillon_notifications_total{app="news",outcome="rejected",reason="Unregistered"}"#) == 10
    }
    #expect(value(#"carillon_notifications_submitted_total{app="news"}"#) == 30)
    #expect(value(#"carillon_notifications_submitted_total{app="chat"}"#) == 0)
    #expect(value(#"carillon_notifications_total{app="chat",outcome="rejected",reason="BadDeviceToken"}"#) == 0)
    #expect(value(#"carillon_delivery_duration_seconds_count{app="news",stage="gateway"}"#) == 30)
    #expect(value("carillon_journal_fsync_seconds_count").map { $0 > 0 } == true)
    let route = #"route="/v1/apps/{app}/notifications:batch",method="POST",code="202""#
    #expect(value("carillon_http_request_duration_seconds_count{\(route)}") == 1)
    #expect(value("carillon_ready") == 1)
    #expect(!text.contains(HTTP2Site.token(11)))
    await site.end()
  }
}
