internal import Foundation
internal import NIOCore
internal import Synchronization
internal import Testing

@testable internal import PushTransport

@Suite("TLS with openssl's own programs", .serialized, .timeLimit(.minutes(20)))
struct OpenSSLProgramTests {
  /// The files of a server and a client.
  private struct Files {
    let material: Material
    let server: String
    let app: String

    init() throws {
      material = try Material()
      server = material.directory.file("server.pem")
      app = material.directory.file("app.pem")
      try material.server.writePEM(certificate: server, key: server)
      try material.app.writePEM(certificate: app, key: app)
    }
  }

  @Test(
    "our client uses s_server, presents its certificate, and reports an end without close_notify",
    arguments: ["-tls1_2", "-tls1_3"])
  func client(version: String) async throws {
    let files = try Files()
    let (server, port) = try await OpenSSLCommand.server([
      "-cert", files.server, "-CAfile", files.material.authorityFile, "-Verify", "2", "-verify_return_error", version,
    ])
    defer { server.terminate() }
    try await withLoops(1) { group in
      let recorder = Recorder()
      let link = SocketDialer(host: "localhost", port: port, context: try files.material.clientContext()).dial(
        on: group.loops[0], delegate: recorder)
      _ = await recorder.wait { $0.contains(.opened) }
      await group.loops[0].run { link.send(Array("hello from carillon\n".utf8)) }
      #expect(await server.waits(for: "hello from carillon"))
      #expect(server.text.contains("UID = com.example.news"))
      server.write("and back\n")
      #expect(await recorder.waitUntilReceived(9) == Array("and back\n".utf8))
      // At a Q at the start of a line, s_server closes its socket and ends, without close_notify.
      server.write("Q\n")
      #expect(await recorder.waitUntilClosure() == .truncated)
    }
  }

  @Test("a second connection is resumed by s_server's tickets", arguments: ["-tls1_2", "-tls1_3"])
  func resumed(version: String) async throws {
    let files = try Files()
    let (server, port) = try await OpenSSLCommand.server([
      "-cert", files.server, "-CAfile", files.material.authorityFile, "-Verify", "2", "-verify_return_error", version,
    ])
    defer { server.terminate() }
    try await withLoops(1) { group in
      let dialer = SocketDialer(host: "localhost", port: port, context: try files.material.clientContext())
      for round in 1...3 {
        let recorder = Recorder()
        let link = dialer.dial(on: group.loops[0], delegate: recorder)
        _ = await recorder.wait { $0.contains(.opened) }
        await group.loops[0].run { link.send(Array("this is round \(round)\n".utf8)) }
        #expect(await server.waits(for: "this is round \(round)"))
        // The answer follows the ticket.
        server.write("answer\n")
        _ = await recorder.waitUntilReceived(7)
        await group.loops[0].run { link.close() }
        _ = await recorder.waitUntilClosed()
      }
      #expect(server.text.components(separatedBy: "Reused session-id").count - 1 == 2)
    }
  }

