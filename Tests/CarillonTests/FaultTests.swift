internal import Carillon
internal import CarillonTesting
internal import Foundation
internal import Testing

/// Faults that are set while a deployment sends: the account says what the simulator recorded.
@Suite struct FaultTests {
  static let topic = SendTests.topic

  /// Sends one notification without faults, sets the faults, and runs a campaign under them, over
  /// one connection at a time.
  private static func campaign(
    _ simulator: Simulator, count: Int, under faults: SimulatedFaults
  ) async throws -> (account: CampaignAccount, arrived: [ReceivedNotification]) {
    var configuration = try simulator.configuration(for: topic)
    configuration.connections = 1...1
    let deployment = try Deployment(apps: [configuration], threads: 1)
    let tokens = try (1...count).map { try SendTests.token($0) }
    let account = try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await deployment.run() }
      let app = try deployment.app(topic)
      #expect(try await app.send(PushNotification(alert: "first"), to: SendTests.token(0)).isAccepted)
      await simulator.setFaults(faults)
      let account = try await app.startCampaign(PushNotification(alert: "campaign"), to: tokens).result()
      tasks.cancelAll()
      try await tasks.waitForAll()
      return account
    }
    let arrived = Array(simulator.accepted(topic).dropFirst())
    #expect(account.submitted == count)
    #expect(account.accepted == count)
    #expect(Set(arrived.compactMap(\.token)) == Set(tokens))
    return (account, arrived)
  }

  /// The connections that took 100 notifications at most, and those that took more.
  private static func connections(_ arrived: [ReceivedNotification]) -> (short: Int, long: Int) {
    let counts = Dictionary(grouping: arrived, by: \.connection).values.map(\.count)
    return (counts.filter { $0 <= 100 }.count, counts.filter { $0 > 100 }.count)
  }

  @Test("connections that end without a word: everything arrives", arguments: Simulator.Transport.allCases)
  func close(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      let faults = SimulatedFaults.close(after: 100, connections: 3)
      let (account, arrived) = try await Self.campaign(simulator, count: 2_000, under: faults)
      let connections = Self.connections(arrived)
      // Over the binary protocol, suspects of a silent close get connections of their own.
      #expect(connections.short >= 3)
      #expect(connections.long == 1)
      #expect(arrived.count - 2_000 <= account.possibleCopies)
    }
  }

  @Test("connections that end in good order: everything arrives once", arguments: Simulator.Transport.allCases)
  func shutDown(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      let faults = SimulatedFaults.shutDown(after: 100, connections: 3)
      let (account, arrived) = try await Self.campaign(simulator, count: 2_000, under: faults)
      let connections = Self.connections(arrived)
      #expect(connections.short == 3)
      #expect(connections.long == 1)
      #expect(arrived.count == 2_000)
      #expect(account.possibleDuplicates == 0)
    }
  }

  @Test("an outage of the service: each refusal is sent again")
  func outage() async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let faults = SimulatedFaults.outage(for: .milliseconds(300))
      let (account, arrived) = try await Self.campaign(simulator, count: 500, under: faults)
      let refused = simulator.refused(Self.topic)
      #expect(!refused.isEmpty)
      #expect(refused.allSatisfy { $0.refusal == "503 ServiceUnavailable" })
      #expect(account.resent == refused.count)
      #expect(arrived.count == 500)
    }
  }

  @Test("the latency of connections changes", arguments: Simulator.Transport.allCases)
  func latency(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      #expect(try await app.send(PushNotification(alert: "1"), to: SendTests.token(1)).isAccepted)
      await simulator.setFaults(.latency(.milliseconds(200)))
      // At least the answer takes a round trip, if the app has reconnected by itself before.
      let begun = ContinuousClock.now
      #expect(try await app.send(PushNotification(alert: "2"), to: SendTests.token(2)).isAccepted)
      #expect(ContinuousClock.now - begun >= .milliseconds(200))
      #expect(simulator.accepted(Self.topic).count == 2)
    }
  }

  @Test("certificates are refused from then on")
  func refuseCertificate() async throws {
    try await withSimulator(apps: [Self.topic], transport: .binary) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      #expect(try await app.send(PushNotification(alert: "1"), to: SendTests.token(1)).isAccepted)
      await simulator.setFaults(.refuseCertificate())
      let outcome = try? await app.send(PushNotification(alert: "2"), to: SendTests.token(2))
      #expect(outcome?.isAccepted != true)
      #expect(app.stopReason != nil)
      await simulator.setFaults(.none)
      await app.restart()
      #expect(try await app.send(PushNotification(alert: "3"), to: SendTests.token(3)).isAccepted)
      #expect(simulator.accepted(Self.topic).compactMap(\.token) == [try SendTests.token(1), try SendTests.token(3)])
    }
  }
}
