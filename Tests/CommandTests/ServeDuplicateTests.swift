internal import Foundation
internal import Support
internal import Testing

@Suite("possible duplicates of carillon serve", .timeLimit(.minutes(20)))
struct ServeDuplicateTests {
  private struct Notification: Decodable {
    let id: String
    let state: String
    let outcome: String?
    let possibleDuplicate: Bool
  }

  private static let path = "/v1/apps/news/notifications"
  private static let otherPath = "/v1/apps/chat/notifications"

  private func notification(
    _ id: String, _ running: RunningServe, path: String = path
  ) async throws -> Notification {
    try await running.call("\(path)/\(id)").decoded(Notification.self)
  }

  private func post(_ token: Int, _ running: RunningServe, path: String = path) async throws -> String {
    let reply = try await running.call(path, body: ServeSite.body(HTTP2Site.token(token)))
    #expect(reply.status == 202, "\(reply.text)")
    return try reply.decoded(ServeSite.Queued.self).id
  }

  @Test("what was in flight at a kill -9 is a possible duplicate; what was sent before or after it is none")
  func killed() async throws {
    // On a busy machine the kill may come after the 30 s that an answer may take.
    for _ in 0..<10 { if try await isKilledInTime() { return } }
    Issue.record("no kill came in time")
  }

  /// - Returns: false if the kill came too late to say anything.
  private func isKilledInTime() async throws -> Bool {
    // The gateway takes every second notification of a connection and does not answer.
    var running = try await RunningServe(
      rules: "http2: { no-answer: { every: 2, taken: true } }",
      configure: {
        try $0.configure(
          $1, sync: "always", apps: ["news", "chat"], settings: "connections: { min: 1, max: 1 }",
          more: "shutdown: { drain: 1s }")
      })
    func finish(_ id: String, path: String = Self.path) async throws {
      try await waitUntil("\(id) has its outcome") {
        try await notification(id, running, path: path).state == "finished"
      }
    }
    let before = try await post(1, running)
    try await finish(before)
    let sentAfter = ContinuousClock.now
    let doubtful = try await post(2, running)
    let answered = try await post(3, running)
    // What was sent before it is with the gateway.
    try await finish(answered)
    // An outcome is in the store a moment before the journal has it. Another app's notification
    // has its outcome later, and what is accepted after that waits for the journal.
    try await finish(try await post(6, running, path: Self.otherPath), path: Self.otherPath)
    _ = try await post(7, running, path: Self.otherPath)
    try await running.restart()
    guard ContinuousClock.now - sentAfter < .seconds(25) else {
      _ = try await running.end()
      return false
    }
    try await finish(doubtful)
    _ = try await post(4, running)
    let after = try await post(5, running)
    try await finish(after)
    #expect(try await notification(doubtful, running).possibleDuplicate)
    for id in [before, answered, after] { #expect(try await !notification(id, running).possibleDuplicate) }
    let taken = try await running.end().compactMap(\.token)
    #expect(taken.count { $0 == HTTP2Site.token(2) } >= 2)
    for token in [1, 3, 5] { #expect(taken.count { $0 == HTTP2Site.token(token) } == 1) }
    return true
  }

  @Test("what is sent again because its connection ended is a possible duplicate", .inProcess)
  func connectionEnded() async throws {
    // The first connection ends with its third notification unanswered.
    let running = try await RunningServe(
      rules: "http2: { delay: { fixed: 100ms }, cut: [ { after: 3, connections: 1 } ] }",
      configure: { try $0.configure($1, apps: ["news"], settings: "connections: { min: 1, max: 1 }") })
    let lines = (1...3).map { ServeSite.body(HTTP2Site.token($0)) }.joined(separator: "\n")
    let batch = try await running.call("\(Self.path):batch", body: lines).decoded(
      ServeSite.TakenBatch.self)
    let account = try await running.serve.account(of: batch.batchId, running.service, key: running.key)
    #expect(account.possibleDuplicates >= 1)
    #expect(account.possibleCopies == account.possibleDuplicates)
    #expect(try await running.end().count == 3 + account.possibleDuplicates)
  }
}
