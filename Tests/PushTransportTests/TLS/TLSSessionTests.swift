internal import NIOCore
internal import Support
internal import Testing

@testable internal import PushTransport

@Suite("TLS sessions without IO")
struct TLSSessionTests {
  @Test(
    "any chunks of ciphertext give the same plaintext, in both directions, in TLS 1.2 and 1.3",
    arguments: TLSVersion.allCases)
  func chunking(version: TLSVersion) throws {
    let material = try Material()
    let (client, server) = (try material.clientContext(versions: version...version), try material.serverContext())
    let seed = SeededGenerator.freshSeed()
    var random = Seeded(seed: seed)
    let supply = (0..<40_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
    for _ in 0..<8 {
      var pair = try SessionPair(client, server)
      var sent: [SessionPair.Side: [UInt8]] = [.client: [], .server: []]
      let pieceLimit = [1, 7, 300, 5000, 100_000].randomElement(using: &random) ?? 1
      for _ in 0..<400 {
        let side = SessionPair.Side.allCases.randomElement(using: &random) ?? .client
        if (side == .client ? pair.client : pair.server).isEstablished, Int.random(in: 0..<4, using: &random) == 0 {
          let bytes = Array(supply[..<Int.random(in: 0..<supply.count, using: &random)])
          try pair.write(bytes, from: side)
          sent[side]? += bytes
        }
        pair.carry(Int.random(in: 1...pieceLimit, using: &random), to: side)
      }
      pair.carryAll()
      #expect(pair.client.version == version, "seed \(seed)")
      #expect(pair.server.version == version, "seed \(seed)")
      #expect(pair.ends.isEmpty, "seed \(seed)")
      #expect(Array(pair.atServer.readableBytesView) == sent[.client], "seed \(seed)")
      #expect(Array(pair.atClient.readableBytesView) == sent[.server], "seed \(seed)")
      #expect(pair.server.peerIdentity?.topics == ["com.example.news"])
    }
  }

  @Test("a server sends no tickets: after the handshake its client has nothing to read", arguments: TLSVersion.allCases)
  func noTickets(version: TLSVersion) throws {
    let material = try Material()
    var pair = try SessionPair(material.clientContext(versions: version...version), material.serverContext())
    while !pair.server.isEstablished {
      pair.carry(.max, to: .server)
      if !pair.server.isEstablished { pair.carry(.max, to: .client) }
    }
    #expect(version == .tls12 || pair.toClient.readableBytes == 0)
    pair.carryAll()
    #expect(pair.client.isEstablished)
    #expect(pair.ends.isEmpty)
  }

  @Test("a batch of 64 to 256 KiB has as few records as possible", arguments: [64, 256])
  func records(kibibytes: Int) throws {
    let material = try Material()
    var pair = try SessionPair(material.clientContext(), material.serverContext())
    pair.carryAll()
    try pair.write([UInt8](repeating: 7, count: kibibytes * 1024), from: .client)
    #expect(pair.toServer.readableBytes == kibibytes * 1024 + kibibytes / 16 * 22)
  }

  @Test("close_notify from either side ends only its direction")
  func closeNotify() throws {
    let material = try Material()
    for closing in SessionPair.Side.allCases {
      var pair = try SessionPair(material.clientContext(), material.serverContext())
      pair.carryAll()
      let other: SessionPair.Side = closing == .client ? .server : .client
      try pair.write([1, 2, 3], from: closing)
      if closing == .client { pair.client.closeOutput(&pair.toServer) } else { pair.server.closeOutput(&pair.toClient) }
      pair.carryAll()
      #expect(pair.ends == [other: .closeNotify])
      try pair.write([4, 5, 6], from: other)
      pair.carryAll()
      #expect(Array((closing == .client ? pair.atClient : pair.atServer).readableBytesView) == [4, 5, 6])
      if closing == .client { pair.server.closeOutput(&pair.toClient) } else { pair.client.closeOutput(&pair.toServer) }
      pair.carryAll()
      #expect(pair.ends == [.client: .closeNotify, .server: .closeNotify])
      #expect(throws: TLSFailure.self) { try pair.write([7], from: closing) }
    }
  }

  @Test(
    "each alert about the client's certificate is a refused credential: in the handshake (1.2) or after it (1.3)",
    arguments: ClientCertificatePolicy.Refusal.allCases, TLSVersion.allCases)
  func refused(refusal: ClientCertificatePolicy.Refusal, version: TLSVersion) throws {
    let material = try Material()
    let policy = ClientCertificatePolicy(request: .required) { $0.topics == ["com.example.news"] ? refusal : nil }
    var pair = try SessionPair(
      material.clientContext(versions: version...version), material.serverContext(clients: policy))
    pair.carryAll()
    #expect(pair.client.isEstablished == (version == .tls13))
    let reasons: [ClientCertificatePolicy.Refusal: String] = [
      .bad: "bad certificate", .revoked: "certificate revoked", .expired: "certificate expired",
      .unknown: "certificate unknown",
      .unknownAuthority: "unknown certificate authority",
    ]
    #expect(
      pair.ends[.client] == .failed(.credentialRefused("the server refused our certificate: \(reasons[refusal] ?? "")"))
    )
    #expect(pair.ends[.server] == .failed(.peerNotTrusted("the server's policy refused the client's certificate")))
  }

