internal import NIOCore
internal import NIOEmbedded
internal import PushWire
internal import Testing

@testable internal import PushTransport

/// The way through a proxy in a channel without a socket: both ends in memory, and a clock that the
/// test moves.
@Suite("The handler of proxies")
struct ProxyHandlerTests {
  private let material: Material

  init() throws { material = try Material() }

  private static let request = ProxyRequest(
    host: .name("gateway.invalid"), port: 2195, credentials: nil)
  private static let opening = Array(
    "CONNECT gateway.invalid:2195 HTTP/1.1\r\nHost: gateway.invalid:2195\r\n\r\n".utf8)
  private static let accepted = Array("HTTP/1.1 200 OK\r\n\r\n".utf8)

  /// Remembers what comes to the end of a pipeline.
  private final class Watcher: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private(set) var bytes: [UInt8] = []
    private(set) var events: [TLSEvent] = []
    private(set) var errors: [any Error] = []
    var refusal: String? { errors.lazy.compactMap { ($0 as? ProxyFailure)?.sentence }.first }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      bytes += Array(unwrapInboundIn(data).readableBytesView)
    }
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      if let event = event as? TLSEvent { events.append(event) }
    }
    func errorCaught(context: ChannelHandlerContext, error: any Error) { errors.append(error) }
  }

  /// A sender's end.
  private struct Client {
    let channel = EmbeddedChannel()
    let watcher = Watcher()
    let tls: TLSHandler

    init(_ material: Material, _ scheme: ProxyScheme) throws {
      let buffers = LoopBuffers()
      tls = TLSHandler(try TLSSession(try material.clientContext(), host: "localhost"), buffers: buffers)
      let proxy = try SocketDialer.Proxy(
        scheme, host: "localhost", port: 3128, credentials: nil, trust: material.trust)
      let handler = try ProxyHandler(
        proxy, ProxyHandlerTests.request, tls: tls, timeout: .seconds(15), buffers: buffers)
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 3128)).wait()
      try channel.pipeline.syncOperations.addHandler(watcher)
      try handler.add(to: channel.pipeline.syncOperations)
    }

    func sent() throws -> [UInt8] {
      var bytes: [UInt8] = []
      while let buffer = try channel.readOutbound(as: ByteBuffer.self) { bytes += Array(buffer.readableBytesView) }
      return bytes
    }

    func receive(_ bytes: some Sequence<UInt8>) throws {
      try channel.writeInbound(ByteBuffer(bytes: bytes))
    }
  }

  @Test(
    "nothing of the host's TLS is sent before the proxy has opened the way", arguments: [ProxyScheme.http, .socks5])
  func order(_ scheme: ProxyScheme) throws {
    let client = try Client(material, scheme)
    let opening = try client.sent()
    #expect(opening == (scheme == .http ? Self.opening : [5, 1, 0]))
    let answers = scheme == .http ? [Self.accepted] : [[5, 0], [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]]
    for (index, answer) in answers.enumerated() {
      for byte in answer.dropLast() {
        try client.receive([byte])
        #expect(try client.sent().isEmpty)
      }
      try client.receive(answer.suffix(1))
      // TLS begins with a handshake record.
      #expect(try client.sent().first == (index == answers.count - 1 ? 0x16 : 5))
    }
    #expect(!client.tls.isOpen)
    // Its time began with the dial.
    client.channel.embeddedEventLoop.advanceTime(by: .seconds(15))
    #expect(client.watcher.errors.contains { "\($0)".contains("was not complete after 15 s") })
    #expect(!client.channel.isActive)
  }

  @Test("a refusal closes, and names the proxy and its answer")
  func refused() throws {
    let client = try Client(material, .http)
    try client.receive(Array("HTTP/1.1 403 No\r\n\r\n".utf8))
    #expect(client.watcher.refusal?.hasPrefix("the proxy localhost:3128 answered 403 No: ") == true)
    #expect(!client.channel.isActive)
  }

  @Test("a proxy that is silent, or closes, or breaks off, is named", arguments: ProxyScheme.allCases)
  func silent(_ scheme: ProxyScheme) throws {
    let late = try Client(material, scheme)
    late.channel.embeddedEventLoop.advanceTime(by: .seconds(14))
    #expect(late.channel.isActive)
    late.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
    #expect(late.watcher.refusal?.contains("the proxy localhost:3128") == true)
    #expect(!late.channel.isActive)
    let closed = try Client(material, scheme)
    closed.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    #expect(closed.watcher.refusal?.contains("the proxy localhost:3128") == true, "\(closed.watcher.errors)")
    let broken = try Client(material, scheme)
    broken.channel.pipeline.fireErrorCaught(IOError(errnoCode: 104, reason: "read"))
    #expect(
      broken.watcher.refusal == "the proxy localhost:3128 broke off without an answer: Connection reset by peer")
  }

  @Test("what the proxy and the host's TLS take together is bounded: the host's has what the proxy left")
  func together() throws {
    let client = try Client(material, .http)
    client.channel.embeddedEventLoop.advanceTime(by: .seconds(10))
    try client.receive(Self.accepted)
    client.channel.embeddedEventLoop.advanceTime(by: .seconds(4))
    #expect(client.channel.isActive)
    client.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
    #expect(!client.channel.isActive)
    #expect(client.watcher.errors.contains { "\($0)".contains("was not complete after 5 s") })
  }

  @Test("TLS in TLS: bytes arrive whole, and the end of the proxy's TLS alone is no end of the host's")
  func nested() throws {
    let client = try Client(material, .https)
    // The proxy and the host in one: it opens the way, and its second TLS is the host's.
    let server = EmbeddedChannel()
    let serverBuffers = LoopBuffers()
    let outer = TLSHandler(
      try TLSSession(try material.serverContext(clients: ClientCertificatePolicy.none)), buffers: serverBuffers)
    let inner = TLSHandler(try TLSSession(try material.serverContext()), buffers: serverBuffers)
    let received = Watcher()
    try server.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    try server.pipeline.syncOperations.addHandlers([outer, Opener(inner), received])
    func exchange() throws {
      var isBusy = true
      while isBusy {
        let (up, down) = (try client.sent(), try server.readOutbound(as: ByteBuffer.self))
        isBusy = !up.isEmpty || down != nil
        // In pieces that fit no record.
        for start in stride(from: 0, to: up.count, by: 1_000) {
          try server.writeInbound(ByteBuffer(bytes: up[start..<min(up.count, start + 1_000)]))
        }
        if let down { try client.channel.writeInbound(down) }
      }
    }
    try exchange()
    // The host's, and not the proxy's before it.
    #expect(client.watcher.events.count == 1, "\(client.watcher.errors)")
    guard case .handshakeCompleted(let host)? = client.watcher.events.first else {
      Issue.record("\(client.watcher.events)")
      return
    }
    #expect(host?.commonName == "localhost")
    guard case .handshakeCompleted(let identity)? = received.events.first else {
      Issue.record("\(received.events)")
      return
    }
    #expect(identity?.userIdentifier == "com.example.news")
    let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }
    unsafe bytes.withUnsafeBytes { unsafe client.tls.send($0) }
    server.pipeline.writeAndFlush(ByteBuffer(bytes: bytes.reversed()), promise: nil)
    try exchange()
    #expect(received.bytes == bytes)
    #expect(client.watcher.bytes == bytes.reversed())
    // The proxy says close_notify, and the host has not.
    let context = try server.pipeline.syncOperations.context(handler: outer)
    outer.close(context: context, mode: .output, promise: nil)
    try exchange()
    #expect(client.watcher.events.last == .inputClosed(clean: false), "\(client.watcher.events)")
  }

  @Test("a proxy whose certificate is not trusted is named, and says nothing about the host")
  func distrusted() throws {
    let client = try Client(material, .https)
    let stranger = try Material()
    let server = EmbeddedChannel(
      handler: TLSHandler(try TLSSession(try stranger.serverContext(clients: ClientCertificatePolicy.none))))
    try server.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    for _ in 0..<4 {
      // It hears that its certificate is not accepted.
      _ = try? server.writeInbound(ByteBuffer(bytes: try client.sent()))
      while let down = try server.readOutbound(as: ByteBuffer.self) { _ = try? client.channel.writeInbound(down) }
    }
    #expect(
      client.watcher.refusal?.hasPrefix("there is no TLS with the proxy localhost:3128: ") == true,
      "\(client.watcher.errors)")
  }

  /// Answers CONNECT, then adds the host's TLS.
  private final class Opener: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private let tls: TLSHandler
    private var asked: [UInt8] = []
    private var isOpen = false

    init(_ tls: TLSHandler) { self.tls = tls }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      if isOpen { return context.fireChannelRead(data) }
      asked += Array(unwrapInboundIn(data).readableBytesView)
      guard asked == ProxyHandlerTests.opening else { return }
      isOpen = true
      context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: ProxyHandlerTests.accepted)), promise: nil)
      do {
        try context.pipeline.syncOperations.addHandler(tls, position: .after(self))
      } catch { context.fireErrorCaught(error) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      // Of the proxy's TLS.
      if !isOpen, event is TLSEvent { return }
      context.fireUserInboundEventTriggered(event)
    }
  }
}
