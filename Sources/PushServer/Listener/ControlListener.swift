internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import PushService
internal import PushTransport
internal import ServiceLifecycle

/// Serves HTTP until the service ends.
///
/// Answers that are under way then have a bounded time: a reader that takes nothing any more must
/// not keep the service from ending.
///
/// A listener for health has a thread of its own: it accepts and answers also while everything else
/// takes all the threads that are shared.
struct ControlListener: Service {
  private let application: Application<ControlResponder>
  private let channels: OpenChannels
  /// How long answers may take at the end.
  private let drain: Duration
  private let use: DescriptorReserve.Use

  /// Of listeners for health. It is there as long as the process.
  private static let healthLoops = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  private static let healthExecutor = LoopTaskExecutor(healthLoops.next())

  /// - Parameters:
  ///   - drain: how long answers may take at the end.
  ///   - prepare: runs before it listens.
  ///   - listens: called with the port.
  init(
    _ responder: ControlResponder, _ listen: Listen, _ settings: ServerConfiguration.API,
    certificate: ServerCertificate?, _ use: DescriptorReserve.Use, channels: OpenChannels, reserve: DescriptorReserve,
    drain: Duration, logger: Logger, prepare: @escaping @Sendable () async throws -> Void,
    listens: @escaping @Sendable (Int) -> Void
  ) {
    var application = Application(
      responder: responder,
      server: ControlChannel.builder(
        idleTimeout: settings.idleTimeout, certificate: certificate, channels: channels),
      configuration: ApplicationConfiguration(
        address: .hostname(listen.host, port: listen.port), serverName: nil,
        availableConnectionsDelegate: MaximumAvailableConnections(settings.maxConnections)),
      onServerRunning: { channel in
        try? await channel.pipeline.addHandler(reserve.handler(use), position: .first).get()
        listens(channel.localAddress?.port ?? 0)
      },
      eventLoopGroupProvider: use == .health ? .shared(Self.healthLoops) : .singleton, logger: logger)
    application.beforeServerStarts(perform: prepare)
    (self.application, self.channels, self.drain, self.use) = (application, channels, drain, use)
  }

  func run() async throws {
    switch use {
    case .clients: try await serve()
    case .health: try await withTaskExecutorPreference(Self.healthExecutor) { try await serve() }
    }
  }

  private func serve() async throws {
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask {
        guard (try? await gracefulShutdown()) != nil, (try? await channels.clock.sleep(for: drain)) != nil else {
          return
        }
        await channels.close()
      }
      try await application.run()
      tasks.cancelAll()
    }
  }
}
