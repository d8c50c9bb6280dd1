internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@Suite("The bridge of carillon serve", .timeLimit(.minutes(20)))
struct BridgeTests {
  private static func rules(delay: String = "20ms") -> String {
    """
    http2:
      refuse:
        - { prefixes: [bad0], reason: BadDeviceToken }
        - { prefixes: [\(gonePrefix)], reason: Unregistered, timestamp: 1700000000123 }
      delay: { fixed: \(delay) }
    """
  }

  /// The numbers from 256 to 511.
  private static let gonePrefix = "00a" + String(repeating: "0", count: 58) + "1"

  private static func isGone(_ number: Int) -> Bool {
    BridgeClient.token(number, isBad: false).hasPrefix(gonePrefix)
  }

  private static func isBad(_ number: Int, every: Int) -> Bool { number % every == every / 2 }

  private struct App: Decodable {
    struct Connections: Decodable { let open: Int }
    let connections: Connections
  }

  @Test("a client that has to wait for answers gets more connections to its upstream")
  func growth() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: "http2: { stream-limit: 50, delay: { fixed: 20ms } }")
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let key = try await bridge.serve.key()
    // More than may be without an answer.
    let client = try BridgeRawClient(
      bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1), times: 100_000)
    var open = 0
    try await waitUntil("there are more connections") {
      open = try await bridge.serve.request(service.api, "/v1/apps/news", key: key).decoded(App.self).connections.open
      return open > 2 || client.process.hasEnded
    }
    #expect(open > 2)
    service.process.send(SIGTERM)
    #expect(try await client.connection().answer == "080a00000001")
    _ = await service.process.ending()
  }

  // With the second, reading pauses before a bad one is found.
  @Test(
    "a client that resends: each good one arrives once, each bad one is reported once, 410s are feedback",
    arguments: [(3000, 400), (40_000, 18_000)])
  func resending(count: Int, every: Int) async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: Self.rules())
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let client = try bridge.client(service.bridge, count: count, badEvery: every)
    let report = try await BridgeClient.report(client)
    let bad = (0..<count).filter { Self.isBad($0, every: every) }
    #expect(
      report.reported?.map(\.token).sorted() == bad.map { BridgeClient.token($0, isBad: true) }.sorted(), "\(report)")
    #expect(report.reported?.allSatisfy { $0.status == 8 } == true)
    #expect(report.connections == bad.count + 1)

    // A reader that breaks off gets the list again; one that reads it to its end clears it.
    let gone = (0..<count).filter { Self.isGone($0) && !Self.isBad($0, every: every) }
      .map { BridgeClient.token($0, isBad: false) }
    #expect(gone.count > 200)
    var found: [BridgeClient.Report.Refusal] = []
    try await waitUntil("the devices are in the store") {
      _ = try await bridge.feedback(service.feedback, limit: 38)
      found += try await bridge.feedback(service.feedback).devices
      return found.count >= gone.count
    }
    #expect(found.map(\.token).sorted() == gone.sorted())
    #expect(found.allSatisfy { $0.status == 1_700_000_000 })
    #expect(try await bridge.feedback(service.feedback).devices.isEmpty)
    let key = try await bridge.serve.key()
    var outcomes: [ServeOutcomesTests.Outcome] = []
    var cursor = "0"
    try await waitUntil("all outcomes are in the list") {
      let path = "/v1/apps/news/outcomes?limit=10000&cursor=\(cursor)"
      let page = try await bridge.serve.request(service.api, path, key: key).decoded(ServeOutcomesTests.Page.self)
      outcomes += page.items
      cursor = page.nextCursor
      return outcomes.count >= count
    }
    #expect(outcomes.count == count)
    #expect(outcomes.allSatisfy { $0.bridge == true && $0.batch == nil && $0.campaign == nil })

    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    let arrived = try await bridge.site.taken(upstream).compactMap(\.token)
    let good = (0..<count).filter { !Self.isBad($0, every: every) && !Self.isGone($0) }
      .map { BridgeClient.token($0, isBad: false) }
    #expect(arrived.count == Set(arrived).count, "\(arrived.count - Set(arrived).count) arrived twice")
    #expect(Set(arrived) == Set(good))
  }

  @Test("a client that writes far more at once than the bridge takes in has all of it delivered")
  func fast() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: "")
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let files = try #require(bridge.clients.apps[HTTP2Site.topic])
    let folder = bridge.site.place.url
    for (from, name) in [
      (bridge.site.certificates.files.authority, "ca.pem"), (files.certificate, "client.pem"),
      (try #require(files.key), "client.key"),
    ] {
      try FileManager.default.copyItem(at: URL(filePath: from), to: folder.appending(path: name))
    }
    let tokens = (0..<50_000).map { BridgeClient.token($0, isBad: false) }
    try bridge.site.place.write(tokens.joined(separator: "\n") + "\n", to: "tokens.txt")
    let script = URL(filePath: #filePath).appending(path: "../../../ops/lib/bridge_client.py").standardized
    let ending = try await ChildProcess.run(
      [script.path(percentEncoded: false), "fast", "\(service.bridge)", ".", "client", "tokens.txt", "hello.json"],
      program: "python3", directory: folder)
    #expect(ending.status == 0, "\(ending)")
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let arrived = try await bridge.site.taken(upstream)
    #expect(arrived.compactMap(\.token).sorted() == tokens.sorted())
    // Each has its payload and its expiration.
    #expect(Set(arrived.map(\.payload)).count == 1)
    #expect(Set(arrived.map(\.expiration)).count == 1)
    #expect(arrived.first?.expiration != nil)
  }

  @Test("openssl s_client gets the six bytes for a bad token and for a probe")
  func opensslClient() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: Self.rules())
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let files = try #require(bridge.clients.apps[HTTP2Site.topic])
    func frame(_ token: [UInt8], _ identifier: UInt8) -> [UInt8] {
      let payload = Array(#"{"aps":{}}"#.utf8)
      return [1, 0, 0, 0, identifier, 0x77, 0, 0, 0, 0, UInt8(token.count)] + token + [0, 10] + payload
    }
    let good = [UInt8](repeating: 1, count: 32)
    let cases: [(frames: [UInt8], answer: [UInt8])] = [
      (frame(good, 1) + frame([0xBA, 0xD0] + good.dropLast(2), 2) + frame(good, 3), [8, 8, 0, 0, 0, 2]),
      (frame(good, 3) + frame([], 7), [8, 2, 0, 0, 0, 7]),
      (frame(good, 5) + [9, 9, 9], [8, 128, 0, 0, 0, 0]),
    ]
    for (frames, answer) in cases {
      try Data(frames).write(to: bridge.site.place.url.appending(path: "frames"))
      _ = try await ChildProcess.run(
        [
          "s_client", "-quiet", "-connect", "127.0.0.1:\(service.bridge)", "-cert", files.certificate, "-key",
          files.key ?? "", "-CAfile", bridge.site.certificates.files.authority,
        ], program: "openssl", directory: bridge.site.place.url, redirection: "<frames >answer")
      let found = try Data(contentsOf: bridge.site.place.url.appending(path: "answer"))
      #expect(Array(found) == answer)
    }
    service.process.send(SIGTERM)
    _ = await service.process.ending()
    // The good one behind the bad one had been forwarded: it came again as the first of the second
    // client.
    #expect(try await bridge.site.taken(upstream).count == 3)
  }

  @Test("who is no client gets an alert; a pinned certificate counts whatever its dates")
  func identification() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    // A certificate of another authority that expired long ago.
    let expired = try CertificateMaker.makeAll(
      in: bridge.site.place.path("expired"), topics: ["com.example.old"], at: 1_000_000_000)
    let old = try #require(expired.apps["com.example.old"])
    try bridge.configure(upstream, app: "    bridge: { clients: [\(old.certificate)] }")
    let service = try await bridge.start()
    let refused = try await BridgeClient.report(
      bridge.client(service.bridge, count: 1, badEvery: 0, topic: "com.example.other"))
    #expect(refused.refused?.lowercased().contains("alert") == true, "\(refused)")
    #expect(service.process.errors.contains("client refused"))
    #expect(service.process.errors.contains("com.example.other"))
    let pinned = try BridgeClient.start(
      in: bridge.site.place, port: service.bridge, authority: bridge.site.certificates.files.authority,
      certificate: old.certificate, key: try #require(old.key), count: 2, badEvery: 0)
    let report = try await BridgeClient.report(pinned)
    #expect(report.written == 2, "\(report)")
    #expect(report.reported?.isEmpty == true)

    for (file, wanted) in [
      (old.certificate, "news: its certificate is pinned"),
      (try #require(bridge.clients.apps[HTTP2Site.topic]).certificate, "news: its topic is \(HTTP2Site.topic)"),
      (try #require(bridge.clients.apps["com.example.other"]).certificate, "no app has its topic"),
    ] {
      let explained = try await bridge.site.run(["serve", "--config", "carillon.yaml", "--explain-client", file])
      #expect(explained.output.contains(wanted), "\(explained)")
    }
    service.process.send(SIGTERM)
    _ = await service.process.ending()
    #expect(try await bridge.site.taken(upstream).count == 2)
  }

  @Test("old TLS is accepted only when it is asked for")
  func oldTLS() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let modern = try await bridge.start()
    let refused = try await BridgeClient.report(
      bridge.client(modern.bridge, count: 1, badEvery: 0, version: "TLSv1"))
    #expect(refused.refused != nil, "\(refused)")
    modern.process.send(SIGTERM)
    _ = await modern.process.ending()
    try bridge.configure(upstream, bridge: "  minimum-tls: \"1.0\"")
    let old = try await bridge.start()
    #expect(old.process.errors.contains("old versions of TLS"))
    let report = try await BridgeClient.report(bridge.client(old.bridge, count: 3, badEvery: 0, version: "TLSv1"))
    #expect(report.written == 3, "\(report)")
    old.process.send(SIGTERM)
    _ = await old.process.ending()
    #expect(try await bridge.site.taken(upstream).count == 3)
  }
}
