internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import PushWire
internal import Synchronization
internal import Testing

@testable internal import PushTransport

@Suite("Links over real sockets", .timeLimit(.minutes(20)))
struct SocketLinkTests {
  private func listen(
    _ group: LoopGroup, _ context: TLSContext, options: TLSListener.Options = .init(),
    _ onEvent: @escaping @Sendable (any Channel, ServerHandler.Event) -> Void
  ) async throws -> TLSListener {
    try await TLSListener.bind(host: "127.0.0.1", port: 0, group: group, context: context, options: options) {
      channel, _ in
      try channel.pipeline.syncOperations.addHandler(ServerHandler(onEvent))
    }
  }

  private static func write(_ bytes: [UInt8], _ channel: any Channel) {
    channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
  }

  @Test(
    "what is sent returns from an echo server whole and in order, and close_notify ends it",
    arguments: TLSVersion.allCases)
  func echo(version: TLSVersion) async throws {
    let material = try Material()
    try await withLoops { group in
      let identities = Mutex<[PeerIdentity?]>([])
      let (inputClosed, tellInputClosed) = AsyncStream.makeStream(of: Bool.self)
      let listener = try await listen(group, try material.serverContext(versions: version...version)) {
        channel, event in
        switch event {
        case .received(let bytes): Self.write(bytes, channel)
        case .tls(.handshakeCompleted(let identity)): identities.withLock { $0.append(identity) }
        case .tls(.inputClosed(let clean)):
          tellInputClosed.yield(clean)
          channel.close(promise: nil)
        default: break
        }
      }
      let dialer = SocketDialer(host: "localhost", port: listener.port, context: try material.clientContext())
      let recorder = Recorder()
      let loop = group.loops[0]
      let link = dialer.dial(on: loop, delegate: recorder)
      _ = await recorder.wait { $0.contains(.opened) }
      let bytes = (0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }
      await loop.run {
        for start in stride(from: 0, to: bytes.count, by: 100_000) {
          link.send(Array(bytes[start..<(start + 100_000)]))
        }
      }
      #expect(await recorder.waitUntilReceived(bytes.count) == bytes)
      await loop.run { link.close() }
      #expect(await recorder.waitUntilClosure() == .byUs)
      #expect(identities.withLock { $0 }.map { $0?.userIdentifier } == ["com.example.news"])
      // The server is informed on its own loop.
      #expect(await inputClosed.first { _ in true } == true)
      await listener.close()
    }
  }

  @Test(
    "a refused client certificate is reported as such; with TLS 1.3 after the link has opened",
    arguments: TLSVersion.allCases)
  func refused(version: TLSVersion) async throws {
    let material = try Material()
    try await withLoops { group in
      let policy = ClientCertificatePolicy(request: .required) { _ in .revoked }
      let listener = try await listen(group, try material.serverContext(clients: policy, versions: version...version)) {
        _, _ in
      }
      let dialer = SocketDialer(host: "127.0.0.1", port: listener.port, context: try material.clientContext())
      let recorder = Recorder { link, event in
        if event == .opened { link.send([UInt8](repeating: 1, count: 50_000)) }
      }
      _ = dialer.dial(on: group.loops[0], delegate: recorder)
      let events = await recorder.waitUntilClosed()
      #expect(events.last == .closed(.credentialRefused("the server refused our certificate: certificate revoked")))
      #expect(events.contains(.opened) == (version == .tls13))
      await listener.close()
    }
  }

  @Test("a closed port, an unknown name, a wrong host name and a plain-text server have different errors")
  func unreachable() async throws {
    let material = try Material()
    try await withLoops { group in
      func closure(host: String, port: Int) async throws -> LinkClosure? {
        let recorder = Recorder()
        _ = SocketDialer(host: host, port: port, context: try material.clientContext()).dial(
          on: group.loops[0], delegate: recorder)
        return await recorder.waitUntilClosure()
      }
      let listener = try await listen(group, try material.serverContext()) { _, _ in }
      let port = listener.port
      // An address without a listener, on the listener's port. A port that was closed may by now be
      // in use by another program.
      #expect(
        try await closure(host: "127.0.0.2", port: port)
          == .unreachable("cannot connect to 127.0.0.2:\(port): connection refused, so no server listens there"))
      await listener.close()
      #expect(
        try await closure(host: "no-such-host.invalid", port: port)
          == .unreachable("cannot resolve no-such-host.invalid: there is no address for that name"))

