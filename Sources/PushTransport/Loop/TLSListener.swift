internal import Glibc
package import NIOCore
internal import NIOPosix

/// A server socket whose connections speak TLS.
package final class TLSListener: Sendable {
  package struct Options: Sendable {
    package var handshakeTimeout: Duration = .seconds(15)
    package var peerClosePolicy = TLSHandler.PeerClosePolicy.report
    /// As for ``SocketDialer/Options``.
    package var writeLowWaterMark = 256 * 1024
    package var writeHighWaterMark = 1024 * 1024

    package init() {}
  }

  /// The port that is listened on: the one asked for, or the one picked for 0.
  package let port: Int
  private let channel: any Channel

  /// Most bytes that one read takes from the socket.
  private static let readByteCountLimit = 256 * 1024

  private init(channel: any Channel, port: Int) {
    self.channel = channel
    self.port = port
  }

  /// Listens on `host` and `port` (0: any free one). Connections are served in turns (``TurnHandler``).
  ///
  /// `configure` adds the handlers after the TLS handler; it is called on the connection's event loop before anything arrives.
  /// - Throws: what NIO says of the address, or of binding to it.
  package static func bind(
    host: String, port: Int, group: LoopGroup, context: TLSContext, options: Options = Options(),
    configure: @escaping @Sendable (any Channel, TLSHandler) throws -> Void
  ) async throws -> TLSListener {
    let bootstrap = ServerBootstrap(group: group.eventLoopGroup)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      .childChannelOption(.writeBufferWaterMark, value: .init(low: options.writeLowWaterMark, high: options.writeHighWaterMark))
      .childChannelOption(.recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 4096, initial: 16 * 1024, maximum: readByteCountLimit))
      // What is read waits for its turn; there is no more of it than one read takes.
      .childChannelOption(.maxMessagesPerRead, value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelOption(.socketOption(.so_keepalive), value: 1)
      .childChannelInitializer { child in
        child.eventLoop.makeCompletedFuture {
          let session = try TLSSession(context)
          guard let loop = group.loop(of: child.eventLoop) else { preconditionFailure("a channel on a loop of another group") }
          let handler = TLSHandler(
            session, peerClosePolicy: options.peerClosePolicy, handshakeTimeout: TimeAmount(options.handshakeTimeout), buffers: loop.buffers)
          try child.pipeline.syncOperations.addHandler(TurnHandler(handler, loop: loop))
          try child.pipeline.syncOperations.addHandler(handler)
          try configure(child, handler)
        }
      }
    let channel = try await bootstrap.bind(host: host, port: port).get()
    return TLSListener(channel: channel, port: channel.localAddress?.port ?? port)
  }

  /// Stops listening. Connections that are open stay open: they belong to whoever configured them.
  package func close() async {
    // Fails only if it is closed already.
    try? await channel.close(mode: .all).get()
  }
}
