internal import Glibc
package import NIOCore
internal import NIOPosix

/// A server socket for TLS connections.
package final class TLSListener: Sendable {
  package struct Options: Sendable {
    package var handshakeTimeout: Duration = .seconds(15)
    package var peerClosePolicy = TLSHandler.PeerClosePolicy.report
    /// As in ``SocketDialer/Options``, but by default 256 KiB and 1 MiB.
    package var writeLowWaterMark = 256 * 1024
    package var writeHighWaterMark = 1024 * 1024
    /// What the listeners of the process share when no file descriptor is free; nil: its own.
    package var reserve: DescriptorReserve?

    package init() {}
  }

  /// The port that is listened on; with port 0 the one that the system chose.
  package let port: Int
  private let channel: any Channel

  /// The most bytes that one read takes from the socket.
  private static let readByteCountLimit = 256 * 1024

  private init(channel: any Channel, port: Int) { (self.channel, self.port) = (channel, port) }

  package static func bind(
    host: String, port: Int, group: LoopGroup, context: TLSContext, options: Options = Options(),
    configure: @escaping @Sendable (any Channel, TLSHandler) throws -> Void
  ) async throws -> TLSListener {
    try await bind(host: host, port: port, group: group, contexts: { context }, options: options, configure: configure)
  }

  /// Listens on `host` and `port`; 0: any free port. Connections are served in turns
  /// (``TurnHandler``).
  ///
  /// - Parameters:
  ///   - contexts: called for each new connection, which is closed if it throws.
  ///   - configure: adds the handlers after the TLS handler. Called on the connection's event loop
  ///     before anything arrives.
  /// - Throws: NIO's error about the address, or about binding to it.
  package static func bind(
    host: String, port: Int, group: LoopGroup, contexts: @escaping @Sendable () throws -> TLSContext,
    options: Options = Options(), configure: @escaping @Sendable (any Channel, TLSHandler) throws -> Void
  ) async throws -> TLSListener {
    let reserve = options.reserve ?? DescriptorReserve(count: 1) { _ in }
    let bootstrap = ServerBootstrap(group: group.eventLoopGroup)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelInitializer { server in
        server.eventLoop.makeCompletedFuture {
          try server.pipeline.syncOperations.addHandler(reserve.handler())
        }
      }
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      .childChannelOption(
        .writeBufferWaterMark, value: .init(low: options.writeLowWaterMark, high: options.writeHighWaterMark)
      ).childChannelOption(
        .recvAllocator,
        value: AdaptiveRecvByteBufferAllocator(minimum: 4096, initial: 16 * 1024, maximum: readByteCountLimit)
      )
      // The bytes of a read wait for their turn, so at most one read's bytes wait.
      .childChannelOption(.maxMessagesPerRead, value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelOption(.socketOption(.so_keepalive), value: 1)
      .childChannelInitializer { child in
        child.eventLoop.makeCompletedFuture {
          let session = try TLSSession(contexts())
          guard let loop = group.loop(of: child.eventLoop) else {
            preconditionFailure("the channel's loop belongs to another group")
          }
          let handler = TLSHandler(
            session, peerClosePolicy: options.peerClosePolicy, handshakeTimeout: TimeAmount(options.handshakeTimeout),
            buffers: loop.buffers)
          try child.pipeline.syncOperations.addHandler(TurnHandler(handler, loop: loop))
          try child.pipeline.syncOperations.addHandler(handler)
          try configure(child, handler)
        }
      }
    let channel = try await bootstrap.bind(host: host, port: port).get()
    return TLSListener(channel: channel, port: channel.localAddress?.port ?? port)
  }

  /// Stops listening. Open connections stay open; the code that configured them must close them.
  package func close() async {
    // It fails only if the channel is already closed.
    try? await channel.close(mode: .all).get()
  }
}
