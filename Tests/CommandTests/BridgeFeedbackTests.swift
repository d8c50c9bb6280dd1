internal import Foundation
internal import PushStore
internal import PushStoreSQLite
internal import PushTransport
internal import Support
internal import Testing

/// The bridge's feedback service over TLS.
@Suite("The bridge's feedback service", .timeLimit(.minutes(20)))
struct BridgeFeedbackTests {
  /// Reads the list with pauses.
  ///
  /// Arguments: port, authorities, certificate, key, seconds before the first byte is read, seconds
  /// between reads, and a file for which it waits before it reads. Prints "open" after the
  /// handshake.
  private static let script = """
    import json, os, socket, ssl, struct, sys, time
    port, ca, cert, key, first, pause, wanted = sys.argv[1:8]
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    plain.settimeout(60)
    plain.connect(("127.0.0.1", int(port)))
    # Otherwise an end without close_notify looks like one in good order.
    tls = context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)
    print("open", flush=True)
    time.sleep(float(first))
    while wanted and not os.path.exists(wanted):
        time.sleep(0.02)
    data, end = b"", "closed"
    try:
        while True:
            piece = tls.recv(8192)
            if not piece:
                break
            data += piece
            time.sleep(float(pause))
        tls.close()
    except (OSError, ssl.SSLError) as problem:
        end = str(problem)
    found = []
    while len(data) >= 6:
        at, size = struct.unpack(">IH", data[:6])
        found.append([data[6:6 + size].hex(), at])
        data = data[6 + size:]
    print(json.dumps({"devices": found, "end": end}))
    """

  private struct Reading: Decodable {
    let devices: [BridgeClient.Report.Refusal]
    let end: String
  }

  private struct Items: Decodable {
    struct Item: Decodable { let token: String }
    let items: [Item]
  }

  private func read(
    _ bridge: BridgeSite, _ service: BridgeSite.Service, first: Double = 0, pause: Double = 0, wanted: String = ""
  ) async throws -> ChildProcess {
    let files = try #require(bridge.clients.apps[HTTP2Site.topic])
    try bridge.site.place.write(Self.script, to: "slow.py")
    let reader = try ChildProcess(
      [
        "slow.py", "\(service.feedback)", bridge.site.certificates.files.authority, files.certificate,
        try #require(files.key), "\(first)", "\(pause)", wanted,
      ], program: "python3", directory: bridge.site.place.url)
    #expect(await reader.line(0) == "open", "\(reader.errors)")
    return reader
  }

  private func reading(_ reader: ChildProcess) async throws -> Reading {
    let ending = await reader.ending()
    let line = try #require(ending.output.split(separator: "\n").last, "\(ending)")
    return try JSONDecoder().decode(Reading.self, from: Data(line.utf8))
  }

  private static func token(_ number: Int) -> String {
    "00a0" + String(repeating: "0", count: 56) + String(String(65536 + number, radix: 16).dropFirst())
  }

  /// Devices that are gone, in a store that no service uses yet.
  private func store(_ bridge: BridgeSite, _ tokens: [String]) throws {
    let store = try SQLiteStore(path: bridge.site.place.path("store.db"))
    var changes = IntakeChanges()
    for token in tokens {
      let bytes = stride(from: 0, to: token.count, by: 2).compactMap { place in
        UInt8(token.dropFirst(place).prefix(2), radix: 16)
      }
      changes.gone.append(
        StoredGoneDevice(
          app: "news", token: bytes, since: StoreInstant(milliseconds: 1_700_000_000_000),
          foundAt: StoreInstant(milliseconds: 1_700_000_001_000)))
    }
    try store.write(changes)
    try store.close()
  }

  private func stop(_ service: BridgeSite.Service, _ upstream: HTTP2Site.Service) async throws {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("a device that several notifications found gone is listed once, one that registered again is not")
  func eachDeviceOnce() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [\"00a0\"], reason: Unregistered, timestamp: 1700000000123 } ] }")
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let key = try await bridge.serve.key(["--scope", "devices", "--scope", "feedback"])
    let frames = [7, 7, 8, 7, 9, 9].flatMap { BridgeRawClient.frame(1, $0) }
    let client = try BridgeRawClient(bridge, port: service.bridge, bytes: frames)
    try await waitUntil("all were found gone") {
      let reply = try await bridge.serve.request(service.api, "/v1/apps/news/feedback", key: key)
      return try reply.decoded(Items.self).items.count == 6
    }
    let reply = try await bridge.serve.request(
      service.api, "/v1/apps/news/devices/\(Self.token(9))", key: key, body: "{}", method: "PUT")
    #expect(reply.status == 201)
    let devices = try await bridge.feedback(service.feedback).devices
    #expect(devices.map(\.token).sorted() == [Self.token(7), Self.token(8)])
    #expect(devices.map(\.status) == [1_700_000_000, 1_700_000_000])
    #expect(try await bridge.feedback(service.feedback).devices.isEmpty)
    try await stop(service, upstream)
    #expect(try await client.connections().map(\.answer) == ["080a00000009"])
  }

