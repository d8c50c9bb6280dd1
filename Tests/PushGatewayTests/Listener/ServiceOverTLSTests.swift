internal import Foundation
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// The HTTP/2 service over real TLS, by h2load, nghttp and openssl.
@Suite("The HTTP/2 service and clients from outside this project", .timeLimit(.minutes(20)))
struct ServiceOverTLSTests {
  private static let topic = "com.example.news"

  private struct Site {
    let simulator: GatewaySimulator
    let memory: RecordedRequests
    let directory: String
    let port: Int
    let key: ProviderKey

    func url(_ path: String) -> String { "https://localhost:\(port)\(path)" }

    func file(_ name: String, _ bytes: [UInt8]) throws -> String {
      try Data(bytes).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
      return "\(directory)/\(name)"
    }

    func bearer(issuedAt: Int64 = Int64(Date().timeIntervalSince1970)) throws -> String {
      "authorization: bearer " + (try key.token(issuedAt: issuedAt))
    }

    /// Posts `body` by nghttp with the app's certificate (`certificate`; nil: none). Returns
    /// nghttp's output.
    func post(
      _ path: String, certificate: String? = topic, _ headers: [String], method: String = "POST",
      body: [UInt8] = ServiceDriver.payload
    ) async throws -> String {
      var arguments = ["-v", "-y", "-t", "20", "-H", ":method: \(method)"] + headers.flatMap { ["-H", $0] }
      if !body.isEmpty { arguments += ["-d", try file("body-\(UUID().uuidString)", body)] }
      if let files = certificate.flatMap({ simulator.certificates?.apps[$0] }) {
        arguments += ["--cert", files.certificate, "--key", files.key ?? ""]
      }
      return try await ChildProcess.run(arguments + [url(path)], program: "nghttp", redirection: "2>&1").output
    }
  }

  private func with(
    rules: (inout FaultRules) -> Void = { _ in }, configure: (inout GatewaySimulator.Configuration) -> Void = { _ in },
    _ body: (Site) async throws -> Void
  ) async throws {
    let memory = RecordedRequests()
    try await withSimulator(
      topics: [Self.topic],
      configure: {
        $0.http2Port = 0
        $0.channelsPort = 0
        $0.recordedRequests = memory
        rules(&$0.rules)
        configure(&$0)
      },
      { simulator, _ in
        let file = try #require(simulator.throwAwayKey)
        let key = try ProviderKey.load(
          file: file.file, keyIdentifier: file.keyIdentifier, teamIdentifier: file.teamIdentifier)
        let directory = URL(fileURLWithPath: file.file).deletingLastPathComponent().path
        try await body(
          Site(
            simulator: simulator, memory: memory, directory: directory, port: try #require(simulator.http2Port),
            key: key))
      })
  }

  private static let path = "/3/device/" + Digest.hexadecimal(ServiceDriver.token)

  @Test("nghttp with a certificate gets 200, its own apns-id as it wrote it, and the date")
  func nghttp() async throws {
    try await with { site in
      let text = try await site.post(
        Self.path, ["apns-topic: \(Self.topic)", "apns-id: 9F3B2C4D-0000-4000-8000-00000000000A"])
      #expect(text.contains(":status: 200"), "\(text)")
      #expect(text.contains("apns-id: 9F3B2C4D-0000-4000-8000-00000000000A"), "\(text)")
      let date = try #require(text.firstMatch(of: /date: ([^\n\r]+)/)).1
      let bytes = Array(date.utf8)
      let parsed = HTTPDate.parse(bytes.span)
      let seconds = try #require(parsed)
      #expect(abs(Double(seconds) - Date().timeIntervalSince1970) < 30)
      #expect(text.contains("SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000"))
      let refused = try await site.post("/3/device/zz", ["apns-topic: \(Self.topic)"])
      #expect(refused.contains(":status: 400"), "\(refused)")
      #expect(refused.contains(#"{"reason":"BadDeviceToken"}"#), "\(refused)")
      #expect(refused.contains("apns-id: "), "\(refused)")
      let truth = await site.simulator.stop(grace: .zero).http2[Self.topic]
      #expect(truth?.accepted == 1)
      #expect(truth?.refused == [ServiceRefusal(.badDeviceToken): 1])
      #expect(truth?.connections == 2)
    }
  }

