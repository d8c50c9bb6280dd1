package import PushTransport
package import PushWire
internal import Synchronization

/// Apple's HTTP/2 service without sockets: the fault rules, keys, channels and ground truth of any
/// number of apps, and a ``ServiceConnection`` for each client.
///
/// A listener puts it behind TLS; a simulation drives it in virtual time. Safe to use from any
/// thread.
package final class SimulatedService: Sendable {
  /// The rules for new connections.
  package var rules: FaultRules { state.withLock { $0 } }
  private let state: Mutex<FaultRules>
  /// A copy of the rules' value, because every request needs it.
  let checksJSON: Bool

  let keys: ServiceKeys
  let ledger = ServiceLedger()
  let counts = RefusalCounts()
  let channels = ChannelStore()
  let recordFile: RecordFile?
  let memory: RecordedRequests?
  /// The timestamp of 410 responses whose rule gives none, in milliseconds since 1970.
  let startedAt: Int64
  private let clock: @Sendable (Instant) -> Int64
  private let clockOffset: Int64

  /// - Parameters:
  ///   - keys: The keys that verify provider tokens. Without any, only certificates are accepted.
  ///   - recordFile: Receives a line for every accepted and refused request.
  ///   - memory: Keeps the same requests for tests.
  ///   - clock: Milliseconds since 1970 at an instant. The rules' offset is added to it.
  ///
  /// Without record and memory, a request costs no allocation, no lock and no hash.
  package init(
    rules: FaultRules = FaultRules(), keys: [ServiceKey] = [], recordFile: RecordFile? = nil,
    memory: RecordedRequests? = nil, now: Instant = .start, clock: @escaping @Sendable (Instant) -> Int64
  ) {
    state = Mutex(rules)
    checksJSON = rules.checksJSON
    self.keys = ServiceKeys(keys, isStrict: rules.service.isStrict)
    (self.recordFile, self.memory, self.clock) = (recordFile, memory, clock)
    let (seconds, attoseconds) = rules.service.clockOffset.components
    clockOffset = seconds * 1000 + attoseconds / 1_000_000_000_000_000
    startedAt = clock(now) + clockOffset
  }

  /// Replaces the rules for new connections. What counts connections or refusals, and outages,
  /// begins anew. Keys and clock stay as they are.
  package func replaceRules(_ rules: FaultRules) {
    state.withLock { $0 = rules }
    ledger.rulesReplaced()
    counts.reset()
  }

  /// The service's time, in milliseconds since 1970.
  func unixMilliseconds(_ now: Instant) -> Int64 { clock(now) + clockOffset }

  /// Connects a client whose TLS handshake is complete.
  ///
  /// - Parameter memory: That of the connection's event loop, if there is one.
  /// - Throws: ``HTTP2Failure`` when nghttp2 is out of memory.
  package func connect(
    _ client: ServiceClient, for purpose: ServiceConnection.Purpose = .notifications, now: Instant,
    memory: HTTP2ServerMemory = .init()
  ) throws(HTTP2Failure) -> ServiceConnection {
    try ServiceConnection(to: self, client: client, purpose: purpose, now: now, memory: memory)
  }

  /// The counts so far, by app: exact for connections that have ended, at most one read behind for
  /// open ones.
  package func truth() -> [String: ServiceTruth] { ledger.snapshot() }
}

/// What a client presented in its TLS handshake.
package struct ServiceClient: Hashable, Sendable {
  /// All topics of its certificate; nil: it presented none.
  package var topics: [String]?
  /// The environments that its certificate names; empty: it names none.
  package var environments: Set<PushEnvironment> = []
  /// The UID of the certificate's subject.
  package var userIdentifier: String?
  /// The protocol agreed by ALPN; nil: the client does not use ALPN.
  package var applicationProtocol: String?

  package init(
    topics: [String]? = nil, userIdentifier: String? = nil, applicationProtocol: String? = ApplicationProtocol.http2
  ) {
    (self.topics, self.userIdentifier, self.applicationProtocol) = (topics, userIdentifier, applicationProtocol)
  }

  package init(_ identity: PeerIdentity?, applicationProtocol: String?) {
    self.init(
      topics: identity?.topics, userIdentifier: identity?.userIdentifier, applicationProtocol: applicationProtocol)
    environments = identity?.environments ?? []
  }
}
