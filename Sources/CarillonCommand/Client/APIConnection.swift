internal import Glibc
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import NIOHTTPTypesHTTP1
internal import NIOPosix
internal import PushTransport

enum APIConnection {
  typealias Channel = NIOAsyncChannel<HTTPResponsePart, HTTPRequestPart>

  private static let connectTimeout = TimeAmount.seconds(10)
  /// A connection without traffic for this long is closed. Event streams have a comment every 15 s.
  private static let silenceLimit = TimeAmount.seconds(120)

  static func context(_ proof: ServiceAddress.Proof) throws(CredentialError) -> TLSContext? {
    var configuration = TLSClientConfiguration(credential: nil)
    switch proof {
    case .none: return nil
    case .authority(let trust): configuration.trust = trust
    case .certificate(let file): configuration.onlyCertificate = try TLSClientConfiguration.fingerprint(ofFile: file)
    }
    return try TLSContext(client: configuration)
  }

  /// - Throws: ``ServiceFailure``.
  static func open(to address: ServiceAddress, _ tls: TLSContext?) async throws -> Channel {
    do {
      return try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connectTimeout(connectTimeout)
        .channelOption(.tcpOption(.tcp_nodelay), value: 1)
        .channelOption(.allowRemoteHalfClosure, value: tls != nil)
        .connect(host: address.host, port: address.port) { channel in
          channel.eventLoop.makeCompletedFuture {
            let pipeline = channel.pipeline.syncOperations
            if let tls { try pipeline.addHandler(TLSHandler(TLSSession(tls, host: address.host))) }
            try pipeline.addHandler(IdleStateHandler(allTimeout: silenceLimit))
            try pipeline.addHandler(SilenceHandler(seconds: silenceLimit.nanoseconds / 1_000_000_000))
            try pipeline.addHTTPClientHandlers()
            try pipeline.addHandler(HTTP1ToHTTPClientCodec())
            return try NIOAsyncChannel(wrappingChannelSynchronously: channel)
          }
        }
    } catch {
      throw ServiceFailure("\(address) cannot be reached: \(describe(error)). Is \"carillon serve\" running?")
    }
  }

  static func describe(_ error: any Error) -> String {
    switch error {
    case let error as NIOConnectionError:
      error.connectionErrors.last.map { describe($0.error) } ?? "there is no address for that name"
    case let error as IOError where error.errnoCode == ECONNREFUSED: "nothing listens there"
    case ChannelError.connectTimeout: "it does not answer"
    default: "\(error)"
    }
  }

  /// Ends a connection on which nothing happens.
  private final class SilenceHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let seconds: Int64

    init(seconds: Int64) { self.seconds = seconds }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      guard event is IdleStateHandler.IdleStateEvent else { return context.fireUserInboundEventTriggered(event) }
      context.fireErrorCaught(ServiceFailure("The service has said nothing for \(seconds) s."))
      context.close(promise: nil)
    }
  }
}
