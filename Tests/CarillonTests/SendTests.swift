internal import Carillon
internal import CarillonTesting
internal import Foundation
internal import Testing

/// Single sends over real TLS, compared with what the gateway says it got.
@Suite struct SendTests {
  static let topic = "com.example.news"

  static func token(_ number: Int, prefix: String = "00") throws -> DeviceToken {
    let digits = String(number, radix: 16)
    return try DeviceToken(hex: prefix + String(repeating: "0", count: 64 - prefix.count - digits.count) + digits)
  }

  @Test("one notification, one answer", arguments: Simulator.Transport.allCases)
  func oneNotification(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let token = try Self.token(1)
      let outcome = try await app.send(PushNotification(alert: "Hello", badge: 1), to: token)
      #expect(outcome == .accepted(.confirmed))
      let accepted = simulator.accepted(Self.topic)
      #expect(accepted.map(\.token) == [token])
      #expect(accepted.first?.json == #"{"aps":{"alert":"Hello","badge":1}}"#)
    }
  }

  @Test("every caller gets the outcome of its own notification", arguments: Simulator.Transport.allCases)
  func manyCallers(transport: Simulator.Transport) async throws {
    let faults = SimulatedFaults.refuse(prefix: "dead", as: .badDeviceToken)
    try await withSimulator(apps: [Self.topic], transport: transport, faults: faults) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let outcomes = try await withThrowingTaskGroup(of: (DeviceToken, PushOutcome).self) { tasks in
        for number in 0..<300 {
          let token = try Self.token(number, prefix: number % 10 == 0 ? "dead" : "00")
          tasks.addTask { (token, try await app.send(PushNotification(alert: "No. \(number)"), to: token)) }
        }
        var outcomes: [DeviceToken: PushOutcome] = [:]
        for try await (token, outcome) in tasks { outcomes[token] = outcome }
        return outcomes
      }
      let accepted = Set(simulator.accepted(Self.topic).compactMap(\.token))
      let refused = Set(simulator.refused(Self.topic).compactMap(\.token))
      #expect(accepted.count == 270)
      #expect(refused.count == 30)
      #expect(Set(outcomes.filter { $0.value.isAccepted }.keys) == accepted)
      #expect(Set(outcomes.filter { $0.value.rejection?.isTokenInvalid == true }.keys) == refused)
    }
  }
}
