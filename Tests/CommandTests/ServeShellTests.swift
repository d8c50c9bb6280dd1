internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

@Suite("carillon serve and its surroundings", .timeLimit(.minutes(10)))
struct ServeShellTests {
  private func end(_ service: ServeSite.Service, _ upstream: HTTP2Site.Service) async {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("--check says what the service would do, and what is wrong, and changes nothing", .ofStoreFile)
  func check() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let good = try await serve.site.run(["serve", "--config", "carillon.yaml", "--check"])
    #expect(good.status == 0, "\(good)")
    #expect(good.output.contains("app news: HTTP/2 to localhost:\(upstream.port), topic"), "\(good)")
    #expect(good.output.contains(/store: .*store.db is made at the first start/), "\(good)")
    #expect(good.output.contains("The service would start."), "\(good)")
    #expect(!FileManager.default.fileExists(atPath: serve.site.place.path("store.db")))
    #expect(!FileManager.default.fileExists(atPath: serve.site.place.path("journal")))

    let service = try await serve.start()
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
      let file = try FileManager.default.attributesOfItem(atPath: serve.site.place.path(name))
      #expect(file[.posixPermissions] as? Int == 0o600, "\(name) holds tokens")
    }
    let text = try serve.site.place.read("carillon.yaml")
    try serve.site.place.write(
      text.replacing(#"api: { listen: "127.0.0.1:0" }"#, with: #"api: { listen: "127.0.0.1:\#(service.api.port)" }"#)
        .replacing(
          #"admin: { listen: "127.0.0.1:0" }"#, with: #"admin: { listen: "127.0.0.1:\#(service.admin.port)" }"#),
      to: "running.yaml")
    let running = try await serve.site.run(["serve", "--config", "running.yaml", "--check"])
    #expect(running.status == 0, "\(running)")
    #expect(running.output.contains("in use by a running service"), "\(running)")
    #expect(running.output.contains(/store: .*up to date/), "\(running)")

    try serve.site.place.write(
      text.replacing(HTTP2Site.keyFile, with: "AuthKey_NONE123456.p8")
        .replacing(#"api: { listen: "127.0.0.1:0" }"#, with: #"api: { listen: "127.0.0.1:\#(upstream.port)" }"#),
      to: "wrong.yaml")
    let wrong = try await serve.site.run(["serve", "--config", "wrong.yaml", "--check"])
    #expect(wrong.status == 2, "\(wrong)")
    #expect(wrong.output.contains(/error: app news: it would begin suspended, .*AuthKey_NONE123456.p8/), "\(wrong)")
    #expect(wrong.output.contains(/problem: api: cannot listen on .*: another process does/), "\(wrong)")
    await end(service, upstream)
  }

  @Test("the example configuration is right")
  func example() async throws {
    let place = try Workplace()
    let now = Int64(Date().timeIntervalSince1970)
    let authority = try CertificateAuthority(at: now)
    for app in ["chat", "radio"] {
      try authority.issue(.app(topic: "com.example.\(app)", at: now))
        .writePEM(certificate: place.path("\(app).pem"), key: place.path("\(app).key"))
    }
    try ProviderKey.make(keyIdentifier: "ABC123DEFG", teamIdentifier: "DEF123GHIJ")
      .write(to: place.path("AuthKey_ABC123DEFG.p8"))
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let example = try String(contentsOf: root.appending(path: "ops/service/carillon.yaml"), encoding: .utf8)
    try place.write(
      example.replacing("/var/lib/carillon/", with: "").replacing(":8480\"", with: ":0\"")
        .replacing(":8481\"", with: ":0\""), to: "carillon.yaml")
    let checked = try await ChildProcess.run(["serve", "--config", "carillon.yaml", "--check"], directory: place.url)
    #expect(checked.status == 0, "\(checked)")
    #expect(checked.output.contains("app chat: HTTP/2 to api.push.apple.com:443"), "\(checked)")
    #expect(checked.output.contains("at most 5,000 notifications/s"), "\(checked)")
    for sentence in [
      "api: bodies have at most 16MiB, there are at most 1,024 connections, 768 of one address and 256 without a key, "
        + "one that is silent for 2m is closed, a key makes at most 1,000 requests/s, the dashboard answers to localhost, addresses, push.example.com.",
      "shutdown: readiness is denied for 5s, then what is in flight has 20s.",
      "retention: outcomes and campaigns are kept for 168h after their end.",
      "log: info and worse, as json, to standard error.",
      "app news: campaigns pause during 22:00-08:00, Europe/Berlin.",
      "app radio: its feedback service at push-gateway.example.com:2196 is read every 6h.",
      "app news: its weight is 3, and without progress for 15m it is suspended and tries again later.",
    ] { #expect(checked.output.contains(sentence), "\(sentence) in \(checked)") }
    try place.write(
      example.replacing("/var/lib/carillon/", with: "").replacing(":8480\"", with: ":0\"")
        .replacing(":8481\"", with: ":0\"").replacing(
          "rate-limit: 5000/s",
          with: """
            rate-limit: 5000/s
                weight: 3
                patience: 90s
                attempts: 9
                time-zone: Europe/Berlin
                quiet-hours: "22:00-08:00"
            """), to: "other.yaml")
    let other = try await ChildProcess.run(["serve", "--config", "other.yaml", "--check"], directory: place.url)
    for sentence in [
      "app chat: its weight is 3, and without progress for 90s it is suspended and tries again later.",
      "app chat: campaigns pause during 22:00-08:00, Europe/Berlin.", "app chat: changed from the default: attempts.",
    ] { #expect(other.output.contains(sentence), "\(sentence) in \(other)") }
  }

  @Test("the service manager hears of readiness, reloads, progress and the end")
  func notifications() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let manager = try DatagramSocket()
    let service = try await serve.start(
      preparation: "export NOTIFY_SOCKET=\(manager.path) WATCHDOG_USEC=2000000 && exec")
    try await waitUntil("it is ready") { manager.received.contains { $0.hasPrefix("READY=1\n") } }
    try await waitUntil("it feeds the watchdog") { manager.received.filter { $0 == "WATCHDOG=1" }.count >= 3 }
    service.process.send(SIGHUP)
    try await waitUntil("it has reloaded") { manager.received.filter { $0.hasPrefix("READY=1\n") }.count == 2 }
    let reloading = try #require(manager.received.firstIndex { $0.hasPrefix("RELOADING=1\nMONOTONIC_USEC=") })
    #expect(manager.received[reloading...].contains { $0.hasPrefix("READY=1\n") })
    await end(service, upstream)
    #expect(manager.received.contains("STOPPING=1"))
  }

  @Test("a reload is asked for by the command, and by a change of the files; what is wrong is said")
  func reload() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    try serve.site.place.writeSecret(try await serve.key(["--scope", "admin"]), to: "admin.key")
    try serve.site.place.writeSecret(try await serve.key(["--scope", "read"]), to: "read.key")
    let service = try await serve.start()
    func reload(_ key: String) async throws -> Ending {
      try await serve.site.run(["reload", "--url", "http://127.0.0.1:\(service.api.port)", "--key-file", key])
    }
    let refused = try await reload("read.key")
    #expect(refused.status == 2, "\(refused)")
    #expect(refused.errors.contains("\"admin\""), "\(refused)")
    // It would name, and change, the apps of others.
    try serve.site.place.writeSecret(try await serve.key(["--scope", "admin", "--app", "news"]), to: "tenant.key")
    let tenant = try await reload("tenant.key")
    #expect(tenant.status == 2, "\(tenant)")
    #expect(tenant.errors.contains("not for all of them"), "\(tenant)")
    try serve.configure(upstream, apps: ["news", "chat"])
    let done = try await reload("admin.key")
    #expect(done.status == 0, "\(done)")
    #expect(done.output == "added: chat\n", "\(done)")
    try serve.site.place.write("apps: 7\n", to: "carillon.yaml")
    let wrong = try await reload("admin.key")
    #expect(wrong.status == 2, "\(wrong)")
    #expect(wrong.errors.contains("carillon.yaml"), "\(wrong)")
    // Nobody asks this time.
    try serve.configure(upstream, apps: ["news", "late"])
    let key = try serve.site.place.read("read.key")
    try await waitUntil("the app of the changed file is there") {
      try await serve.request(service.api, "/v1/apps/late", key: key).status == 200
    }
    #expect(try await serve.request(service.api, "/v1/apps/chat", key: key).status == 404)
    await end(service, upstream)
  }

  @Test("the log is JSON if asked, and has no token", .inProcess)
  func log() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, more: "log: { level: debug, format: json }")
    let key = try await serve.key()
    let service = try await serve.start()
    let token = HTTP2Site.token(1)
    let reply = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(token))
    _ = try await serve.finished(try reply.decoded(ServeSite.Queued.self).id, service, key: key)
    let nothing = try await serve.request(service.api, "/v1/apps/news/devices-of/\(token)", key: key)
    #expect(nothing.status == 404)
    await end(service, upstream)
    struct Event: Decodable {
      let time: String
      let level: String
      let message: String
      let route: String?
      let request: String?
    }
    let lines = service.process.errors.split(separator: "\n")
    let events = try lines.map { try JSONDecoder().decode(Event.self, from: Data($0.utf8)) }
    let request = try #require(events.first { $0.route == "/v1/apps/{app}/notifications" })
    #expect(request.level == "debug")
    #expect(request.request != nil)
    #expect(request.time.hasSuffix("Z"))
    #expect(!service.process.errors.contains(token))
    #expect(!service.process.errors.contains(key))
    #expect(!service.process.errors.contains("Hello"))
  }

  @Test("after kill -9 the service is ready when its API answers and knows what was acknowledged, not before")
  func recovery() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, sync: "always", apps: ["news"])
    let port = OwnPort.random(count: 2)
    let text = try serve.site.place.read("carillon.yaml")
    try serve.site.place.write(
      text.replacing(#"api: { listen: "127.0.0.1:0" }"#, with: #"api: { listen: "127.0.0.1:\#(port)" }"#)
        .replacing(#"admin: { listen: "127.0.0.1:0" }"#, with: #"admin: { listen: "127.0.0.1:\#(port + 1)" }"#),
      to: "carillon.yaml")
    upstream.simulator.send(SIGKILL)
    _ = await upstream.simulator.ending()
    let key = try await serve.key()
    let service = try await serve.start()
    for part in 0..<10 {
      let lines = (part * 1_000..<(part + 1) * 1_000).map { ServeSite.body(HTTP2Site.token($0)) }
      let reply = try await serve.request(
        port, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n"))
      #expect(reply.status == 202, "\(reply.text)")
    }
    let last = try await serve.request(
      port, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(99_999)))
    let id = try last.decoded(ServeSite.Queued.self).id
    service.process.send(SIGKILL)
    _ = await service.process.ending()
    let next = try ChildProcess(["serve", "--config", "carillon.yaml", "--json"], directory: serve.site.place.url)
    var answers: Set<Int> = []
    try await waitUntil("it is ready") {
      // Nobody listens yet.
      guard let reply = try? await serve.request(port + 1, "/readyz") else { return false }
      answers.insert(reply.status)
      return reply.status == 200
    }
    #expect(answers.isSubset(of: [200, 503]))
    let known = try await serve.request(port, "/v1/apps/news/notifications/\(id)", key: key)
    #expect(known.status == 200, "\(known.text)")
    #expect(try known.decoded(ServeSite.Notification.self).state == "queued")
    next.send(SIGTERM)
    let ending = await next.ending()
    #expect(ending.status == 0, "\(ending)")
  }

  /// A connection to the events of all apps, once its stream has begun.
  private func follow(_ service: ServeSite.Service, key: String) async throws -> RawConnection {
    let reader = try RawConnection(port: service.api.port)
    reader.send("GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(key)\r\n\r\n")
    _ = await reader.received(until: ": carillon\n")
    return reader
  }

  @Test("readiness is denied for a while before the API closes: until then everything is taken in as before")
  func announcement() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    // Longer than the requests take on any machine.
    try serve.configure(upstream, more: "shutdown: { announce: 5m, drain: 5s }")
    let key = try await serve.key(["--scope", "admin"])
    var service = try await serve.start()
    let reader = try await follow(service, key: key)
    service.process.send(SIGTERM)
    try await waitUntil("it is not ready") { try await serve.request(service.admin, "/readyz").status == 503 }
    let read = try await serve.request(service.api, "/v1/apps", key: key)
    #expect(read.status == 200)
    let late = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(1)))
    #expect(late.status == 202, "\(late.text)")
    _ = try await serve.finished(try late.decoded(ServeSite.Queued.self).id, service, key: key)
    // The stream still tells what happens.
    let made = try await serve.request(service.api, "/v1/apps/chat/campaigns", key: key, body: Self.campaign)
    #expect(made.status == 201, "\(made.text)")
    #expect(await reader.received(until: "event: snapshot").hasSuffix("event: snapshot"))
    #expect(!service.process.hasEnded)
    service.process.send(SIGKILL)
    _ = await service.process.ending()

    // A stream ends after the pause, not when the time for what is in flight is over.
    try serve.configure(upstream, more: "shutdown: { announce: 1s, drain: 10m }")
    service = try await serve.start()
    let last = try await follow(service, key: key)
    let began = ContinuousClock.now
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(ContinuousClock.now - began >= .seconds(1))
    #expect(await last.received().hasSuffix("0\r\n\r\n"), "the stream ends in good order")
    #expect(try await serve.site.taken(upstream).compactMap(\.token) == [HTTP2Site.token(1)])
  }

  private static let campaign = #"{"name":"sale","payload":{"aps":{"alert":"Hello"}}}"#
}
