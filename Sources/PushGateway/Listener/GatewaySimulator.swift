internal import NIOCore
internal import NIOPosix
package import PushTransport
internal import PushWire

/// A ``SimulatedGateway`` on real sockets: gateway and feedback service over TLS, on event loops of its own.
///
/// ```swift
/// let simulator = try await GatewaySimulator.start(configuration)   // listens when this returns
/// …
/// let truth = await simulator.stop()
/// ```
package final class GatewaySimulator: Sendable {
  package struct Configuration: Sendable {
    package var host = "127.0.0.1"
    /// 0 picks a free one.
    package var gatewayPort = 0
    package var feedbackPort = 0
    package var identity: Identity
    /// False lets clients in that show no certificate; their topic is "anonymous".
    package var requiresClientCertificate = true
    /// Clients that come again need no certificates then, and reconnect at half the cost. Not where the rules refuse certificates: a session that is
    /// resumed shows none.
    package var sendsTickets = false
    package var rules = FaultRules()
    /// Where to write the record; nil: none is written.
    package var recordPath: String?
    /// Where tests look up what was accepted.
    package var memory: FrameMemory?
    package var threads = System.coreCount
    /// Connections of both services together; those above are closed at once.
    package var connectionLimit = 4096

    package init(identity: Identity) {
      self.identity = identity
    }
  }

  /// Where the server's certificate comes from, and whose client certificates it believes.
  package enum Identity: Sendable {
    /// `clientAuthority`: a PEM file; nil: any client certificate will do.
    case files(CredentialFiles, clientAuthority: String?)
    /// Made new in this directory, with a client certificate for each topic; clients are believed that have theirs from the directory's own CA.
    case throwAway(directory: String, topics: [String])
  }

  /// The ports that are listened on.
  package var gatewayPort: Int { listeners.gateway.port }
  package var feedbackPort: Int { listeners.feedback.port }
  /// What was made for ``Identity/throwAway(directory:topics:)``.
  package let certificates: CertificateMaker.Files?
  /// Rules, truth and feedback lists.
  package let gateway: SimulatedGateway

  private let listeners: (gateway: TLSListener, feedback: TLSListener)
  private let loops: LoopGroup
  private let registry: ConnectionRegistry

  private init(
    _ gateway: SimulatedGateway, certificates: CertificateMaker.Files?, listeners: (TLSListener, TLSListener), loops: LoopGroup, registry: ConnectionRegistry
  ) {
    self.gateway = gateway
    self.certificates = certificates
    self.listeners = listeners
    self.loops = loops
    self.registry = registry
  }

  /// Reads or makes the certificates and listens on both ports.
  /// - Throws: ``CredentialError``, ``RecordFileError`` or ``SimulatorError``, each a sentence.
  package static func start(_ configuration: Configuration) async throws -> GatewaySimulator {
    let now = Int64(NIOLoop.wallClock)
    let certificates: CertificateMaker.Files?
    let server: CredentialFiles
    let clientAuthority: String?
    switch configuration.identity {
    case .files(let files, let authority): (certificates, server, clientAuthority) = (nil, files, authority)
    case .throwAway(let directory, let topics):
      let files = try CertificateMaker.makeAll(in: directory, topics: topics, at: now)
      (certificates, server, clientAuthority) = (files, files.server, files.authority)
    }
    let credential = try Credential.load(server, validAt: now)
    let record: RecordFile? = if let path = configuration.recordPath { try RecordFile(path: path) } else { nil }
    let gateway = SimulatedGateway(rules: configuration.rules, recordFile: record, memory: configuration.memory)
    let clients = ClientCertificatePolicy(request: configuration.requiresClientCertificate ? .required : .optional, trust: clientAuthority.map { .file($0) })
    var choosyClients = clients
    if configuration.rules.refusesCertificates { choosyClients.refuse = { gateway.refusesCertificate(topic: Topic.of($0)) ? .unknown : nil } }
    var choosy = TLSServerConfiguration(credential: credential, clients: choosyClients)
    choosy.sendsTickets = configuration.sendsTickets
    let contexts = (
      gateway: try TLSContext(server: choosy),
      feedback: try TLSContext(server: TLSServerConfiguration(credential: credential, clients: clients))
    )

    let loops = LoopGroup(threads: max(1, configuration.threads))
    let registry = ConnectionRegistry(limit: configuration.connectionLimit)
    do throws(SimulatorError) {
      let gatewayListener = try await listen(configuration, configuration.gatewayPort, contexts.gateway, loops, registry) {
        GatewayHandler(gateway, registry: registry)
      }
      do throws(SimulatorError) {
        let feedbackListener = try await listen(configuration, configuration.feedbackPort, contexts.feedback, loops, registry) {
          FeedbackHandler(gateway, registry: registry)
        }
        return GatewaySimulator(gateway, certificates: certificates, listeners: (gatewayListener, feedbackListener), loops: loops, registry: registry)
      } catch {
        await gatewayListener.close()
        throw error
      }
    } catch {
      await loops.shutDown()
      throw error
    }
  }

  private static func listen(
    _ configuration: Configuration, _ port: Int, _ context: TLSContext, _ loops: LoopGroup, _ registry: ConnectionRegistry,
    handler: @escaping @Sendable () -> any ChannelHandler
  ) async throws(SimulatorError) -> TLSListener {
    let handshakeDelay = configuration.rules.handshakeDelay
    var options = TLSListener.Options()
    options.handshakeTimeout = options.handshakeTimeout + handshakeDelay + AdmissionControl.longestWait
    do {
      return try await TLSListener.bind(host: configuration.host, port: port, group: loops.eventLoopGroup, context: context, options: options) { channel, _ in
        let now = Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds)
        guard let wait = registry.admit(channel, now: now) else { throw SimulatorError(description: "turned away") }
        try channel.pipeline.syncOperations.addHandler(handler())
        guard wait + handshakeDelay > .zero else { return }
        // Nothing is read, so TLS cannot begin.
        try channel.syncOptions?.setOption(.autoRead, value: false)
        channel.eventLoop.scheduleTask(in: TimeAmount(wait + handshakeDelay)) { try? channel.syncOptions?.setOption(.autoRead, value: true) }
      }
    } catch {
      throw SimulatorError(description: "Cannot listen on \(configuration.host), port \(port): \(error).")
    }
  }

  /// What has happened so far; see ``SimulatedGateway/truth()``.
  package func truth() -> GroundTruth { gateway.truth() }

  /// Stops listening, ends every connection, and completes the record.
  ///
  /// `grace`: connections are told status 10 and have this long to close by themselves; zero: they are cut off without a packet.
  /// Only the first call does this; later ones return what is known by then.
  package func stop(grace: Duration = .seconds(1)) async -> GroundTruth {
    guard registry.close() else { return gateway.finish() }
    await listeners.gateway.close()
    await listeners.feedback.close()
    let channels = registry.openChannels
    for channel in channels { channel.pipeline.fireUserInboundEventTriggered(StopRequest(grace: grace)) }
    // A channel's end is all that matters here, not how it came about.
    for channel in channels { try? await channel.closeFuture.get() }
    await loops.shutDown()
    return gateway.finish()
  }
}

/// Why a simulator could not start, as a sentence.
package struct SimulatorError: Error, Hashable, Sendable, CustomStringConvertible {
  package let description: String
}
