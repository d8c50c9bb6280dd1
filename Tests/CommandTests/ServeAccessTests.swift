internal import Foundation
internal import Support
internal import Testing

@Suite("what keys of carillon serve may do", .timeLimit(.minutes(10)))
struct ServeAccessTests {
  @Test("each address demands its scope, by name, and no other one will do", .inProcess, .ofStoreFile)
  func scopes() async throws {
    let running = try await RunningServe(scopes: ["read"])
    let (serve, service) = (running.serve, running.service)
    let all = ["send", "campaigns", "devices", "feedback", "read", "metrics"]
    let news = "/v1/apps/news"
    for (method, path, scope) in [
      ("POST", "\(news)/notifications", "send"), ("POST", "\(news)/notifications:batch", "send"),
      ("POST", "\(news)/campaigns", "campaigns"), ("PUT", "\(news)/devices/\(HTTP2Site.token(1))", "devices"),
      ("POST", "\(news)/devices:import", "devices"), ("GET", "\(news)/feedback", "feedback"),
      ("GET", "/v1/events", "read"), ("POST", "\(news):pause", "admin"), ("POST", "/v1/reload", "admin"),
      ("POST", "/v1/store:backup", "admin"),
    ] {
      let others = all.filter { $0 != scope }
      let key = try await serve.key(others.flatMap { ["--scope", $0] })
      let reply = try await serve.request(
        service.api, path, key: key, body: method == "GET" ? nil : "{}", method: method)
      #expect(reply.status == 403, "\(method) \(path): \(reply.text)")
      #expect(reply.text.contains("\"\(scope)\\\""), "\(method) \(path): \(reply.text)")
      #expect(try await serve.request(service.api, path, method: method).status == 401, "\(method) \(path)")
    }
    #expect(try await running.end().isEmpty)
  }

  @Test(
    "metrics are open on loopback; elsewhere they need a key for all apps with their scope, and health does not",
    .inProcess)
  func metrics() async throws {
    let running = try await RunningServe(scopes: ["metrics"]) { serve, upstream in
      try serve.configure(upstream)
      let text = try serve.site.place.read("carillon.yaml")
      try serve.site.place.write(
        text.replacing(#"admin: { listen: "127.0.0.1:0" }"#, with: #"admin: { listen: "0.0.0.0:0" }"#),
        to: "carillon.yaml")
    }
    let (serve, admin) = (running.serve, running.service.admin)
    func expect(_ status: Int, with key: String?, line: Int = #line) async throws {
      let reply = try await serve.request(admin, "/metrics", key: key)
      #expect(reply.status == status, "line \(line): \(reply.text.prefix(400))")
    }
    try await expect(401, with: nil)
    try await expect(401, with: "car_000000000000_0")
    try await expect(403, with: try await serve.key(["--scope", "read"]))
    try await expect(403, with: try await serve.key(["--scope", "metrics", "--app", "news"]))
    try await expect(200, with: try await serve.key(["--scope", "admin"]))
    let scrape = try await serve.request(admin, "/metrics", key: running.key)
    #expect(scrape.status == 200, "\(scrape.text.prefix(200))")
    #expect(scrape.text.contains("carillon_ready 1"), "\(scrape.text.prefix(200))")
    #expect(try await running.call("/v1/apps").status == 403, "it may do nothing else")
    for path in ["/healthz", "/readyz"] { #expect(try await serve.request(admin, path).status == 200, "\(path)") }
    try await running.end()
  }

  @Test("who runs is in the API for every key, in the metrics, and in the first line of the log")
  func program() async throws {
    let running = try await RunningServe(scopes: ["send"])
    #expect(try await running.serve.request(running.service.api, "/v1").status == 401)
    struct Program: Decodable {
      let name: String
      let version: String
      let commit: String?
      let apiVersion: Int
    }
    let program = try await running.call("/v1").decoded(Program.self)
    #expect(program.name == "carillon")
    #expect(program.apiVersion == 1)
    let shown = try await ChildProcess.run(["--version"]).output
    let commit = program.commit ?? ""
    let text = program.commit.map { "\(program.version) (\($0))" } ?? program.version
    #expect(shown.hasPrefix("carillon \(text), API version 1\n"), "\(shown)")
    let metrics = try await running.serve.request(running.service.admin, "/metrics").text
    #expect(
      metrics.contains(#"carillon_build_info{version="\#(program.version)",commit="\#(commit)"} 1"#))
    let first = running.service.process.errors.split(separator: "\n").first ?? ""
    #expect(first.contains("carillon starts"), "\(first)")
    #expect(first.contains("commit=\(commit)"), "\(first)")
    try await running.end()
  }

  @Test("keys are made, listed and revoked by command, and a running service knows within a second")
  func json() async throws {
    let running = try await RunningServe()
    struct Made: Decodable {
      let id: String
      let key: String
    }
    let made = try await running.serve.site.run([
      "key", "create", "--config", "carillon.yaml", "--name", "made", "--scope", "read", "--app", "chat", "--json",
    ])
    #expect(made.status == 0, "\(made)")
    let key = try JSONDecoder().decode(Made.self, from: Data(made.output.utf8))
    #expect(key.key.hasPrefix("car_\(key.id)_"), "\(made)")
    try await waitUntil("the service knows it") {
      try await running.serve.request(running.service.api, "/v1/apps/chat", key: key.key).status == 200
    }
    #expect(try await running.serve.request(running.service.api, "/v1/apps/news", key: key.key).status == 404)
    let list = try await running.serve.site.run(["key", "list", "--config", "carillon.yaml"])
    #expect(list.output.contains(key.id), "\(list)")
    #expect(!list.output.contains(key.key), "\(list)")
    let revoked = try await running.serve.site.run(["key", "revoke", "--config", "carillon.yaml", key.id])
    #expect(revoked.status == 0, "\(revoked)")
    try await waitUntil("the service refuses it") {
      try await running.serve.request(running.service.api, "/v1/apps/chat", key: key.key).status == 401
    }
    try await running.end()
  }

  @Test("one key's event streams leave connections for other keys, and it is told when it has its share")
  func shares() async throws {
    let running = try await RunningServe(scopes: ["read"]) { try $0.configure($1, api: ", max-connections: 40") }
    let api = running.service.api
    let other = try await running.serve.key(["--scope", "read"])
    var streams: [RawConnection] = []
    for _ in 0..<16 {
      let reader = try RawConnection(port: api.port)
      reader.send("GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(running.key)\r\n\r\n")
      #expect(await reader.received(until: ": carillon\n").hasPrefix("HTTP/1.1 200"))
      streams.append(reader)
    }
    let refused = try await running.call("/v1/apps")
    #expect(refused.status == 429, "\(refused.text)")
    #expect(refused.retryAfter == 1)
    #expect(try refused.decoded(ServeSite.Problem.self).action?.contains("streams") == true)
    for _ in 0..<5 { #expect(try await running.serve.request(api, "/v1/apps", key: other).status == 200) }
    streams.removeLast()
    try await waitUntil("the end of a stream is noticed") { try await running.call("/v1/apps").status == 200 }
    // The places of requests that are answered are free at once.
    for _ in 0..<40 { #expect(try await running.call("/v1/apps").status == 200) }
    streams.removeAll()
    try await running.end()
  }
}
