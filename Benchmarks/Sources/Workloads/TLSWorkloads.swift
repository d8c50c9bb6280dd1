internal import Glibc
internal import NIOCore
internal import NIOEmbedded
internal import PushTransport

extension Workload {
  /// Encrypting a full batch: the step between the packer and the socket. OpenSSL allocates three
  /// times for a record, and a batch has four records.
  static let tls = [session, handler]

  private static let batchByteCount = 64 * 1024
  private static let batchCount = 16

  private static let session = Workload("TLS.session", batchCount, "64-KiB batches", mayAllocate: true) {
    let client = try Handshake().run().client
    let batch = RawMemory(byteCount: batchByteCount)
    var output = ByteBuffer()
    return Iteration {
      for _ in 0..<batchCount {
        output.clear()
        try unsafe client.write(batch.readable, output: &output)
      }
      try WorkloadFailure.check(output.readableBytes > batchByteCount, "nothing was encrypted")
    }
  }

  /// The same in its channel, with a socket that accepts everything at once.
  private static let handler = Workload("TLS.handler", batchCount, "64-KiB batches", mayAllocate: true) {
    let handshake = try Handshake()
    let handler = TLSHandler(handshake.client)
    let socket = Socket(handshake.server)
    let channel = EmbeddedChannel()
    try channel.pipeline.syncOperations.addHandlers([socket, handler])
    channel.pipeline.fireChannelActive()
    try WorkloadFailure.check(
      handshake.client.isEstablished && handshake.server.isEstablished, "the handshake was not completed")
    let batch = RawMemory(byteCount: batchByteCount)
    return Iteration {
      let before = socket.byteCount
      for _ in 0..<batchCount { unsafe handler.send(batch.readable) }
      _ = channel
      try WorkloadFailure.check(socket.byteCount > before + batchCount * batchByteCount, "nothing was written")
    }
  }
}

/// A client and a server of TLS 1.3, each with a certificate made for the test.
private struct Handshake {
  let client: TLSSession
  let server: TLSSession

  init() throws {
    let now = Int64(NIOLoop.wallClock)
    let authority = try CertificateAuthority(at: now)
    let trust = "/tmp/carillon-benchmark-ca-\(getpid()).pem"
    try authority.write(to: trust)
    defer { _ = unsafe unlink(trust) }
    let issued = (
      server: try authority.issue(.server(at: now)), app: try authority.issue(.app(topic: "com.example.news", at: now))
    )
    let clients = ClientCertificatePolicy(request: .required, trust: .file(trust))
    server = try TLSSession(
      TLSContext(server: TLSServerConfiguration(credential: issued.server.credential, clients: clients)))
    let configuration = TLSClientConfiguration(credential: issued.app.credential, trust: .file(trust))
    client = try TLSSession(TLSContext(client: configuration), host: "localhost")
  }

  func run() throws -> Handshake {
    var (toServer, toClient, plaintext) = (ByteBuffer(), ByteBuffer(), ByteBuffer())
    _ = client.start(output: &toServer)
    _ = server.start(output: &toClient)
    while toServer.readableBytes + toClient.readableBytes > 0 {
      let (atServer, atClient) = (toServer, toClient)
      toServer.clear()
      toClient.clear()
      _ = unsafe atServer.withUnsafeReadableBytes {
        unsafe server.receive($0, plaintext: &plaintext, output: &toClient)
      }
      _ = unsafe atClient.withUnsafeReadableBytes {
        unsafe client.receive($0, plaintext: &plaintext, output: &toServer)
      }
    }
    try WorkloadFailure.check(client.isEstablished && server.isEstablished, "the handshake was not completed")
    return self
  }
}

/// Stands in for the socket: first the other side of the handshake, then a counter of discarded
/// bytes.
private final class Socket: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  private let server: TLSSession
  private(set) var byteCount = 0

  init(_ server: TLSSession) { self.server = server }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let bytes = unwrapOutboundIn(data)
    if server.isEstablished {
      byteCount += bytes.readableBytes
    } else {
      var (answer, plaintext) = (ByteBuffer(), ByteBuffer())
      _ = unsafe bytes.withUnsafeReadableBytes { unsafe server.receive($0, plaintext: &plaintext, output: &answer) }
      if answer.readableBytes > 0 { context.fireChannelRead(NIOAny(answer)) }
    }
    promise?.succeed(())
  }

  func flush(context: ChannelHandlerContext) {}
}
