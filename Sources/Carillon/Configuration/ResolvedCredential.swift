internal import PushEngine
package import PushTransport
package import PushWire

/// What an app shows its gateway, and the way there: its credential and its proxy, read and
/// checked, and the TLS context of its connections.
package struct ResolvedCredential: Sendable {
  /// A client's, with the credential and the trust of the settings; over HTTP/2 it demands `h2` by
  /// ALPN.
  let context: TLSContext
  /// Nil: its gateway is connected to directly.
  var proxy: SocketDialer.Proxy?
  /// Nil where a token key says who sends.
  package let certificate: CertificateInspection?
  /// Nil where a certificate says who sends.
  package let tokens: ProviderTokenSource?
  /// The digest of the files that it was read from.
  let digest: [UInt8]
  /// Nil: it can be used.
  var defect: Defect?

  /// Of a credential that only stands in for one that cannot be used.
  struct Defect: Sendable {
    /// Why nothing can be sent with it.
    let reason: String
    /// What it would be.
    let kind: ProviderCredentialKind
  }

  /// Reads the files that the settings name. Those that hold a private key must be their owner's
  /// alone.
  ///
  /// - Parameters:
  ///   - registry: of the process: apps that share a key share its tokens.
  ///   - unixSeconds: the time at which the certificate must be valid.
  package static func load(
    _ app: AppConfiguration, registry: ProviderTokenRegistry, validAt unixSeconds: Int64
  ) throws(CredentialError) -> ResolvedCredential {
    // Before the files are read: a change in between counts as one when they are looked at again.
    let digest = app.credentialDigest
    var credential: Credential?
    var tokens: ProviderTokenSource?
    switch app.credential.settings {
    case .certificate(let files):
      credential = try Credential.load(files, validAt: unixSeconds)
      try credential?.inspection.demandTopic(of: app, file: files.certificate)
    case .certificateInMemory(let bytes):
      credential = try Credential.load(bytes.value, validAt: unixSeconds)
      try credential?.inspection.demandTopic(of: app, file: "the certificate in memory")
    case .tokenKey(let file):
      let key = try ProviderKey.load(
        file: file.file, keyIdentifier: file.keyIdentifier, teamIdentifier: file.teamIdentifier)
      tokens = registry.source(for: key, environment: app.tokenEnvironment)
    case .tokenKeyInMemory(let bytes, let keyIdentifier, let teamIdentifier):
      let key = try ProviderKey.load(bytes: bytes.value, keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier)
      tokens = registry.source(for: key, environment: app.tokenEnvironment)
    }
    var client = TLSClientConfiguration(
      credential: credential, trust: app.trustedAuthorities.map(Trust.file) ?? .system)
    if app.transport.isHTTP2 { client.applicationProtocols = [ApplicationProtocol.http2] }
    return ResolvedCredential(
      context: try TLSContext(client: client), proxy: try app.proxy?.resolve(), certificate: credential?.inspection,
      tokens: tokens, digest: digest)
  }

  /// The same, with the error of the library.
  package static func resolve(
    _ app: AppConfiguration, registry: ProviderTokenRegistry, validAt unixSeconds: Int64
  ) throws(CarillonError) -> ResolvedCredential {
    do throws(CredentialError) {
      return try load(app, registry: registry, validAt: unixSeconds)
    } catch {
      throw CarillonError(.credential, error.description)
    }
  }

  /// Replaces a credential that cannot be used. It is never presented.
  ///
  /// - Parameter problem: why it cannot be used. A certificate that is merely out of date is known
  ///   all the same.
  static func unusable(
    _ app: AppConfiguration, because problem: CredentialError
  ) throws(CredentialError) -> ResolvedCredential {
    var certificate: CertificateInspection?
    var kind = ProviderCredentialKind.certificate(userIdentifier: nil, topics: [])
    switch app.credential.settings {
    case .certificate(let files): certificate = try? Credential.load(files, validAt: nil).inspection
    case .certificateInMemory: break
    case .tokenKey, .tokenKeyInMemory: kind = .token
    }
    // Nothing goes around a proxy, whatever cannot be used.
    var proxy = app.proxy
    proxy?.login = nil
    proxy?.trustedAuthorities = nil
    let client = TLSClientConfiguration(credential: nil, trust: .system)
    return ResolvedCredential(
      context: try TLSContext(client: client), proxy: try proxy?.resolve(), certificate: certificate, tokens: nil,
      digest: app.credentialDigest, defect: Defect(reason: problem.description, kind: kind))
  }

  /// What rules about headers depend on.
  package var kind: ProviderCredentialKind {
    // Nothing is checked by a certificate that is not presented: it may be another app's.
    if let defect { return defect.kind }
    guard let certificate else { return .token }
    return .certificate(userIdentifier: certificate.userIdentifier, topics: certificate.topics + certificate.voipTopics)
  }

  /// The app, ready to run.
  package func plan(_ app: AppConfiguration) -> AppPlan {
    let gateway = app.gatewayOrDefault
    var rules = app.engineRules
    if app.transport.isHTTP2 {
      // One that stands in has no tokens, so the engine must not expect any.
      let isTokenMissing = tokens == nil && kind == .token
      var http2 = HTTP2Settings(
        authority: gateway.authority, tokens: tokens,
        credential: isTokenMissing ? .certificate(userIdentifier: nil, topics: []) : kind)
      http2.policy.timeout = app.http2.requestTimeout
      http2.streamLimit = app.http2.concurrentRequests
      http2.policy.pingInterval = app.http2.pingInterval
      rules.transport = .http2(http2)
    }
    return AppPlan(configuration: rules, dialer: dialer(to: gateway))
  }

  /// Connects as the app, and on its way.
  package func dialer(to endpoint: Endpoint) -> SocketDialer {
    SocketDialer(host: endpoint.host, port: endpoint.port, context: context, proxy: proxy)
  }
}

extension CertificateInspection {
  /// Over HTTP/2 the gateway refuses each notification to an app that the certificate is not for.
  ///
  /// - Throws: ``CredentialError``.
  fileprivate func demandTopic(of app: AppConfiguration, file: String) throws(CredentialError) {
    let covered = topics + voipTopics
    guard app.transport.isHTTP2, let topic = app.topic, !covered.isEmpty, topic != userIdentifier,
      !ProviderHeaders.covers(covered, app: topic)
    else { return }
    throw .topicNotCovered(file: file, topic: topic, covered: covered)
  }
}

extension Endpoint {
  /// What `:authority` says: without the port that https implies.
  package var authority: String { port == 443 ? String(description.dropLast(4)) : description }
}

extension AppConfiguration {
  /// Whose tokens they are beside team and key: Apple's environments have one set of tokens each,
  /// whatever the port; any other gateway has its own.
  fileprivate var tokenEnvironment: String {
    let gateway = gatewayOrDefault
    var apple = self
    apple.gateway = nil
    return gateway.host == apple.gatewayOrDefault.host ? environment.rawValue : gateway.description
  }
}
