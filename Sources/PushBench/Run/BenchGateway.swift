internal import Carillon
internal import PushEngine
internal import PushTransport
internal import PushWire

/// Where the apps of a benchmark connect, and their credentials.
struct BenchGateway: Sendable {
  /// The connection data of one transport.
  struct Route: Sendable {
    var endpoint: Endpoint
    /// One for each app, at least as many as a point has.
    var credentials: [ResolvedCredential]
    /// The topic over HTTP/2; nil: the certificate's.
    var topic: String?

    func dialer(app: Int) -> SocketDialer { credentials[app].dialer(to: endpoint) }

    func transport(_ settings: BenchSettings, app: Int) -> AppTransport {
      guard settings.transport == .http2 else { return .binary }
      var http2 = HTTP2Settings(
        authority: endpoint.authority, tokens: credentials[app].tokens, credential: credentials[app].kind)
      http2.streamLimit = settings.streams
      return .http2(http2)
    }

    func campaign(_ settings: BenchSettings, app: Int) throws -> Campaign {
      var campaign = Campaign(
        payload: BenchPayload.make(byteCount: settings.payloadByteCount), expiration: 0, priority: 10)
      guard settings.transport == .http2 else { return campaign }
      let topic = topic ?? credentials[app].certificate?.topics.first
      campaign.headers = ProviderHeaders(topic: topic)
      let findings = campaign.requestHeaders.check(payload: campaign.payload, credential: credentials[app].kind)
      if findings.contains(.topicMissing) {
        throw CarillonError(.configuration, "the topic is missing: the certificate names no app")
      }
      if let finding = findings.first {
        throw CarillonError(.payload, "nothing can be sent with the topic \(topic ?? ""): \(finding)")
      }
      return campaign
    }
  }

  /// The settings that a route depends on.
  struct RouteKey: Hashable, Sendable {
    var transport: AppConfiguration.Transport.Name
    var latency: Duration
  }

  var routes: [RouteKey: Route]

  func route(_ settings: BenchSettings) throws(CarillonError) -> Route {
    let key = RouteKey(transport: settings.transport, latency: settings.latency)
    guard let route = routes[key] else { throw CarillonError(.inconsistency, "no gateway for \(settings.transport)") }
    return route
  }

  /// Reads the credentials of a transport's apps.
  ///
  /// - Parameter credentials: One for each app.
  static func route(
    _ transport: AppConfiguration.Transport.Name, to endpoint: Endpoint, as credentials: [AppCredential],
    trust: String?, topic: String? = nil
  ) throws(CarillonError) -> Route {
    let registry = ProviderTokenRegistry()
    let resolved = try credentials.map { credential throws(CarillonError) in
      var app = AppConfiguration(id: "bench", topic: nil, transport: .init(transport), credential: .init(credential))
      app.gateway = .init(endpoint)
      app.trustedAuthorities = trust
      return try ResolvedCredential.resolve(app, registry: registry, validAt: Int64(NIOLoop.wallClock))
    }
    return Route(endpoint: endpoint, credentials: resolved, topic: topic)
  }
}

package enum BenchPayload {
  /// The size of a payload with an empty alert.
  package static let leastByteCount = 20

  /// A payload with an alert that fills it to the size.
  static func make(byteCount: Int) -> [UInt8] {
    Array("{\"aps\":{\"alert\":\"\(String(repeating: "x", count: max(0, byteCount - leastByteCount)))\"}}".utf8)
  }
}
