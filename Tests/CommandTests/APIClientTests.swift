internal import Foundation
internal import Support
internal import Testing

@testable internal import CarillonCommand

@Suite("Commands that ask the running service", .timeLimit(.minutes(10)))
struct ServiceClientTests {
  @Test("status shows the apps; a wrong key, a missing one and a service that is away have one sentence each")
  func status() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "read"])
    try serve.site.place.writeSecret(key + "\n", to: "api.key")
    let service = try await serve.start()
    let url = "http://127.0.0.1:\(service.api.port)"
    let shown = try await serve.site.run(["status", "--url", url, "--key-file", "api.key"])
    #expect(shown.status == 0, "\(shown)")
    #expect(shown.output.contains(/news +running/), "\(shown)")
    #expect(shown.output.contains(/chat +running/), "\(shown)")
    let json = try await serve.site.run(["status", "--url", url, "--key-file", "api.key", "--json"])
    struct Apps: Decodable {
      struct App: Decodable { let id: String }
      let items: [App]
    }
    let apps = try JSONDecoder().decode(Apps.self, from: Data(json.output.utf8))
    #expect(Set(apps.items.map(\.id)) == ["news", "chat"])

    let missing = try await serve.site.run(["status", "--url", url])
    #expect(missing.status == 2, "\(missing)")
    #expect(missing.errors.contains("--key-file"), "\(missing)")
    try serve.site.place.writeSecret("car_000000000000_" + String(repeating: "0", count: 64), to: "wrong.key")
    let wrong = try await serve.site.run(["status", "--url", url, "--key-file", "wrong.key"])
    #expect(wrong.status == 2, "\(wrong)")
    #expect(wrong.errors.contains("The key is unknown"), "\(wrong)")
    try serve.site.place.writeSecret("not a key", to: "text.key")
    let text = try await serve.site.run(["status", "--url", url, "--key-file", "text.key"])
    #expect(text.errors.contains("text.key holds no key"), "\(text)")
    // A key that others can read, and one that would go over the network readable, are not sent.
    try serve.site.place.write(key, to: "open.key")
    let open = try await serve.site.run(["status", "--url", url, "--key-file", "open.key"])
    #expect(open.status == 2, "\(open)")
    #expect(open.errors.contains("chmod 600 open.key"), "\(open)")
    for place in ["http://127.evil.com:1", "http://192.0.2.1:1"] {
      let away = try await serve.site.run(["status", "--url", place, "--key-file", "api.key"])
      #expect(away.status == 2, "\(away)")
      #expect(away.errors.contains("https"), "\(away)")
      #expect(away.errors.contains("--plain-http"), "\(away)")
    }
    let plain = try await serve.site.run(["status", "--url", url, "--key-file", "api.key", "--plain-http"])
    #expect(plain.status == 0, "\(plain)")
    let neither = try await serve.site.run(["status"])
    #expect(neither.status == 2, "\(neither)")
    #expect(neither.errors.contains("--config"), "\(neither)")

    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let away = try await serve.site.run(["status", "--url", url, "--key-file", "api.key"])
    #expect(away.status == 3, "\(away)")
    #expect(away.errors.contains("cannot be reached"), "\(away)")
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("an app is paused and resumed by command; what was taken in meanwhile is sent then")
  func pause() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    let key = try await serve.key(["--scope", "admin"])
    try serve.site.place.writeSecret(key, to: "admin.key")
    let service = try await serve.start()
    let place = ["--url", "http://127.0.0.1:\(service.api.port)", "--key-file", "admin.key"]
    let paused = try await serve.site.run(["app", "pause", "news"] + place)
    #expect(paused.status == 0, "\(paused)")
    let shown = try await serve.site.run(["status"] + place)
    #expect(shown.status == 1, "\(shown)")
    #expect(shown.output.contains(/news +paused/), "\(shown)")
    let taken = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(1)))
    #expect(taken.status == 202, "\(taken.text)")
    let id = try taken.decoded(ServeSite.Queued.self).id
    let waiting = try await serve.request(service.api, "/v1/apps/news/notifications/\(id)", key: key)
    #expect(try waiting.decoded(ServeSite.Notification.self).state == "queued")
    let resumed = try await serve.site.run(["app", "resume", "news"] + place)
    #expect(resumed.status == 0, "\(resumed)")
    #expect(try await serve.finished(id, service, key: key).outcome == "accepted")
    let running = try await serve.site.run(["status"] + place)
    #expect(running.status == 0, "\(running)")
    let unknown = try await serve.site.run(["app", "pause", "none"] + place)
    #expect(unknown.status == 2, "\(unknown)")
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).count == 1)
  }

  @Test("a file is streamed up; an answer that comes before its end is heard")
  func upload() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key()
    let service = try await serve.start()
    let client = try APIClient(ServiceAddress(host: "127.0.0.1", port: service.api.port), key: key)
    let lines = (0..<2_000).map { ServeSite.body(HTTP2Site.token($0)) }
    try serve.site.place.write(lines.joined(separator: "\n"), to: "batch.ndjson")
    let path = "/v1/apps/news/notifications:batch"
    let reply = try await client.send(
      .upload(path, file: serve.site.place.path("batch.ndjson"), type: "application/x-ndjson"))
    #expect(reply.status == 202)
    #expect(try reply.decoded(ServeSite.TakenBatch.self).queued == 2_000)

    try serve.site.place.write(String(repeating: " ", count: 64 << 20), to: "huge")
    let huge = await #expect(throws: ServiceFailure.self) {
      try await client.send(.upload(path, file: serve.site.place.path("huge"), type: "application/x-ndjson"))
    }
    #expect(huge?.status == 413, "\(huge?.sentence ?? "")")
    #expect(huge?.sentence.contains("16777216 bytes") == true, "\(huge?.sentence ?? "")")
    let none = await #expect(throws: ServiceFailure.self) {
      try await client.send(.upload(path, file: serve.site.place.path("none"), type: "application/x-ndjson"))
    }
    #expect(none?.sentence.contains("cannot be read") == true, "\(none?.sentence ?? "")")
    let wrong = await #expect(throws: ServiceFailure.self) {
      try await client.send(.post("/v1/apps/news/notifications", json: #"{"token":"zz","payload":{}}"#))
    }
    #expect(wrong?.sentence.contains("/token") == true, "\(wrong?.sentence ?? "")")

    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).count == 2_000)
  }

  @Test(
    "addresses of a service",
    arguments: [
      ("http://127.0.0.1:8480", "http://127.0.0.1:8480"), ("https://push.example.com", "https://push.example.com:443"),
      ("http://[::1]:1/", "http://[::1]:1"), ("http://localhost", "http://localhost:80"), ("ftp://x", nil),
      ("127.0.0.1:8480", nil), ("http://:1", nil), ("http://a:b", nil), ("http://a/b", nil), ("http://a:70000", nil),
    ] as [(String, String?)])
  func addresses(text: String, expected: String?) {
    #expect(ServiceAddress(url: text)?.description == expected)
  }
}