  @Test("what the upstream's own feedback service lists is handed out")
  func binaryUpstream() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(
      rules: "feedback: [ { token: \"\(Self.token(1))\", timestamp: 1400000000 } ]")
    let line = try #require(await upstream.simulator.line(0))
    let gateway = try #require(line.firstMatch(of: /"gateway":(\d+)/)).1
    let feedback = try #require(line.firstMatch(of: /"feedback":(\d+)/)).1
    try bridge.configure(upstream)
    let files = bridge.site.certificates.files
    let credential = try #require(files.apps[HTTP2Site.topic])
    let text = try bridge.site.place.read("carillon.yaml")
    let head = try #require(text.range(of: "apps:\n")).upperBound
    try bridge.site.place.write(
      String(text[..<head]) + """
          - id: news
            topic: \(HTTP2Site.topic)
            gateway: "localhost:\(gateway)"
            trust: \(files.authority)
            credential: { certificate: \(credential.certificate), key: \(credential.key ?? "") }
            feedback: { every: 1s, service: "localhost:\(feedback)" }
        """, to: "carillon.yaml")
    let service = try await bridge.start()
    var found: [BridgeClient.Report.Refusal] = []
    try await waitUntil("the device is listed") {
      found = try await bridge.feedback(service.feedback).devices
      return !found.isEmpty
    }
    #expect(found.map(\.token) == [Self.token(1)])
    #expect(found.map(\.status) == [1_400_000_000])
    try await stop(service, upstream)
  }

  @Test("a second reader at the same time gets an empty list, the first one all of it")
  func twoReaders() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let tokens = (0..<5000).map(Self.token)
    try store(bridge, tokens)
    let service = try await bridge.start()
    let first = try await read(bridge, service, wanted: "go")
    #expect(try await bridge.feedback(service.feedback).devices.isEmpty)
    try bridge.site.place.write("", to: "go")
    let whole = try await reading(first)
    #expect(whole.end == "closed")
    #expect(whole.devices.map(\.token) == tokens)
    try await waitUntil("the list is cleared") {
      let reply = try await bridge.serve.request(service.admin, "/metrics").text
      return reply.contains(#"carillon_bridge_feedback_total{app="news"} 5000"#)
    }
    #expect(try await bridge.feedback(service.feedback).devices.isEmpty)
    try await stop(service, upstream)
  }

  @Test("a reader may be slow; one that takes nothing more sees a broken connection, not the end of the list")
  func slowReaders() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let text = try bridge.site.place.read("carillon.yaml")
    try bridge.site.place.write(
      text.replacing("handshakes-per-second: 1000", with: "handshakes-per-second: 1000, stalled: 3s"),
      to: "carillon.yaml")
    let tokens = (0..<12_000).map(Self.token)
    try store(bridge, tokens)
    let service = try await bridge.start()
    let stalled = try await reading(read(bridge, service, first: 8))
    #expect(stalled.end != "closed")
    #expect(stalled.devices.count < tokens.count)
    #expect(service.process.errors.contains("takes nothing more"))
    // More than three seconds in all, less between two reads.
    let slow = try await reading(read(bridge, service, pause: 0.1))
    #expect(slow.end == "closed")
    #expect(slow.devices.map(\.token) == tokens)
    try await stop(service, upstream)
  }

  @Test("a service that ends breaks the list off, and the next one hands it out")
  func endOfTheService() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let text = try bridge.site.place.read("carillon.yaml")
    try bridge.site.place.write(text + "\nshutdown: { drain: 1s }\n", to: "carillon.yaml")
    let tokens = (0..<12_000).map(Self.token)
    try store(bridge, tokens)
    var service = try await bridge.start()
    let reader = try await read(bridge, service, wanted: "go")
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    try bridge.site.place.write("", to: "go")
    #expect(try await reading(reader).end != "closed")
    service = try await bridge.start()
    #expect(try await bridge.feedback(service.feedback).devices.map(\.token) == tokens)
    try await stop(service, upstream)
  }
}
