internal import Carillon
internal import Glibc
internal import NIOCore
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire
internal import ServiceLifecycle

/// Listens for the bridge's clients while the service runs.
struct BridgeService: Service {
  let bridge: Bridge
  let reserve: DescriptorReserve
  /// Ends when the notifications of earlier processes are recovered.
  let isReady: AsyncStream<Void>
  /// One of those that share the store has the bridge. It changes while the service runs.
  let isWanted: @Sendable () -> Bool
  /// How long connections may take to end.
  let drain: Duration
  /// Called with the ports, each time that it listens.
  let listens: @Sendable (_ gateway: Int, _ feedback: Int?) -> Void

  /// How soon a client hears that its app takes nothing more.
  private static let interval = Duration.milliseconds(500)

  /// How much of `drain` the answers of frames may take. Clients have the rest, to close.
  private var concludingTime: Duration { drain - min(bridge.configuration.connection.session.drainTime, drain / 2) }

  func run() async throws {
    await cancelWhenGracefulShutdown { for await _ in isReady {} }
    while true {
      await cancelWhenGracefulShutdown {
        while !isWanted() {
          // What is remembered by now, another node may have changed.
          bridge.apps.leave()
          guard (try? await bridge.clock.sleep(for: Self.interval)) != nil else { return }
        }
      }
      guard !Task.isShuttingDownGracefully, !Task.isCancelled else { return }
      bridge.begin()
      do { try await serve() } catch {
        await bridge.leave()
        throw error
      }
      await bridge.leave()
    }
  }

  /// Until it is wanted no more, or the service ends.
  private func serve() async throws {
    let clock = bridge.clock
    guard try await isRestored() else { return }
    let loops = LoopGroup(threads: System.coreCount)
    let channels = OpenChannels(clock: clock)
    var listeners: [TLSListener] = []
    do {
      let gateway = try await bridge.bind(bridge.configuration.listen, loops, channels, reserve) {
        BridgeHandler($0, $1)
      }
      listeners.append(gateway)
      if let listen = bridge.configuration.feedback {
        listeners.append(
          try await bridge.bind(listen, loops, channels, reserve) { bridge, _ in BridgeFeedbackHandler(bridge) })
      }
    } catch {
      for listener in listeners { await listener.close() }
      await loops.shutDown()
      throw error
    }
    bridge.apps.begin()
    listens(listeners[0].port, listeners.count > 1 ? listeners[1].port : nil)
    await cancelWhenGracefulShutdown {
      while isWanted(), (try? await clock.sleep(for: Self.interval)) != nil {
        bridge.apps.endStopped()
        await bridge.apps.look()
        await bridge.apps.sweep()
      }
    }
    for listener in listeners { await listener.close() }
    bridge.end(by: clock.uptime + concludingTime)
    let deadline = clock.uptime + drain
    while !channels.isEmpty, clock.uptime < deadline {
      try? await clock.sleep(for: .milliseconds(10))
      await bridge.apps.look()
    }
    await channels.close()
    await loops.shutDown()
  }

  /// False: the service ends, and the store is away.
  private func isRestored() async throws -> Bool {
    try await cancelWhenGracefulShutdown {
      do {
        try await bridge.clock.waiting { () async throws(StoreError) in try await bridge.apps.restore() }
        return true
      } catch is CancellationError { return false }
    }
  }
}

extension Bridge {
  fileprivate func bind(
    _ listen: Listen, _ loops: LoopGroup, _ channels: OpenChannels, _ reserve: DescriptorReserve,
    handler: @escaping @Sendable (Bridge, TLSHandler) -> any ChannelHandler
  ) async throws(CarillonError) -> TLSListener {
    var options = TLSListener.Options()
    options.handshakeTimeout += HandshakeLimit.longestWait
    options.reserve = reserve
    do {
      return try await TLSListener.bind(
        host: listen.host, port: listen.port, group: loops,
        contexts: { [self] in
          guard let context = tlsContext else { throw TurnedAway() }
          return context
        }, options: options
      ) { [self] channel, tls in
        let turn = admits(channel.remoteAddress?.ipAddress ?? "", now: clock.uptime)
        if turn == .never { throw TurnedAway() }
        channels.add(channel)
        if case .at(let time) = turn { try delay(channel, until: time) }
        try keepAlive(channel)
        try channel.pipeline.syncOperations.addHandler(handler(self, tls))
      }
    } catch {
      throw CarillonError(.configuration, "The bridge: \(ListenFailure("bridge.listen", listen, error)).")
    }
  }

  /// Nothing is read from a connection before its turn.
  private func delay(_ channel: any Channel, until time: Instant) throws {
    try channel.syncOptions?.setOption(.autoRead, value: false)
    channel.eventLoop.scheduleTask(deadline: .uptimeNanoseconds(min(time.nanoseconds, UInt64(Int64.max)))) {
      try? channel.syncOptions?.setOption(.autoRead, value: true)
    }
  }

  /// A vanished peer is noticed within two minutes, before its provider comes back for long.
  private func keepAlive(_ channel: any Channel) throws {
    guard let options = channel.syncOptions else { return }
    try options.setOption(.socketOption(.so_keepalive), value: 1)
    for (option, value) in [(TCP_KEEPIDLE, 60), (TCP_KEEPINTVL, 20), (TCP_KEEPCNT, 3)] as [(CInt, Int)] {
      try options.setOption(.tcpOption(NIOBSDSocket.Option(rawValue: option)), value: value)
    }
  }

  private struct TurnedAway: Error {}
}
