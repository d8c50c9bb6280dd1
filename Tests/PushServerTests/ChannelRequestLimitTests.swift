internal import HTTPTypes
internal import PushService
internal import Testing

@testable internal import PushServer

@Suite("Requests about channels")
struct ChannelRequestLimitTests {
  @Test("four of an app are under way at most; others wait for none of them")
  func limit() throws {
    let limit = ChannelRequestLimit()
    var turns = try (0..<4).map { _ in try limit.begin("news") }
    do {
      _ = try limit.begin("news")
      Issue.record("a fifth one has begun")
    } catch let problem as Problem {
      #expect(problem.status == .tooManyRequests)
      #expect(problem.retryAfter == 1)
    }
    let other = try limit.begin("chat")
    turns.removeLast()
    let next = try limit.begin("news")
    #expect(throws: Problem.self) { try limit.begin("news") }
    withExtendedLifetime((turns, other, next)) {}
  }
}
