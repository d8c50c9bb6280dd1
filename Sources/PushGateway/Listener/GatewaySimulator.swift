internal import NIOCore
internal import NIOPosix
package import PushTransport
internal import PushWire

/// A ``SimulatedGateway`` on real sockets: gateway and feedback service over TLS, on event loops of
/// its own. On request it adds a ``SimulatedService`` for HTTP/2 with the same rules, certificates
/// and record.
///
/// It listens when `start` returns. `stop` returns what was accepted and refused.
package final class GatewaySimulator: Sendable {
  package struct Configuration: Sendable {
    package var host = "127.0.0.1"
    /// 0: a free port.
    package var gatewayPort = 0
    package var feedbackPort = 0
    /// The port of the HTTP/2 service; nil: no service. 0: a free port.
    package var http2Port: Int?
    /// The port for managing broadcast channels; nil: none. 0: a free port.
    package var channelsPort: Int?
    package var identity: Identity
    /// Keys that verify provider tokens, beside those of the rules. Without any,
    /// ``Identity/throwAway(directory:topics:)`` makes one.
    package var tokenKeys: [ServiceSettings.KeyFile] = []
    /// False: clients need no certificate. The topic of those without one is "anonymous".
    package var requiresClientCertificate = true
    /// True: clients that return resume their TLS session, need no certificate then, and reconnect
    /// at half the cost. Do not use it with rules that refuse certificates, because a resumed
    /// session presents none.
    package var sendsTickets = false
    package var rules = FaultRules()
    /// ``GatewaySimulator/replaceRules(_:)`` may bring rules that refuse certificates, although
    /// ``rules`` do not.
    package var mayRefuseCertificates = false
    /// Where the record is written; nil: no record.
    package var recordPath: String?
    /// Where tests look up what was accepted.
    package var memory: RecordedFrames?
    /// The same for HTTP/2.
    package var recordedRequests: RecordedRequests?
    package var threads = System.coreCount
    /// Maximum connections of each port. Further ones are closed at once. Each port has its own
    /// limit.
    package var connectionLimit = 4096
    /// Called with a sentence when no connection can be accepted, because file descriptors are
    /// lacking; once for each such time.
    package var lacksDescriptors: @Sendable (String) -> Void = { _ in }

    package init(identity: Identity) { self.identity = identity }
  }

  /// Where the server's certificate comes from, and which client certificates are accepted.
  package enum Identity: Sendable {
    /// `clientAuthority`: a PEM file; nil: any client certificate is accepted.
    case files(CredentialFiles, clientAuthority: String?)
    /// Made in this directory, with a client certificate for each topic. Client certificates of the
    /// directory's own CA are accepted.
    case throwAway(directory: String, topics: [String])
  }

  /// The ports of the services.
  package var gatewayPort: Int { listeners.gateway.port }
  package var feedbackPort: Int { listeners.feedback.port }
  package var http2Port: Int? { listeners.http2?.port }
  package var channelsPort: Int? { listeners.channels?.port }
  /// The certificates made for ``Identity/throwAway(directory:topics:)``.
  package let certificates: CertificateMaker.Files?
  /// The key that was made because none was given.
  package let throwAwayKey: ServiceSettings.KeyFile?
  /// The HTTP/2 service, whether or not it listens.
  package let service: SimulatedService
  /// The rules, truth and feedback lists.
  package let gateway: SimulatedGateway

  private struct Listeners: Sendable {
    let gateway: TLSListener
    let feedback: TLSListener
    let http2: TLSListener?
    let channels: TLSListener?
  }

  private let listeners: Listeners
  private let loops: LoopGroup
  /// One for each port.
  private let registries: [ConnectionRegistry]

  private init(
    _ gateway: SimulatedGateway, _ service: SimulatedService, certificates: CertificateMaker.Files?,
    throwAwayKey: ServiceSettings.KeyFile?, listeners: Listeners, loops: LoopGroup, registries: [ConnectionRegistry]
  ) {
    (self.gateway, self.service, self.certificates) = (gateway, service, certificates)
    (self.throwAwayKey, self.listeners, self.loops, self.registries) = (throwAwayKey, listeners, loops, registries)
  }

  /// Reads or makes the certificates and listens on all ports.
  ///
  /// - Throws: ``CredentialError``, ``RecordFileError`` or ``SimulatorError``, each a sentence.
  package static func start(_ configuration: Configuration) async throws -> GatewaySimulator {
    let now = Int64(NIOLoop.wallClock)
    let (certificates, server, clientAuthority) = try certificates(configuration, at: now)
    let credential = try Credential.load(server, validAt: now)
    let keys = try tokenKeys(configuration)
    let record: RecordFile? = if let path = configuration.recordPath { try RecordFile(path: path) } else { nil }
    let gateway = SimulatedGateway(rules: configuration.rules, recordFile: record, memory: configuration.memory)
    let service = SimulatedService(
      rules: configuration.rules, keys: keys.keys, recordFile: record, memory: configuration.recordedRequests
    ) { _ in
      NIOLoop.wallClockMilliseconds
    }
    let contexts = try Contexts(
      configuration, credential: credential, clientAuthority: clientAuthority, gateway: gateway)

    let reserve = DescriptorReserve(count: 1) { [lacks = configuration.lacksDescriptors] error in
      lacks("no connection can be accepted: \(error); raise the limit of open files, or open fewer connections")
    }
    let loops = LoopGroup(threads: max(1, configuration.threads))
    let memories = HTTP2ServerMemories()
    var open: [TLSListener] = []
    var registries: [ConnectionRegistry] = []
    func listen(
      _ port: Int, _ context: TLSContext,
      _ handler: @escaping @Sendable (TLSHandler, ConnectionRegistry) -> any ChannelHandler
    ) async throws(SimulatorError) -> TLSListener {
      let registry = ConnectionRegistry(limit: configuration.connectionLimit)
      registries.append(registry)
      let listener = try await Self.listen(configuration, gateway, port, context, loops, registry, reserve) {
        handler($0, registry)
      }
      open.append(listener)
      return listener
    }
    func serve(_ port: Int?, _ purpose: ServiceConnection.Purpose) async throws(SimulatorError) -> TLSListener? {
      guard let port else { return nil }
      return try await listen(port, contexts.http2) {
        ServiceHandler(
          service, purpose: purpose, tls: $0, memories: memories, registry: $1,
          handshakeFailed: { gateway.handshakeFailed() })
      }
    }
    do throws(SimulatorError) {
      let listeners = Listeners(
        gateway: try await listen(configuration.gatewayPort, contexts.gateway) {
          GatewayHandler(gateway, registry: $1)
        },
        feedback: try await listen(configuration.feedbackPort, contexts.feedback) {
          FeedbackHandler(gateway, registry: $1)
        },
        http2: try await serve(configuration.http2Port, .notifications),
        channels: try await serve(configuration.channelsPort, .channels))
      return GatewaySimulator(
        gateway, service, certificates: certificates, throwAwayKey: keys.throwAway, listeners: listeners, loops: loops,
        registries: registries)
    } catch {
      for listener in open { await listener.close() }
      await loops.shutDown()
      throw error
    }
  }

  /// Makes throw-away certificates if they are asked for. `made` is nil otherwise.
  private static func certificates(
    _ configuration: Configuration, at now: Int64
  ) throws -> (made: CertificateMaker.Files?, server: CredentialFiles, clientAuthority: String?) {
    switch configuration.identity {
    case .files(let files, let authority): return (nil, files, authority)
    case .throwAway(let directory, let topics):
      let files = try CertificateMaker.makeAll(in: directory, topics: topics, at: now)
      return (files, files.server, files.authority)
    }
  }

  private static func listen(
    _ configuration: Configuration, _ gateway: SimulatedGateway, _ port: Int, _ context: TLSContext,
    _ loops: LoopGroup, _ registry: ConnectionRegistry, _ reserve: DescriptorReserve,
    handler: @escaping @Sendable (TLSHandler) -> any ChannelHandler
  ) async throws(SimulatorError) -> TLSListener {
    var options = TLSListener.Options()
    options.reserve = reserve
    // The client's last message of the handshake arrives two and a half round trips after the
    // accept. Rules that are set later leave the handshake as much time.
    options.handshakeTimeout =
      options.handshakeTimeout + configuration.rules.handshakeDelay + configuration.rules.latency * 3
      + AdmissionControl.longestWait
    do {
      return try await TLSListener.bind(
        host: configuration.host, port: port, group: loops, context: context, options: options
      ) { channel, tls in
        let now = Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds)
        guard let wait = registry.admit(channel, now: now) else { throw SimulatorError(description: "turned away") }
        let rules = gateway.rules
        let (handshakeDelay, latency) = (rules.handshakeDelay, rules.latency)
        if latency > .zero {
          try channel.pipeline.syncOperations.addHandler(LatencyHandler(roundTrip: latency), position: .first)
        }
        try channel.pipeline.syncOperations.addHandler(handler(tls))
        guard wait + handshakeDelay > .zero else { return }
        // While nothing is read, TLS cannot begin.
        try channel.syncOptions?.setOption(.autoRead, value: false)
        channel.eventLoop.scheduleTask(in: TimeAmount(wait + handshakeDelay)) {
          try? channel.syncOptions?.setOption(.autoRead, value: true)
        }
      }
    } catch {
      throw SimulatorError(description: "Cannot listen on \(configuration.host), port \(port): \(error).")
    }
  }

  /// Changes the faults. Connections that are open are ended as by ``stop(grace:)``, so that all
  /// that is sent after this call meets the new rules. Whatever counts connections or refusals, and
  /// outages, begins anew. Certificates can be refused only if the rules at the start did, or with
  /// ``Configuration/mayRefuseCertificates``. The feedback lists and the settings of the HTTP/2
  /// service as a whole stay as they were.
  package func replaceRules(_ rules: FaultRules) async {
    gateway.replaceRules(rules)
    service.replaceRules(rules)
    let channels = registries.flatMap(\.openChannels)
    for channel in channels { channel.pipeline.fireUserInboundEventTriggered(StopRequest(grace: .seconds(1))) }
    for channel in channels { try? await channel.closeFuture.get() }
  }

  /// The counts so far; see ``SimulatedGateway/truth()`` and ``SimulatedService/truth()``.
  package func truth() -> GroundTruth { with(service.truth(), gateway.truth()) }

  private func with(_ http2: [String: ServiceTruth], _ truth: GroundTruth) -> GroundTruth {
    var truth = truth
    truth.http2 = http2
    return truth
  }

  /// Stops listening, ends every connection, and completes the record.
  ///
  /// Only the first call does this. Later ones return the counts at their time.
  ///
  /// - Parameter grace: Connections get status 10 (over HTTP/2: GOAWAY with Shutdown) and have this
  ///   long to close. Zero: they are cut without an error response.
  package func stop(grace: Duration = .seconds(1)) async -> GroundTruth {
    guard registries.map({ $0.close() }).contains(true) else { return with(service.truth(), gateway.finish()) }
    await listeners.gateway.close()
    await listeners.feedback.close()
    await listeners.http2?.close()
    await listeners.channels?.close()
    let channels = registries.flatMap(\.openChannels)
    for channel in channels { channel.pipeline.fireUserInboundEventTriggered(StopRequest(grace: grace)) }
    // Only the channel's end matters here, not its cause.
    for channel in channels { try? await channel.closeFuture.get() }
    await loops.shutDown()
    return with(service.truth(), gateway.finish())
  }
}

/// Why a simulator could not start, as a sentence.
package struct SimulatorError: Error, Hashable, Sendable, CustomStringConvertible {
  package let description: String
}
