internal import Foundation
internal import NIOCore
internal import PushGateway
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushTransport

@Suite("HTTP/2 over TLS, between our two sides and with foreign programs", .serialized, .timeLimit(.minutes(20)))
struct HTTP2OverTLSTests {
  private static let payload = Array(#"{"aps":{"alert":"Hello from a test"}}"#.utf8)

  private func template(_ authority: String = "localhost") -> RequestTemplate {
    RequestTemplate(
      authority: authority, headers: ProviderHeaders(topic: "com.example.news"), credential: .token,
      payload: Self.payload)
  }

  private func listen(
    _ group: LoopGroup, _ material: Material, protocols: [String] = [ApplicationProtocol.http2],
    options: HTTP2ServerSession.Options = .init(),
    seen: HTTP2TestServer.SharedSeen
  ) async throws -> TLSListener {
    let context = try material.serverContext(clients: ClientCertificatePolicy.none, protocols: protocols)
    return try await TLSListener.bind(host: "127.0.0.1", port: 0, group: group, context: context) { channel, tls in
      try channel.pipeline.syncOperations.addHandler(HTTP2TestServer(tls, seen: seen, options: options))
    }
  }

  private func send(
    _ total: UInt64, port: Int, material: Material, group: LoopGroup, protocols: [String] = [ApplicationProtocol.http2],
    options: HTTP2ClientSession.Options = .init(), batch: Int = .max
  ) async throws -> HTTP2TestClient.Result {
    let client = HTTP2TestClient(total: total, template: template(), options: options, batch: batch)
    let dialer = SocketDialer(
      host: "localhost", port: port, context: try material.clientContext(credential: .some(nil), protocols: protocols))
    _ = dialer.dial(on: group.loops[0], delegate: client)
    return await client.wait()
  }

  @Test("our client and our server exchange ten thousand requests over TLS", arguments: [1, 7, 1000])
  func ourselves(streamLimit: UInt32) async throws {
    let material = try Material()
    try await withLoops { group in
      let seen = HTTP2TestServer.SharedSeen()
      var options = HTTP2ServerSession.Options()
      options.streamLimit = streamLimit
      let total: UInt64 = streamLimit == 1 ? 500 : 10_000
      let listener = try await listen(group, material, options: options, seen: seen)
      let result = try await send(
        total, port: listener.port, material: material, group: group, batch: streamLimit == 7 ? 2 : .max)
      #expect(result.statuses == [200: Int(total)])
      #expect(result.wrongIdentifiers == 0)
      #expect(result.hasPong)
      #expect(result.closure == .byUs)
      #expect(result.largestStreamCount == Int(min(streamLimit, 1000)))
      #expect(result.failure == nil)
      #expect(seen.value.requests == Int(total))
      #expect(seen.value.paths.count == Int(total))
      #expect(seen.value.protocols == ["h2"])
      await listener.close()
    }
  }

  @Test(
    "a connection to a server that does not select h2 ends with a sentence that says so", arguments: TLSVersion.allCases
  )
  func alpn(version: TLSVersion) async throws {
    let material = try Material()
    try await withLoops { group in
      let seen = HTTP2TestServer.SharedSeen()
      // A server without ALPN, one with another protocol only, and one with both.
      let silent = try await listen(group, material, protocols: [], seen: seen)
      let other = try await listen(group, material, protocols: ["http/1.1"], seen: seen)
      let both = try await listen(group, material, protocols: ["http/1.1", "h2"], seen: seen)
      func closure(_ listener: TLSListener, _ protocols: [String]) async throws -> LinkClosure? {
        let recorder = Recorder()
        let context = try material.clientContext(
          credential: .some(nil), versions: version...version, protocols: protocols)
        let link = SocketDialer(host: "localhost", port: listener.port, context: context).dial(
          on: group.loops[0], delegate: recorder)
        let events = await recorder.wait {
          $0.contains { if case .opened = $0 { true } else if case .closed = $0 { true } else { false } }
        }
        guard case .closed(let reason) = events.first else {
          await group.loops[0].run { link.close() }
          return nil
        }
        return reason
      }
      #expect(
        try await closure(silent, ["h2"])
          == .handshakeFailed("the server did not agree to h2 by ALPN: it does not speak that protocol on this port"))
      #expect(
        try await closure(other, ["h2"])
          == .handshakeFailed("the server speaks none of the protocols that we offer by ALPN"))
      #expect(try await closure(both, ["h2"]) == nil)
      // Clients of the binary protocol and HTTP/2 clients without ALPN are accepted.
      #expect(try await closure(both, []) == nil)
      for listener in [silent, other, both] { await listener.close() }
      #expect(Set(seen.value.protocols) == [nil, "h2"])
    }
  }

  @Test("our client sends to nghttpd, which returns every body")
  func nghttpd() async throws {
    let material = try Material()
    let server = try await ForeignHTTP2.server(material, arguments: ["--echo-upload", "-m", "50"])
    defer { server.child.terminate() }
    try await withLoops { group in
      let result = try await send(5000, port: server.port, material: material, group: group)
      #expect(result.statuses == [200: 5000])
      #expect(result.bodies == [Self.payload])
      #expect(result.ended.isEmpty)
      #expect(result.hasPong)
      #expect(result.largestStreamCount == 50, "the limit that the server named is reached and never passed")
      #expect(result.failure == nil)
    }
  }

  @Test("nghttpd with windows of its own size receives every body whole", arguments: ["14", "16"])
  func nghttpdWindows(bits: String) async throws {
    let material = try Material()
    let server = try await ForeignHTTP2.server(
      material, arguments: ["--echo-upload", "-m", "1000", "-w", bits, "-W", bits, "-b", "7"])
    defer { server.child.terminate() }
    try await withLoops { group in
      let result = try await send(3000, port: server.port, material: material, group: group)
      #expect(result.statuses == [200: 3000])
      #expect(result.bodies == [Self.payload])
    }
  }

  @Test("nghttpd without --echo-upload refuses, and a refusal is a response")
  func nghttpdRefuses() async throws {
    let material = try Material()
    let server = try await ForeignHTTP2.server(material, arguments: [])
    defer { server.child.terminate() }
    try await withLoops { group in
      let result = try await send(200, port: server.port, material: material, group: group)
      #expect(result.statuses == [404: 200])
      #expect(result.ended.isEmpty)
    }
  }

  @Test(
    "h2load drives our server with several connections, and every request succeeds",
    arguments: [["-c", "1", "-m", "1"], ["-c", "3", "-m", "100"]])
  func h2load(arguments: [String]) async throws {
    let material = try Material()
    try await withLoops { group in
      let seen = HTTP2TestServer.SharedSeen()
      let listener = try await listen(group, material, seen: seen)
      let file = material.directory.file("payload.json")
      try Data(Self.payload).write(to: URL(fileURLWithPath: file))
      let total = arguments[3] == "1" ? 200 : 9000
      let text = try OpenSSLCommand.run(
        ["-n", String(total)] + arguments + [
          "-d", file, "-H", "apns-topic: com.example.news", "-H", "authorization: bearer x",
          "https://127.0.0.1:\(listener.port)/3/device/\(String(repeating: "ab", count: 32))",
        ], program: try ForeignHTTP2.path("h2load"))
      #expect(text.contains("\(total) succeeded, 0 failed, 0 errored, 0 timeout"), "\(text)")
      #expect(seen.value.requests == total)
      #expect(seen.value.failures.isEmpty)
      #expect(seen.value.last?.body == String(decoding: Self.payload, as: UTF8.self))
      await listener.close()
    }
  }

  @Test("nghttp posts to our server and shows our answer")
  func nghttp() async throws {
    let material = try Material()
    try await withLoops { group in
      let seen = HTTP2TestServer.SharedSeen()
      let listener = try await listen(group, material, seen: seen)
      let file = material.directory.file("payload.json")
      try Data(Self.payload).write(to: URL(fileURLWithPath: file))
      let text = try OpenSSLCommand.run(
        [
          "-v", "-y", "-d", file, "-H", ":method: POST", "-H", "apns-id: 9F3B2C4D-0000-4000-8000-00000000000A",
          "--trailer", "x-trailer: 1",
          "https://127.0.0.1:\(listener.port)/3/device/00",
        ], program: try ForeignHTTP2.path("nghttp"))
      #expect(text.contains(":status: 200"), "\(text)")
      #expect(text.contains("apns-id: 9F3B2C4D-0000-4000-8000-00000000000A"), "\(text)")
      let last = try #require(seen.value.last)
      #expect(last[":path"] == "/3/device/00")
      #expect(last[":method"] == "POST")
      #expect(last["x-trailer"] == nil)
      #expect(last.body == String(decoding: Self.payload, as: UTF8.self))
      await listener.close()
    }
  }
}