  @Test(
    "a client without a certificate is refused where one is required, and both sides say so",
    arguments: TLSVersion.allCases)
  func certificateRequired(version: TLSVersion) throws {
    let material = try Material()
    var pair = try SessionPair(
      material.clientContext(credential: .some(nil), versions: version...version), material.serverContext())
    pair.carryAll()
    guard case .failed(.credentialRefused) = pair.ends[.client] else {
      Issue.record("\(String(describing: pair.ends[.client]))")
      return
    }
    #expect(pair.ends[.server] == .failed(.peerNotTrusted("the client showed no certificate")))
  }

  @Test("client certificates: not requested, optional, any accepted, or only from the CA")
  func policies() throws {
    let material = try Material()
    let foreign = try Material(topic: "com.example.foreign").app.credential
    func outcome(
      _ policy: ClientCertificatePolicy, _ credential: Credential?
    ) throws -> (identity: PeerIdentity?, end: TLSSession.End?) {
      var pair = try SessionPair(
        material.clientContext(credential: .some(credential)), material.serverContext(clients: policy))
      pair.carryAll()
      return (pair.server.peerIdentity, pair.ends[.client])
    }
    #expect(try outcome(.none, material.app.credential) == (nil, nil))
    #expect(try outcome(ClientCertificatePolicy(request: .optional), nil) == (nil, nil))
    #expect(
      try outcome(ClientCertificatePolicy(request: .required), foreign).identity?.topics == ["com.example.foreign"])
    let identity = try outcome(
      ClientCertificatePolicy(request: .required, trust: material.trust), material.app.credential
    ).identity
    #expect(identity?.fingerprint == material.app.credential.inspection.sha256)
    #expect(
      try outcome(ClientCertificatePolicy(request: .required, trust: material.trust), foreign).end
        == .failed(.credentialRefused("the server refused our certificate: unknown certificate authority")))
  }

  @Test(
    "a key from a PKCS#12 file signs the handshake, from a legacy file too",
    arguments: IssuedCertificate.PKCS12Encryption.allCases,
    CertificateRequest.KeyAlgorithm.allCases)
  func containers(encryption: IssuedCertificate.PKCS12Encryption, algorithm: CertificateRequest.KeyAlgorithm) throws {
    let material = try Material()
    var request = CertificateRequest.app(topic: "com.example.container", at: now)
    request.keyAlgorithm = algorithm
    let path = material.directory.file("a.p12")
    try material.authority.issue(request).writePKCS12(to: path, passphrase: "x", encryption: encryption)
    let pass = try material.directory.write("x", to: "a.pass")
    let credential = try Credential.load(CredentialFiles(certificate: path, passphraseFile: pass), validAt: now)
    for version in TLSVersion.allCases {
      var pair = try SessionPair(
        material.clientContext(credential: credential, versions: version...version), material.serverContext())
      pair.carryAll()
      #expect(pair.ends.isEmpty)
      #expect(pair.server.peerIdentity?.topics == ["com.example.container"])
    }
  }

  @Test("a chain that is much longer than the handshake's buffer arrives whole")
  func longChain() throws {
    let material = try Material()
    var request = CertificateRequest.app(topic: "com.example.filler", at: now)
    request.topics = (0..<200).map { "com.example.filler.\($0)" }
    let filler = try material.authority.issue(request).credential.certificate
    let server = Credential(
      certificate: material.server.credential.certificate, chain: Array(repeating: filler, count: 8),
      key: material.server.credential.key)
    let context = try TLSContext(
      server: TLSServerConfiguration(credential: server, clients: ClientCertificatePolicy(request: .required)))
    for version in TLSVersion.allCases {
      var pair = try SessionPair(material.clientContext(versions: version...version), context)
      pair.carry(.max, to: .server)
      #expect(pair.toClient.readableBytes > 32_000)
      pair.carryAll()
      try pair.write([1, 2, 3], from: .server)
      pair.carryAll()
      #expect(pair.ends.isEmpty)
      #expect(Array(pair.atClient.readableBytesView) == [1, 2, 3])
    }
  }

  @Test("names and addresses of the certificate pass; others are refused, and the error lists the certificate's names")
  func hostNames() throws {
    let material = try Material()
    let (client, server) = (try material.clientContext(), try material.serverContext())
    for host in ["localhost", "127.0.0.1", "::1"] {
      var pair = try SessionPair(client, server, host: host)
      pair.carryAll()
      #expect(pair.client.isEstablished, "\(host)")
      #expect(pair.ends.isEmpty, "\(host)")
    }
    for host in ["push.example.com", "127.0.0.2", "::2"] {
      var pair = try SessionPair(client, server, host: host)
      pair.carryAll()
      #expect(
        pair.ends[.client]
          == .failed(.peerNotTrusted("the server's certificate is for localhost, 127.0.0.1, ::1, not for \(host)")))
      #expect(!pair.client.isEstablished)
    }
  }

  @Test("a certificate without subjectAltName is valid for no host, and its common name is not used")
  func commonName() throws {
    let material = try Material()
    func refusal(_ names: [String], commonName: String = "localhost") throws -> String {
      var request = CertificateRequest(
        commonName: commonName, usage: .server, validity: CertificateRequest.lasting(from: now))
      request.serverNames = names
      let server = try TLSContext(
        server: TLSServerConfiguration(credential: material.authority.issue(request).credential, clients: .none))
      var pair = try SessionPair(material.clientContext(), server, host: "localhost")
      pair.carryAll()
      #expect(!pair.client.isEstablished)
      guard case .failed(.peerNotTrusted(let sentence)) = pair.ends[.client] else { return "\(pair.ends)" }
      return sentence
    }
    #expect(
      try refusal([])
        == "the server's certificate has no subjectAltName, so it is valid for no host; "
        + "its common name, localhost, does not count; "
        + "it needs one for localhost"
    )
    #expect(try refusal(["127.0.0.1"]) == "the server's certificate is for 127.0.0.1, not for localhost")
    #expect(
      try refusal((1...20).map { "h\($0)" })
        == "the server's certificate is for h1, h2, h3, h4, h5, h6, h7, h8 and 12 more, not for localhost")
    #expect(
      try refusal([], commonName: "a\u{1B}[2J\u{202E}b").contains(
        "its common name, a\\u{1b}[2J\\u{202e}b, does not count"))
  }

  @Test("control characters in the names of an untrusted certificate are shown as escapes")
  func controlCharacters() throws {
    let authority = try CertificateAuthority(commonName: "Root\u{9B}31m\nline", at: now)
    var request = CertificateRequest.server(at: now)
    request.commonName = "evil\u{1B}]0;title\u{7}\u{202E}"
    let server = try TLSContext(
      server: TLSServerConfiguration(credential: authority.issue(request).credential, clients: .none))
    var pair = try SessionPair(Material().clientContext(), server)
    pair.carryAll()
    guard case .failed(.peerNotTrusted(let sentence)) = pair.ends[.client] else {
      Issue.record("\(pair.ends)")
      return
    }
    #expect(sentence.contains("evil"))
    #expect(sentence.contains("Root"))
    #expect(
      sentence.unicodeScalars.allSatisfy {
        $0.properties.generalCategory != .control && $0.properties.generalCategory != .format
      }, "\(sentence)")
  }

  @Test("an untrusted or expired server, or one without a common version, has an error that says so")
  func serverRefused() throws {
    let material = try Material()
    let other = try Material()
    func end(_ client: TLSContext, _ server: TLSContext) throws -> (client: String, server: String) {
      var pair = try SessionPair(client, server)
      pair.carryAll()
      func sentence(_ side: SessionPair.Side) -> String {
        if case .failed(let failure) = pair.ends[side] { failure.description } else { "no failure" }
      }
      return (sentence(.client), sentence(.server))
    }
    let untrusted = try end(material.clientContext(trust: other.trust), material.serverContext())
    #expect(untrusted.client.contains("is not trusted: "))
    #expect(untrusted.client.contains("CN=localhost"))
    #expect(untrusted.server.hasPrefix("the client does not accept our certificate"))
    #expect(
      try end(material.clientContext(trust: .system), material.serverContext()).client.contains("is not trusted: "))

    var request = CertificateRequest.server(at: now)
    request.validity = (now - 200)...(now - 100)
    let expired = try TLSContext(
      server: TLSServerConfiguration(credential: material.authority.issue(request).credential, clients: .none))
    #expect(try end(material.clientContext(), expired).client.contains("expired on 20"))

    let versions = try end(
      material.clientContext(versions: .tls12 ... .tls12), material.serverContext(versions: .tls13 ... .tls13))
    #expect(versions.client == "there is no TLS version that we and the server both accept")
    #expect(versions.server == "there is no TLS version that we and the client both accept")
  }

  @Test("bytes that are not TLS end a session with a sentence, and random bytes never crash it")
  func garbage() throws {
    let material = try Material()
    let context = try material.serverContext()
    func feed(_ bytes: [UInt8], _ session: TLSSession) -> TLSSession.End? {
      var (plaintext, output) = (ByteBuffer(), ByteBuffer())
      return unsafe bytes.withUnsafeBytes { unsafe session.receive($0, plaintext: &plaintext, output: &output) }.end
    }
    #expect(
      feed(Array("GET / HTTP/1.1\r\n\r\n".utf8), try TLSSession(context))
        == .failed(.handshakeFailed("the client does not speak TLS on this port")))
    let client = try TLSSession(material.clientContext(), host: "localhost")
    var hello = ByteBuffer()
    _ = client.start(output: &hello)
    #expect(
      feed(Array("220 smtp.example.com ESMTP\r\n".utf8), client)
        == .failed(.handshakeFailed("the server does not speak TLS on this port")))

    let seed = SeededGenerator.freshSeed()
    var random = Seeded(seed: seed)
    for _ in 0..<300 {
      var bytes = Array(hello.readableBytesView)
      for _ in 0...Int.random(in: 0..<4, using: &random) {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
      }
      _ = feed(bytes, try TLSSession(context))
    }
    // An established session with damaged ciphertext.
    var pair = try SessionPair(material.clientContext(), context)
    pair.carryAll()
    try pair.write([1, 2, 3], from: .client)
    let place = pair.toServer.writerIndex - 3
    let byte = try #require(pair.toServer.getInteger(at: place, as: UInt8.self))
    pair.toServer.setInteger(byte ^ 1, at: place)
    pair.carryAll()
    guard case .failed(.broken) = pair.ends[.server] else {
      Issue.record("\(String(describing: pair.ends)), seed \(seed)")
      return
    }
  }
}
