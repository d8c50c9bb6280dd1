internal import Foundation
internal import Support
internal import Testing

@Suite("The list of who did what", .timeLimit(.minutes(10)))
struct ServeAuditTests {
  private struct Event: Decodable, Equatable {
    let id: String
    let at: String
    let kind: String
    let action: String
    let app: String?
    let subject: String?
    let key: String?
    let keyName: String?
    let address: String?
    let reason: String?
  }

  private struct Page: Decodable {
    let items: [Event]
    let nextCursor: String?
  }

  private static func id(_ key: String) -> String { String(key.split(separator: "_")[1]) }

  /// All of them, the newest first.
  private static func all(_ running: RunningServe, limit: Int = 1_000, more: String = "") async throws -> [Event] {
    var (found, cursor): ([Event], String?) = ([], nil)
    repeat {
      let path = "/v1/audit?limit=\(limit)\(more)\(cursor.map { "&cursor=\($0)" } ?? "")"
      let page = try await running.call(path).decoded(Page.self)
      found += page.items
      cursor = page.nextCursor
    } while cursor != nil
    return found
  }

  @Test("what was answered is there after kill -9: when, what, who and whence")
  func killed() async throws {
    var running = try await RunningServe()
    // What the service notices may take a second.
    try await waitUntil("the start is there") {
      try await Self.all(running).contains { $0.action == "service started" }
    }
    #expect(try await running.call("/v1/apps/chat:pause", method: "POST").status == 202)
    try await running.restart()
    let found = try await Self.all(running)
    #expect(found.map(\.id) == found.map(\.id).sorted(by: >))
    let pause = try #require(found.first { $0.action == "app paused" })
    #expect(pause.kind == "action")
    #expect(pause.app == "chat")
    #expect(pause.key == Self.id(running.key))
    #expect(pause.keyName == "test")
    #expect(pause.address == "127.0.0.1")
    // The store got it from another process, at this machine.
    let made = try #require(found.last { $0.action == "key created" })
    #expect(made.subject == Self.id(running.key))
    #expect(made.key == nil)
    #expect(made.address == nil)
    try await waitUntil("the second start is there") {
      try await Self.all(running).count { $0.action == "service started" } == 2
    }
    #expect(try await Self.all(running, limit: 2) == Self.all(running))
    try await running.end()
  }

  @Test("who has some apps sees their events only, and only an admin sees any")
  func reach() async throws {
    let running = try await RunningServe()
    for app in ["chat", "news"] {
      #expect(try await running.call("/v1/apps/\(app):pause", method: "POST").status == 202)
    }
    let admin = try await running.serve.key(["--scope", "admin", "--app", "chat"])
    let reader = try await running.serve.key(["--scope", "read", "--scope", "send"])
    func ask(_ query: String, _ key: String) async throws -> ServeSite.Reply {
      try await running.serve.request(running.service.api, "/v1/audit" + query, key: key)
    }
    #expect(try await ask("", admin).decoded(Page.self).items.map(\.app) == ["chat"])
    #expect(try await ask("?app=chat", admin).decoded(Page.self).items.map(\.action) == ["app paused"])
    #expect(try await ask("?app=news", admin).status == 404)
    #expect(try await ask("?app=%00", running.key).status == 404)
    #expect(try await ask("", reader).status == 403)
    #expect(try await Self.all(running, more: "&app=news").map(\.action) == ["app paused"])
    #expect(try await Self.all(running, more: "&app=none").isEmpty)
    for query in ["?cursor=x", "?limit=0", "?limit=x", "?limit=1001", "?apps=chat"] {
      #expect(try await ask(query, running.key).status == 400, "\(query)")
    }
    try await running.end()
  }

  @Test("what the service notices is there, too: a start, an alarm, a reload, a campaign that has ended")
  func changes() async throws {
    let running = try await RunningServe {
      try $0.configure($1, apps: ["news"], more: "log: { format: json }")
      let path = $0.site.place.path("carillon.yaml")
      let other = $0.site.place.path("other.yaml")
      try FileManager.default.copyItem(atPath: path, toPath: other)
      let text = try String(contentsOfFile: path, encoding: .utf8)
      let bank = "  - id: bank" + (text.components(separatedBy: "  - id: news").last ?? "")
      try (text + bank.replacing(HTTP2Site.keyFile, with: "AuthKey_NONE000000.p8")).write(
        toFile: path, atomically: true, encoding: .utf8)
    }
    let path = try await running.campaigns.make()
    _ = try await running.campaigns.upload(path, (0..<3).lazy.map { HTTP2Site.token($0) })
    #expect(try await running.call("/v1/apps/news\(path):start", method: "POST").status < 300)
    try await waitUntil("the campaign's end is there, and the alarm") {
      let actions = Set(try await Self.all(running).map(\.action))
      return actions.isSuperset(of: ["campaign finished", "alarm"])
    }
    let place = running.serve.site.place
    try Data(contentsOf: URL(filePath: place.path("other.yaml"))).write(
      to: URL(filePath: place.path("carillon.yaml")), options: .atomic)
    #expect(try await running.reload().removed == ["bank"])
    try await waitUntil("all is there") {
      try await Self.all(running).contains { $0.action == "configuration read again" }
    }
    let changes = try await Self.all(running).reversed().filter { $0.kind == "change" }
    #expect(changes.allSatisfy { $0.key == nil && $0.address == nil })
    let alarm = try #require(changes.first { $0.action == "alarm" })
    #expect(alarm.app == "bank")
    #expect(alarm.subject == "appSuspended")
    #expect(alarm.reason?.contains("AuthKey_NONE000000.p8") == true)
    let end = try #require(changes.first { $0.action == "campaign finished" })
    #expect(end.app == "news")
    #expect(end.subject.map(path.hasSuffix) == true)
    let others = changes.map(\.action).filter { !$0.hasPrefix("campaign") && !$0.hasPrefix("alarm") }
    #expect(others == ["service started", "app removed", "configuration read again"])
    // Each is one line of the log.
    running.service.process.send(SIGTERM)
    let log = await running.service.process.ending().errors
    for change in changes {
      let lines = log.split(separator: "\n").filter { $0.contains("\"message\":\"\(change.action)\"") }
      #expect(!lines.isEmpty, "\(change)")
      #expect(lines.allSatisfy { $0.contains("\"level\":\"notice\"") }, "\(change)")
    }
    _ = try await running.serve.site.taken(running.upstream)
  }
}
