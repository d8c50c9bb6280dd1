internal import NIOCore
internal import NIOPosix
internal import PushGateway
internal import PushWire
internal import Support
internal import Testing

/// Clients that do not speak TLS.
@Suite(.timeLimit(.minutes(20)))
struct HostileClientTests {
  private func connect(_ port: Int, _ group: any EventLoopGroup) async throws -> any Channel {
    try await ClientBootstrap(group: group).connect(host: "127.0.0.1", port: port).get()
  }

  @Test("random bytes in place of TLS end the connection, and the gateway serves the next client")
  func garbage() async throws {
    try await withSimulator { simulator, memory in
      var random = SeededGenerator(seed: 1)
      let group = MultiThreadedEventLoopGroup.singleton
      for port in [simulator.gatewayPort, simulator.feedbackPort] {
        for _ in 0..<4 {
          let channel = try await connect(port, group)
          try? await channel.writeAndFlush(ByteBuffer(bytes: random.bytes(500))).get()
          try? await channel.closeFuture.get()
        }
      }
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        client.send(Frames.probe(.framed, 1))
        #expect(await client.ended().count == 6)
      }
      #expect(await simulator.stop().failedHandshakes == 8)
    }
  }

  @Test("stopping does not wait for connections that never sent a byte")
  func halfOpen() async throws {
    try await withSimulator { simulator, memory in
      let group = MultiThreadedEventLoopGroup.singleton
      var channels: [any Channel] = []
      for _ in 0..<5 { channels.append(try await connect(simulator.gatewayPort, group)) }
      let start = ContinuousClock.now
      _ = await simulator.stop(grace: .seconds(600))
      #expect(ContinuousClock.now - start < .seconds(300))
      for channel in channels { try? await channel.close().get() }
    }
  }

  @Test("connections above the limit are closed at once")
  func limit() async throws {
    try await withSimulator(configure: { $0.connectionLimit = 3 }) { simulator, memory in
      let group = MultiThreadedEventLoopGroup.singleton
      var channels: [any Channel] = []
      // A connection may be connected and not yet accepted, so the first three need not be the ones
      // that stay open. The fourth accepted one is closed.
      for _ in 0..<4 { channels.append(try await connect(simulator.gatewayPort, group)) }
      let closed = group.next().makePromise(of: Void.self)
      for channel in channels { channel.closeFuture.whenComplete { _ in closed.succeed(()) } }
      try await closed.futureResult.get()
      for channel in channels { try? await channel.close().get() }
    }
  }
}
