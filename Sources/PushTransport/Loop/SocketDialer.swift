internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import PushWire

/// Opens TLS connections to one host, directly or through a proxy. The name that it connects to is
/// resolved for each connection, and its addresses are tried in turn: the host's, or the proxy's,
/// which resolves the host's.
package struct SocketDialer: Dialer {
  /// How connections are made and kept.
  package struct Options: Sendable {
    /// For name resolution and TCP together; default 15 s.
    package var connectTimeout: Duration = .seconds(15)
    /// For TLS, and what a proxy is asked before, together; default 15 s.
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
  private let proxy: Proxy?
  private let options: Options

  /// - Parameters:
  ///   - host: a name or an IP address, which the server's certificate must contain.
  ///   - context: a client's context.
  ///   - proxy: nil: it is connected to directly.
  package init(host: String, port: Int, context: TLSContext, proxy: Proxy? = nil, options: Options = Options()) {
    (self.host, self.port, self.context, self.proxy, self.options) = (host, port, context, proxy, options)
  }

  /// What connections under way share a limit by: a proxy that is away delays nobody else.
  private var endpoint: String { "\(host):\(port)\(proxy.map { " through \($0)" } ?? "")" }

  package func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link {
    guard let loop = loop as? NIOLoop else { preconditionFailure("a socket needs a NIO event loop") }
    let link = SocketLink(loop: loop, delegate: delegate)
    // The delegate must not be called before this call has returned.
    loop.eventLoop.execute {
      loop.dials.begin(endpoint) { place in
        link.onceDecided { place.ended(isOpen: $0) }
        connect(link, on: loop)
      }
    }
    return link
  }

  private func connect(_ link: SocketLink, on loop: NIOLoop) {
    let eventLoop = loop.eventLoop
    guard link.isConnecting else { return }
    let peer = ConnectionPeer(host: proxy?.host ?? host, port: proxy?.port ?? port, isProxy: proxy != nil)
    if let lack = DescriptorShortage.probe() {
      return link.failedToConnect(.unreachable("cannot connect to \(peer.name): \(lack)"))
    }
    let timeout = TimeAmount(options.handshakeTimeout)
    let tls: TLSHandler
    var way: ProxyHandler?
    do throws(TLSFailure) {
      tls = TLSHandler(try TLSSession(context, host: host), handshakeTimeout: timeout, buffers: loop.buffers)
      if let proxy {
        guard let request = request(of: proxy) else {
          return link.failedToConnect(.unreachable("\(host):\(port) cannot be asked for at \(proxy); check the name"))
        }
        way = try ProxyHandler(proxy, request, tls: tls, timeout: timeout, buffers: loop.buffers)
      }
    } catch {
      return link.failedToConnect(.handshakeFailed(error.description))
    }
    let bootstrap = ClientBootstrap(group: eventLoop).connectTimeout(TimeAmount(options.connectTimeout))
      // Nothing is read before the handlers are added. With half-closure, the end of the stream
      // differs from a reset.
      .channelOption(.autoRead, value: false).channelOption(.allowRemoteHalfClosure, value: true).channelOption(
        .writeBufferWaterMark, value: .init(low: options.writeLowWaterMark, high: options.writeHighWaterMark)
      ).channelOption(.tcpOption(.tcp_nodelay), value: 1).channelOption(.socketOption(.so_keepalive), value: 1)
      .channelOption(.tcpOption(.init(rawValue: TCP_KEEPIDLE)), value: KeepAlive.idleSeconds).channelOption(
        .tcpOption(.init(rawValue: TCP_KEEPINTVL)), value: KeepAlive.intervalSeconds
      ).channelOption(.tcpOption(.init(rawValue: TCP_KEEPCNT)), value: KeepAlive.probes)
    let handlers = NIOLoopBound((tls: tls, way: way), eventLoop: eventLoop)
    bootstrap.connect(host: peer.host, port: peer.port).whenComplete { result in
      switch result {
      case .success(let channel): link.connected(channel, tls: handlers.value.tls, proxy: handlers.value.way)
      case .failure(let error):
        link.failedToConnect(.unreachable(peer.describe(error, timeout: options.connectTimeout)))
      }
    }
  }

  /// Nil: no proxy can be asked for such a host.
  private func request(of proxy: Proxy) -> ProxyRequest? {
    guard let port = UInt16(exactly: port) else { return nil }
    let target: ProxyRequest.Host
    if let bytes = SystemCall.addressBytes(host) {
      target = bytes.count == 4 ? .ipv4(bytes, host) : .ipv6(bytes, host)
    } else {
      guard ProxyRequest.isUsable(name: host) else { return nil }
      target = .name(host)
    }
    return ProxyRequest(host: target, port: port, credentials: proxy.credentials)
  }
}

/// TCP keep-alive. It detects a vanished peer after about two minutes, and address translators keep
/// the connection.
enum KeepAlive {
  static let idleSeconds = 60
  static let intervalSeconds = 15
  static let probes = 4
}

/// What TCP connects to, and one sentence on why it does not.
private struct ConnectionPeer {
  let host: String
  let port: Int
  let isProxy: Bool

  var name: String { "\(isProxy ? "the proxy " : "")\(host):\(port)" }

  func describe(_ error: any Error, timeout: Duration) -> String {
    if let error = error as? NIOConnectionError {
      if let single = error.connectionErrors.last {
        return "cannot connect to \(name): \(reason(single.error, timeout: timeout))"
      }
      if let lack = DescriptorShortage.probe() { return "cannot connect to \(name): \(lack)" }
      return "cannot resolve \(isProxy ? "the proxy " : "")\(host): there is no address for that name"
    }
    return "cannot connect to \(name): \(reason(error, timeout: timeout))"
  }

  private func reason(_ error: any Error, timeout: Duration) -> String {
    switch error {
    case let error as IOError:
      error.errnoCode == ECONNREFUSED
        ? "connection refused, so no server listens there" : SystemCall.reason(error.errnoCode)
    case ChannelError.connectTimeout: "no answer within \(timeout)"
    default: "\(error)"
    }
  }
}
