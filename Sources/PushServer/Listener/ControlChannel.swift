internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTPTypes
internal import PushTransport

/// A connection of the control interface: TLS or not, HTTP/1.1, one request after the other.
struct ControlChannel: ServerChildChannel {
  private let http: HTTP1Channel
  private let certificate: ServerCertificate?
  private let handshakeTimeout: TimeAmount
  private let idleTimeout: Duration
  private let channels: OpenChannels
  private let executors = LoopTaskExecutors()

  /// The address has as many connections as it may.
  private struct ChannelsFull: Error {}

  /// A handshake has as long as this or the idle time-out, whichever is shorter.
  private static let handshakeTimeout = Duration.seconds(10)
  /// How long the head of a connection's first request may take.
  private static let firstRequestTime = TimeAmount.seconds(10)
  /// Of a request's head. The longest address has a token of 200 bytes, the longest header a key.
  private static let head = HTTP1Channel.Configuration.DecoderConfiguration(
    maxHeaderFieldSize: 16 << 10, maxHeaderListSize: 32 << 10, maxHeaderFieldCount: 100)

  init(
    responder: @escaping HTTPChannelHandler.Responder, idleTimeout: Duration, certificate: ServerCertificate?,
    channels: OpenChannels
  ) {
    (self.certificate, self.idleTimeout, self.channels) = (certificate, idleTimeout, channels)
    handshakeTimeout = TimeAmount(min(Self.handshakeTimeout, idleTimeout))
    let firstRequest = certificate == nil ? Self.firstRequestTime : Self.firstRequestTime + handshakeTimeout
    http = HTTP1Channel(
      responder: responder,
      configuration: .init(
        additionalChannelHandlers: [ExchangeHandler(firstRequest: firstRequest)], idleTimeout: TimeAmount(idleTimeout),
        httpDecoderConfiguration: Self.head))
  }

  /// - Parameter channels: gets every connection.
  static func builder(
    idleTimeout: Duration, certificate: ServerCertificate?, channels: OpenChannels
  ) -> HTTPServerBuilder {
    HTTPServerBuilder {
      ControlChannel(responder: $0, idleTimeout: idleTimeout, certificate: certificate, channels: channels)
    }
  }

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
    let address = channel.remoteAddress?.ipAddress ?? ""
    guard channels.add(channel, from: address) else { return channel.eventLoop.makeFailedFuture(ChannelsFull()) }
    do { try channel.pipeline.syncOperations.addHandler(WriteLimit(idleTimeout, clock: channels.clock)) } catch {
      return channel.eventLoop.makeFailedFuture(error)
    }
    if let certificate {
      do {
        let handler = TLSHandler(
          try TLSSession(certificate.context), handshakeTimeout: handshakeTimeout,
          buffers: certificate.buffers(of: channel.eventLoop))
        try channel.pipeline.syncOperations.addHandler(handler)
      } catch {
        return channel.eventLoop.makeFailedFuture(error)
      }
    }
    return http.setup(channel: channel, logger: logger)
  }

  /// What takes longer than a small request leaves the loop by ``withCommonPool(_:)``.
  func handle(value: HTTP1Channel.Value, logger: Logger) async {
    await withTaskExecutorPreference(executors.executor(of: value.channel.eventLoop)) {
      await http.handle(value: value, logger: logger)
    }
  }
}
