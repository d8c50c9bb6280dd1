internal import Glibc
internal import NIOCore
internal import NIOPosix

/// Opens TLS connections to one host. The name is resolved for each connection, and its addresses
/// are tried in turn.
package struct SocketDialer: Dialer {
  /// How connections are made and kept.
  package struct Options: Sendable {
    /// For name resolution and TCP together; default 15 s.
    package var connectTimeout: Duration = .seconds(15)
    /// Default 15 s.
    package var handshakeTimeout: Duration = .seconds(15)
    /// ``Link/isWritable`` becomes false when more than `writeHighWaterMark` bytes wait for the
    /// socket, default 64 KiB. It becomes true again below `writeLowWaterMark`, default 32 KiB.
    package var writeLowWaterMark = 32 * 1024
    package var writeHighWaterMark = 64 * 1024

    package init() {}
  }

  package let host: String
  package let port: Int
  private let context: TLSContext
  private let options: Options

  /// - Parameters:
  ///   - host: a name or an IP address, which the server's certificate must contain.
  ///   - context: a client's context.
  package init(host: String, port: Int, context: TLSContext, options: Options = Options()) {
    (self.host, self.port, self.context, self.options) = (host, port, context, options)
  }

  package func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link {
    guard let loop = loop as? NIOLoop else { preconditionFailure("a socket needs a NIO event loop") }
    let link = SocketLink(loop: loop, delegate: delegate)
    // The delegate must not be called before this call has returned.
    loop.eventLoop.execute {
      loop.dials.begin("\(host):\(port)") { place in
        link.onceDecided { place.ended(isOpen: $0) }
        connect(link, on: loop)
      }
    }
    return link
  }

  private func connect(_ link: SocketLink, on loop: NIOLoop) {
    let eventLoop = loop.eventLoop
    guard link.isConnecting else { return }
    if let lack = DescriptorShortage.probe() {
      return link.failedToConnect(.unreachable("cannot connect to \(host):\(port): \(lack)"))
    }
    let session: TLSSession
    do throws(TLSFailure) {
      session = try TLSSession(context, host: host)
    } catch {
      return link.failedToConnect(.handshakeFailed(error.description))
    }
    let tls = TLSHandler(session, handshakeTimeout: TimeAmount(options.handshakeTimeout), buffers: loop.buffers)
    let bootstrap = ClientBootstrap(group: eventLoop).connectTimeout(TimeAmount(options.connectTimeout))
      // Nothing is read before the handlers are added. With half-closure, the end of the stream
      // differs from a reset.
      .channelOption(.autoRead, value: false).channelOption(.allowRemoteHalfClosure, value: true).channelOption(
        .writeBufferWaterMark, value: .init(low: options.writeLowWaterMark, high: options.writeHighWaterMark)
      ).channelOption(.tcpOption(.tcp_nodelay), value: 1).channelOption(.socketOption(.so_keepalive), value: 1)
      .channelOption(.tcpOption(.init(rawValue: TCP_KEEPIDLE)), value: KeepAlive.idleSeconds).channelOption(
        .tcpOption(.init(rawValue: TCP_KEEPINTVL)), value: KeepAlive.intervalSeconds
      ).channelOption(.tcpOption(.init(rawValue: TCP_KEEPCNT)), value: KeepAlive.probes)
    let handler = NIOLoopBound(tls, eventLoop: eventLoop)
    bootstrap.connect(host: host, port: port).whenComplete { result in
      switch result {
      case .success(let channel): link.connected(channel, tls: handler.value)
      case .failure(let error):
        link.failedToConnect(
          .unreachable(ConnectFailure.describe(error, host: host, port: port, timeout: options.connectTimeout)))
      }
    }
  }
}

/// TCP keep-alive. It detects a vanished peer after about two minutes, and address translators keep
/// the connection.
enum KeepAlive {
  static let idleSeconds = 60
  static let intervalSeconds = 15
  static let probes = 4
}

/// One sentence on why a connection could not be opened.
private enum ConnectFailure {
  static func describe(_ error: any Error, host: String, port: Int, timeout: Duration) -> String {
    if let error = error as? NIOConnectionError {
      if let single = error.connectionErrors.last {
        return "cannot connect to \(host):\(port): \(reason(single.error, timeout: timeout))"
      }
      if let lack = DescriptorShortage.probe() { return "cannot connect to \(host):\(port): \(lack)" }
      return "cannot resolve \(host): there is no address for that name"
    }
    return "cannot connect to \(host):\(port): \(reason(error, timeout: timeout))"
  }

  private static func reason(_ error: any Error, timeout: Duration) -> String {
    switch error {
    case let error as IOError:
      error.errnoCode == ECONNREFUSED
        ? "connection refused, so no server listens there" : SystemCall.reason(error.errnoCode)
    case ChannelError.connectTimeout: "no answer within \(timeout)"
    default: "\(error)"
    }
  }
}
