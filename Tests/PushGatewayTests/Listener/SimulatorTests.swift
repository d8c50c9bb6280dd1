internal import Foundation
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// The simulator over real TLS, with clients that know nothing of the protocol.
@Suite(.timeLimit(.minutes(20)))
struct SimulatorTests {
  static func error(_ status: GatewayStatus, _ identifier: UInt32) -> [UInt8] {
    [8, status.rawValue] + Frames.u32(identifier)
  }

  @Test(
    "good frames are accepted in silence, and the probe after them is answered",
    arguments: [FrameVersion.enhanced, .framed])
  func accepted(command: FrameVersion) async throws {
    try await withSimulator { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        client.send(FaultTests.frames(1...5000, command))
        client.send(Frames.probe(command, 0x8000_0001))
        #expect(await client.ended() == Self.error(.missingDeviceToken, 0x8000_0001))
        #expect(client.closure == .byPeer)
      }
      let truth = await simulator.settledTruth()
      #expect((truth.accepted, truth.probes, truth.connections) == (5000, 1, 1))
      #expect(memory.accepted(topic: "app") == Dictionary(uniqueKeysWithValues: (1...5000).map { (.numbered($0), 1) }))
    }
  }

  @Test(
    "the error response arrives complete while the client keeps writing at full speed", arguments: [0, 30],
    [1, 300] as [UInt32])
  func resetSafety(delay: Int, position: UInt32) async throws {
    var faults = Faults()
    faults.refuse = [Faults.Refuse(Faults.Selection(tokens: [.numbered(position)]))]
    faults.answerDelay = .milliseconds(delay)
    try await withSimulator(faults) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        for attempt in 1...10 {
          let client = try await connect("app", false)
          client.flood(FaultTests.frames(1...300), limit: 10_000)
          #expect(await client.ended() == Self.error(.invalidToken, position), "attempt \(attempt)")
          #expect(client.closure == .byPeer, "attempt \(attempt)")
        }
      }
      let truth = await simulator.settledTruth()
      #expect(truth.accepted == 10 * Int(position - 1))
      #expect(truth.refused == [.invalidToken: 10])
      #expect(truth.discarded >= 10 * Int(300 - position))
    }
  }

  @Test("status 10 names the last frame accepted")
  func shutdown() async throws {
    var faults = Faults()
    faults.shutDown = Faults.Breakpoint(after: 100, connections: 1)
    try await withSimulator(faults) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        client.send(FaultTests.frames(1...500))
        #expect(await client.ended() == Self.error(.shutdown, 100))
        let second = try await connect("app", false)
        second.send(FaultTests.frames(101...500) + Frames.probe(.framed, 1))
        #expect(await second.ended() == Self.error(.missingDeviceToken, 1))
      }
      #expect(await simulator.settledTruth().accepted == 500)
    }
  }

  @Test("a refused frame of command 0, poison and close-after-N end the stream without an error response")
  func silentEnds() async throws {
    var faults = Faults()
    faults.refuse = [Faults.Refuse(Faults.Selection(tokens: [.numbered(5)]))]
    faults.poison = [Faults.Selection(tokens: [.numbered(6)])]
    faults.close = Faults.Breakpoint(after: 8)
    try await withSimulator(faults) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        for frames in [FaultTests.frames(1...9, .simple), FaultTests.frames(6...9), FaultTests.frames(10...30)] {
          let client = try await connect("app", false)
          client.send(frames)
          #expect(await client.ended() == [])
          #expect(client.closure == .byPeer)
        }
      }
      let truth = await simulator.settledTruth()
      #expect((truth.accepted, truth.refused, truth.poisoned) == (4 + 0 + 8, [.invalidToken: 1], 1))
    }
  }

  @Test("the client sees a reset as a reset")
  func reset() async throws {
    var faults = Faults()
    faults.reset = Faults.Breakpoint(after: 3)
    try await withSimulator(faults) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        client.send(FaultTests.frames(1...9))
        #expect(await client.ended() == [])
        #expect(client.closure == .reset)
      }
      #expect(await simulator.settledTruth().accepted == 3)
    }
  }

  @Test("a connection can be closed right after the handshake, as with a certificate for the other environment")
  func closeAtOnce() async throws {
    var faults = Faults()
    faults.close = Faults.Breakpoint(after: 0)
    try await withSimulator(faults) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        #expect(await client.ended() == [])
        #expect(client.closure == .byPeer)
      }
    }
  }

  @Test("while reading is paused the client cannot write; afterwards everything is accepted")
  func stopReading() async throws {
    var faults = Faults()
    faults.stopReading = Faults.Pause(Faults.Breakpoint(after: 10), duration: .milliseconds(400))
    try await withSimulator(faults) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        let start = ContinuousClock.now
        // 24 MB: more than both sockets' buffers hold.
        client.flood(FaultTests.frames(1...1000), limit: 300)
        await client.flooded()
        client.send(Frames.probe(.framed, 7))
        #expect(await client.ended() == Self.error(.missingDeviceToken, 7))
        #expect(ContinuousClock.now - start >= .milliseconds(400))
      }
      #expect(await simulator.settledTruth().accepted == 300_000)
    }
  }

  @Test("after a pause, what had been read is served although nothing more comes", arguments: [0, 100])
  func pauseInsideARead(latency: Int) async throws {
    var faults = Faults()
    faults.stopReading = Faults.Pause(Faults.Breakpoint(after: 1_500), duration: .milliseconds(50))
    try await withSimulator(faults, configure: { $0.rules.latency = .milliseconds(latency) }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        // 240 KB: the pause begins in a large read, with which everything has arrived.
        client.send(FaultTests.frames(1...3_000) + Frames.probe(.framed, 7))
        try await waitUntil("the probe is answered", limit: .seconds(120)) { client.closure != nil }
        #expect(await client.ended() == Self.error(.missingDeviceToken, 7))
      }
      #expect(await simulator.settledTruth().accepted == 3_000)
    }
  }

  @Test("a client certificate is refused as long as the rule says, and the client sees the reason")
  func certificateRefused() async throws {
    var faults = Faults()
    faults.refuseCertificate = Faults.CertificateRefusal(connections: 2)
    try await withSimulator(faults, topics: ["app", "other"], configure: { $0.rules.apps["other"] = Faults() }) {
      simulator, memory in
      try await RawClient.with(simulator) { connect in
        for _ in 1...2 {
          let client = try await connect("app", false)
          _ = await client.ended()
          guard case .credentialRefused = client.closure else {
            Issue.record("\(String(describing: client.closure))")
            continue
          }
        }
        for topic in ["other", "app"] {
          let client = try await connect(topic, false)
          client.send(Frames.probe(.framed, 1))
          #expect(await client.ended().count == 6)
        }
      }
      let truth = await simulator.stop()
      #expect(truth.apps["app"]?.certificatesRefused == 2)
      #expect((truth.apps["app"]?.connections, truth.apps["other"]?.connections) == (1, 1))
      #expect(truth.failedHandshakes == 2)
    }
  }

  @Test("the feedback service delivers each topic's list once and closes")
  func feedback() async throws {
    let tuples = (1...3000).map { FeedbackTuple(timestamp: 1_400_000_000 + $0, token: .numbered($0)) }
    var faults = Faults()
    faults.feedback = tuples
    try await withSimulator(faults, topics: ["app", "other"]) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        for expected in [tuples, []] {
          let client = try await connect("app", true)
          #expect(await client.ended() == expected.flatMap(\.bytes))
          #expect(client.closure == .byPeer)
        }
        simulator.gateway.feedback.append(tuples[0], topic: "app")
        #expect(await (try connect("app", true)).ended() == tuples[0].bytes)
        #expect(await (try connect("other", true)).ended().count == 3000 * 38)
      }
      let truth = await simulator.stop()
      #expect((truth.apps["app"]?.feedbackServed, truth.apps["other"]?.feedbackServed) == (3001, 3000))
    }
  }

  @Test("stopping sends status 10 to connected clients and completes the record")
  func stop() async throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("record-\(UUID().uuidString).jsonl").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try await withSimulator(configure: { $0.recordPath = path }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let client = try await connect("app", false)
        client.send(FaultTests.frames(1...1000))
        try await waitUntil("all frames are accepted") { simulator.truth().apps["app"]?.accepted == 1000 }
        let truth = await simulator.stop()
        #expect(truth.apps["app"]?.accepted == 1000)
        #expect(truth.recordProblem == nil)
        #expect(await client.ended() == Self.error(.shutdown, 1000))
      }
      #expect(try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").count == 1000)
    }
  }

  @Test("a handshake can be delayed")
  func handshakeDelay() async throws {
    try await withSimulator(configure: { $0.rules.handshakeDelay = .milliseconds(300) }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let start = ContinuousClock.now
        let client = try await connect("app", false)
        #expect(ContinuousClock.now - start >= .milliseconds(300))
        client.send(Frames.probe(.framed, 1))
        #expect(await client.ended().count == 6)
      }
    }
  }

  @Test("a client that retries with a refused certificate is slowed down, like others from its address")
  func slowDown() async throws {
    var faults = Faults()
    faults.refuseCertificate = Faults.CertificateRefusal(connections: 13)
    try await withSimulator(faults) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        var start = ContinuousClock.now
        for attempt in 1...13 {
          // Before the eleventh fails: a busy client notices that late.
          if attempt == 11 { start = .now }
          _ = await (try connect("app", false)).ended()
        }
        // 50 ms before the twelfth attempt, 100 ms before the thirteenth, each from the failure
        // before it.
        #expect(ContinuousClock.now - start >= .milliseconds(150))
        let client = try await connect("app", false)
        client.send(Frames.probe(.framed, 1))
        #expect(await client.ended().count == 6)
      }
    }
  }

  @Test("clients of several apps on several loops are counted under their own topics")
  func apps() async throws {
    let topics = ["com.example.a", "com.example.b", "com.example.c"]
    try await withSimulator(topics: topics, configure: { $0.threads = 2 }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        for (index, topic) in topics.enumerated() {
          for _ in 0...index {
            let client = try await connect(topic, false)
            client.send(FaultTests.frames(1...100) + Frames.probe(.framed, 1))
            #expect(await client.ended().count == 6)
          }
        }
      }
      let truth = await simulator.stop()
      #expect(topics.map { truth.apps[$0]?.accepted } == [100, 200, 300])
      #expect(topics.map { truth.apps[$0]?.connections } == [1, 2, 3])
      #expect(memory.accepted(topic: topics[2])[.numbered(100)] == 3)
    }
  }

  @Test("a full port closes new connections and does not affect other ports")
  func places() async throws {
    try await withSimulator(configure: { $0.connectionLimit = 2 }) { simulator, memory in
      try await RawClient.with(simulator) { connect in
        let first = try await connect("app", false)
        let second = try await connect("app", false)
        let third = try await connect("app", false)
        _ = await third.ended()
        #expect(first.closure == nil)
        #expect(second.closure == nil)
        let feedback = try await connect("app", true)
        _ = await feedback.ended()
        #expect(feedback.closure == .byPeer)
      }
      #expect(await simulator.settledTruth().connections == 2)
    }
  }

  @Test("a port in use is an error that names it")
  func takenPort() async throws {
    try await withSimulator { simulator, memory in
      let directory = FileManager.default.temporaryDirectory.appendingPathComponent("gateway-\(UUID().uuidString)").path
      defer { try? FileManager.default.removeItem(atPath: directory) }
      var configuration = GatewaySimulator.Configuration(identity: .throwAway(directory: directory, topics: []))
      configuration.feedbackPort = simulator.gatewayPort
      let error = await #expect(throws: SimulatorError.self) { try await GatewaySimulator.start(configuration) }
      #expect(error?.description.contains("port \(simulator.gatewayPort)") == true)
    }
  }
}
