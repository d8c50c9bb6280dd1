internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// Who is a client of the bridge, and of which app, over TLS.
@Suite("Clients of the bridge", .timeLimit(.minutes(20)))
struct BridgeClientTests {
  private static var now: Int64 { Int64(Date().timeIntervalSince1970) }

  /// An authority that issues any certificate.
  private struct Issuer {
    let authority: CertificateAuthority
    let folder: String
    let file: String

    init(_ bridge: BridgeSite, _ name: String) throws {
      folder = bridge.site.place.path(name)
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      authority = try CertificateAuthority(at: BridgeClientTests.now)
      file = folder + "/ca.pem"
      try authority.write(to: file)
    }

    func issue(_ request: CertificateRequest, as name: String = "client") throws -> CredentialFiles {
      let files = CredentialFiles(certificate: "\(folder)/\(name).pem", key: "\(folder)/\(name).key")
      try authority.issue(request).writePEM(certificate: files.certificate, key: files.key ?? "")
      return files
    }
  }

  private func stop(_ service: BridgeSite.Service) async {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
  }

  /// Sends one notification and a probe, whose answer shows that the notification was accepted.
  private func isServed(
    _ bridge: BridgeSite, _ service: BridgeSite.Service, _ files: CredentialFiles
  ) async throws -> Bool {
    let bytes = BridgeRawClient.frame(1, 1) + BridgeRawClient.probe(2)
    let found = try await BridgeRawClient(bridge, port: service.bridge, bytes: bytes, as: files).connection()
    #expect(found.answer == "080200000002" || found.isRefusedByAlert, "\(found)")
    return found.answer == "080200000002"
  }

  @Test(
    "another authority's certificate with the app's topic is refused by an alert",
    arguments: ["TLSv1_2", "TLSv1_3"])
  func impostor(_ version: String) async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let impostor = try Issuer(bridge, "impostor").issue(.app(topic: HTTP2Site.topic, at: Self.now))
    let client = try BridgeClient.start(
      in: bridge.site.place, port: service.bridge, authority: bridge.site.certificates.files.authority,
      certificate: impostor.certificate, key: try #require(impostor.key), count: 1, badEvery: 0, version: version)
    let report = try await BridgeClient.report(client)
    #expect(report.refused?.contains("UNKNOWN_CA") == true, "\(report)")
    #expect(service.process.errors.contains("client refused"))
    #expect(service.process.errors.contains("its certificate is not trusted"))
    let metrics = try await bridge.serve.request(service.admin, "/metrics").text
    #expect(!metrics.contains("carillon_bridge_refused_total 0"))
    await stop(service)
    #expect(try await bridge.site.taken(upstream).isEmpty)
  }

