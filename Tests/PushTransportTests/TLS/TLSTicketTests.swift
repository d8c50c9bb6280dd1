internal import NIOCore
internal import Testing

@testable internal import PushTransport

@Suite("TLS session tickets")
struct TLSTicketTests {
  private func server(
    _ material: Material, tickets: Bool = true, clients: ClientCertificatePolicy? = nil
  ) throws -> TLSContext {
    var configuration = TLSServerConfiguration(
      credential: material.server.credential,
      clients: clients ?? ClientCertificatePolicy(request: .required, trust: material.trust))
    configuration.sendsTickets = tickets
    return try TLSContext(server: configuration)
  }

  /// One connection from the handshake to an orderly close of both sides: OpenSSL forgets a session
  /// that ended otherwise.
  private func connect(_ client: TLSContext, _ server: TLSContext, host: String? = "localhost") throws -> SessionPair {
    var pair = try SessionPair(client, server, host: host)
    pair.carryAll()
    try pair.write([1, 2, 3], from: .client)
    try pair.write([4], from: .server)
    pair.carryAll()
    #expect(pair.atServer.readableBytes == 3)
    #expect(pair.atClient.readableBytes == 1)
    pair.client.closeOutput(&pair.toServer)
    pair.server.closeOutput(&pair.toClient)
    pair.carryAll()
    return pair
  }

  @Test("a second connection uses the ticket of the first, and so does a third; the server knows the identity")
  func resumption() throws {
    let material = try Material()
    let (client, server) = (try material.clientContext(), try server(material))
    #expect(try !connect(client, server).client.isResumed)
    for _ in 0..<3 {
      let pair = try connect(client, server)
      #expect(pair.client.isResumed)
      #expect(pair.server.isResumed)
      #expect(pair.server.peerIdentity?.topics == ["com.example.news"])
    }
  }

  @Test("no ticket: server without tickets, server that may refuse certificates, other host, other certificate")
  func wholeHandshakes() throws {
    let material = try Material()
    let client = try material.clientContext()
    let without = try server(material, tickets: false)
    let choosy = try server(material, clients: ClientCertificatePolicy(request: .required) { _ in nil })
    for server in [without, without, choosy, choosy] { #expect(try !connect(client, server).client.isResumed) }
    let generous = try server(material)
    #expect(try !connect(client, generous).client.isResumed)
    #expect(try !connect(client, generous, host: "127.0.0.1").client.isResumed)
    let other = try material.authority.issue(.app(topic: "com.example.other", at: now))
    let pair = try connect(try material.clientContext(credential: other.credential), generous)
    #expect(!pair.client.isResumed)
    #expect(pair.server.peerIdentity?.topics == ["com.example.other"])
  }

  @Test("a ticket that the server no longer knows only costs a full handshake")
  func unknownTicket() throws {
    let material = try Material()
    let client = try material.clientContext()
    _ = try connect(client, try server(material))
    let restarted = try server(material)
    #expect(try !connect(client, restarted).client.isResumed)
    #expect(try connect(client, restarted).client.isResumed)
  }

  @Test("after a handshake that failed on a ticket, no ticket is offered")
  func breakage() throws {
    let material = try Material()
    let (client, server) = (try material.clientContext(), try server(material))
    _ = try connect(client, server)
    var pair = try SessionPair(client, server)
    pair.toClient.writeBytes([0x15, 3, 3, 0, 2, 2, 80])  // alert: internal error
    pair.carry(.max, to: .client)
    guard case .failed(.handshakeFailed) = pair.ends[.client] else {
      Issue.record("\(String(describing: pair.ends[.client]))")
      return
    }
    for _ in 0..<2 { #expect(try !connect(client, server).client.isResumed) }
  }

  @Test("apps with the same trust share OpenSSL's settings, but not certificates and tickets")
  func sharing() throws {
    let material = try Material()
    let server = try server(material)
    let topics = ["com.example.one", "com.example.two"]
    let contexts = try topics.map { topic in
      try material.clientContext(credential: material.authority.issue(.app(topic: topic, at: now)).credential)
    }
    #expect(contexts[0].settings === contexts[1].settings)
    for round in 0..<2 {
      for (context, topic) in zip(contexts, topics) {
        let pair = try connect(context, server)
        #expect(pair.server.peerIdentity?.topics == [topic])
        #expect(pair.client.isResumed == (round == 1))
      }
    }
    #expect(try material.clientContext(versions: .tls12 ... .tls12).settings !== contexts[0].settings)
    #expect(try material.clientContext(protocols: ["h2"]).settings !== contexts[0].settings)
    let elsewhere = try Material()
    #expect(try material.clientContext(trust: elsewhere.trust).settings !== contexts[0].settings)
  }
}