  @Test(
    "s_server that demands a certificate from its own CA refuses ours, and a client without one",
    arguments: ["-tls1_2", "-tls1_3"], [true, false])
  func refused(version: String, shows: Bool) async throws {
    let files = try Files()
    let foreign = try Material()
    let (server, port) = try await OpenSSLCommand.server([
      "-cert", files.server, "-CAfile", foreign.authorityFile, "-Verify", "2", "-verify_return_error", version,
    ])
    defer { server.terminate() }
    try await withLoops(1) { group in
      let recorder = Recorder()
      let context = try files.material.clientContext(credential: shows ? files.material.app.credential : .some(nil))
      _ = SocketDialer(host: "localhost", port: port, context: context).dial(on: group.loops[0], delegate: recorder)
      guard case .credentialRefused(let sentence) = await recorder.waitUntilClosure() else {
        Issue.record("\(recorder.events)")
        return
      }
      #expect(recorder.events.contains(.opened) == (version == "-tls1_3"))
      if version == "-tls1_3" || shows {
        #expect(
          sentence
            == (shows
              ? "the server refused our certificate: unknown certificate authority"
              : "the server refused our certificate: it demands a certificate and got none"))
      }
    }
  }

  @Test("s_server is refused if its CA is not ours or its version is too old")
  func distrusted() async throws {
    let files = try Files()
    let other = try Material()
    let (server, port) = try await OpenSSLCommand.server(["-cert", files.server, "-tls1_2"])
    defer { server.terminate() }
    try await withLoops(1) { group in
      func closure(_ context: TLSContext) async -> LinkClosure? {
        let recorder = Recorder()
        _ = SocketDialer(host: "localhost", port: port, context: context).dial(on: group.loops[0], delegate: recorder)
        return await recorder.waitUntilClosure()
      }
      guard case .handshakeFailed(let untrusted) = await closure(try files.material.clientContext(trust: other.trust))
      else {
        Issue.record("a foreign CA was accepted")
        return
      }
      #expect(untrusted.contains("is not trusted"))
      #expect(
        await closure(try files.material.clientContext(versions: .tls13 ... .tls13))
          == .handshakeFailed("there is no TLS version that we and the server both accept"))
    }
  }

  @Test("s_server with a certificate for another name is refused, and the error has that name")
  func wrongName() async throws {
    let files = try Files()
    var request = CertificateRequest(
      commonName: "push.example.com", usage: .server, validity: CertificateRequest.lasting(from: now))
    request.serverNames = ["push.example.com", "*.example.org"]
    let path = files.material.directory.file("other.pem")
    try files.material.authority.issue(request).writePEM(certificate: path, key: path)
    let (server, port) = try await OpenSSLCommand.server(["-cert", path])
    defer { server.terminate() }
    try await withLoops(1) { group in
      let recorder = Recorder()
      _ = SocketDialer(host: "localhost", port: port, context: try files.material.clientContext()).dial(
        on: group.loops[0], delegate: recorder)
      #expect(
        await recorder.waitUntilClosure()
          == .handshakeFailed("the server's certificate is for push.example.com, *.example.org, not for localhost"))
    }
  }

  @Test(
    "s_client uses our server, gets no ticket, sees our half-close and continues to send",
    arguments: ["-tls1_2", "-tls1_3"])
  func server(version: String) async throws {
    let files = try Files()
    try await withLoops(1) { group in
      let identity = Mutex<PeerIdentity?>(nil)
      let listener = try await TLSListener.bind(
        host: "127.0.0.1", port: 0, group: group, context: try files.material.serverContext()
      ) {
        channel, _ in
        try channel.pipeline.syncOperations.addHandler(
          ServerHandler { channel, event in
            switch event {
            case .tls(.handshakeCompleted(let peer)): identity.withLock { $0 = peer }
            case .received(let bytes):
              channel.writeAndFlush(ByteBuffer(string: "got \(bytes.count) bytes\n"), promise: nil)
              channel.close(mode: .output, promise: nil)
            case .tls(.inputClosed): channel.close(promise: nil)
            default: break
            }
          })
      }
      let client = try OpenSSLCommand.Child([
        "s_client", "-connect", "127.0.0.1:\(listener.port)", "-cert", files.app, "-CAfile",
        files.material.authorityFile, "-verify_return_error",
        "-verify_hostname",
        "localhost", version,
      ])
      defer { client.terminate() }
      #expect(await client.waits(for: "Verify return code: 0 (ok)"))
      client.write("0123456789")
      #expect(await client.waits(for: "got 10 bytes"))
      // s_client ends when it has read close_notify.
      #expect(await client.waits(for: "\nclosed\n") || client.text.contains("closed"))
      #expect(!client.text.contains("New Session Ticket arrived"))
      #expect(!client.text.contains("TLS session ticket:"))
      #expect(identity.withLock { $0?.userIdentifier } == "com.example.news")
      await listener.close()
    }
  }

  @Test("s_client receives the alert about its certificate")
  func clientRefused() async throws {
    let files = try Files()
    try await withLoops(1) { group in
      let (failures, report) = AsyncStream.makeStream(of: TLSFailure.self)
      let policy = ClientCertificatePolicy(request: .required) { _ in .revoked }
      let listener = try await TLSListener.bind(
        host: "127.0.0.1", port: 0, group: group, context: try files.material.serverContext(clients: policy)
      ) { channel, _ in
        try channel.pipeline.syncOperations.addHandler(
          ServerHandler { _, event in
            if case .failed(let error as TLSFailure) = event { report.yield(error) }
          })
      }
      let client = try OpenSSLCommand.Child(["s_client", "-connect", "127.0.0.1:\(listener.port)", "-cert", files.app])
      defer { client.terminate() }
      #expect(await client.waits(for: "alert certificate revoked"))
      #expect(
        await failures.first { _ in true } == .peerNotTrusted("the server's policy refused the client's certificate"))
      await listener.close()
    }
  }
}
