internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

@Suite("credentials of carillon serve", .inProcess, .timeLimit(.minutes(10)))
struct ServeCredentialTests {
  private struct App: Decodable {
    let state: String
    let reason: String?
    let credentialExpiresAt: String?
  }

  private struct Batch: Decodable { let account: Account }
  private struct Account: Decodable {
    let inFlight: Int
    let notes: [String]
    let neverRead: [String]
  }

  private static let good = "credential: { key: \(HTTP2Site.keyFile), team-id: \(HTTP2Site.team) }"
  private static let expired = "credential: { certificate: old.pem, key: old.key }"
  private static let missing =
    "credential: { key: later.p8, key-id: \(HTTP2Site.keyIdentifier), team-id: \(HTTP2Site.team) }"

  /// Three apps: one as it should be, one with this credential, and one whose key is missing.
  private static func configure(_ serve: ServeSite, _ upstream: HTTP2Site.Service, second: String) throws {
    try serve.configure(upstream, apps: ["news", "old", "late"])
    var parts = try serve.site.place.read("carillon.yaml").components(separatedBy: good)
    try #require(parts.count == 4)
    let tail = parts.removeLast()
    let text = zip(parts, [good, second, missing]).map { $0 + $1 }.joined() + tail
    try serve.site.place.write(text, to: "carillon.yaml")
  }

  @Test("an app whose certificate is another app's begins suspended, says so, and sends all once it has its own")
  func otherTopic() async throws {
    let other = "credential: { certificate: other.pem, key: other.key }"
    let running = try await RunningServe(
      configure: { serve, upstream in
        let place = serve.site.place
        let now = Int64(Date().timeIntervalSince1970)
        try CertificateAuthority(at: now).issue(.app(topic: "com.example.another", at: now))
          .writePEM(certificate: place.path("other.pem"), key: place.path("other.key"))
        try Self.configure(serve, upstream, second: other)
      },
      prepare: { serve in
        let checked = try await serve.site.run(["serve", "--config", "carillon.yaml", "--check"])
        #expect(
          checked.output.contains(/error: app old: it would begin suspended, .*com\.example\.another.*not of/),
          "\(checked)")
      })
    let app = try await running.call("/v1/apps/old").decoded(App.self)
    #expect(app.state == "suspended")
    #expect(app.reason?.contains("com.example.another") == true, "\(app)")
    let reply = try await running.call("/v1/apps/old/notifications", body: ServeSite.body(HTTP2Site.token(1)))
    #expect(reply.status == 202, "\(reply.text)")
    let id = try reply.decoded(ServeSite.Queued.self).id
    try Self.configure(running.serve, running.upstream, second: Self.good)
    // It says that the third app's key is still missing.
    #expect(try await running.call("/v1/reload", body: "").text.contains("later.p8"))
    try await waitUntil("it has sent what it had taken in") {
      try await running.call("/v1/apps/old/notifications/\(id)").decoded(ServeSite.Notification.self).outcome
        == "accepted"
    }
    #expect(try await running.end().count == 1)
  }

  @Test("an app whose credential has expired or is missing begins suspended, others work, and a mended one sends all")
  func tenants() async throws {
    var running = try await RunningServe(
      configure: { serve, upstream in
        let place = serve.site.place
        let then = Int64(Date().timeIntervalSince1970) - 10 * 366 * 86_400
        try CertificateAuthority(at: then).issue(.app(topic: HTTP2Site.topic, at: then))
          .writePEM(certificate: place.path("old.pem"), key: place.path("old.key"))
        try Self.configure(serve, upstream, second: Self.expired)
      },
      prepare: { serve in
        let checked = try await serve.site.run(["serve", "--config", "carillon.yaml", "--check"])
        #expect(checked.status == 0, "\(checked)")
        #expect(checked.output.contains(/error: app old: it would begin suspended, .*expired on/), "\(checked)")
        #expect(checked.output.contains(/error: app late: it would begin suspended, .*later.p8/), "\(checked)")
        #expect(checked.output.contains("The service would start, but 2 apps have errors."), "\(checked)")
        #expect(checked.output.contains("app news: HTTP/2 to"), "\(checked)")
      })
    func app(_ id: String) async throws -> App { try await running.call("/v1/apps/\(id)").decoded(App.self) }
    func post(_ id: String, _ token: Int) async throws -> String {
      let reply = try await running.call("/v1/apps/\(id)/notifications", body: ServeSite.body(HTTP2Site.token(token)))
      #expect(reply.status == 202, "\(reply.text)")
      return try reply.decoded(ServeSite.Queued.self).id
    }
    var queued: [(app: String, id: String)] = []
    for round in 0..<2 {
      let fine = try await post("news", 10 + round)
      _ = try await running.serve.finished(fine, running.service, key: running.key)
      let old = try await app("old")
      #expect(old.state == "suspended")
      #expect(old.reason?.contains("expired on") == true, "\(old)")
      #expect(old.credentialExpiresAt != nil)
      let late = try await app("late")
      #expect(late.state == "suspended")
      #expect(late.reason?.contains("later.p8") == true, "\(late)")
      #expect(running.service.process.errors.contains("app is suspended"))
      let metrics = try await running.serve.request(running.service.admin, "/metrics").text
      #expect(metrics.contains(#"carillon_app_paused{app="old",why="suspended"} 1"#))
      // Whoever resumes it is told that nothing has changed.
      #expect(try await running.call("/v1/apps/old:resume", body: "").decoded(App.self).state == "suspended")
      for (number, id) in ["old", "late"].enumerated() {
        queued.append((id, try await post(id, 20 + 2 * round + number)))
      }
      // A restart is no reason to lose anybody.
      if round == 0 { try await running.restart(after: SIGTERM) }
    }
    // A batch says what keeps it.
    let lines = ServeSite.body(HTTP2Site.token(30)) + "\n" + ServeSite.body(HTTP2Site.token(31))
    let taken = try await running.call("/v1/apps/old/notifications:batch", body: lines)
      .decoded(ServeSite.TakenBatch.self)
    func account() async throws -> Account {
      try await running.call("/v1/apps/old/batches/\(taken.batchId)").decoded(Batch.self).account
    }
    let waiting = try await account()
    #expect(waiting.inFlight == 2)
    #expect(waiting.neverRead.isEmpty)
    try #require(waiting.notes.count == 1, "\(waiting)")
    #expect(waiting.notes[0].contains(/^suspended: .*expired on/), "\(waiting)")
    let place = running.serve.site.place
    try FileManager.default.copyItem(atPath: place.path(HTTP2Site.keyFile), toPath: place.path("later.p8"))
    try await waitUntil("the new file is noticed") { try await app("late").state == "running" }
    try Self.configure(running.serve, running.upstream, second: Self.good)
    let reloaded = try await running.reload()
    #expect(reloaded.refreshed == ["old"])
    for (id, notification) in queued {
      try await waitUntil("\(id) has sent what it had taken in") {
        try await running.call("/v1/apps/\(id)/notifications/\(notification)").decoded(ServeSite.Notification.self)
          .outcome == "accepted"
      }
    }
    try await waitUntil("the batch has its outcomes") { try await account().inFlight == 0 }
    #expect(try await account().notes.isEmpty)
    let sent = try await running.end().compactMap(\.token)
    #expect(sent.sorted() == [10, 11, 20, 21, 22, 23, 30, 31].map { HTTP2Site.token($0) })
  }
}
