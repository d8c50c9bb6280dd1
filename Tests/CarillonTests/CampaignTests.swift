internal import Carillon
internal import CarillonTesting
internal import Foundation
internal import Synchronization
internal import Testing

/// Campaigns over real TLS, compared with what the gateway says it got.
@Suite struct CampaignTests {
  static let topic = SendTests.topic

  private static func tokens(_ count: Int) throws -> [DeviceToken] {
    try (0..<count).map { try SendTests.token($0, prefix: $0 % 100 == 7 ? "dead" : "00") }
  }

  @Test("to an array of tokens, with bad ones in it", arguments: Simulator.Transport.allCases)
  func tokenList(transport: Simulator.Transport) async throws {
    let faults = SimulatedFaults.refuse(prefix: "dead", as: .unregistered)
    try await withSimulator(apps: [Self.topic], transport: transport, faults: faults) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let tokens = try Self.tokens(2_000)
      let listed = Mutex<[UnacceptedNotification]>([])
      let campaign = try await app.startCampaign(PushNotification(alert: "Sale"), to: tokens) { one in
        listed.withLock { $0.append(one) }
      }
      var last: CampaignProgress?
      for await progress in campaign.progress {
        #expect(progress.account.submitted == progress.account.settled + progress.account.inFlight)
        last = progress
      }
      let account = try await campaign.result()
      #expect(last?.account == account)
      #expect(last?.hasEnded == true)
      #expect(account.submitted == 2_000)
      #expect(account.accepted == 1_980)
      #expect(account.rejected == 20)
      #expect(account.inFlight == 0)
      #expect(
        Set(simulator.accepted(Self.topic).compactMap(\.token)) == Set(tokens.filter { !$0.hex.hasPrefix("dead") }))
      #expect(simulator.accepted(Self.topic).count == 1_980)
      let dead = tokens.enumerated().filter { $0.element.hex.hasPrefix("dead") }
      #expect(Set(listed.withLock { $0.map(\.position) }) == Set(dead.map { $0.offset + 1 }))
      #expect(listed.withLock { $0.allSatisfy { $0.outcome.rejection?.isTokenInvalid == true } })
    }
  }

  @Test("to a sequence of recipients with values", arguments: Simulator.Transport.allCases)
  func sequence(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let (recipients, continuation) = AsyncStream.makeStream(of: Recipient.self)
      let notification = PushNotification(alert: "Hello {{name}}", badge: 2)
      let campaign = try await app.startCampaign(notification, to: recipients)
      for number in 0..<50 {
        let values = number == 13 ? [:] : ["name": "\"No. \(number)\""]
        continuation.yield(Recipient(try SendTests.token(number), values: values))
      }
      continuation.finish()
      let account = try await campaign.result()
      #expect(account.submitted == 50)
      #expect(account.accepted == 49)
      #expect(account.rejected == 1)
      let payloads = Dictionary(uniqueKeysWithValues: simulator.accepted(Self.topic).map { ($0.token, $0.json) })
      for number in 0..<50 where number != 13 {
        let expected = #"{"aps":{"alert":"Hello \"No. \#(number)\"","badge":2}}"#
        #expect(payloads[try SendTests.token(number)] == expected)
      }
    }
  }

  @Test("to an array of recipients; what was not accepted comes as a sequence, which ends with the campaign")
  func recipients() async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let recipients = try (0..<2_000).map { number in
        Recipient(try SendTests.token(number), values: number % 100 == 7 ? [:] : ["name": "\(number)"])
      }
      let campaign = try await app.startCampaign(PushNotification(alert: "Hello {{name}}"), to: recipients)
      var positions: [Int] = []
      for await one in campaign.unacceptedNotifications { positions.append(one.position) }
      #expect(positions.sorted() == (0..<20).map { $0 * 100 + 8 })
      #expect(try await campaign.result().accepted == 1_980)
      #expect(simulator.accepted(Self.topic).count == 1_980)
    }
  }

  @Test("to a CSV file", arguments: Simulator.Transport.allCases)
  func file(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).csv")
      defer { try? FileManager.default.removeItem(at: file) }
      var text = "day,token\n"
      for number in 0..<20 { text += "day \(number),\(try SendTests.token(number).hex)\n" }
      text += "never,no token\n"
      try Data(text.utf8).write(to: file)
      let campaign = try await app.startCampaign(PushNotification(alert: "Sale ends {{day}}"), toTokensIn: file.path)
      let account = try await campaign.result()
      #expect(account.accepted == 20)
      #expect(account.rejectedByReason == ["malformed token": 1])
      #expect(simulator.accepted(Self.topic).contains { $0.json == #"{"aps":{"alert":"Sale ends day 11"}}"# })
    }
  }

  @Test("paused, resumed and cancelled", arguments: Simulator.Transport.allCases)
  func pausing(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let (recipients, continuation) = AsyncStream.makeStream(of: Recipient.self)
      let campaign = try await app.startCampaign(PushNotification(alert: "Hello"), to: recipients)
      func settled(_ count: Int) async {
        for await one in campaign.progress where one.account.settled >= count { return }
      }
      for number in 0..<10 { continuation.yield(Recipient(try SendTests.token(number))) }
      await settled(10)
      campaign.pause()
      for number in 10..<20 { continuation.yield(Recipient(try SendTests.token(number))) }
      // Nothing of another campaign is held up, and its end shows that time has passed.
      _ = try await app.send(PushNotification(alert: "Between"), to: SendTests.token(1_000))
      #expect(campaign.accountSoFar.submitted == 10)
      #expect(campaign.isPaused)
      campaign.resume()
      await settled(20)
      campaign.cancel()
      let account = try await campaign.result()
      #expect(account.accepted == 20)
      #expect(account.inFlight == 0)
      continuation.finish()
    }
  }

  @Test("a sequence that fails: what was read has its outcome, and the error is told")
  func failingSequence() async throws {
    struct Broken: Error {}
    try await withSimulator(apps: [Self.topic]) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let (recipients, continuation) = AsyncThrowingStream.makeStream(of: Recipient.self)
      for number in 0..<5 { continuation.yield(Recipient(try SendTests.token(number))) }
      continuation.finish(throwing: Broken())
      let campaign = try await app.startCampaign(PushNotification(alert: "Hello"), to: recipients)
      let error = await #expect(throws: CarillonError.self) { try await campaign.result() }
      #expect(error?.code == .audience)
      #expect(campaign.accountSoFar.accepted == 5)
    }
  }
}
