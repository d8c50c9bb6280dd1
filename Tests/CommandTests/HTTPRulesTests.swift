internal import Foundation
internal import PushServer
internal import PushTransport
internal import Support
internal import Synchronization
internal import Testing

@testable internal import CarillonCommand

@Suite("HTTP of the control interface", .timeLimit(.minutes(10)))
struct HTTPRulesTests {
  private struct Site {
    let serve: ServeSite
    let upstream: HTTP2Site.Service
    let service: ServeSite.Service
    let key: String

    /// - Parameter api: for that key of the configuration.
    init(api: String? = nil) async throws {
      serve = try ServeSite()
      try Self.makeCertificate(in: serve.site.place)
      upstream = try await serve.site.simulate()
      try serve.configure(upstream)
      if let api {
        let text = try serve.site.place.read("carillon.yaml")
        try serve.site.place.write(text.replacing(/api: .*\n/, with: "api: \(api)\n"), to: "carillon.yaml")
      }
      key = try await serve.key()
      service = try await serve.start()
    }

    static func makeCertificate(in place: Workplace) throws {
      let now = Int64(Date().timeIntervalSince1970)
      let authority = try CertificateAuthority(at: now)
      try authority.write(to: place.path("api-ca.pem"))
      try authority.issue(.server(at: now)).writePEM(certificate: place.path("api.pem"), key: place.path("api.key"))
    }

    func head(_ line: String, _ headers: [String] = [], withKey: Bool = true) -> String {
      ([line + " HTTP/1.1", "Host: localhost"] + (withKey ? ["Authorization: Bearer \(key)"] : []) + headers)
        .joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// Sends a request that ends its connection, and returns the whole answer.
    func answer(
      _ line: String, _ headers: [String] = [], withKey: Bool = true, body: String = ""
    ) async throws -> String {
      let connection = try RawConnection(port: service.api.port)
      let length = body.isEmpty ? [] : ["Content-Length: \(body.utf8.count)"]
      connection.send(head(line, headers + length + ["Connection: close"], withKey: withKey) + body)
      return await connection.received()
    }

    func end() async throws {
      service.process.send(SIGTERM)
      let ending = await service.process.ending()
      #expect(ending.status == 0, "\(ending)")
      upstream.simulator.send(SIGTERM)
      _ = await upstream.simulator.ending()
    }
  }

  @Test("a method that an address does not have, and a body of another type, are refused with what it takes")
  func methods() async throws {
    let site = try await Site()
    let deleted = try await site.answer("DELETE /v1/apps")
    #expect(deleted.hasPrefix("HTTP/1.1 405 "), "\(deleted)")
    #expect(deleted.contains("Allow: GET, HEAD, OPTIONS\r\n"), "\(deleted)")
    #expect(deleted.contains("application/problem+json"), "\(deleted)")
    #expect(deleted.contains(#""instance":"/v1/apps""#), "\(deleted)")
    #expect(deleted.lowercased().contains("\r\nx-request-id: "), "\(deleted)")
    let put = try await site.answer("PUT /v1/apps/news/notifications", body: "{}")
    #expect(put.hasPrefix("HTTP/1.1 405 "), "\(put)")
    #expect(put.contains("Allow: OPTIONS, POST\r\n"), "\(put)")
    let options = try await site.answer("OPTIONS /v1/apps/news/notifications", withKey: false)
    #expect(options.hasPrefix("HTTP/1.1 204 "), "\(options)")
    #expect(options.contains("Allow: OPTIONS, POST\r\n"), "\(options)")
    let head = try await site.answer("HEAD /v1/apps")
    #expect(head.hasPrefix("HTTP/1.1 200 "), "\(head)")
    #expect(head.hasSuffix("\r\n\r\n"), "\(head)")
    let nothing = try await site.answer("GET /v1/nothing")
    #expect(nothing.hasPrefix("HTTP/1.1 404 "), "\(nothing)")
    #expect(nothing.contains("application/problem+json"), "\(nothing)")
    let twoHosts = try await site.answer("GET /v1/apps", ["Host: other"])
    #expect(twoHosts.hasPrefix("HTTP/1.1 400 "), "\(twoHosts)")
    let body = ServeSite.body(HTTP2Site.token(1))
    for header in ["Content-Type: text/plain", "Content-Type: text/csv", "Content-Encoding: gzip"] {
      let other = try await site.answer("POST /v1/apps/news/notifications", [header], body: body)
      #expect(other.hasPrefix("HTTP/1.1 415 "), "\(header): \(other)")
      #expect(other.contains(#""action":"Send "#), "\(other)")
    }
    for type in ["application/json; charset=utf-8", "application/x-www-form-urlencoded"] {
      let good = try await site.answer("POST /v1/apps/news/notifications", ["Content-Type: \(type)"], body: body)
      #expect(good.hasPrefix("HTTP/1.1 202 "), "\(type): \(good)")
    }
    try await site.end()
  }

