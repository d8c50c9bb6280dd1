internal import Testing

@testable internal import PushTransport

@Suite("Trust in a client's certificate, where a judge decides")
struct ClientTrustTests {
  private func judged(_ trust: Trust?) -> ClientCertificatePolicy {
    var policy = ClientCertificatePolicy(request: .required, trust: trust)
    policy.judge = { _, _ in nil }
    return policy
  }

  @Test("the identity says why no authority counts, and what another context would say", arguments: TLSVersion.allCases)
  func identity(_ version: TLSVersion) throws {
    let (material, stranger) = (try Material(), try Material())
    let server = try material.serverContext(clients: judged(material.trust), versions: version...version)
    let others = try material.serverContext(clients: judged(stranger.trust))
    let nobodys = try material.serverContext(clients: judged(nil))
    for (client, isTrusted) in [(material.app, true), (stranger.app, false)] {
      var pair = try SessionPair(
        material.clientContext(credential: client.credential, versions: version...version), server)
      pair.carryAll()
      let identity = try #require(pair.server.peerIdentity)
      #expect((identity.distrust == nil) == isTrusted, "\(identity)")
      let again = try #require(pair.server.peerIdentity(trustedBy: server))
      #expect(again == identity)
      let elsewhere = try #require(pair.server.peerIdentity(trustedBy: others))
      #expect((elsewhere.distrust == nil) == !isTrusted, "\(elsewhere)")
      #expect(elsewhere.certificateSHA256 == identity.certificateSHA256)
      let nowhere = try #require(pair.server.peerIdentity(trustedBy: nobodys))
      #expect(nowhere.distrust == "no authority is configured for clients")
    }
  }

  @Test("a certificate whose dates have passed is not trusted", arguments: TLSVersion.allCases)
  func expired(_ version: TLSVersion) throws {
    let material = try Material()
    var request = CertificateRequest.app(topic: "com.example.news", at: now)
    request.validity = (now - 1000)...(now - 100)
    let old = try material.authority.issue(request)
    let server = try material.serverContext(clients: judged(material.trust), versions: version...version)
    var pair = try SessionPair(material.clientContext(credential: old.credential, versions: version...version), server)
    pair.carryAll()
    #expect(pair.server.peerIdentity?.distrust == "its certificate is not trusted: certificate has expired")
    #expect(
      pair.server.peerIdentity(trustedBy: server)?.distrust == "its certificate is not trusted: certificate has expired"
    )
  }
}
