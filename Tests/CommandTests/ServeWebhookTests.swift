internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// Outcomes that come to a receiver: Python's HTTP server, and its HMAC.
@Suite("Webhooks of carillon serve", .timeLimit(.minutes(20)))
struct ServeWebhookTests {
  struct Delivery: Decodable {
    struct Body: Decodable {
      let app: String
      let items: [ServeOutcomesTests.Outcome]
      let nextCursor: String
    }

    let path: String
    let type: String
    let host: String
    let isFresh: Bool
    let connection: Int
    /// By each of the receiver's secrets.
    let signed: [Bool]
    let codes: Int
    let answer: String
    let body: Body
  }

  /// A receiver that can be killed, and started again on the same port.
  struct Receiver {
    let serve: ServeSite
    let port = OwnPort.random()

    init(_ serve: ServeSite) throws {
      self.serve = serve
      try write(secrets: ["0123456789abcdef", "fedcba9876543210"])
    }

    var url: String { "https://localhost:\(port)/outcomes?of=news" }

    /// Settings of an app.
    func settings(_ more: String = ", private: true") -> String {
      """
      webhook: { url: "\(url)", secret-file: first.secret, previous-secret-file: second.secret, \
      trust: \(serve.site.certificates.files.authority)\(more) }
      """
    }

    func write(secrets: [String]) throws {
      let place = serve.site.place
      try place.write(secrets.joined(separator: "\n"), to: "known.secrets")
      for (name, secret) in zip(["first.secret", "second.secret"], secrets) {
        try place.writeSecret(secret + "\n", to: name)
      }
    }

    /// Nil: deliveries are acknowledged.
    func answer(_ what: String?) throws {
      if let what {
        try serve.site.place.write(what, to: "mode.new")
        try FileManager.default.moveItem(
          atPath: serve.site.place.path("mode.new"), toPath: serve.site.place.path("mode"))
      } else {
        try FileManager.default.removeItem(atPath: serve.site.place.path("mode"))
      }
    }

    func start() async throws -> ChildProcess {
      let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "WebhookReceiver.py")
      let files = serve.site.certificates.files
      let process = try ChildProcess(
        [
          script.path, "\(port)", files.server.certificate, files.server.key ?? "", "known.secrets", "deliveries",
          "mode",
        ], program: "python3", directory: serve.site.place.url)
      let line = await process.line(0)
      #expect(line == "ready", "\(process.errors)")
      return process
    }

    /// All that it got. A receiver that was killed may have left half a line.
    func deliveries() throws -> [Delivery] {
      guard let text = try? serve.site.place.read("deliveries") else { return [] }
      return text.split(separator: "\n").compactMap {
        try? JSONDecoder().decode(Delivery.self, from: Data($0.utf8))
      }
    }