  @Test("the rest of a request that is refused is not read: its connection is closed after the answer")
  func earlyAnswers() async throws {
    let site = try await Site()
    let path = "POST /v1/apps/news/notifications:batch"
    let block = String(repeating: " ", count: 1 << 20)
    for (withKey, status) in [(false, "401"), (true, "413")] {
      let connection = try RawConnection(port: site.service.api.port)
      connection.send(site.head(path, ["Content-Length: 10000000000"], withKey: withKey))
      connection.send(block)
      let answer = await connection.received()
      #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)")
      #expect(answer.lowercased().contains("\r\nconnection: close\r\n"), "\(answer)")
      #expect(answer.hasSuffix("}"), "\(answer)")
    }
    // A body without a length is read up to the limit.
    let connection = try RawConnection(port: site.service.api.port)
    connection.send(site.head(path, ["Transfer-Encoding: chunked"]))
    for _ in 0..<200 where connection.send("100000\r\n\(block)\r\n") {}
    let answer = await connection.received()
    #expect(answer.hasPrefix("HTTP/1.1 413 "), "\(answer)")
    let next = try await site.answer("GET /v1/apps")
    #expect(next.hasPrefix("HTTP/1.1 200 "), "\(next)")
    try await site.end()
  }

  @Test("a client that reads nothing before it has sent everything learns why it was refused on its way")
  func lateReader() async throws {
    let site = try await Site()
    let connection = try RawConnection(port: site.service.api.port)
    connection.send(site.head("POST /v1/apps/news/notifications:batch", ["Transfer-Encoding: chunked"]))
    let block = String(repeating: " ", count: 1 << 20)
    // The limit is 16 MiB.
    for number in 0..<31 { #expect(connection.send("100000\r\n\(block)\r\n"), "\(number)") }
    #expect(connection.send("0\r\n\r\n"))
    let answer = await connection.received()
    #expect(answer.hasPrefix("HTTP/1.1 413 "), "\(answer)")
    #expect(answer.hasSuffix("}"), "\(answer)")
    try await site.end()
  }

  @Test("a client that expects 100 is asked for the body only if the body is wanted")
  func expectation() async throws {
    let site = try await Site()
    let body = ServeSite.body(HTTP2Site.token(1))
    let headers = ["Expect: 100-continue", "Content-Length: \(body.utf8.count)", "Connection: close"]
    let wanted = try RawConnection(port: site.service.api.port)
    wanted.send(site.head("POST /v1/apps/news/notifications", headers))
    let asked = await wanted.received(until: "\r\n\r\n")
    #expect(asked.hasPrefix("HTTP/1.1 100 "), "\(asked)")
    wanted.send(body)
    let answer = await wanted.received()
    #expect(answer.hasPrefix("HTTP/1.1 202 "), "\(answer)")
    let unwanted = try RawConnection(port: site.service.api.port)
    unwanted.send(site.head("POST /v1/apps/news/notifications", headers, withKey: false))
    let refusal = await unwanted.received()
    #expect(refusal.hasPrefix("HTTP/1.1 401 "), "\(refusal)")
    try await site.end()
  }

  @Test("a head that is too large or no HTTP has an answer; requests in one write are answered in order")
  func heads() async throws {
    let site = try await Site()
    let long = try RawConnection(port: site.service.api.port)
    long.send(site.head("GET /v1/apps", (0..<40).map { "X-\($0): " + String(repeating: "x", count: 1000) }))
    let tooLarge = await long.received()
    #expect(tooLarge.hasPrefix("HTTP/1.1 431 "), "\(tooLarge)")
    #expect(tooLarge.contains("application/problem+json"), "\(tooLarge)")
    let other = try RawConnection(port: site.service.api.port)
    other.send("\u{16}\u{3}\u{1}\u{0}hello\r\n\r\n")
    let noHTTP = await other.received()
    #expect(noHTTP.hasPrefix("HTTP/1.1 400 "), "\(noHTTP)")
    #expect(noHTTP.contains("application/problem+json"), "\(noHTTP)")
    let several = try RawConnection(port: site.service.api.port)
    let body = ServeSite.body(HTTP2Site.token(1))
    several.send(
      site.head("GET /v1/apps") + site.head("POST /v1/apps/news/notifications", ["Content-Length: \(body.utf8.count)"])
        + body + site.head("GET /v1/apps/chat", ["Connection: close"]))
    let answers = await several.received()
    #expect(answers.matches(of: #/HTTP/1.1 (\d+) /#).map { String($0.1) } == ["200", "202", "200"], "\(answers)")
    try await site.end()
  }

  private final class Flag: Sendable {
    private let value = Mutex(false)
    var isSet: Bool { value.withLock { $0 } }
    func set() { value.withLock { $0 = true } }
  }

  @Test("a connection above max-connections is served once another one is closed")
  func connections() async throws {
    // None of them ends because the machine is busy.
    let site = try await Site(api: #"{ listen: "127.0.0.1:0", max-connections: 4, idle-timeout: 600s }"#)
    var open: [RawConnection] = []
    func ask(_ connection: RawConnection) async {
      connection.send(site.head("HEAD /v1/apps"))
      #expect(await connection.received(until: "\r\n\r\n").hasPrefix("HTTP/1.1 200"))
    }
    for _ in 0..<4 {
      let connection = try RawConnection(port: site.service.api.port)
      await ask(connection)
      open.append(connection)
    }
    let late = try RawConnection(port: site.service.api.port)
    late.send(site.head("GET /v1/apps", ["Connection: close"]))
    let isAnswered = Flag()
    async let answer: String = {
      let answer = await late.received()
      isAnswered.set()
      return answer
    }()
    // The others are served all the while, and so are supervisors.
    for round in 0..<20 { await ask(open[round % open.count]) }
    #expect(try await site.serve.request(site.service.admin, "/healthz").status == 200)
    #expect(!isAnswered.isSet)
    open.removeLast()
    #expect(await answer.hasPrefix("HTTP/1.1 200"))
    open.removeAll()
    try await site.end()
  }

  @Test("the API over TLS: its certificate is replaced by SIGHUP, and a stalled handshake holds nothing up")
  func tls() async throws {
    let site = try await Site(api: #"{ listen: "127.0.0.1:0", certificate: api.pem, key: api.key }"#)
    func client() throws -> APIClient {
      try APIClient(
        ServiceAddress(
          host: "127.0.0.1", port: site.service.api.port,
          proof: .certificate(file: site.serve.site.place.path("api.pem"))),
        key: site.key)
    }
    #expect(try await client().send(.get("/v1/apps")).status == 200)
    // TLS 1.2 without forward secrecy, or with CBC, is not spoken.
    for (ciphers, isSpoken) in [("ECDHE+AESGCM", true), ("ECDHE+AES:!AESGCM:!AESCCM", false), ("kRSA", false)] {
      let handshake = try ChildProcess(
        ["s_client", "-connect", "127.0.0.1:\(site.service.api.port)", "-tls1_2", "-cipher", ciphers],
        program: "openssl",
        directory: site.serve.site.place.url)
      let ending = await handshake.ending()
      #expect(ending.output.contains("Cipher is (NONE)") != isSpoken, "\(ciphers): \(ending)")
    }
    let old = try client()
    try Site.makeCertificate(in: site.serve.site.place)
    site.service.process.send(SIGHUP)
    try await waitUntil("the certificate is the new one") {
      (try? await client().send(.get("/v1/apps")).status) == 200
    }
    let refused = await #expect(throws: ServiceFailure.self) { try await old.send(.get("/v1/apps")) }
    #expect(refused?.sentence.contains("another one") == true, "\(refused?.sentence ?? "")")
    let trusted = try APIClient(
      ServiceAddress(
        host: "localhost", port: site.service.api.port,
        proof: .authority(.file(site.serve.site.place.path("api-ca.pem")))),
      key: site.key)
    #expect(try await trusted.send(.get("/v1/apps")).status == 200)
    let plain = try RawConnection(port: site.service.api.port)
    plain.send("GET / HTTP/1.1\r\n\r\n")
    #expect(await !plain.received().contains("HTTP"))
    // It sends no handshake at all.
    let stalled = try RawConnection(port: site.service.api.port)
    try await site.end()
    _ = stalled
  }
}
