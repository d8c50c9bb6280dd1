package import PushTransport
package import PushWire

/// Apple's HTTP/2 service without sockets: fault rules, keys, channels and ground truth of any number of apps, and a ``ServiceConnection`` for each client
/// that comes. The listener puts it behind TLS; a simulation drives it under virtual time. Safe to use from any thread.
package final class SimulatedService: Sendable {
  package let rules: FaultRules

  let keys: ServiceKeys
  let ledger = ServiceLedger()
  let counts = RefusalCounts()
  let channels = ChannelStore()
  let recordFile: RecordFile?
  let memory: RecordedRequests?
  /// 410s that name no time of their own have this one, in milliseconds since 1970.
  let startedAt: Int64
  private let clock: @Sendable (Instant) -> Int64
  private let clockOffset: Int64

  /// - Parameters:
  ///   - keys: by which provider tokens are verified; without any, only certificates open the door.
  ///   - recordFile, memory: where every request that is taken or refused is written to. Without both, a request costs no allocation, no lock and no hash.
  ///   - clock: milliseconds since 1970 at an instant; the rules' offset is added to it.
  package init(
    rules: FaultRules = FaultRules(), keys: [ServiceKey] = [], recordFile: RecordFile? = nil, memory: RecordedRequests? = nil, now: Instant = .start,
    clock: @escaping @Sendable (Instant) -> Int64
  ) {
    self.rules = rules
    self.keys = ServiceKeys(keys, isStrict: rules.service.isStrict)
    self.recordFile = recordFile
    self.memory = memory
    self.clock = clock
    let (seconds, attoseconds) = rules.service.clockOffset.components
    clockOffset = seconds * 1000 + attoseconds / 1_000_000_000_000_000
    startedAt = clock(now) + clockOffset
  }

  /// The service's idea of the time, in milliseconds since 1970.
  func unixMilliseconds(_ now: Instant) -> Int64 { clock(now) + clockOffset }

  /// A client whose TLS handshake is complete.
  /// - Parameter buffers: those of the connection's event loop, if it has any; otherwise its own.
  /// - Throws: nghttp2 is out of memory.
  package func connect(
    _ client: ServiceClient, for purpose: ServiceConnection.Purpose = .notifications, now: Instant, buffers: LoopBuffers = LoopBuffers()
  ) throws(HTTP2Failure) -> ServiceConnection {
    try ServiceConnection(to: self, client: client, purpose: purpose, now: now, buffers: buffers)
  }

  /// What has happened so far, by app. Exact for connections that have ended; a live one is at most one read behind.
  package func truth() -> [String: ServiceTruth] { ledger.snapshot() }
}

/// What a client has shown of itself in its TLS handshake.
package struct ServiceClient: Hashable, Sendable {
  /// Every topic of its certificate; nil: it has shown none.
  package var topics: [String]?
  /// The environments that its certificate names; empty: none.
  package var environments: Set<CertificateInspection.Environment> = []
  /// UID of the certificate's subject.
  package var userIdentifier: String?
  /// What ALPN agreed upon; nil: the client does not know ALPN.
  package var applicationProtocol: String?

  package init(topics: [String]? = nil, userIdentifier: String? = nil, applicationProtocol: String? = ApplicationProtocol.http2) {
    self.topics = topics
    self.userIdentifier = userIdentifier
    self.applicationProtocol = applicationProtocol
  }

  package init(_ identity: PeerIdentity?, applicationProtocol: String?) {
    self.init(topics: identity?.topics, userIdentifier: identity?.userIdentifier, applicationProtocol: applicationProtocol)
    environments = identity?.environments ?? []
  }
}