  @Test("h2load with a token: every request is accepted and counted", arguments: [(1, 1, 300), (3, 100, 9000)])
  func h2load(clients: Int, streams: Int, total: Int) async throws {
    try await with { site in
      let text = try await ChildProcess.run(
        [
          "-n", "\(total)", "-c", "\(clients)", "-m", "\(streams)", "-d",
          try site.file("payload", ServiceDriver.payload), "-H", "apns-topic: \(Self.topic)",
          "-H", try site.bearer(), site.url(Self.path),
        ], program: "h2load", redirection: "2>&1"
      ).output
      #expect(text.contains("\(total) succeeded, 0 failed, 0 errored, 0 timeout"), "\(text)")
      let truth = await site.simulator.stop(grace: .zero).http2[Self.topic]
      #expect((truth?.accepted, truth?.refusedCount, truth?.connections, truth?.unanswered) == (total, 0, clients, 0))
      #expect(site.memory.requests.count == total)
      #expect(site.memory.requests.allSatisfy { $0.token == .numbered(1) && $0.payload == ServiceDriver.payload })
    }
  }

  @Test("with many resets, refusals and delayed responses, h2load's count equals the truth")
  func storm() async throws {
    try await with(rules: {
      $0.common.http2.reset = [ServiceFaults.Reset(Faults.Selection(every: 50))]
      $0.common.http2.refuse = [ServiceFaults.Refuse(Faults.Selection(every: 7), .internalServerError)]
      $0.common.http2.delay = .exponential(mean: .milliseconds(2))
      $0.common.http2.limits = [ServiceFaults.LimitChange(Faults.Breakpoint(after: 500), limit: 3)]
    }) { site in
      let identifier = "9f3b2c4d-0000-4000-8000-00000000000a"
      let text = try await ChildProcess.run(
        [
          "-n", "4000", "-c", "2", "-m", "50", "-d", try site.file("payload", ServiceDriver.payload), "-H",
          "apns-topic: \(Self.topic)",
          "-H", "apns-id: \(identifier)", "-H", try site.bearer(), site.url(Self.path),
        ], program: "h2load", redirection: "2>&1"
      ).output
      let codes = try #require(text.firstMatch(of: /status codes: (\d+) 2xx, 0 3xx, 0 4xx, (\d+) 5xx/), "\(text)")
      let truth = try #require(await site.simulator.stop(grace: .zero).http2[Self.topic])
      #expect(truth.accepted == Int(codes.1), "\(text)")
      #expect(truth.refused == [ServiceRefusal(.internalServerError): Int(codes.2) ?? 0], "\(text)")
      #expect(truth.accepted + truth.refusedCount + truth.unprocessed == 4000)
      #expect(truth.unprocessed == 80)
      #expect(truth.duplicates == truth.accepted - 1)
    }
  }