  @Test("without client-ca, only pinned certificates are clients")
  func pinnedOnly() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    let issuer = try Issuer(bridge, "issuer")
    let pinned = try issuer.issue(.app(topic: "com.example.old", at: Self.now), as: "pinned")
    let sibling = try issuer.issue(.app(topic: HTTP2Site.topic, at: Self.now), as: "sibling")
    try bridge.configure(upstream, app: "    bridge: { clients: [\(pinned.certificate)] }")
    let text = try bridge.site.place.read("carillon.yaml")
    try bridge.site.place.write(text.replacing("client-ca: \(bridge.clients.authority)", with: ""), to: "carillon.yaml")
    let service = try await bridge.start()
    #expect(try await isServed(bridge, service, pinned))
    #expect(try await !isServed(bridge, service, sibling))
    #expect(service.process.errors.contains("no authority is configured for clients"))
    await stop(service)
    #expect(try await bridge.site.taken(upstream).count == 1)
  }

  @Test("a client without a certificate is refused by an alert")
  func nobody() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let service = try await bridge.start()
    #expect(try await !isServed(bridge, service, BridgeRawClient.nobody))
    await stop(service)
    #expect(try await bridge.site.taken(upstream).isEmpty)
  }

  @Test("an expired certificate of client-ca is refused, and accepted when its fingerprint is pinned")
  func expired() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    let issuer = try Issuer(bridge, "issuer")
    var request = CertificateRequest.app(topic: HTTP2Site.topic, at: Self.now)
    request.validity = (Self.now - 100 * 86_400)...(Self.now - 86_400)
    let files = try issuer.issue(request)
    try bridge.configure(upstream, authority: issuer.file)
    let strict = try await bridge.start()
    #expect(try await !isServed(bridge, strict, files))
    #expect(strict.process.errors.contains("certificate has expired"))
    await stop(strict)

    // As `openssl x509 -fingerprint` prints it.
    let fingerprint = try CredentialInspection.load(file: files.certificate, at: Self.now).certificate.sha256
    let pairs = stride(from: 0, to: 64, by: 2).map { fingerprint.dropFirst($0).prefix(2).uppercased() }
    try bridge.configure(
      upstream, app: "    bridge: { clients: [\"sha256:\(pairs.joined(separator: ":"))\"] }", authority: issuer.file)
    let pinned = try await bridge.start()
    #expect(try await isServed(bridge, pinned, files))
    await stop(pinned)
    #expect(try await bridge.site.taken(upstream).count == 1)
  }

  @Test("the topic may be in Apple's extension; of two apps with one topic, the environment decides")
  func environments() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    let issuer = try Issuer(bridge, "issuer")
    func issue(_ environments: Set<PushEnvironment>, _ name: String) throws -> CredentialFiles {
      var request = CertificateRequest(
        commonName: "Apple Push Services", usage: .client, validity: CertificateRequest.lasting(from: Self.now))
      (request.topics, request.environments) = (["com.example.none", HTTP2Site.topic], environments)
      return try issuer.issue(request, as: name)
    }
    try bridge.configure(
      upstream, app: "    environment: production\n" + bridge.lines("sand", upstream) + "\n    environment: sandbox",
      authority: issuer.file)
    let service = try await bridge.start()
    let key = try await bridge.serve.key()
    #expect(try await isServed(bridge, service, issue([.production], "production")))
    #expect(try await isServed(bridge, service, issue([.sandbox], "sandbox")))
    #expect(try await isServed(bridge, service, issue([.sandbox], "sandbox2")))
    #expect(try await bridge.counts(service, key: key).forwarded == 1)
    #expect(try await bridge.counts(service, key: key, app: "sand").forwarded == 2)
    for (name, environments) in [("both", [.production, .sandbox]), ("neither", [])] as [(String, Set<PushEnvironment>)]
    {
      #expect(try await !isServed(bridge, service, issue(environments, name)))
    }
    #expect(service.process.errors.contains("is that of several apps"))
    await stop(service)
    #expect(try await bridge.site.taken(upstream).count == 3)
  }

  @Test("two apps with one pin are refused by the check and at the start")
  func onePinTwice() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    let files = try Issuer(bridge, "issuer").issue(.app(topic: HTTP2Site.topic, at: Self.now))
    let pin = "    bridge: { clients: [\(files.certificate)] }"
    try bridge.configure(
      upstream, app: "\(pin)\n\(bridge.lines("chat", upstream, topic: "com.example.chat"))\n\(pin)")
    let problem = "The apps \"news\" and \"chat\" pin the same certificate"
    let check = try await bridge.site.run(["serve", "--config", "carillon.yaml", "--check"])
    #expect(check.status == 2, "\(check)")
    #expect(check.output.contains(problem), "\(check)")
    let start = try await bridge.site.run(["serve", "--config", "carillon.yaml", "--json"])
    #expect(start.status != 0, "\(start)")
    #expect(start.errors.contains(problem), "\(start)")
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("clients get no session tickets")
  func noTickets() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let probe = BridgeRawClient.probe(1)
    let found = try await BridgeRawClient(bridge, port: service.bridge, bytes: probe).connection()
    #expect(found.answer == "080200000001", "\(found)")
    #expect(found.tickets == false, "\(found)")
    await stop(service)
    _ = try await bridge.site.taken(upstream)

    // The client would have noticed one.
    let simulator = try ChildProcess(
      [
        "simulate", "--gateway-port", "0", "--feedback-port", "0", "--http2-port", "0", "--channels-port", "0",
        "--json", "--session-tickets",
      ] + bridge.site.certificates.server, directory: bridge.site.place.url)
    let line = try #require(await simulator.line(0), "\(simulator.errors)")
    let digits = try #require(line.firstMatch(of: /"gateway":(\d+)/)).1
    let port = try #require(Int(digits))
    let other = try await BridgeRawClient(
      bridge, port: port, bytes: probe, as: bridge.site.certificates.files.apps[HTTP2Site.topic]
    ).connection()
    #expect(other.answer == "080200000001", "\(other)")
    #expect(other.tickets == true, "\(other)")
    simulator.send(SIGTERM)
    _ = await simulator.ending()
  }

  @Test("a reload ends the connections of clients that are another app's now or nobody's, and no others")
  func reload() async throws {
    let bridge = try BridgeSite()
    // So slow that the answers are still awaited when the reload comes.
    let upstream = try await bridge.site.simulate(rules: "http2: { delay: { fixed: 3s } }")
    let issuer = try Issuer(bridge, "issuer")
    let removed = try issuer.issue(.app(topic: "com.example.removed", at: Self.now), as: "removed")
    let moved = try issuer.issue(.app(topic: "com.example.moved", at: Self.now), as: "moved")
    func configure(_ news: [CredentialFiles], _ chat: [CredentialFiles]) throws {
      func pins(_ files: [CredentialFiles]) -> String {
        "    bridge: { clients: [\(files.map(\.certificate).joined(separator: ", "))] }"
      }
      let other = bridge.lines("chat", upstream, topic: "com.example.chat")
      try bridge.configure(upstream, app: "\(pins(news))\n\(other)\n\(pins(chat))")
    }
    try configure([removed, moved], [])
    let service = try await bridge.start()
    let key = try await bridge.serve.key()
    func client(_ number: UInt8, _ files: CredentialFiles?) throws -> BridgeRawClient {
      try BridgeRawClient(bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, number), as: files)
    }
    let stays = try client(1, nil)
    let leaving = [try client(2, removed), try client(3, moved)]
    try await waitUntil("the frames have arrived") { try await bridge.counts(service, key: key).frames == 3 }

    try configure([], [moved])
    service.process.send(SIGHUP)
    #expect(try await leaving[0].connection().answer == "080a00000002")
    #expect(try await leaving[1].connection().answer == "080a00000003")
    #expect(service.process.errors.contains("a client of the bridge has to leave"))
    #expect(service.process.errors.contains("it is a client of chat now: its certificate is pinned"))
    #expect(try await !isServed(bridge, service, removed))
    #expect(try await isServed(bridge, service, moved))
    #expect(try await bridge.counts(service, key: key, app: "chat").forwarded == 1)
    #expect(!stays.process.hasEnded)
    try await waitUntil("one client is left") { try await bridge.counts(service, key: key).clients == 1 }
    await stop(service)
    #expect(try await stays.connection().answer == "080a00000001")
    #expect(try await bridge.site.taken(upstream).count == 4)
  }

  /// A client that holds back the end of its handshake until a file is there, then sends a frame
  /// and a probe. Arguments: port, authorities, certificate, key, the file, and the bytes.
  private static let hesitatingClient = """
    import os, socket, ssl, sys, time
    port, ca, cert, key, file, text = sys.argv[1:7]
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    plain = socket.create_connection(("127.0.0.1", int(port)), timeout=120)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(65536))
    last = outgoing.read()
    plain.sendall(last[:-20])
    print("held", flush=True)
    while not os.path.exists(file):
        time.sleep(0.01)
    tls.write(bytes.fromhex(text))
    answer = b""
    try:
        plain.sendall(last[-20:] + outgoing.read())
        while True:
            piece = plain.recv(65536)
            if not piece:
                break
            incoming.write(piece)
            try:
                answer += tls.read(100)
            except ssl.SSLWantReadError:
                pass
    except (OSError, ssl.SSLError) as problem:
        print(problem, file=sys.stderr)
    print("answer:" + answer.hex())
    """

  @Test("a client whose pin is removed in the middle of its handshake is not served by its topic")
  func removedInHandshake() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    let pinned = try Issuer(bridge, "issuer").issue(.app(topic: HTTP2Site.topic, at: Self.now))
    try bridge.configure(upstream, app: "    bridge: { clients: [\(pinned.certificate)] }")
    let service = try await bridge.start()
    try bridge.site.place.write(Self.hesitatingClient, to: "hesitating.py")
    let bytes = BridgeRawClient.frame(1, 1) + BridgeRawClient.probe(2)
    func hesitating(_ file: String) throws -> ChildProcess {
      try ChildProcess(
        [
          "hesitating.py", "\(service.bridge)", bridge.site.certificates.files.authority, pinned.certificate,
          try #require(pinned.key), file, BridgeRawClient.hexadecimal(bytes),
        ], program: "python3", directory: bridge.site.place.url)
    }
    let served = try hesitating("carillon.yaml")
    #expect(await served.ending().output.contains("answer:080200000002"))
    let client = try hesitating("go")
    #expect(await client.line(0) == "held")
    try bridge.configure(upstream)
    service.process.send(SIGHUP)
    try await waitUntil("it was read") { service.process.errors.contains("configuration read again") }
    try bridge.site.place.write("", to: "go")
    let ending = await client.ending()
    #expect(ending.output.contains("answer:\n"), "\(ending)")
    await stop(service)
    #expect(try await bridge.site.taken(upstream).count == 1)
  }

  @Test("a reload with another topic, which counts after the next start, moves no client")
  func waitingTopic() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let text = try bridge.site.place.read("carillon.yaml")
    try bridge.site.place.write(
      text.replacing("topic: \(HTTP2Site.topic)", with: "topic: com.example.other"), to: "carillon.yaml")
    service.process.send(SIGHUP)
    try await waitUntil("it was read") {
      service.process.errors.contains("other settings count after the next start")
    }
    #expect(try await !isServed(bridge, service, #require(bridge.clients.apps["com.example.other"])))
    #expect(try await isServed(bridge, service, #require(bridge.clients.apps[HTTP2Site.topic])))
    await stop(service)
    #expect(try await bridge.site.taken(upstream).map(\.topic) == [HTTP2Site.topic])
  }
}
