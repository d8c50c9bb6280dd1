internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// Latency over real sockets and real TLS.
@Suite(.timeLimit(.minutes(20)))
struct LatencyTests {
  private static let latency = Duration.milliseconds(100)

  private static func error(_ status: GatewayStatus, _ identifier: UInt32) -> [UInt8] {
    SimulatorTests.error(status, identifier)
  }

  @Test("a client is connected after two round trips, and has the error response after a third")
  func roundTrips() async throws {
    // Long beside the delays of a busy machine.
    let latency = Duration.milliseconds(600)
    try await withSimulator(configure: { $0.rules.latency = latency }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        // On a busy machine any attempt can be late. A third round trip in the handshake would make
        // all of them late.
        var least = Duration.seconds(60)
        for attempt in 1...30 where attempt == 1 || least >= latency * 3 {
          let start = ContinuousClock.now
          let client = try await connect("app", false)
          let connected = ContinuousClock.now
          #expect(connected - start >= latency * 2)
          least = min(least, connected - start)
          client.send(FaultTests.frames(1...100) + Frames.probe(.framed, 7))
          #expect(await client.ended() == Self.error(.missingDeviceToken, 7))
          #expect(ContinuousClock.now - connected >= latency)
          #expect(client.closure == .byPeer)
        }
        #expect(least < latency * 3)
      }
    }
  }

  @Test("latency does not throttle: many windows of bytes pass in a few round trips")
  func throughput() async throws {
    try await withSimulator(configure: { $0.rules.latency = Self.latency }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        // 24 MB. A window of 64 KiB would take 37 s.
        client.flood(FaultTests.frames(1...1000), limit: 300)
        await client.flooded()
        client.send(Frames.probe(.framed, 7))
        #expect(await client.ended() == Self.error(.missingDeviceToken, 7))
      }
      #expect(await simulator.settledTruth().accepted == 300_000)
    }
  }

  @Test("with latency, a refused frame ends the connection in order and every frame is counted", arguments: [0, 30])
  func refusal(delay: Int) async throws {
    var faults = Faults()
    faults.refuse = [Faults.Refuse(Faults.Selection(tokens: [.numbered(300)]))]
    faults.answerDelay = .milliseconds(delay)
    try await withSimulator(faults, configure: { $0.rules.latency = Self.latency }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        let start = ContinuousClock.now
        client.send(FaultTests.frames(1...1000))
        #expect(await client.ended() == Self.error(.invalidToken, 300))
        #expect(ContinuousClock.now - start >= Self.latency + .milliseconds(delay))
      }
      let truth = await simulator.settledTruth()
      #expect((truth.accepted, truth.refused, truth.discarded) == (299, [.invalidToken: 1], 700))
    }
  }

  @Test("a reset arrives as a reset, half a round trip after the frames that were accepted before it")
  func reset() async throws {
    var faults = Faults()
    faults.reset = Faults.Breakpoint(after: 3)
    try await withSimulator(faults, configure: { $0.rules.latency = Self.latency }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        let start = ContinuousClock.now
        client.send(FaultTests.frames(1...9))
        #expect(await client.ended() == [])
        #expect(client.closure == .reset)
        #expect(ContinuousClock.now - start >= Self.latency)
      }
      #expect(await simulator.settledTruth().accepted == 3)
    }
  }

  @Test("frames that a client sends before it closes are accepted, although they arrive later")
  func clientCloses() async throws {
    try await withSimulator(configure: { $0.rules.latency = Self.latency }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        client.send(FaultTests.frames(1...2000))
        client.close()
        _ = await client.ended()
        try await waitUntil("all frames are accepted") { simulator.truth().apps["app"]?.accepted == 2000 }
      }
    }
  }

  @Test("the feedback service has the same latency, its list is complete, and its blocks do not wait for each other")
  func feedback() async throws {
    let tuples = (1...3000).map { FeedbackTuple(timestamp: 1_400_000_000 + $0, token: .numbered($0)) }
    // So long that a busy processor counts little beside it.
    let latency = Duration.seconds(4)
    try await withSimulator(configure: { $0.rules.latency = latency }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        // Eight blocks one after the other would take seven more half round trips, each time.
        var least = Duration.seconds(60)
        for attempt in 1...10 where attempt == 1 || least >= latency * 5 {
          for tuple in tuples { simulator.gateway.feedback.append(tuple, topic: "app") }
          let start = ContinuousClock.now
          let client = try await connect("app", true)
          #expect(await client.ended() == tuples.flatMap(\.bytes))
          least = min(least, ContinuousClock.now - start)
        }
        #expect(least < latency * 5)
      }
    }
  }
}