    /// What it has acknowledged, without what came again; nil: something was left out, or came out
    /// of order.
    func outcomes() throws -> [ServeOutcomesTests.Outcome]? {
      var (found, last): ([ServeOutcomesTests.Outcome], Int) = ([], 0)
      for delivery in try deliveries() where delivery.answer == "200" {
        for item in delivery.body.items {
          guard let cursor = Int(item.cursor), cursor <= last + 1 else { return nil }
          if cursor == last + 1 { found.append(item) }
          last = max(last, cursor)
        }
      }
      return found
    }
  }

  private static func send(
    _ serve: ServeSite, _ service: ServeSite.Service, _ numbers: Range<Int>, key: String
  ) async throws {
    let lines = numbers.map {
      ServeSite.body(HTTP2Site.token($0)).dropLast() + #","reference":"order \#($0)"}"#
    }
    let reply = try await serve.request(
      service.api, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n"))
    #expect(reply.status == 202, "\(reply.text)")
  }

  @Test("outcomes are delivered in order, signed with both secrets, over one connection", .inProcess)
  func delivered() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    let receiver = try Receiver(serve)
    try serve.configure(upstream, apps: ["news"], settings: receiver.settings())
    let process = try await receiver.start()
    let key = try await serve.key(["--scope", "send", "--scope", "read"])
    let service = try await serve.start()
    for round in 0..<3 {
      try await Self.send(serve, service, round * 700..<(round + 1) * 700, key: key)
      try await waitUntil("round \(round) is delivered") { try receiver.outcomes()?.count == (round + 1) * 700 }
    }
    let listed = try await ServeOutcomesTests.all(serve, service, key: key)
    #expect(try receiver.outcomes() == listed)
    let deliveries = try receiver.deliveries()
    for delivery in deliveries {
      #expect(delivery.path == "/outcomes?of=news")
      #expect(delivery.host == "localhost:\(receiver.port)")
      #expect(delivery.type == "application/json")
      #expect(delivery.isFresh)
      #expect(delivery.signed == [true, true])
      #expect(delivery.codes == 2)
      #expect(delivery.body.app == "news")
      #expect(delivery.body.items.last?.cursor == delivery.body.nextCursor)
      #expect(delivery.body.items.count <= 1000)
    }
    #expect(Set(deliveries.map(\.connection)).count == 1)
    // Another secret counts at once.
    try receiver.write(secrets: ["another secret of 33 characters..", "0123456789abcdef"])
    try await Self.send(serve, service, 9_000..<9_001, key: key)
    try await waitUntil("the next one is delivered") { try receiver.outcomes()?.count == 2_101 }
    #expect(try receiver.deliveries().last?.signed == [true, true])
    let metrics = try await serve.request(service.admin, "/metrics").text
    #expect(metrics.contains(#"carillon_webhook_waiting_outcomes{app="news"} 0"#), "\(metrics)")
    #expect(metrics.contains(#"carillon_webhook_deliveries_total{app="news",result="failed"} 0"#))
    // A trial has no outcomes, and the receiver's cursor stays.
    func trial() async throws -> Ending {
      try await ChildProcess(["webhook", "test", "--config", "carillon.yaml"], directory: serve.site.place.url).ending()
    }
    let tried = try await trial()
    #expect(tried.status == 0, "\(tried)")
    #expect(tried.output.contains("has acknowledged with 200 after"))
    let last = try #require(try receiver.deliveries().last)
    #expect(last.body.items.isEmpty)
    #expect(last.body.nextCursor == "0")
    #expect(last.signed == [true, true])
    try receiver.answer("503")
    let refused = try await trial()
    #expect(refused.status == 1, "\(refused)")
    #expect(refused.output.contains("answered 503"))
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    process.send(SIGKILL)
  }

  @Test(
    "what a receiver does not acknowledge waits and is tried again, and the service says why",
    arguments: ["302", "503", "404", "drop", "garbage"])
  func refused(answer: String) async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    let receiver = try Receiver(serve)
    try serve.configure(upstream, apps: ["news"], settings: receiver.settings())
    let process = try await receiver.start()
    try receiver.answer(answer)
    let key = try await serve.key(["--scope", "send", "--scope", "read"])
    let service = try await serve.start()
    try await Self.send(serve, service, 0..<500, key: key)
    try await waitUntil("two attempts") { try receiver.deliveries().count >= 2 }
    // Few are tried as long as the receiver fails.
    #expect(try receiver.deliveries()[1].body.items.count == 10)
    try await waitUntil("all of them are known to wait") {
      try await serve.request(service.admin, "/metrics").text
        .contains(#"carillon_webhook_waiting_outcomes{app="news"} 500"#)
    }
    let expected =
      switch answer {
      case "302": "answered 302, and redirects are not followed"
      case "drop": "ended the connection without an answer"
      case "garbage": "not HTTP"
      default: "answered \(answer)"
      }
    #expect(service.process.errors.contains(expected), "\(service.process.errors)")
    // The address may have a secret in it.
    #expect(!service.process.errors.contains("of=news"))
    try receiver.answer(nil)
    try await waitUntil("all are delivered") { try receiver.outcomes()?.count == 500 }
    #expect(try receiver.outcomes() == (try await ServeOutcomesTests.all(serve, service, key: key)))
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    process.send(SIGKILL)
  }

  @Test("a receiver on this machine, or with another certificate, gets nothing unless that is configured", .inProcess)
  func kept() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    let receiver = try Receiver(serve)
    try serve.configure(upstream, apps: ["news"])
    let key = try await serve.key(["--scope", "send", "--scope", "read"])
    let process = try await receiver.start()
    for (settings, expected) in [
      (receiver.settings(""), "private: true"),
      (
        receiver.settings().replacing("localhost", with: "127.0.0.1").replacing(", private: true", with: ""),
        "127.0.0.1"
      ),
      (
        receiver.settings().replacing(
          serve.site.certificates.files.authority, with: "/etc/ssl/certs/ca-certificates.crt"),
        "there is no TLS"
      ),
      (receiver.settings().replacing("first.secret", with: "no.secret"), "no.secret"),
    ] {
      try serve.configure(upstream, apps: ["news"], settings: settings)
      let service = try await serve.start()
      try await Self.send(serve, service, 0..<3, key: key)
      try await waitUntil("it says why") { service.process.errors.contains(expected) }
      service.process.send(SIGTERM)
      #expect(await service.process.ending().status == 0)
    }
    #expect(try receiver.deliveries().isEmpty)
    process.send(SIGKILL)
  }

  /// CARILLON_KILLS says how many rounds there are.
  @Test("through kills of the service and of its receiver, the receiver has what the list and the gateway have")
  func killed() async throws {
    let rounds = ProcessInfo.processInfo.environment["CARILLON_KILLS"].flatMap { Int($0) } ?? 4
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(rules: "http2: { delay: { fixed: 5ms } }")
    let receiver = try Receiver(serve)
    try serve.configure(
      upstream, apps: ["news"], settings: receiver.settings() + "\n    rate-limit: 2000/s")
    var process = try await receiver.start()
    let key = try await serve.key(["--scope", "send", "--scope", "read"])
    var service = try await serve.start()
    for round in 0..<rounds {
      try await Self.send(serve, service, round * 400..<(round + 1) * 400, key: key)
      try await Task.sleep(for: .milliseconds(Int.random(in: 0...250)))
      if round % 3 != 1 {
        service.process.send(SIGKILL)
        _ = await service.process.ending()
        service = try await serve.start()
      }
      if round % 3 != 0 {
        process.send(SIGKILL)
        _ = await process.ending()
        process = try await receiver.start()
      }
    }
    let count = rounds * 400
    func ended() async throws -> [ServeOutcomesTests.Outcome] {
      try await ServeOutcomesTests.all(serve, service, key: key)
    }
    try await waitUntil("each has an outcome") { Set(try await ended().map(\.id)).count == count }
    let listed = try await ended()
    try await waitUntil("all are delivered") { try receiver.outcomes()?.count == listed.count }
    #expect(try receiver.outcomes() == listed)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    process.send(SIGKILL)
    // Whatever arrived twice is listed as a possible duplicate.
    let record = try await serve.site.taken(upstream)
    let accepted = Dictionary(listed.map { ($0.id, $0) }) { _, last in last }.values.filter { $0.outcome == "accepted" }
    #expect(accepted.count == count)
    #expect(Set(record.compactMap(\.token)) == Set(accepted.map(\.token)))
    let doubtful = Set(accepted.filter { $0.possibleDuplicate == true }.map(\.token))
    let twice = Dictionary(grouping: record.compactMap(\.token)) { $0 }.filter { $0.value.count > 1 }.keys
    #expect(doubtful.isSuperset(of: twice))
  }
}
