internal import Foundation
internal import Support
internal import Testing

@Suite("The log of who changed what", .inProcess, .timeLimit(.minutes(20)))
struct ServeTrailTests {
  private struct Line: Decodable {
    let level: String
    let message: String
    let key: String?
    let address: String?
    let app: String?
    let id: String?
    let created: String?
    let why: String?
    let unlogged: String?

    enum CodingKeys: String, CodingKey {
      case level, message, key, address, app, id, created, why
      case unlogged = "unlogged before"
    }
  }

  private static func id(_ key: String) -> String { String(key.split(separator: "_")[1]) }

  /// The notices with an address, in their order.
  private static func lines(_ errors: String) throws -> [Line] {
    try errors.split(separator: "\n").filter { $0.hasPrefix("{") }
      .map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }.filter { $0.address != nil }
  }

  @Test("each action of the API and of the pages is logged once, with its key and the client's address", .ofStoreFile)
  func actions() async throws {
    let running = try await RunningServe { try $0.configure($1, more: "log: { format: json }") }
    let (site, key) = (running.campaigns, Self.id(running.key))
    var expected: [String] = []
    func call(_ path: String, _ message: String, headers: [String: String] = [:]) async throws {
      let reply = try await running.call(path, method: "POST", headers: headers)
      #expect(reply.status < 300, "\(path): \(reply.text)")
      expected.append(message)
    }
    try await call("/v1/apps/chat:pause", "app paused", headers: ["Idempotency-Key": "once"])
    // It is answered from the store.
    #expect(
      try await running.call("/v1/apps/chat:pause", method: "POST", headers: ["Idempotency-Key": "once"]).status == 202)
    try await call("/v1/apps/chat:resume", "app resumed")
    var paths: [String] = []
    for _ in 0..<2 {
      let path = try await site.make(#","rateLimit":1"#)
      _ = try await site.upload(path, (0..<1000).lazy.map { HTTP2Site.token($0) })
      try await call("/v1/apps/news\(path):start", "campaign started")
      paths.append(path)
    }
    try await call("/v1/apps/news\(paths[0]):pause", "campaign paused")
    try await call("/v1/apps/news\(paths[0]):resume", "campaign resumed")
    try await call("/v1/apps/news\(paths[0]):cancel", "campaign cancelled")
    try await call("/v1/store:backup", "store copied")
    try await call("/v1/reload", "configuration reloaded")
    // Refused ones change nothing.
    #expect(try await running.call("/v1/apps/none:pause", method: "POST").status == 404)
    let reader = try await running.serve.key(["--scope", "read"])
    #expect(
      try await running.serve.request(running.service.api, "/v1/apps/news:pause", key: reader, method: "POST").status
        == 403)

    let browser = Browser(running.service.api)
    func send(_ path: String, _ fields: [(String, String)], _ message: String) async throws -> Browser.Page {
      let token = try #require(try await browser.get(path == "/login" ? path : "/keys").formToken)
      let page = try await browser.post(path, [("form-token", token)] + fields)
      expected.append(message)
      return page
    }
    #expect(try await send("/login", [("key", running.key)], "logged in").status == 303)
    for (action, message) in [("pause", "app paused"), ("resume", "app resumed")] {
      #expect(try await send("/apps/chat/\(action)", [], message).status == 303)
    }
    for (action, message) in [
      ("pause", "campaign paused"), ("resume", "campaign resumed"), ("cancel", "campaign cancelled"),
    ] {
      #expect(try await send("/apps/news\(paths[1])/\(action)", [], message).status == 303)
    }
    let test = [("token", HTTP2Site.token(1)), ("message", "Hello")]
    #expect(try await send("/apps/news/test", test, "test notification sent").status == 303)
    let made = try await send("/keys", [("name", "new"), ("scope", "read"), ("all-apps", "yes")], "key created")
    let new = try #require(made.text.firstMatch(of: /car_([0-9a-f]{12})_[0-9a-f]{64}/).map { String($0.1) })
    #expect(try await send("/keys/\(new)/revoke", [], "key revoked").status == 303)
    #expect(try await send("/logout", [], "logged out").status == 303)

    running.service.process.send(SIGTERM)
    let ending = await running.service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    let lines = try Self.lines(ending.errors)
    #expect(lines.map(\.message) == expected)
    for line in lines {
      #expect(line.level == "notice")
      #expect(line.key == key, "\(line)")
      #expect(line.address == "127.0.0.1", "\(line)")
    }
    #expect(lines.first?.app == "chat")
    #expect(lines.first { $0.message == "campaign started" }?.id.map { paths[0].hasSuffix($0) } == true)
    #expect(lines.first { $0.message == "key created" }?.created == new)
    #expect(lines.first { $0.message == "key revoked" }?.id == new)
    #expect(!ending.errors.contains(running.key))
    _ = try await running.serve.site.taken(running.upstream)
  }

  @Test("failed logins are logged with their key and reason, and a flood of them in few lines")
  func failures() async throws {
    let running = try await RunningServe { try $0.configure($1, more: "log: { format: json }") }
    let sender = try await running.serve.key(["--scope", "send"])
    let wrong = "car_" + Self.id(running.key) + "_" + String(repeating: "0", count: 64)
    let browser = Browser(running.service.api)
    #expect(try await browser.logIn(wrong).status == 401)
    #expect(try await browser.logIn(sender).status == 401)
    #expect(try await browser.logIn("nonsense \"\n").status == 401)
    for _ in 0..<60 { _ = try await browser.logIn(wrong) }
    running.service.process.send(SIGTERM)
    let ending = await running.service.process.ending()
    let lines = try Self.lines(ending.errors)
    #expect(Set(lines.map(\.message)) == ["login failed"])
    #expect(lines.prefix(3).map(\.key) == [Self.id(running.key), Self.id(sender), "unknown"])
    #expect(lines[0].why?.contains("unknown") == true)
    #expect(lines[1].why?.contains("scope") == true)
    // Ten at once, and one more each six seconds.
    #expect((10..<40).contains(lines.count), "\(lines.count)")
    #expect(!ending.errors.contains(wrong))
    _ = try await running.serve.site.taken(running.upstream)
  }
}
