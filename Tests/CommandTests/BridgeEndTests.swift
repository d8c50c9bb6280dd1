internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// How connections of the bridge end, over TLS, and how many there may be.
@Suite("Ends and bounds of the bridge's connections", .timeLimit(.minutes(20)))
struct BridgeEndTests {
  private static let refusal = "refuse: [ { prefixes: [bad0], reason: BadDeviceToken } ]"

  private func stop(_ service: BridgeSite.Service) async {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
  }

  @Test("command 0: a refused frame closes the connection without a word, after the frames before it")
  func simpleCommand() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: "http2: { \(Self.refusal), delay: { fixed: 20ms } }")
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let frames = BridgeRawClient.frame(0, 1) + BridgeRawClient.frame(0, 2, isBad: true) + BridgeRawClient.frame(0, 3)
    let client = try BridgeRawClient(bridge, port: service.bridge, bytes: frames)
    let found = try await client.connections()
    #expect(found.map(\.answer) == [""])
    #expect(found.map(\.end) == ["closed"])

    let key = try await bridge.serve.key()
    let counts = try await bridge.counts(service, key: key)
    #expect(counts.frames == 3)
    #expect(counts.forwarded == 3)
    #expect(counts.silentCloses == 1)
    #expect(counts.responses.isEmpty)
    let other = try await bridge.serve.request(service.api, "/v1/apps/nobody/bridge", key: key)
    #expect(other.status == 404)
    let text = try await bridge.serve.request(service.admin, "/metrics").text
    for line in [
      #"carillon_bridge_frames_total{app="news"} 3"#, #"carillon_bridge_clients{app="news"} 0"#,
      #"carillon_bridge_already_delivered_total{app="news"} 0"#, "carillon_bridge_refused_total 0",
    ] {
      #expect(text.contains(line), "\(line) is not in \(text)")
    }
    await stop(service)
    #expect(try await bridge.site.taken(upstream).count == 2)
  }

  @Test("SIGTERM: the answers are waited for, and status 10 names the last frame")
  func termination() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: "http2: { delay: { fixed: 1s } }")
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let key = try await bridge.serve.key()
    let frames = (1...20).flatMap { BridgeRawClient.frame(1, $0) }
    let client = try BridgeRawClient(bridge, port: service.bridge, bytes: frames)
    await client.isOpen()
    try await waitUntil("the frames have arrived") { try await bridge.counts(service, key: key).frames == 20 }
    await stop(service)
    let found = try await client.connections()
    #expect(found.map(\.answer) == ["080a00000014"])
    #expect(found.map(\.end) == ["closed"])
    #expect(try await bridge.site.taken(upstream).count == 20)
  }

  @Test("a service that does not answer: status 10 names the last answered frame after the bound")
  func silentUpstream() async throws {
    let bridge = try BridgeSite()
    let third = "00a0" + String(repeating: "0", count: 58) + "03"
    let upstream = try await bridge.site.simulate(
      rules: "http2: { \(Self.refusal), no-answer: { tokens: [\"\(third)\"] } }")
    try bridge.configure(upstream, bridge: "  conclusion: 1s")
    let service = try await bridge.start()
    // The sixth fails, so the client waits for a conclusion.
    let frames = (1...6).flatMap { BridgeRawClient.frame(1, $0, isBad: $0 == 6) }
    let client = try BridgeRawClient(bridge, port: service.bridge, bytes: frames)
    let found = try await client.connections()
    #expect(found.map(\.answer) == ["080a00000002"])
    service.process.send(SIGKILL)
    _ = await service.process.ending()
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("a suspended app: its clients are sent away with status 10, and so are new ones")
  func suspension() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream, bridge: "  conclusion: 1s")
    // The key is of another team: every request is refused.
    let text = try bridge.site.place.read("carillon.yaml")
    try bridge.site.place.write(
      text.replacing("team-id: \(HTTP2Site.team)", with: "team-id: ZZZ999ZZZ9"), to: "carillon.yaml")
    let service = try await bridge.start()
    let waiting = try BridgeRawClient(bridge, port: service.bridge, bytes: [])
    await waiting.isOpen()
    let client = try BridgeRawClient(
      bridge, port: service.bridge, bytes: (7...9).flatMap { BridgeRawClient.frame(1, $0) })
    // None of its frames was accepted, but all wait in the journal.
    #expect(try await client.connections().map(\.answer) == ["080a00000009"])
    #expect(try await waiting.connections().map(\.answer) == ["080affffffff"])
    let late = try BridgeRawClient(bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1))
    #expect(try await late.connections().map(\.answer) == ["080affffffff"])
    let key = try await bridge.serve.key()
    let counts = try await bridge.counts(service, key: key)
    #expect(counts.responses == ["10": 3])
    #expect(counts.forwarded == 3)
    let metrics = try await bridge.serve.request(service.admin, "/metrics").text
    #expect(metrics.contains(#"carillon_bridge_responses_total{app="news",status="10"} 3"#))
    service.process.send(SIGKILL)
    _ = await service.process.ending()
    #expect(try await bridge.site.taken(upstream).isEmpty)
  }

  @Test("a client that is silent is asked now and then whether it is still there")
  func keepAlive() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let client = try BridgeRawClient(bridge, port: service.bridge, bytes: [])
    await client.isOpen()
    // In the kernel's table of connections (proc(5), net/tcp): state 1 is established, and timer 2
    // keep-alive.
    let port = String(service.bridge, radix: 16, uppercase: true)
    let local = "0100007F:" + String(repeating: "0", count: 4 - port.count) + port
    try await waitUntil("the timer runs") {
      let table = try await ChildProcess.run(["/proc/net/tcp"], program: "cat", directory: bridge.site.place.url)
      return table.output.split(separator: "\n").contains { line in
        let fields = line.split(separator: " ")
        guard fields.count > 5, fields[1] == local, fields[3] == "01", fields[5].hasPrefix("02:") else { return false }
        // In hundredths of a second: it is asked after a minute.
        return (Int(fields[5].dropFirst(3), radix: 16) ?? .max) <= 6_100
      }
    }
    await stop(service)
    _ = try await client.connections()
    _ = try await bridge.site.taken(upstream)
  }

  @Test("connections are bounded for an app and in all")
  func connectionBounds() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let text = try bridge.site.place.read("carillon.yaml")
    try bridge.site.place.write(
      text.replacing("handshakes-per-second: 1000", with: "handshakes-per-second: 1000, max: 4, per-app: 3"),
      to: "carillon.yaml")
    let service = try await bridge.start()
    let key = try await bridge.serve.key()
    // Three are served. The fourth is told to come again, and is in the number for a moment.
    let clients = try BridgeRawClient(bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1), count: 6)
    await clients.isOpen()
    try await waitUntil("three are served") {
      let counts = try await bridge.counts(service, key: key)
      return counts.clients == 3 && counts.frames == 3
    }
    #expect(service.process.errors.contains("too many connections"))
    await stop(service)
    let found = try await clients.connections()
    let served = found.filter { $0.answer == "080a00000001" }
    #expect(served.count == 3, "\(found)")
    // Those above the bound of the app took nothing in.
    #expect(found.filter(\.handshake).count >= 4, "\(found)")
    #expect(
      found.allSatisfy { !$0.handshake || $0.answer == "080a00000001" || $0.answer == "080affffffff" }, "\(found)")
    #expect(try await bridge.site.taken(upstream).count == 3)
  }

  @Test("new connections of one address are bounded")
  func handshakeRate() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let text = try bridge.site.place.read("carillon.yaml")
    try bridge.site.place.write(
      text.replacing("handshakes-per-second: 1000", with: "handshakes-per-second: 1"), to: "carillon.yaml")
    let service = try await bridge.start()
    let began = ContinuousClock.now
    let clients = try BridgeRawClient(bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1), count: 40)
    await clients.isOpen()
    let seconds = (ContinuousClock.now - began).components.seconds
    await stop(service)
    let found = try await clients.connections()
    let admitted = found.filter(\.handshake).count
    #expect(admitted >= 5, "\(found)")
    #expect(admitted <= 7 + Int(seconds), "\(found)")
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("--check reads the bridge's certificates, and a changed one is shown to new clients")
  func certificates() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    let expired = try CertificateMaker.makeAll(
      in: bridge.site.place.path("expired"), topics: ["com.example.old"], at: 1_000_000_000)
    let old = try #require(expired.apps["com.example.old"])
    let server = bridge.site.certificates.files.server
    try bridge.configure(upstream, app: "    bridge: { clients: [\(old.certificate)] }")
    let good = try await bridge.site.run(["serve", "--config", "carillon.yaml", "--check"])
    #expect(good.status == 0, "\(good)")
    #expect(good.output.contains(/bridge: 127.0.0.1:0, feedback on 127.0.0.1:0, for .*TLS 1.2 or later/), "\(good)")
    #expect(good.output.contains(/bridge: certificates that .* has issued are clients by their topic/), "\(good)")
    #expect(good.output.contains(/app news: pinned clients of the bridge: .*com.example.old.*accepted all the same/))

    let text = try bridge.site.place.read("carillon.yaml")
    try bridge.site.place.write(
      text.replacing("key: \(server.key ?? "")", with: "key: \(old.key ?? "")")
        .replacing("client-ca: \(bridge.clients.authority)", with: "client-ca: none.pem")
        .replacing("clients: [\(old.certificate)]", with: "clients: [\"sha256:77\"]"), to: "wrong.yaml")
    let wrong = try await bridge.site.run(["serve", "--config", "wrong.yaml", "--check"])
    #expect(wrong.status == 2, "\(wrong)")
    #expect(wrong.output.contains(/problem: bridge: The bridge: .*key/), "\(wrong)")
    #expect(wrong.output.contains(/problem: bridge: the authorities of clients cannot be used: .*none.pem/), "\(wrong)")
    #expect(wrong.output.contains("problem: bridge: The app \"news\" pins sha256:77"), "\(wrong)")

    let service = try await bridge.start()
    let first = try BridgeRawClient(bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1))
    await first.isOpen()
    // Another authority issues the next certificate, and those of clients: the first client is none
    // any more.
    let now = Int64(Date().timeIntervalSince1970)
    let next = try CertificateMaker.makeAll(in: bridge.site.place.path("next"), topics: [HTTP2Site.topic], at: now)
    try Data(contentsOf: URL(filePath: next.authority)).write(
      to: URL(filePath: bridge.clients.authority), options: .atomic)
    for (from, to) in [
      (next.server.certificate, server.certificate), (try #require(next.server.key), try #require(server.key)),
    ] {
      try Data(contentsOf: URL(filePath: from)).write(to: URL(filePath: to), options: .atomic)
    }
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: try #require(server.key))
    // The files are watched.
    try await waitUntil("the bridge has read them") {
      service.process.errors.contains("the bridge has another certificate")
    }
    let other = try #require(next.apps[HTTP2Site.topic])
    let second = try BridgeClient.start(
      in: bridge.site.place, port: service.bridge, authority: next.authority, certificate: other.certificate,
      key: try #require(other.key), count: 3, badEvery: 0)
    #expect(try await BridgeClient.report(second).written == 3)
    #expect(try await first.connections().map(\.answer) == ["080a00000001"])
    await stop(service)
    #expect(try await bridge.site.taken(upstream).count == 4)
  }
}