      let plain = try await ServerBootstrap(group: group.eventLoopGroup).childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          channel.writeAndFlush(ByteBuffer(string: "220 hello\r\n"), promise: nil)
        }
      }.bind(host: "127.0.0.1", port: 0).get()
      let plainPort = try #require(plain.localAddress?.port)
      #expect(
        try await closure(host: "127.0.0.1", port: plainPort)
          == .handshakeFailed("the server does not speak TLS on this port"))
      try await plain.close()
    }
  }

  @Test("a connect without an answer ends at its time limit")
  func connectTimeout() async throws {
    let material = try Material()
    // A listener with a full queue that accepts nothing: the kernel leaves further connections
    // waiting.
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        _ = unsafe bind(listener, pointer, size)
        _ = Glibc.listen(listener, 0)
        _ = unsafe getsockname(listener, pointer, &size)
      }
    }
    var fillers: [Int32] = []
    for _ in 0..<4 {
      let filler = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
      unsafe withUnsafeMutablePointer(to: &address) { pointer in
        _ = unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe connect(filler, $0, size) }
      }
      fillers.append(filler)
    }
    defer { for descriptor in fillers + [listener] { close(descriptor) } }
    let port = Int(UInt16(bigEndian: address.sin_port))
    try await withLoops { group in
      var options = SocketDialer.Options()
      options.connectTimeout = .milliseconds(100)
      let recorder = Recorder()
      _ = SocketDialer(host: "127.0.0.1", port: port, context: try material.clientContext(), options: options).dial(
        on: group.loops[0], delegate: recorder)
      #expect(
        await recorder.waitUntilClosure()
          == .unreachable("cannot connect to 127.0.0.1:\(port): no answer within 0.1 seconds"))
    }
  }

  @Test("a server that never answers the handshake ends the link at the time limit; closing earlier is byUs")
  func handshakeTimeout() async throws {
    let material = try Material()
    try await withLoops { group in
      let silent = try await ServerBootstrap(group: group.eventLoopGroup).childChannelInitializer {
        $0.eventLoop.makeSucceededVoidFuture()
      }
      .bind(host: "127.0.0.1", port: 0).get()
      let port = try #require(silent.localAddress?.port)
      var options = SocketDialer.Options()
      options.handshakeTimeout = .milliseconds(50)
      let recorder = Recorder()
      _ = SocketDialer(host: "127.0.0.1", port: port, context: try material.clientContext(), options: options).dial(
        on: group.loops[0], delegate: recorder)
      guard case .handshakeFailed = await recorder.waitUntilClosure() else {
        Issue.record("\(recorder.events)")
        return
      }
      let impatient = Recorder()
      let link = SocketDialer(host: "127.0.0.1", port: port, context: try material.clientContext()).dial(
        on: group.loops[0], delegate: impatient)
      await group.loops[0].run { link.close() }
      #expect(await impatient.waitUntilClosed() == [.closed(.byUs)])
      try await silent.close()
    }
  }

  @Test("a handshake completes after its time limit if the answer was in the socket and had not been read")
  func lateReader() async throws {
    let material = try Material()
    try await withLoops { group in
      let listener = try await listen(group, try material.serverContext()) { _, _ in }
      let context = try material.clientContext()
      let (ends, tellEnd) = AsyncStream.makeStream(of: String.self)
      let bootstrap = ClientBootstrap(group: group.eventLoopGroup).channelOption(.autoRead, value: false)
      let client = try await bootstrap.channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let tls = TLSHandler(try TLSSession(context, host: "localhost"), handshakeTimeout: .seconds(1))
          try channel.pipeline.syncOperations.addHandlers([tls, LateReader()])
          try channel.pipeline.syncOperations.addHandler(
            ServerHandler { _, event in
              switch event {
              case .tls(.handshakeCompleted): tellEnd.yield("complete")
              case .failed(let error): tellEnd.yield("\(error)")
              case .inactive: tellEnd.yield("closed")
              default: break
              }
            })
        }
      }.connect(host: "127.0.0.1", port: listener.port).get()
      #expect(await ends.first { _ in true } == "complete")
      try? await client.close().get()
      await listener.close()
    }
  }

  /// Reads nothing until the handshake's time limit has passed, like a busy loop.
  private final class LateReader: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    func channelActive(context: ChannelHandlerContext) {
      let channel = context.channel
      context.eventLoop.scheduleTask(in: .milliseconds(1500)) { channel.setOption(.autoRead, value: true) }
      context.fireChannelActive()
    }
  }

  @Test("an error response reaches a client that keeps sending, through half-close")
  func drain() async throws {
    let material = try Material()
    try await withLoops { group in
      let response: [UInt8] = [8, 8, 0, 0, 0, 42]
      let listener = try await listen(group, try material.serverContext()) { channel, event in
        switch event {
        case .received:
          Self.write(response, channel)
          channel.close(mode: .output, promise: nil)
        case .tls(.inputClosed): channel.close(promise: nil)
        default: break
        }
      }
      let dialer = SocketDialer(host: "127.0.0.1", port: listener.port, context: try material.clientContext())
      for _ in 0..<20 {
        // Sends as much as the link accepts, without end, but lets the loop do other work in
        // between.
        let loop = group.loops[0]
        let recorder = Recorder { link, event in
          if event == .opened || event == .writable(true) { Self.pump(link, loop) }
        }
        _ = dialer.dial(on: loop, delegate: recorder)
        let events = await recorder.waitUntilClosed()
        #expect(Recorder.bytes(events) == response)
        #expect(events.last == .closed(.byPeer))
      }
      await listener.close()
    }
  }

  @Test("a client whose handshake failed, and that never stops sending, is cut off")
  func drainIsBounded() async throws {
    let material = try Material()
    try await withLoops { group in
      let listener = try await listen(group, try material.serverContext()) { _, _ in }
      // A client that speaks no TLS, and ignores that the server has closed its side.
      let client = try await ClientBootstrap(group: group.eventLoopGroup).channelOption(
        .allowRemoteHalfClosure, value: true
      ).connect(host: "127.0.0.1", port: listener.port).get()
      Self.writeForEver(client)
      try await client.closeFuture.get()
      await listener.close()
    }
  }

  private static func pump(_ link: any Link, _ loop: any Loop) {
    guard link.isWritable else { return }
    link.send([UInt8](repeating: 3, count: 64 * 1024))
    loop.execute { pump(link, loop) }
  }

  private static func writeForEver(_ channel: any Channel) {
    channel.writeAndFlush(ByteBuffer(repeating: 1, count: 64 * 1024)).whenSuccess { writeForEver(channel) }
  }

  @Test("six bytes that arrived before a reset are delivered when our write finds the reset")
  func resetAfterResponse() async throws {
    let material = try Material()
    // The client's loop is blocked while the server works, so each has its own.
    let servers = LoopGroup(threads: 1)
    try await withLoops(1) { group in
      let response: [UInt8] = [8, 7, 0, 0, 0, 9]
      let closed = DispatchSemaphore(value: 0)
      // The server answers and closes at once with unread data, so the kernel sends a reset after
      // the six bytes.
      let listener = try await listen(servers, try material.serverContext()) { channel, event in
        switch event {
        case .received:
          channel.setOption(.autoRead, value: false).whenComplete { _ in
            channel.writeAndFlush(ByteBuffer(bytes: response)).whenComplete { _ in
              channel.close(promise: nil)
              closed.signal()
            }
          }
        default: break
        }
      }
      let dialer = SocketDialer(host: "127.0.0.1", port: listener.port, context: try material.clientContext())
      for _ in 1...10 {
        let recorder = Recorder { link, event in
          guard event == .opened else { return }
          link.send([1])
          // The loop is blocked until the server has answered and closed. On the loopback interface
          // a reset arrives before close returns, so the next write finds it.
          guard closed.wait(timeout: .now() + 60) == .success else { return link.close() }
          for _ in 0..<20 { link.send([UInt8](repeating: 2, count: 64 * 1024)) }
        }
        _ = dialer.dial(on: group.loops[0], delegate: recorder)
        let events = await recorder.waitUntilClosed()
        #expect(Recorder.bytes(events) == response)
        #expect(events.last == .closed(.reset) || events.last == .closed(.byPeer))
      }
      await listener.close()
    }
    await servers.shutDown()
  }

  @Test(
    "the end of the stream without close_notify differs from a close, and follows everything that came before",
    arguments: TLSVersion.allCases)
  func truncation(version: TLSVersion) async throws {
    let material = try Material()
    try await withLoops { group in
      // Reads only the bytes that request the answer, so the end is a FIN and not a reset.
      let listener = try await listen(group, try material.serverContext(versions: version...version)) {
        channel, event in
        guard case .received(let bytes) = event else { return }
        channel.writeAndFlush(ByteBuffer(bytes: [1, 2, 3])).whenComplete { _ in
          if bytes == [1] {
            channel.triggerUserOutboundEvent(TLSAbort.close, promise: nil)
          } else {
            channel.close(promise: nil)
          }
        }
      }
      let dialer = SocketDialer(host: "127.0.0.1", port: listener.port, context: try material.clientContext())
      for (request, expected) in [(UInt8(1), LinkClosure.truncated), (2, .byPeer)] {
        let recorder = Recorder { link, event in if event == .opened { link.send([request]) } }
        _ = dialer.dial(on: group.loops[0], delegate: recorder)
        let events = await recorder.waitUntilClosed()
        #expect(Recorder.bytes(events) == [1, 2, 3], "\(events)")
        #expect(events.last == .closed(expected), "\(events)")
      }
      await listener.close()
    }
  }

  @Test("a reset without any byte is reported as a reset")
  func reset() async throws {
    let material = try Material()
    try await withLoops { group in
      let listener = try await listen(group, try material.serverContext()) { channel, event in
        guard case .received = event else { return }
        channel.triggerUserOutboundEvent(TLSAbort.reset, promise: nil)
      }
      let dialer = SocketDialer(host: "127.0.0.1", port: listener.port, context: try material.clientContext())
      let recorder = Recorder { link, event in if event == .opened { link.send([1]) } }
      _ = dialer.dial(on: group.loops[0], delegate: recorder)
      #expect(await recorder.waitUntilClosure() == .reset)
      await listener.close()
    }
  }

  @Test("a link is unwritable while its reader stops; the delegate is never called during a call to the link")
  func backpressure() async throws {
    let material = try Material()
    try await withLoops { group in
      let total = Atomic(0)
      let channels = Mutex<[any Channel]>([])
      let listener = try await listen(group, try material.serverContext()) { channel, event in
        switch event {
        case .tls(.handshakeCompleted):
          channels.withLock { $0.append(channel) }
          channel.setOption(.autoRead, value: false).whenComplete { _ in Self.write([0], channel) }
        case .received(let bytes): total.add(bytes.count, ordering: .sequentiallyConsistent)
        case .tls(.inputClosed): channel.close(promise: nil)
        default: break
        }
      }
      let isCalling = Atomic(false)
      let nested = Atomic(0)
      let recorder = Recorder { _, _ in
        if isCalling.load(ordering: .sequentiallyConsistent) { nested.add(1, ordering: .sequentiallyConsistent) }
      }
      let dialer = SocketDialer(host: "127.0.0.1", port: listener.port, context: try material.clientContext())
      let link = dialer.dial(on: group.loops[0], delegate: recorder)
      _ = await recorder.waitUntilReceived(1)
      let sent = Atomic(0)
      await group.loops[0].run {
        isCalling.store(true, ordering: .sequentiallyConsistent)
        while link.isWritable {
          link.send([UInt8](repeating: 1, count: 256 * 1024))
          sent.add(256 * 1024, ordering: .sequentiallyConsistent)
        }
        isCalling.store(false, ordering: .sequentiallyConsistent)
      }
      _ = await recorder.wait { $0.contains(.writable(false)) }
      for channel in channels.withLock({ $0 }) { try await channel.setOption(.autoRead, value: true).get() }
      _ = await recorder.wait { $0.contains(.writable(true)) }
      await group.loops[0].run { link.close() }
      #expect(await recorder.waitUntilClosure() == .byUs)
      #expect(nested.load(ordering: .sequentiallyConsistent) == 0)
      await listener.close()
      for channel in channels.withLock({ $0 }) { _ = try? await channel.closeFuture.get() }
      #expect(total.load(ordering: .sequentiallyConsistent) == sent.load(ordering: .sequentiallyConsistent))
    }
  }

  @Test("timers of a loop run at their time and not when cancelled; an actor can run on the loop")
  func loop() async throws {
    try await withLoops(1) { group in
      let loop = group.loops[0]
      let order = Mutex<[Int]>([])
      let start = loop.now
      await withCheckedContinuation { continuation in
        _ = loop.schedule(at: start + .milliseconds(30)) {
          order.withLock { $0.append(2) }
          continuation.resume()
        }
        _ = loop.schedule(at: start + .milliseconds(10)) { order.withLock { $0.append(1) } }
        loop.schedule(at: start + .milliseconds(20)) { order.withLock { $0.append(99) } }.cancel()
        loop.schedule(at: Instant(nanoseconds: .max)) { order.withLock { $0.append(98) } }.cancel()
      }
      #expect(order.withLock { $0 } == [1, 2])
      #expect(loop.now.since(start) >= .milliseconds(30))
      #expect(abs(Int64(loop.unixSeconds) - Int64(Date().timeIntervalSince1970)) <= 1)
      let resident = Resident(loop)
      #expect(await resident.isAtHome())
    }
  }

  private actor Resident {
    private let loop: NIOLoop
    private let executor: any SerialExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    init(_ loop: NIOLoop) {
      self.loop = loop
      executor = loop.executor
    }

    func isAtHome() -> Bool { loop.eventLoop.inEventLoop }
  }
}
