internal import Carillon
internal import CarillonTesting
internal import Foundation
internal import Testing

/// The feedback service of the binary protocol over real TLS, compared with the simulator's list.
@Suite struct FeedbackTests {
  static let topic = SendTests.topic

  private static func devices(_ count: Int) throws -> [PushApp.GoneDevice] {
    try (0..<count).map { number in
      let since = Date(timeIntervalSince1970: TimeInterval(1_700_000_000 + number))
      return PushApp.GoneDevice(token: try SendTests.token(number, prefix: "dead"), since: since)
    }
  }

  @Test("the sequence yields the service's list, in its order, and reading clears it")
  func wholeList() async throws {
    try await withSimulator(apps: [Self.topic], transport: .binary) { simulator in
      // More than the reader keeps in memory, so that reading pauses on the way.
      simulator.addFeedback(try Self.devices(60_000), for: Self.topic)
      let expected = simulator.waitingFeedback(for: Self.topic)
      #expect(expected == (try Self.devices(60_000)))
      let app = try simulator.deployment.app(Self.topic)
      var read: [PushApp.GoneDevice] = []
      for try await device in app.feedback(from: simulator.feedbackService) { read.append(device) }
      #expect(read == expected)
      #expect(simulator.waitingFeedback(for: Self.topic).isEmpty)
      for try await device in app.feedback(from: simulator.feedbackService) { read.append(device) }
      #expect(read.count == 60_000)
    }
  }

  @Test("a list that is cut off throws, after the entries that came")
  func cutList() async throws {
    let faults = SimulatedFaults.cutFeedback(after: 700)
    try await withSimulator(apps: [Self.topic], transport: .binary, faults: faults) { simulator in
      let devices = try Self.devices(1_000)
      simulator.addFeedback(devices, for: Self.topic)
      let app = try simulator.deployment.app(Self.topic)
      var read: [PushApp.GoneDevice] = []
      var failure: CarillonError?
      do throws(CarillonError) {
        for try await device in app.feedback(from: simulator.feedbackService) { read.append(device) }
      } catch {
        failure = error
      }
      #expect(failure?.code == .incomplete)
      #expect(read == Array(devices[..<700]))
      // What was not handed out waits for the next reader.
      #expect(simulator.waitingFeedback(for: Self.topic) == Array(devices[700...]))
      await simulator.setFaults(.none)
      for try await device in app.feedback(from: simulator.feedbackService) { read.append(device) }
      #expect(read == devices)
    }
  }

  @Test("an app that speaks HTTP/2 has no feedback service; a service that is not there throws")
  func noService() async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let binary = try Deployment(apps: [simulator.configuration(for: Self.topic, transport: .binary)], threads: 1)
      try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { try await binary.run() }
        let overHTTP2 = try simulator.deployment.app(Self.topic)
        let overBinary = try binary.app(Self.topic)
        func code(_ app: PushApp, _ service: AppConfiguration.Gateway) async -> CarillonError.ErrorCode? {
          do throws(CarillonError) {
            for try await _ in app.feedback(from: service) {}
            return nil
          } catch {
            return error.code
          }
        }
        #expect(await code(overHTTP2, simulator.feedbackService) == .configuration)
        // Nothing listens on the port 1 of the loopback interface.
        #expect(await code(overBinary, AppConfiguration.Gateway(host: "127.0.0.1", port: 1)) == .gateway)
        tasks.cancelAll()
        try await tasks.waitForAll()
        #expect(await code(overBinary, simulator.feedbackService) == .cancelled)
      }
    }
  }
}