  @Test(
    "requests above a GOAWAY's last stream are not in the truth; those below are answered before the end",
    arguments: [0, 3])
  func goAway(delay: Int) async throws {
    try await with(rules: {
      $0.common.http2.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 777), reason: "Shutdown")
      $0.common.http2.delay = .uniform(.zero, .milliseconds(delay))
    }) { site in
      let text = try await ChildProcess.run(
        [
          "-n", "4000", "-c", "2", "-m", "100", "-d", try site.file("payload", ServiceDriver.payload), "-H",
          "apns-topic: \(Self.topic)", "-H",
          try site.bearer(), site.url(Self.path),
        ], program: "h2load", redirection: "2>&1"
      ).output
      let codes = try #require(text.firstMatch(of: /status codes: (\d+) 2xx/), "\(text)")
      let truth = try #require(await site.simulator.stop(grace: .zero).http2[Self.topic])
      #expect(truth.accepted == 2 * 777, "\(text) \(truth)")
      #expect(Int(codes.1) == truth.accepted, "\(text) \(truth)")
      #expect(truth.unanswered == 0, "\(text) \(truth)")
      #expect(site.memory.requests.count == truth.accepted)
    }
  }

  @Test(
    "a signature in DER, as from Pushy, and a fraction in iat, as from PyPI's apns2, are accepted unless strict",
    arguments: [false, true])
  func foreignTokens(isStrict: Bool) async throws {
    try await with(rules: { $0.service.isStrict = isStrict }) { site in
      let key = try #require(site.simulator.throwAwayKey)
      func sign(_ time: String) async throws -> (input: String, der: [UInt8]) {
        let parts = [
          #"{"alg":"ES256","kid":"\#(key.keyIdentifier)"}"#, #"{"iss":"\#(key.teamIdentifier)","iat":\#(time)}"#,
        ]
        let input = parts.map { String(decoding: Base64URL.encode(Array($0.utf8)), as: UTF8.self) }.joined(
          separator: ".")
        let output = "\(site.directory)/signature"
        let ending = try await ChildProcess.run(
          ["dgst", "-sha256", "-sign", key.file, "-out", output, try site.file("input", Array(input.utf8))],
          program: "openssl")
        #expect(ending.status == 0, "\(ending)")
        return (input, Array(try Data(contentsOf: URL(fileURLWithPath: output))))
      }
      func text(_ bytes: [UInt8]) -> String { String(decoding: Base64URL.encode(bytes), as: UTF8.self) }
      let now = Int64(Date().timeIntervalSince1970)
      let whole = try await sign("\(now)")
      let fractional = try await sign("\(now).25")
      let tokens = [
        ("r‖s", "\(whole.input).\(text(try raw(whole.der)))", true),
        ("DER", "\(whole.input).\(text(whole.der))", !isStrict),
        ("fraction", "\(fractional.input).\(text(try raw(fractional.der)))", !isStrict),
      ]
      for (name, token, isTaken) in tokens {
        let answer = try await site.post(
          Self.path, certificate: nil, ["apns-topic: \(Self.topic)", "authorization: bearer \(token)"])
        #expect(answer.contains(isTaken ? ":status: 200" : #"{"reason":"InvalidProviderToken"}"#), "\(name): \(answer)")
        #expect(answer.contains("SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1]"))
      }
    }
  }

  /// Converts a DER signature (30 len 02 len r 02 len s) to r‖s.
  private func raw(_ der: [UInt8]) throws -> [UInt8] {
    var offset = 2
    var raw: [UInt8] = []
    for _ in 0..<2 {
      let count = Int(try #require(der.dropFirst(offset + 1).first))
      let number = der[(offset + 2)..<(offset + 2 + count)].drop { $0 == 0 }
      raw += [UInt8](repeating: 0, count: 32 - number.count) + number
      offset += 2 + count
    }
    return raw
  }

  @Test("a client without ALPN is accepted by its preface, unless strict", arguments: [false, true])
  func withoutALPN(isStrict: Bool) async throws {
    try await with(rules: { $0.service.isStrict = isStrict }) { site in
      let files = try #require(site.simulator.certificates?.apps[Self.topic])
      let fields = [
        (":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", Self.path),
        ("apns-topic", Self.topic),
      ]
      let bytes = HTTP2Wire.preface + HTTP2Wire.settings + HTTP2Wire.request(1, fields, body: ServiceDriver.payload)
      let script = """
        import socket, ssl, sys, binascii
        context = ssl.create_default_context(cafile=sys.argv[2])
        context.load_cert_chain(sys.argv[3], sys.argv[4])
        connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)
        tls = context.wrap_socket(connection, server_hostname="localhost")
        tls.sendall(binascii.unhexlify(sys.argv[5]))
        answer = b""
        # Status 200 is the first byte after the head of the HEADERS frame of stream 1.
        while b"\\x01\\x05\\x00\\x00\\x00\\x01\\x88" not in answer:
            piece = tls.recv(4096)
            if not piece: break
            answer += piece
        print("answered" if b"\\x00\\x00\\x00\\x01\\x88" in answer else "closed")
        """
      let ending = try await ChildProcess.run(
        [
          "-c", script, "\(site.port)", try #require(site.simulator.certificates).authority, files.certificate,
          files.key ?? "", Digest.hexadecimal(bytes),
        ], program: "python3", redirection: "2>&1")
      #expect(ending.output == (isStrict ? "closed\n" : "answered\n"))
      #expect(site.memory.requests.count == (isStrict ? 0 : 1))
    }
  }

  /// Makes channels, asks 1,200 times for the list of all of them in one write, and reads
  /// everything. Prints how many requests were answered.
  private static let greedyClient = """
    import socket, ssl, struct, sys
    context = ssl.create_default_context(cafile=sys.argv[2])
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    context.set_alpn_protocols(["h2"])
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
    tls = context.wrap_socket(connection, server_hostname="localhost")
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
    def block(fields):
        # Literals of less than 127 bytes, without Huffman code.
        return b"".join(b"\\0" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in fields)
    def fields(method, path, *more):
        names = (b":method", b":scheme", b":authority", b":path")
        return block([*zip(names, (method, b"https", b"localhost", path)), *more])
    window = 0x7fffffff
    tls.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + frame(4, 0, 0, struct.pack(">HI", 4, window))
        + frame(8, 0, 0, struct.pack(">I", window - 65535)))
    held = b""
    def answers(wanted):
        global held
        count = 0
        while count < wanted:
            piece = tls.recv(1 << 20)
            if not piece:
                break
            held += piece
            at = 0
            while len(held) - at >= 9:
                size = int.from_bytes(held[at:at + 3], "big")
                if len(held) - at - 9 < size:
                    break
                if held[at + 3] in (0, 1) and held[at + 4] & 1:
                    count += 1
                at += 9 + size
            held = held[at:]
        return count
    app = b"/1/apps/com.example.news/"
    stream = 1
    body = b'{"push-type":"LiveActivity","message-storage-policy":1}'
    asked = b""
    for _ in range(500):
        asked += frame(1, 4, stream, fields(b"POST", app + b"channels")) + frame(0, 1, stream, body)
        stream += 2
    tls.sendall(asked)
    answers(500)
    asked = b""
    for _ in range(1200):
        asked += frame(1, 5, stream, fields(b"GET", app + b"all-channels", (b"x-padding", b"p" * 100)))
        stream += 2
    try:
        tls.sendall(asked)
        print("answered", answers(1200))
    except TimeoutError:
        print("nothing came for 60 s")
    """

  @Test("a service that stops reading while a client does not read answers every request afterwards")
  func greedyClient() async throws {
    // With latency all requests have been read before the first answers go.
    try await with(configure: { $0.rules.latency = .milliseconds(100) }) { site in
      let port = try #require(site.simulator.channelsPort)
      let certificates = try #require(site.simulator.certificates)
      let files = try #require(certificates.apps[Self.topic])
      let ending = try await ChildProcess.run(
        ["-c", Self.greedyClient, "\(port)", certificates.authority, files.certificate, files.key ?? ""],
        program: "python3")
      #expect(ending.output == "answered 1200\n", "\(ending)")
    }
  }

  @Test("a connection cut after a request was accepted: no response, and the truth counts it")
  func cut() async throws {
    for (isTaken, isReset) in [(true, true), (false, false)] {
      try await with(rules: {
        $0.common.http2.cut = [ServiceFaults.Cut(Faults.Breakpoint(after: 1), isTaken: isTaken, isReset: isReset)]
      }) { site in
        let text = try await site.post(Self.path, ["apns-topic: \(Self.topic)"])
        #expect(!text.contains(":status:"), "\(text)")
        let truth = try #require(await site.simulator.stop(grace: .zero).http2[Self.topic])
        #expect((truth.accepted, truth.unanswered, truth.dropped) == (isTaken ? (1, 1, 0) : (0, 0, 1)))
      }
    }
  }

  @Test("a client with a refused certificate cannot send a request; token clients need no certificate")
  func refusedCertificate() async throws {
    try await with(rules: { $0.common.refuseCertificate = Faults.CertificateRefusal() }) { site in
      let text = try await site.post(Self.path, ["apns-topic: \(Self.topic)"])
      #expect(!text.contains(":status:"), "\(text)")
      let token = try await site.post(Self.path, certificate: nil, ["apns-topic: \(Self.topic)", try site.bearer()])
      #expect(token.contains(":status: 200"), "\(token)")
      let truth = await site.simulator.stop(grace: .zero)
      #expect(truth.apps[Self.topic]?.certificatesRefused == 1)
      #expect(truth.failedHandshakes == 1)
      #expect(truth.http2.values.map(\.accepted) == [1])
    }
  }

  @Test("channels are created on their own port and used on the other")
  func channels() async throws {
    try await with { site in
      let channels = try #require(site.simulator.channelsPort)
      let manager = Site(
        simulator: site.simulator, memory: site.memory, directory: site.directory, port: channels, key: site.key)
      let made = try await manager.post(
        "/1/apps/\(Self.topic)/channels", ["apns-request-id: 9f3b2c4d-0000-4000-8000-00000000000a"],
        body: Array(#"{"message-storage-policy":1,"push-type":"LiveActivity"}"#.utf8))
      #expect(made.contains(":status: 201"), "\(made)")
      #expect(made.contains("apns-request-id: 9f3b2c4d-0000-4000-8000-00000000000a"), "\(made)")
      let channel = String(try #require(made.firstMatch(of: /apns-channel-id: ([A-Za-z0-9+\/=]+)/)).1)
      let list = try await manager.post(
        "/1/apps/\(Self.topic)/all-channels", [try site.bearer()], method: "GET", body: [])
      #expect(list.contains(#"{"channels":["\#(channel)"]}"#), "\(list)")
      let sent = try await site.post(
        "/4/broadcasts/apps/\(Self.topic)",
        ["apns-channel-id: \(channel)", "apns-push-type: liveactivity", "apns-expiration: 0"])
      #expect(sent.contains(":status: 200"), "\(sent)")
      let gone = try await manager.post(
        "/1/apps/\(Self.topic)/channels", ["apns-channel-id: \(channel)"], method: "DELETE", body: [])
      #expect(gone.contains(":status: 204"), "\(gone)")
      #expect(await site.simulator.stop(grace: .zero).http2[Self.topic]?.broadcasts == 1)
    }
  }

  @Test("stopping sends GOAWAY, and the record holds a line for every request")
  func stopAndRecord() async throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("record-\(UUID().uuidString).jsonl").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try await with(configure: { $0.recordPath = path }) { site in
      let identifier = "9F3B2C4D-0000-4000-8000-00000000000A"
      _ = try await site.post(
        Self.path,
        [
          "apns-topic: \(Self.topic).voip", "apns-push-type: voip", "apns-id: \(identifier)", "apns-priority: 10",
          "apns-collapse-id: \"a\\b\"",
        ])
      _ = try await site.post("/3/device/zz", ["apns-topic: \(Self.topic)"])
      #expect(await site.simulator.stop().recordProblem == nil)
      let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map {
        try JSONSerialization.jsonObject(with: Data($0.utf8))
      }
      let records = try #require(lines as? [[String: Any]])
      #expect(records.count == 2)
      #expect(records[0]["app"] as? String == Self.topic)
      #expect(records[0]["topic"] as? String == Self.topic + ".voip")
      #expect(records[0]["type"] as? String == "voip")
      #expect(records[0]["id"] as? String == identifier)
      #expect(records[0]["collapse"] as? String == "\"a\\b\"")
      #expect(records[0]["refused"] == nil)
      #expect(records[0]["token"] as? String == Digest.hexadecimal(ServiceDriver.token))
      #expect(records[0]["connection"] as? Int == 1)
      #expect(records[0]["payload"] as? String == Digest.hexadecimal(Digest.sha256(ServiceDriver.payload)))
      #expect(records[1]["refused"] as? String == "400 BadDeviceToken")
      #expect(records[1]["token"] is NSNull)
      // The identifier that the service made.
      #expect((records[1]["id"] as? String).flatMap { UUID(uuidString: $0) } != nil)
    }
  }
}
