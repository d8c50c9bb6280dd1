internal import CarillonTesting
internal import Foundation
internal import PushEngine
internal import PushWire
internal import Testing

@testable internal import Carillon

@Suite("campaigns of a service, when their app or their process goes")
struct ServedCampaignTests {
  @Test("an app that is removed while a campaign begins keeps it; once it is given up, none begins")
  func beginning() {
    let registry = RunRegistry()
    #expect(registry.startBeginning())
    #expect(!registry.closeUnlessKept())
    // The journal has it: now it runs.
    let number = registry.add(RunRegistry.Run(drain: {}, cancel: {}, isKept: true))
    registry.endBeginning()
    #expect(number != nil)
    #expect(!registry.closeUnlessKept())
    if let number { registry.remove(number) }
    #expect(registry.startBeginning())
    registry.endBeginning()
    #expect(registry.closeUnlessKept())
    #expect(!registry.startBeginning())
    #expect(registry.add(RunRegistry.Run(drain: {}, cancel: {})) == nil)
  }

  @Test("a campaign that the service knows to have ended is ended in the journal too")
  func endedInTheStoreOnly() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("served-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let (journal, name) = ("\(folder)/journal", "a/0")
    try await withSimulator(apps: [JournalTests.topic]) { simulator in
      func run(_ body: (Deployment) async throws -> Void) async throws {
        let configuration = try simulator.configuration(for: JournalTests.topic)
        let deployment = try Deployment(apps: [configuration], journal: .directory(journal), threads: 1)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
          tasks.addTask { try await deployment.run() }
          try await body(deployment)
          tasks.cancelAll()
          try await tasks.waitForAll()
        }
      }
      try "\(SendTests.token(1).hex)\n".write(toFile: "\(folder)/tokens", atomically: true, encoding: .utf8)
      let gate = AsyncStream.makeStream(of: Void.self)
      try await run { deployment in
        // Its process ends before the journal calls it ended.
        let served = ServedCampaign(
          name: name, notification: PushNotification(alert: "Hello"),
          audience: .source { _ in (Endless(), feed: nil) })
        _ = try await deployment.app(JournalTests.topic).serve(
          served,
          ServedEvents(
            list: { _, _ in NoListener() }, begun: { gate.continuation.finish() }, gone: { _, _ in }, ended: { _ in }))
      }
      for await _ in gate.stream {}
      try await run { deployment in
        #expect(deployment.servedRemainders.map(\.name) == [name])
        deployment.settle(served: ["another/0"])
        #expect(deployment.servedRemainders.count == 1)
        deployment.settle(served: [name])
        #expect(deployment.servedRemainders.isEmpty)
      }
      #expect(try EngineJournal.inspect(directory: journal).unfinished.isEmpty)
    }
  }

  private struct NoListener: OutcomeListener {
    func notAccepted(line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?, isDoubted: Bool) {}
    func flush() {}
  }

  /// It never has an entry, and does not end.
  private struct Endless: AudienceSource {
    func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
      chunk.removeAll()
      return .nothingFor(.milliseconds(50))
    }
  }
}