/// The programs of Debian's nghttp2-client and nghttp2-server.
enum ForeignHTTP2 {
  static func path(_ name: String) throws -> String {
    let candidates = ["/usr/bin/\(name)", "/usr/sbin/\(name)", "/usr/local/bin/\(name)"]
    guard let path = candidates.first(where: { FileManager.default.isExecutableFile(atPath: $0) }) else {
      throw OpenSSLCommand.Failure(
        description: "\(name) is missing: ops/test installs nghttp2-client and nghttp2-server")
    }
    return path
  }

  /// Starts nghttpd on a free port with the material's server certificate, and waits until it
  /// accepts connections.
  static func server(_ material: Material, arguments: [String]) async throws -> (child: OpenSSLCommand.Child, port: Int)
  {
    let (certificate, key) = (material.directory.file("h2.pem"), material.directory.file("h2.key"))
    try material.server.writePEM(certificate: certificate, key: key)
    // nghttpd cannot choose a port. A port that was free may be taken when it starts, so there are
    // several attempts.
    for _ in 0..<10 {
      let port = try freePort()
      let child = try OpenSSLCommand.Child(
        ["-a", "127.0.0.1", "-d", material.directory.path] + arguments + [String(port), key, certificate],
        program: path("nghttpd"))
      if try await child.listens(on: port) { return (child, port) }
    }
    throw OpenSSLCommand.Failure(description: "nghttpd found no free port")
  }

  private static func freePort() throws -> Int {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { _ = close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let done = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe bind(descriptor, pointer, size) == 0 && getsockname(descriptor, pointer, &size) == 0
      }
    }
    guard done else { throw OpenSSLCommand.Failure(description: "no free port: \(errno)") }
    return Int(UInt16(bigEndian: address.sin_port))
  }

  static func accepts(port: Int) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { _ = close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = UInt16(port).bigEndian
    return unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
  }
}

extension OpenSSLCommand.Child {
  /// Waits until the program accepts connections. Returns false if it has ended.
  func listens(on port: Int) async throws -> Bool {
    try await waitUntil("the program accepts connections") { !isRunning || ForeignHTTP2.accepts(port: port) }
    return isRunning
  }
}
