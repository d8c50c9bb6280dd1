internal import Carillon
internal import CarillonTesting
internal import Foundation
internal import Testing

/// Campaigns that outlive their deployment, by way of the journal.
@Suite struct JournalTests {
  static let topic = SendTests.topic

  private static func withDirectory<Result>(_ body: (String) async throws -> Result) async throws -> Result {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("journal-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: directory) }
    return try await body(directory.path)
  }

  /// Runs a deployment of its own against the simulator, and ends it.
  private static func run<Result: Sendable>(
    _ simulator: Simulator, journal: String, rateLimit: Double? = nil, _ body: (Deployment) async throws -> Result
  ) async throws -> Result {
    var configuration = try simulator.configuration(for: topic)
    configuration.rateLimit = rateLimit
    let deployment = try Deployment(apps: [configuration], journal: .directory(journal), threads: 1)
    return try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await deployment.run() }
      let result = try await body(deployment)
      tasks.cancelAll()
      try await tasks.waitForAll()
      return result
    }
  }

  @Test("cut short and resumed: every device once, and one account", arguments: Simulator.Transport.allCases)
  func resuming(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      try await Self.withDirectory { journal in
        let tokens = try (0..<300).map { try SendTests.token($0) }
        try await Self.run(simulator, journal: journal) { deployment in
          let (recipients, continuation) = AsyncStream.makeStream(of: Recipient.self)
          let notification = PushNotification(alert: "Hello {{name}}")
          let campaign = try await deployment.app(Self.topic).startCampaign(
            notification, to: recipients, name: "spring")
          for (number, token) in tokens[..<100].enumerated() {
            continuation.yield(Recipient(token, values: ["name": "\(number)"]))
          }
          for await progress in campaign.progress where progress.account.settled == 100 { break }
        }
        try await Self.run(simulator, journal: journal) { deployment in
          let unfinished = try #require(deployment.unfinishedCampaigns.first)
          #expect(deployment.unfinishedCampaigns.count == 1)
          #expect(unfinished.app == Self.topic)
          #expect(unfinished.name == "spring")
          #expect(unfinished.readCount == 100)
          #expect(unfinished.account.accepted == 100)
          let (recipients, continuation) = AsyncStream.makeStream(of: Recipient.self)
          for (number, token) in tokens[100...].enumerated() {
            continuation.yield(Recipient(token, values: ["name": "\(number + 100)"]))
          }
          continuation.finish()
          let campaign = try await unfinished.resume(toRemaining: recipients)
          #expect(try await campaign.result().accepted == 300)
          #expect(deployment.unfinishedCampaigns.isEmpty)
          let error = await #expect(throws: CarillonError.self) { try await unfinished.abandon() }
          #expect(error?.code == .journalContent)
        }
        let arrived = simulator.accepted(Self.topic)
        #expect(arrived.count == 300)
        #expect(Set(arrived.compactMap(\.token)) == Set(tokens))
        #expect(Set(arrived.map(\.json)).count == 300)
        try await Self.run(simulator, journal: journal) { #expect($0.unfinishedCampaigns.isEmpty) }
      }
    }
  }

  @Test("a list is resumed behind what was read, whatever had happened to it", arguments: Simulator.Transport.allCases)
  func resumingList(transport: Simulator.Transport) async throws {
    let faults = SimulatedFaults.answerDelay(.milliseconds(20))
    try await withSimulator(apps: [Self.topic], transport: transport, faults: faults) { simulator in
      try await Self.withDirectory { journal in
        let tokens = try (0..<20_000).map { try SendTests.token($0) }
        try await Self.run(simulator, journal: journal) { deployment in
          let campaign = try await deployment.app(Self.topic).startCampaign(
            PushNotification(alert: "Hello"), to: tokens)
          for await progress in campaign.progress where progress.account.submitted > 0 { break }
        }
        let account = try await Self.run(simulator, journal: journal) { deployment in
          guard let unfinished = deployment.unfinishedCampaigns.first else { return CampaignAccount?.none }
          return try await unfinished.resume(to: tokens).result()
        }
        let arrived = simulator.accepted(Self.topic).compactMap(\.token)
        #expect(Set(arrived) == Set(tokens))
        if let account {
          #expect(account.submitted == 20_000)
          #expect(account.accepted == 20_000)
          #expect(arrived.count - 20_000 <= account.possibleCopies)
        } else {
          #expect(arrived.count == 20_000)
        }
      }
    }
  }

  @Test("a file is resumed only if it has not changed", arguments: Simulator.Transport.allCases)
  func changedFile(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      try await Self.withDirectory { journal in
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).txt")
        defer { try? FileManager.default.removeItem(at: file) }
        let tokens = try (0..<20_000).map { try SendTests.token($0) }
        let text = tokens.map { $0.hex + "\n" }.joined()
        try Data(text.utf8).write(to: file)
        // So slow that it does not come to its end.
        try await Self.run(simulator, journal: journal, rateLimit: 500) { deployment in
          let app = try deployment.app(Self.topic)
          let campaign = try await app.startCampaign(PushNotification(alert: "Hello"), toTokensIn: file.path)
          for await progress in campaign.progress where progress.account.submitted > 0 { break }
        }
        try await Self.run(simulator, journal: journal) { deployment in
          let unfinished = try #require(deployment.unfinishedCampaigns.first)
          // One line less, and another last digit.
          for changed in [String(text.dropLast(65)), String(text.dropLast(2)) + "0\n"] {
            try Data(changed.utf8).write(to: file)
            let error = await #expect(throws: CarillonError.self) {
              try await unfinished.resume(toTokensIn: file.path)
            }
            #expect(error?.code == .journalContent)
            #expect(error?.message.contains("has changed since the campaign began") == true)
          }
          #expect(deployment.unfinishedCampaigns.count == 1)
          try Data(text.utf8).write(to: file)
          #expect(try await unfinished.resume(toTokensIn: file.path).result().accepted == 20_000)
        }
        #expect(Set(simulator.accepted(Self.topic).compactMap(\.token)) == Set(tokens))
      }
    }
  }

  @Test(
    "cancelled and abandoned campaigns, and single sends, leave nothing to resume",
    arguments: Simulator.Transport.allCases)
  func nothingLeft(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      try await Self.withDirectory { journal in
        try await Self.run(simulator, journal: journal) { deployment in
          let app = try deployment.app(Self.topic)
          #expect(try await app.send(PushNotification(alert: "1"), to: SendTests.token(1)).isAccepted)
          let campaign = try await app.startCampaign(
            PushNotification(alert: "2"), to: (0..<50_000).map { try SendTests.token($0) })
          campaign.cancel()
          let account = try await campaign.result()
          #expect(account.submitted == account.settled)
          let (recipients, continuation) = AsyncStream.makeStream(of: Recipient.self)
          let open = try await app.startCampaign(PushNotification(alert: "3"), to: recipients)
          continuation.yield(Recipient(try SendTests.token(1)))
          for await progress in open.progress where progress.account.accepted == 1 { break }
        }
        try await Self.run(simulator, journal: journal) { deployment in
          #expect(deployment.unfinishedCampaigns.map(\.account.submitted) == [1])
          let account = try await deployment.unfinishedCampaigns.first?.abandon()
          #expect(account?.accepted == 1)
        }
        try await Self.run(simulator, journal: journal) { #expect($0.unfinishedCampaigns.isEmpty) }
      }
    }
  }
}
