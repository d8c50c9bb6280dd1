internal import Foundation
internal import Support
internal import Testing

@Suite("carillon serve while its database fails over", .timeLimit(.minutes(20)))
struct ServeFailoverTests {
  /// How a primary is lost.
  enum Loss: String, CaseIterable, CustomTestStringConvertible {
    case killed, stopped

    var testDescription: String { rawValue }
  }

  @Test(
    "the primary is lost in mid-campaign, its standby promoted: the account is the gateway's, nothing is sent twice",
    arguments: Loss.allCases)
  func promotion(after loss: Loss) async throws {
    let port = OwnPort.random(count: 2)
    var setup = PostgreSQLServer.Setup()
    setup.port = port
    let primary = try PostgreSQLServer(setup)
    let standby = try primary.makeStandby(port: port + 1)
    try await check(["127.0.0.1:\(port)", "127.0.0.1:\(port + 1)"], primary.makeDatabase()) { post in
      if loss == .killed { try primary.kill() } else { try primary.setStopped(true) }
      try await post(20)
      try standby.promote()
    }
  }

  @Test("the primary is lost, and the service killed before its standby is promoted: nobody is lost, copies are listed")
  func killed() async throws {
    let port = OwnPort.random(count: 2)
    var setup = PostgreSQLServer.Setup()
    setup.port = port
    let primary = try PostgreSQLServer(setup)
    let standby = try primary.makeStandby(port: port + 1)
    let hosts = ["127.0.0.1:\(port)", "127.0.0.1:\(port + 1)"]
    var (running, path) = try await started(hosts, primary.makeDatabase())
    try primary.kill()
    for number in 0..<50 {
      let reply = try await running.call(
        "/v1/apps/news/notifications", body: ServeSite.body(HTTP2Site.token(Self.count + number)))
      try #require(reply.status == 202, "\(reply.text)")
    }
    // The next process begins while nothing can be written.
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask {
        try await Task.sleep(for: .seconds(2))
        try standby.promote()
      }
      try await running.restart()
      try await tasks.waitForAll()
    }
    #expect(try await running.campaigns.ended(path).state == "finished")
    let account = try await running.campaigns.account(path)
    #expect(account.accepted.confirmed == Self.count)
    let tokens = try await running.end().compactMap(\.token)
    let campaign = Set((0..<Self.count).map { HTTP2Site.token($0) })
    #expect(Set(tokens) == campaign.union((0..<50).map { HTTP2Site.token(Self.count + $0) }))
    let arrived = tokens.filter(campaign.contains)
    #expect(arrived.count - campaign.count <= account.possibleDuplicates)
  }

  @Test("the database is ended, and started again after some seconds: the same")
  func restart() async throws {
    let server = try PostgreSQLServer()
    try await check([server.folder], server.makeDatabase()) { post in
      try server.end()
      let began = ContinuousClock.now
      while ContinuousClock.now - began < .seconds(4) { try await post(10) }
      try server.start()
    }
  }

  @Test("a service whose database is away when it starts waits for it, and serves when it is back")
  func awayAtStart() async throws {
    let server = try PostgreSQLServer()
    let store = try ServeSite.store(in: server)
    let running = try await RunningServe { try $0.configure($1, more: store) }
    running.service.process.send(SIGTERM)
    #expect(await running.service.process.ending().status == 0)
    try server.end()
    let process = try ChildProcess(
      ["serve", "--config", "carillon.yaml", "--json"], directory: running.serve.site.place.url)
    try await waitUntil("it says that it waits") { process.errors.contains("the service waits until it can start") }
    try server.start()
    let line = try #require(await process.line(0), "\(process.errors)")
    #expect(line.contains("\"api\""))
    process.send(SIGTERM)
    #expect(await process.ending().status == 0)
  }

  /// - Parameter disturb: runs in mid-campaign; what it gets sends so many single notifications.
  private func check(
    _ hosts: [String], _ database: String, disturb: ((Int) async throws -> Void) async throws -> Void
  ) async throws {
    let (running, path) = try await started(hosts, database)
    let (site, count) = (running.campaigns, Self.count)
    var ids: [String] = []
    #expect(try await site.campaign(path).progress.accepted < count, "it is disturbed in the middle")
    try await disturb { more in
      for _ in 0..<more {
        let reply = try await running.call(
          "/v1/apps/news/notifications", body: ServeSite.body(HTTP2Site.token(count + ids.count)))
        try #require(reply.status == 202, "\(reply.text)")
        ids.append(try reply.decoded(ServeSite.Queued.self).id)
      }
    }
    // For a moment it is away, also in the middle of an answer.
    try await waitUntil("the database answers") { try await site.call("GET", path).status == 200 }
    for id in ids {
      let notification = try await running.serve.finished(id, running.service, key: running.key)
      #expect(notification.outcome == "accepted")
    }
    #expect(try await site.ended(path).state == "finished")
    let account = try await site.account(path)
    #expect(account.accepted.confirmed == count)
    #expect(account.possibleDuplicates == 0)
    let taken = try await running.end().compactMap(\.token)
    #expect(taken.count == count + ids.count)
    #expect(Set(taken).count == taken.count)
  }

  private static let count = 8_000

  /// A service in the middle of a campaign.
  private func started(_ hosts: [String], _ database: String) async throws -> (RunningServe, path: String) {
    let list = hosts.map { "\"\($0)\"" }.joined(separator: ", ")
    let store = "store: { postgres: { hosts: [\(list)], database: \(database), user: \(PostgreSQLServer.user) } }"
    let running = try await RunningServe(scopes: ["campaigns", "read", "send"]) { try $0.configure($1, more: store) }
    let path = try await running.campaigns.make(#","rateLimit":1000"#)
    _ = try await running.campaigns.upload(path, (0..<Self.count).map { HTTP2Site.token($0) })
    try await running.campaigns.act(path, "start")
    try await waitUntil("the campaign sends") { try await running.campaigns.campaign(path).progress.accepted > 1_000 }
    return (running, path)
  }
}
