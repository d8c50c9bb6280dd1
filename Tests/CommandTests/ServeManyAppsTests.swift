internal import Foundation
internal import Support
internal import Testing

/// Many apps in one service. `ops/serve-bench many` has 1,000.
@Suite("carillon serve with many apps", .timeLimit(.minutes(20)))
struct ServeManyAppsTests {
  private static let count = 400
  private static let clients = 4

  private static func topic(_ app: String) -> String { "com.example.\(app)" }
  private static func token(_ app: Int, _ round: Int) -> String { HTTP2Site.token(round << 20 | app) }

  /// What the simulator is to record of a notification.
  private struct Sent: Hashable {
    let topic: String
    let token: String
  }

  /// One notification of each app, from several clients.
  private static func send(_ apps: [String], _ round: Int, _ running: RunningServe) async throws -> [Sent] {
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      for client in 0..<clients {
        tasks.addTask {
          for number in stride(from: client, to: apps.count, by: clients) {
            let path = "/v1/apps/\(apps[number])/notifications"
            let reply = try await running.call(path, body: ServeSite.body(token(number, round)))
            try #require(reply.status == 202, "\(apps[number]): \(reply.text)")
          }
        }
      }
      try await tasks.waitForAll()
    }
    return apps.indices.map { Sent(topic: topic(apps[$0]), token: token($0, round)) }
  }

  /// How many notifications of each app were accepted, once there are as many as expected.
  private static func accounts(of count: Int, _ running: RunningServe) async throws -> [String: Int] {
    var found: [String: Int] = [:]
    try await waitUntil("\(count) notifications have their outcome") {
      let text = try await running.serve.request(running.service.admin, "/metrics").text
      found = [:]
      for line in text.split(separator: "\n") where line.hasPrefix("carillon_notifications_total{") {
        let parts = line.split(separator: "\"")
        let value = Int(line.split(separator: " ").last ?? "") ?? 0
        guard value > 0, parts.count > 3 else { continue }
        try #require(parts[3] == "accepted", "\(line)")
        found[String(parts[1]), default: 0] += value
      }
      return found.values.reduce(0, +) >= count
    }
    return found
  }

  private static func apps(_ running: RunningServe) async throws -> [String] {
    struct List: Decodable {
      struct App: Decodable { let id: String }
      let items: [App]
    }
    return try await running.call("/v1/apps?limit=1000").decoded(List.self).items.map(\.id)
  }

  @Test("each app sends and has its account; a reload takes half of them away and brings others, and the rest goes on")
  func reload() async throws {
    let before = (0..<Self.count).map { "app\($0)" }
    let kept = Array(before.suffix(Self.count / 2))
    let after = kept + (0..<Self.count / 4).map { "late\($0)" }
    let running = try await RunningServe(configure: { try $0.configure($1, apps: before, topic: Self.topic) })
    #expect(try await Self.apps(running) == before.sorted())
    var sent = try await Self.send(before, 1, running)
    var expected = Dictionary(uniqueKeysWithValues: before.map { ($0, 1) })
    #expect(try await Self.accounts(of: before.count, running) == expected)

    try running.serve.configure(running.upstream, apps: after, topic: Self.topic)
    _ = try await running.reload()
    #expect(try await Self.apps(running) == after.sorted())
    #expect(try await running.call("/v1/apps/app0").status == 404)
    sent += try await Self.send(after, 2, running)
    expected = Dictionary(uniqueKeysWithValues: after.map { ($0, kept.contains($0) ? 2 : 1) })
    #expect(try await Self.accounts(of: kept.count + after.count, running) == expected)

    // Each arrived once, with the topic of its app.
    let taken = try await running.end().map { Sent(topic: $0.topic ?? "", token: $0.token ?? "") }
    #expect(taken.count == sent.count)
    #expect(Set(taken) == Set(sent))
  }
}
